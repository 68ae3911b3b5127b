package order_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/wire"
)

// toVersion is a change that brings a version of the protocol.
func toVersion(sequence, height uint64, version uint32) *wire.GovernanceChange {
	return &wire.GovernanceChange{Sequence: sequence, EffectiveHeight: height, Actions: []*wire.GovernanceAction{
		{Body: &wire.GovernanceAction_ProtocolVersion{ProtocolVersion: version}},
	}}
}

// upgrading plays blocks of a chain whose next versions no program knows: the order carries them.
type upgrading struct {
	*testing.T
	all   *ordertest.Consortium
	state *order.State
	live  []order.Accepted
	last  *kept
}

func newUpgrading(t *testing.T, snapshotEvery int) *upgrading {
	all := ordertest.New(4, 0)
	all.Genesis.Parameters.SnapshotEvery = snapshotEvery
	return &upgrading{T: t, all: all, state: all.Registry(t).Genesis(1)}
}

// open says why a transaction is refused; nil: it is not.
func (p *upgrading) open(raw []byte) error {
	_, err := p.state.Registry().Open(raw)
	return err
}

func (p *upgrading) play(raw ...[]byte) *order.Result {
	p.Helper()
	b := order.Block{Height: p.state.Height() + 1, TimeMicro: p.state.Height() * 1_000_000, Hash: wire.Hash{byte(p.state.Height())}}
	for _, r := range raw {
		tx, err := p.state.Registry().Open(r)
		if err != nil {
			p.Fatal(err)
		}
		b.Txs = append(b.Txs, tx)
	}
	next, result, err := p.state.Apply(b)
	if err != nil {
		p.Fatal(err)
	}
	p.live = append(p.live, next.Added()...)
	if snapshot := seal(next); snapshot != nil {
		p.last = snapshot
	}
	next.Settle()
	p.state = next
	return result
}

func (p *upgrading) certify() {
	p.Helper()
	pending, hash := p.state.Pending(), wire.Hash{7}
	var votes []*wire.ExtendedVote
	for i := range 4 {
		votes = append(votes, p.all.Effects(i, p.state.Height(), pending.Key(), hash))
	}
	c := p.state.Certificate(votes, func(wire.Key) (wire.Hash, bool) { return hash, true })
	p.play(wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Certificate{Certificate: c}}))
}

