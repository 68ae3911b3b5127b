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

// withdrawal is of the change that waits.
func (p *upgrading) withdrawal(sequence uint64, approve ...int) []byte {
	hash := p.state.Governance().Hash
	return p.all.Governance(&wire.GovernanceChange{Sequence: sequence, Actions: []*wire.GovernanceAction{
		{Body: &wire.GovernanceAction_Withdraw{Withdraw: hash[:]}},
	}}, approve...)
}

// refused is why the next block may not hold a transaction.
func (p *upgrading) refused(raw []byte) error {
	p.Helper()
	tx, err := p.state.Registry().Open(raw)
	if err != nil {
		return err
	}
	_, _, err = p.state.Apply(order.Block{Height: p.state.Height() + 1, TimeMicro: 1, Hash: wire.Hash{1}, Txs: []order.Tx{tx}})
	if may := p.state.MayHold(tx); (may == nil) != (err == nil) {
		p.Errorf("a block with it: %v, but it may hold it: %v", err, may)
	}
	if err != nil && p.state.Live(tx) {
		p.Errorf("it is live, and refused: %v", err)
	}
	return err
}

// Fewer than approve changes withdraw a version that waits: so many that those left do not know it
// for all that its approvals said. They withdraw nothing else, and nothing that is not there.
func TestFewerWithdrawAVersionThatWaits(t *testing.T) {
	p := newUpgrading(t, 0)
	tooFew := func(when string, raw []byte) {
		t.Helper()
		if err := p.refused(raw); order.CodeOf(err) != order.CodeTooFewApprove {
			t.Errorf("%s: %v, want too few", when, err)
		}
	}
	consent := func(sequence uint64) []byte {
		return p.all.Governance(&wire.GovernanceChange{Sequence: sequence, EffectiveHeight: 50, Actions: []*wire.GovernanceAction{
			{Body: &wire.GovernanceAction_Consent{Consent: 4}},
		}}, 0, 1, 2)
	}
	tooFew("nothing waits", p.withdrawal(2, 1, 2))
	p.play(consent(1))
	tooFew("another change waits", p.withdrawal(2, 1, 2))
	p.play(p.withdrawal(2, 0, 1, 2))

	p.play(p.all.Governance(toVersion(3, 50, 2), 0, 1, 2))
	tooFew("one organisation", p.withdrawal(4, 3))
	other := &wire.GovernanceChange{Sequence: 4, Actions: []*wire.GovernanceAction{{Body: &wire.GovernanceAction_Withdraw{Withdraw: make([]byte, 32)}}}}
	tooFew("another version", p.all.Governance(other, 2, 3))
	tooFew("another change by as few", p.all.Governance(toVersion(3, 50, 2), 2, 3))
	again := p.withdrawal(4, 2, 3)
	if got := p.play(again).Codes[0]; got != order.CodeOK {
		t.Errorf("two of four withdraw a version: code %d", got)
	}
	if version, _ := p.state.Upgrade(); version != 0 || p.state.Governance().Changes != 4 {
		t.Errorf("version %d waits after change %d", version, p.state.Governance().Changes)
	}
	if err := p.refused(again); err == nil {
		t.Error("the withdrawal stands in a further block")
	}

	// Once its validators are announced, the withdrawal is stale as any.
	p.play(p.all.Governance(toVersion(5, p.heightAfter(3), 2), 0, 1, 2))
	late := p.withdrawal(6, 2, 3)
	for p.state.Governance().Announced == 0 {
		p.play()
	}
	if got := p.play(late).Codes[0]; got != order.CodeNothingLive {
		t.Errorf("withdrawn too late: code %d", got)
	}
	for range 4 {
		p.play()
	}
	if v := p.state.Registry().Protocol(); v != 2 {
		t.Errorf("version %d is in force", v)
	}
}

func (p *upgrading) heightAfter(blocks int64) uint64 { return uint64(p.state.Height() + blocks) }

// Where all agree on a block, a single organisation withdraws a version.
func TestOneOrganisationWithdrawsAVersionThatAllNeed(t *testing.T) {
	p := &upgrading{T: t, all: ordertest.New(4, 4)}
	p.state = p.all.Registry(t).Genesis(1)
	p.play(p.all.Governance(toVersion(1, 50, 2), 0, 1, 2, 3))
	p.play(p.withdrawal(2, 3))
	if version, _ := p.state.Upgrade(); version != 0 {
		t.Errorf("version %d waits", version)
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
