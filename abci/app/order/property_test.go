package order_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// model is the rules of spec/effect-consensus.md written down without regard to cost: it keeps
// every accepted transaction for ever, and for each round what every organisation said, in clear.
type model struct {
	n, c      int
	accepted  map[string]bool // organisation/nonce/expiry
	ordered   uint64
	pending   bool
	round     int
	said      map[int]string // organisation → hash letter or "stuck<i>"
	revealed  []byte
	since     int64
	quarant   []uint32
	all       bool
	undecided int
	owners    []int       // of the block's transactions
	ended     map[int]int // organisation → rounds that ended by votes stuck at what is its
	suspended map[int]order.Suspension
	certified []string // block:hash
}

func (m *model) tally(now int64) {
	if !m.pending {
		return
	}
	count := map[string]int{}
	for _, what := range m.said {
		count[what]++
	}
	best, bestCount := byte(0), 0
	for _, hash := range m.revealed {
		if count[string(hash)] > bestCount {
			best, bestCount = hash, count[string(hash)]
		}
	}
	silent := m.n - len(m.said)
	if bestCount >= m.c {
		m.certified = append(m.certified, fmt.Sprintf("%d:%c", m.ordered, best))
		m.pending = false
		return
	}
	hidden, stuck := 0, 0
	for what, votes := range count {
		if len(what) > 1 {
			stuck += votes
		} else if !slices.Contains(m.revealed, what[0]) {
			hidden += votes
		}
	}
	who, named := m.culprit(count)
	enough := min(m.c, m.n-m.c+1)
	if stuck >= m.c && named >= enough {
		m.end(who, count, enough)
		s := m.suspended[who]
		for at := s.UntilMicro + 600_000_000; s.Times > 0 && at <= now; at += 600_000_000 {
			s.Times--
		}
		m.suspended[who] = order.Suspension{Times: s.Times + 1, UntilMicro: now + min(int64(20_000_000)<<s.Times, 3_600_000_000)}
		m.next(false)
		return
	}
	timeout := min(10_000_000*int64(m.round+1), 60_000_000)
	hopeless := max(bestCount, hidden)+silent < m.c && (stuck+silent < m.c || named+silent < enough)
	if hopeless || len(m.said) >= m.c && now-m.since > timeout {
		m.undecided++
		m.next(hopeless)
	}
}

// culprit is the organisation, with one client each, whose transactions most votes are stuck at; of
// equals that of the first of them.
func (m *model) culprit(count map[string]int) (who, votes int) {
	named := map[int]int{}
	for i := range m.owners {
		named[m.owners[i]] += count[fmt.Sprintf("stuck%d", i)]
	}
	for i := range m.owners {
		if n := named[m.owners[i]]; n > votes && count[fmt.Sprintf("stuck%d", i)] > 0 {
			who, votes = m.owners[i], n
		}
	}
	return who, votes
}

func (m *model) end(who int, count map[string]int, enough int) {
	from, until := 0, len(m.owners)
	if m.ended[who] == 0 {
		for from = range m.owners {
			if m.owners[from] == who && count[fmt.Sprintf("stuck%d", from)] > 0 {
				break
			}
		}
		for i := range m.owners {
			if m.owners[i] == who && count[fmt.Sprintf("stuck%d", i)] >= enough {
				from, until = i, i+1
				break
			}
		}
	}
	m.all = m.all || m.ended[who] >= 2
	for i := from; i < until && m.ended[who] < 2; i++ {
		if m.owners[i] == who && !slices.Contains(m.quarant, uint32(i)) {
			m.quarant = append(m.quarant, uint32(i))
		}
	}
	slices.Sort(m.quarant)
	m.ended[who]++
}

func (m *model) next(hopeless bool) {
	m.round++
	m.all = m.all || hopeless && m.undecided > 3
	m.said, m.revealed, m.since = map[int]string{}, nil, 0
}

type tx struct {
	org               int
	nonce, validUntil uint64
}