// A version of the protocol comes into force at its height, when nothing is pending, for the block
// after (A5), and every state after it says so in its hash.
func TestAVersionComesIntoForceAtItsHeight(t *testing.T) {
	p := newUpgrading(t, 0)
	before := p.state.Registry().Hash()
	p.play(p.all.Governance(toVersion(1, 6, 2), 0, 1, 2), p.all.Bundle(0, p.all.Proposal(0, 1, 100)))
	if version, height := p.state.Upgrade(); version != 2 || height != 6 {
		t.Fatalf("version %d waits for height %d, want 2 and 6", version, height)
	}
	for p.state.Height() < 8 { // the pending block keeps it from coming into force
		p.play()
	}
	if v := p.state.Registry().Protocol().Version(); v != 1 || p.state.Pending().Protocol != 0 {
		t.Fatalf("version %d while a block of the first one is pending", v)
	}
	p.certify()
	for p.state.Registry().Protocol() == 0 {
		p.play()
	}
	if version, _ := p.state.Upgrade(); version != 0 || p.state.Registry().Hash() == before {
		t.Errorf("version %d waits when it is in force, registry unchanged %t", version, p.state.Registry().Hash() == before)
	}
	p.play(p.all.Bundle(0, p.all.Proposal(0, 2, 100)))
	if key := p.state.Pending().Key(); key.Protocol != 2 {
		t.Errorf("the block is voted on under version %d", key.Protocol)
	}
	again := restored(t, p.state, p.live)
	if again.AppHash() != p.state.AppHash() || again.Pending().Key() != p.state.Pending().Key() {
		t.Error("a state restored from its record is another one")
	}
	for name, c := range map[string]struct {
		version uint32
		want    string
	}{
		"the same again": {2, "version 2 is in force: the next one is 3, and none goes back"},
		"one left out":   {4, "the next one is 3"},
		"a huge one":     {65_535, "the next one is 3"},
	} {
		err := p.open(p.all.Governance(toVersion(2, 100, c.version), 0, 1, 2, 3))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	if err := p.open(p.all.Governance(toVersion(2, 100, 3), 0, 1, 2)); err != nil {
		t.Errorf("the version after: %v", err)
	}
}

// As many organisations approve as agree on a block: those that approve know the version, so blocks
// are certified under it.
func TestAVersionNeedsThoseWhoAgreeOnABlock(t *testing.T) {
	all := ordertest.New(4, 4)
	registry := all.Registry(t)
	raw := all.Governance(toVersion(1, 9, 2), 0, 1, 2)
	if _, err := registry.Open(raw); err == nil || order.CodeOf(err) != order.CodeTooFewApprove {
		t.Errorf("three of four with consent 4: %v", err)
	}
	if _, err := registry.Open(all.Governance(toVersion(1, 9, 2), 0, 1, 2, 3)); err != nil {
		t.Errorf("all of them: %v", err)
	}
}

// Heights that are over, or too far ahead, are refused; a version that waits can be withdrawn.
func TestAVersionWaitsForABoundedTimeAndCanBeWithdrawn(t *testing.T) {
	p := newUpgrading(t, 0)
	p.play()
	p.play()
	for _, height := range []uint64{1, 3, 200_000} {
		if got := p.play(p.all.Governance(toVersion(1, height, 2), 0, 1, 2)).Codes[0]; got != order.CodeNothingLive {
			t.Errorf("from height %d: code %d, want it refused as stale", height, got)
		}
	}
	p.play(p.all.Governance(toVersion(1, 50, 2), 0, 1, 2))
	waits := p.state.Governance()
	p.play(p.all.Governance(&wire.GovernanceChange{Sequence: 2, Actions: []*wire.GovernanceAction{
		{Body: &wire.GovernanceAction_Withdraw{Withdraw: waits.Hash[:]}},
	}}, 0, 1, 2))
	for p.state.Height() < 60 {
		p.play()
	}
	if v := p.state.Registry().Protocol(); v != 0 {
		t.Errorf("version %d is in force though it was withdrawn", v)
	}
}

// Snapshots of a chain of the first version have the form that they always had; those of a later
// one begin otherwise, and open to the same state.
func TestSnapshotsHaveTheVersion(t *testing.T) {
	p := newUpgrading(t, 10)
	begins := func() string { return string(p.last.Body[4 : 4+len("chainify/order-state/1")]) }
	for p.state.Height() < 10 {
		p.play()
	}
	if got := begins(); got != "chainify/order-state/1" {
		t.Errorf("a snapshot of the first version begins with %q", got)
	}
	p.play(p.all.Governance(toVersion(1, 13, 2), 0, 1, 2))
	for p.state.Height() < 18 {
		p.play()
	}
	p.play(p.all.Bundle(0, p.all.Proposal(0, 2, 100)))
	p.play()
	if got := begins(); got != "chainify/order-state/2" {
		t.Errorf("a snapshot of a later version begins with %q", got)
	}
	again := reopened(t, p.last, p.state)
	if again.Registry().Protocol() != 2 || again.Pending().Protocol != 2 {
		t.Errorf("opened again: version %d, pending %d", again.Registry().Protocol(), again.Pending().Protocol)
	}
	if body := []byte(strings.Replace(string(p.last.Body), "order-state/2", "order-state/1", 1)); fmt.Sprint(body) != fmt.Sprint(p.last.Body) {
		if _, err := order.OpenSnapshot(body); err == nil {
			t.Error("a snapshot in the other form opens")
		}
	}
}
