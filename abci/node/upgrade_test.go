package node

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// toVersion has a version of the protocol come into force so many heights from now, and returns its
// height.
func toVersion(t *testing.T, c *gateway.Client, sequence uint64, version uint32, heights int64, signers []*runner) uint64 {
	t.Helper()
	at := uint64(status(t, c).Height + heights)
	raw := wire.Encode(&wire.GovernanceChange{ChainId: "test", Sequence: sequence, EffectiveHeight: at, Actions: []*wire.GovernanceAction{
		{Body: &wire.GovernanceAction_ProtocolVersion{ProtocolVersion: version}},
	}})
	must.Do(t, submitChange(t, c, raw, signers))
	eventually(t, patience, "the version is announced", func() bool { return status(t, c).Protocol.Next == version })
	return at
}

// submitChange submits an encoded change that these nodes' organisations approve.
func submitChange(t *testing.T, client *gateway.Client, raw []byte, signers []*runner) error {
	t.Helper()
	signed := &wire.SignedGovernanceChange{Change: raw}
	for _, r := range signers {
		key, err := r.home.GatewayKey()
		must.Do(t, err)
		signed.Approvals = append(signed.Approvals, made(wire.Approve(key, organisationOf(r), "test", raw)))
	}
	return client.Govern(context.Background(), signed)
}

// stopsForNewer waits until the node ended by itself, for a version that it does not know.
func (r *runner) stopsForNewer(version uint32) *wire.NewerProtocolError {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.cancel()
		r.cancel = nil
		var newer *wire.NewerProtocolError
		if !errors.As(err, &newer) || newer.Version != version {
			r.t.Fatalf("the node ended with %v, want that it does not know version %d", err, version)
		}
		return newer
	case <-time.After(3 * patience): // hundreds of order blocks
		r.t.Fatal("the node goes on under a version that it does not know")
		return nil
	}
}

// refusesToStart has the node end at its start for the same reason.
func (r *runner) refusesToStart(version uint32) {
	r.t.Helper()
	r.cancel, r.done = r.run(func() { r.t.Error("the node takes requests") })
	r.stopsForNewer(version)
}

// drive keeps the order going until the returned function is called; it returns how many
// transactions were committed.
func drive(t *testing.T, c *gateway.Client) (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	done, count := make(chan struct{}), 0
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			ids, err := c.Submit(ctx, "bank", sql("SELECT 1"))
			if err != nil {
				continue
			}
			if out, err := c.Wait(ctx, 5_000, ids...); err == nil && len(out) == 1 && out[0].Succeeded {
				count++
			}
		}
	}()
	return func() int { cancel(); <-done; return count }
}

// A node alone stops before the block of a version that it does not know, with nothing signed for
// it, refuses to start again, and its database has all blocks so far.
func TestANodeStopsBeforeAVersionThatItDoesNotKnow(t *testing.T) {
	r := newNetwork(t, "acme")[0]
	r.change = func(c *config.Config) { c.Consensus.ExpressLane = false } // CometBFT's own file of the last signature
	r.knows = 1
	r.start()
	c := r.dial()
	stop := drive(t, c)
	at := toVersion(t, c, 1, 2, 30, []*runner{r})
	newer := r.stopsForNewer(2)
	committed := stop()
	signed, err := signedHeight(r)
	if err != nil || signed == 0 || signed != newer.Height-1 {
		t.Errorf("signed for height %d, %v; the version is in force from height %d", signed, err, newer.Height)
	}
	if newer.Height < int64(at) || newer.Height > int64(at)+heightsLate {
		t.Errorf("the version is in force from height %d, want %d or little later", newer.Height, at)
	}
	if committed == 0 || len(r.db.Hashes()) == 0 {
		t.Errorf("%d transactions, %d blocks committed", committed, len(r.db.Hashes()))
	}
	r.refusesToStart(2)
	if again, err := signedHeight(r); err != nil || again != signed {
		t.Errorf("signed for height %d after a start that was refused, %v", again, err)
	}
}

// signedHeight is that of the last signature of a node without the express lane.
func signedHeight(r *runner) (int64, error) {
	text, err := os.ReadFile(r.home.Path("data", "priv_validator_state.json"))
	if err != nil {
		return 0, err
	}
	var last struct {
		Height int64 `json:"height,string"`
	}
	return last.Height, json.Unmarshal(text, &last)
}

// heightsLate is how many heights a version may come into force after its own, for a pending block.
const heightsLate = 10

// made is a message that its key signed; a key in memory never fails.
func made[T any](signed T, err error) T {
	if err != nil {
		panic(err)
	}
	return signed
}