func (x tx) String() string { return fmt.Sprintf("o%d/%d/%d", x.org, x.nonce, x.validUntil) }

// TestRandomSchedulesFollowTheModel plays random votes, reveals, bundles, replays and pauses, and
// compares after each block; a state restored from its record in between must go on alike.
func TestRandomSchedulesFollowTheModel(t *testing.T) {
	random := seeded.Random(t)
	for range 60 {
		n := 1 + random.IntN(6)
		playRandom(t, random, n, 1+random.IntN(n), 10*random.IntN(2))
	}
}

func playRandom(t *testing.T, random *rand.Rand, n, c, snapshotEvery int) {
	consortium := ordertest.New(n, c)
	consortium.Genesis.Parameters.SnapshotEvery = snapshotEvery
	registry := consortium.Registry(t)
	state := registry.Genesis(1)
	m := &model{n: n, c: c, accepted: map[string]bool{}, suspended: map[int]order.Suspension{}}
	var live []order.Accepted
	now := int64(0)
	for step := range 60 {
		now += random.Int64N(8_000_000)
		height := state.Height() + 1
		block := order.Block{Height: height, TimeMicro: now, Hash: wire.Hash{byte(height), byte(height >> 8)}}
		var raw [][]byte
		if certificate := m.vote(random, consortium, state, now); certificate != nil {
			raw = append(raw, certificate)
		}
		m.tally(now)
		if !m.pending {
			raw = append(raw, m.bundle(random, consortium, height, now)...)
		}
		for _, one := range raw {
			opened, err := registry.Open(one)
			must.Do(t, err)
			block.Txs = append(block.Txs, opened)
		}
		next, result, err := state.Apply(block)
		if err != nil {
			t.Fatalf("n=%d c=%d step %d: %v", n, c, step, err)
		}
		snapshot := seal(next)
		quiet := next.AppHash() == state.AppHash()
		if (snapshot != nil) != (snapshotEvery > 0 && height%10 == 0) || snapshot != nil && quiet {
			t.Fatalf("height %d of snapshots every %d: snapshot is there %t, AppHash unchanged %t", height, snapshotEvery, snapshot != nil, quiet)
		}
		live = append(live, next.Added()...)
		next.Settle()
		if stays := next.Pending() != nil; quiet == stays && snapshot == nil {
			t.Fatalf("n=%d c=%d step %d: AppHash unchanged is %t while pending is %t (A1)", n, c, step, quiet, stays)
		}
		m.compare(t, next, result)
		state = next
		if random.IntN(4) == 0 {
			state = restored(t, state, live)
		}
		if snapshot != nil {
			state = reopened(t, snapshot, state)
		}
	}
}

// reopened is the state made of its snapshot: the node goes on with it as those do that have run
// on.
func reopened(t *testing.T, snapshot *kept, state *order.State) *order.State {
	back, err := order.OpenSnapshot(snapshot.Body)
	must.Do(t, err)
	if back.AppHash() != state.AppHash() || snapshot.Manifest.AppHash(state.Height()) != state.AppHash() {
		t.Fatalf("AppHash of the snapshot %x, of its manifest %x, want %x", back.AppHash(), snapshot.Manifest.AppHash(state.Height()), state.AppHash())
	}
	for _, s := range []*order.State{state, back} { // state may have been restored from its record
		if again := seal(s); !bytes.Equal(again.Body, snapshot.Body) {
			t.Fatalf("snapshots of one height differ:\n%x\n%x", again.Body, snapshot.Body)
		}
	}
	return back
}

func restored(t *testing.T, state *order.State, live []order.Accepted) *order.State {
	record, err := state.Record()
	must.Do(t, err)
	expired := func(a order.Accepted) bool { return a.ValidUntil <= uint64(state.Height()) }
	back, err := order.Restore(record, state.Registries(), state.Clients(), slices.Values(slices.DeleteFunc(slices.Clone(live), expired)))
	must.Do(t, err)
	if back.AppHash() != state.AppHash() {
		t.Fatalf("restored AppHash %x, want %x", back.AppHash(), state.AppHash())
	}
	return back
}

