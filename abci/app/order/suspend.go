package order

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// How long a client whose transactions did not end is suspended: so many times what a block may
// take, twice as long each time. One time is forgiven for each while without one. In block time,
// since a quiet network makes no blocks that could be counted.
const (
	suspendedBlocks = 2
	suspendedMax    = time.Hour
	forgivenAfter   = 10 * time.Minute
)

// Suspension is that of a client, or of all clients of an organisation.
type Suspension struct {
	Times      int   `json:"times"` // that its transactions did not end, less those forgiven
	UntilMicro int64 `json:"until"` // block time
}

// at is the suspension with what is forgiven by then.
func (s Suspension) at(micro int64) Suspension {
	if since := micro - s.UntilMicro; since > 0 {
		s.Times -= int(min(since/forgivenAfter.Microseconds(), int64(s.Times)))
	}
	return s
}

// suspensions are by client (Pending.Clients) or organisation. Never changed: suspend makes others.
type suspensions map[string]Suspension

// suspend notes that transactions of a client did not end, at a block time; its organisation is
// suspended with it while more than stuckClientsMax of its clients have that held against them.
func (all suspensions) suspend(client string, now int64, blockTimeMS int) suspensions {
	next := suspensions{}
	organisation, others := organisationOf(client), 0
	for name, s := range all {
		if s.at(now).Times > 0 {
			next[name] = s
			if name != client && name != organisation && organisationOf(name) == organisation {
				others++
			}
		}
	}
	names := []string{client}
	if others >= stuckClientsMax {
		names = append(names, organisation)
	}
	for _, name := range names {
		s := next[name].at(now)
		length := suspendedMax
		if times := s.Times; times < 16 {
			length = min(length, time.Duration(suspendedBlocks*blockTimeMS)*time.Millisecond<<times)
		}
		next[name] = Suspension{Times: s.Times + 1, UntilMicro: now + length.Microseconds()}
	}
	return next
}

// until is the block time until which a client is suspended, itself or with its organisation; 0: it
// is not.
func (all suspensions) until(client string) int64 {
	return max(all[client].UntilMicro, all[organisationOf(client)].UntilMicro)
}

// Released tells that a block of this time would refuse transactions of a bundle for a suspension
// that is over by now.
func (s *State) Released(bundle *Bundle, blockMicro, nowMicro int64) bool {
	if len(s.suspensions) == 0 {
		return false
	}
	return slices.ContainsFunc(bundle.transactions, func(t transaction) bool {
		until := s.suspensions.until(t.client)
		return blockMicro < until && until <= nowMicro
	})
}

// Suspended is until when what a client submits is refused; zero: it never was.
func (s *State) Suspended(client *wire.Client) time.Time {
	if until := s.suspensions.until(clientOf(client)); until > 0 {
		return time.UnixMicro(until).UTC()
	}
	return time.Time{}
}

// SuspendedClients are the names of those whose suspension is not over at the last order block. A
// name is an organisation's, or that with a role behind a slash or a key behind a number sign.
func (s *State) SuspendedClients() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.suspensions)), func(name string) bool { return s.suspensions[name].UntilMicro <= s.timeMicro })
}

// MessageSuspended says why nothing of a client is taken.
func MessageSuspended(until time.Time) string {
	return fmt.Sprintf("the client is suspended until %s: its transactions did not end in the time of a block", until.UTC().Format("2006-01-02 15:04:05 UTC"))
}