// vote lets some silent organisations speak and perhaps reveals a hash that is among what was said.
func (m *model) vote(random *rand.Rand, c *ordertest.Consortium, state *order.State, now int64) []byte {
	if !m.pending || random.IntN(3) == 0 {
		return nil
	}
	key, before := state.Pending().Key(), len(m.said)
	var votes []*wire.ExtendedVote
	for _, i := range random.Perm(m.n) {
		if m.said[i] != "" || random.IntN(2) == 0 {
			continue
		}
		if random.IntN(5) == 0 {
			index := uint32(random.IntN(int(state.Pending().TxCount)))
			m.said[i] = fmt.Sprintf("stuck%d", index)
			votes = append(votes, c.Sign(i, state.Height(), wire.NewStuckVote(key, index)))
		} else {
			hash := "AAAAB"[random.IntN(5)]
			m.said[i] = string(hash)
			votes = append(votes, c.Effects(i, state.Height(), key, wire.Hash{hash}))
		}
	}
	if before < m.c && len(m.said) >= m.c {
		m.since = now
	}
	certificate := state.Certificate(votes, func(wire.Key) (wire.Hash, bool) {
		return wire.Hash{"AB"[random.IntN(2)]}, random.IntN(2) == 0
	})
	if certificate == nil {
		return nil
	}
	if len(certificate.LedgerBlockHash) > 0 {
		m.revealed = append(m.revealed, certificate.LedgerBlockHash[0])
	}
	return wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Certificate{Certificate: certificate}})
}

func (m *model) bundle(random *rand.Rand, c *ordertest.Consortium, height, now int64) (raw [][]byte) {
	some, owners := false, []int(nil)
	for range random.IntN(3) {
		org := random.IntN(m.n)
		var proposals []*wire.Proposal
		for range 1 + random.IntN(4) {
			x := tx{org, random.Uint64N(20), uint64(height) - 2 + random.Uint64N(6)}
			proposals = append(proposals, c.Proposal(org, x.nonce, x.validUntil))
			if int64(x.validUntil) >= height && !m.accepted[x.String()] {
				m.accepted[x.String()] = true
				if m.suspended[org].UntilMicro > now {
					continue
				}
				some = true
				owners = append(owners, org)
			}
		}
		raw = append(raw, c.Bundle(org, proposals...))
	}
	if some {
		*m = model{n: m.n, c: m.c, accepted: m.accepted, ordered: m.ordered + 1, certified: m.certified, pending: true, said: map[int]string{}, owners: owners, ended: map[int]int{}, suspended: m.suspended}
	}
	return raw
}

func (m *model) compare(t *testing.T, state *order.State, result *order.Result) {
	t.Helper()
	p := state.Pending()
	if state.LastOrdered() != m.ordered || (p != nil) != m.pending {
		t.Fatalf("ordered %d pending %t, model %d %t", state.LastOrdered(), p != nil, m.ordered, m.pending)
	}
	if c := result.Certified; c != nil {
		if got, want := fmt.Sprintf("%d:%c", c.Number, c.Hash[0]), m.certified[len(m.certified)-1]; got != want || len(c.Votes) < m.c {
			t.Fatalf("certified %s with %d votes, model %s with %d", got, len(c.Votes), want, m.c)
		}
	}
	if certified, _ := state.LastCertified(); int(certified) != len(m.certified) {
		t.Fatalf("certified %d, model %d", certified, len(m.certified))
	}
	if p == nil {
		return
	}
	got := fmt.Sprint(p.Round, p.QuarantineAll, p.Quarantined, len(p.Votes), len(p.Revealed))
	if want := fmt.Sprint(m.round, m.all, m.quarant, len(m.said), len(m.revealed)); got != want {
		t.Fatalf("pending %s, model %s", got, want)
	}
}
