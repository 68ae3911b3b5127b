package order_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// Approvals are for one change of one chain, by organisations that vote on effects, with the keys
// that count.
func TestGovernanceRefusesWhatIsForged(t *testing.T) {
	consent := func() *wire.GovernanceChange {
		return &wire.GovernanceChange{ChainId: ordertest.ChainID, Sequence: 1, Actions: []*wire.GovernanceAction{
			{Body: &wire.GovernanceAction_Consent{Consent: 2}},
		}}
	}
	consortium := ordertest.New(4, 0)
	registry := consortium.Registry(t)
	for _, c := range []struct {
		name string
		code uint32
		want string
		make func(raw []byte) *wire.SignedGovernanceChange
	}{
		{"a signature for another change", order.CodeSignature, `not by the gateway of "o1"`, func(raw []byte) *wire.SignedGovernanceChange {
			other := consent()
			other.EffectiveHeight = 9
			s := consortium.Signed(raw, 0, 1, 2)
			s.Approvals[1] = consortium.Signed(wire.Encode(other), 1).Approvals[0]
			return s
		}},
		{"a signature of another organisation", order.CodeSignature, `not by the gateway of "o1"`, func(raw []byte) *wire.SignedGovernanceChange {
			s := consortium.Signed(raw, 0, 1, 2)
			s.Approvals[1].Signature = s.Approvals[0].Signature
			return s
		}},
		{"a signature for another chain", order.CodeSignature, `not by the gateway of "o0"`, func(raw []byte) *wire.SignedGovernanceChange {
			s := consortium.Signed(raw, 0, 1, 2)
			other := wire.GovernanceSignBytes("otherchain", raw)
			s.Approvals[0].Signature = consortium.SignAs(0, other)
			return s
		}},
		{"a stranger", order.CodeUnknown, `organisation "o9" does not vote on effects`, func(raw []byte) *wire.SignedGovernanceChange {
			s := consortium.Signed(raw, 0, 1, 2)
			s.Approvals[2].Organisation = "o9"
			return s
		}},
		{"a change for another chain", order.CodeMalformed, `chain_id: "otherchain"`, func([]byte) *wire.SignedGovernanceChange {
			c := consent()
			c.ChainId = "otherchain"
			return consortium.Signed(wire.Encode(c), 0, 1, 2)
		}},
		{"too few", order.CodeTooFewApprove, "2 of 4 organisations approve, 3 are needed", func(raw []byte) *wire.SignedGovernanceChange {
			return consortium.Signed(raw, 0, 3)
		}},
	} {
		raw := wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Governance{Governance: c.make(wire.Encode(consent()))}})
		if _, err := registry.Open(raw); err == nil || order.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v with code %d, want %q with %d", c.name, err, order.CodeOf(err), c.want, c.code)
		}
	}
	good := wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Governance{Governance: consortium.Signed(wire.Encode(consent()), 0, 1, 2)}})
	if _, err := registry.Open(good); err != nil {
		t.Errorf("an approved change: %v", err)
	}
}

// TestRandomChangesKeepAConsortium plays random changes among blocks. After every accepted one the
// registry is a consortium that can agree. A ledger block is certified under the registry that it
// was ordered under (A5). CometBFT's validators, as it hears of them, are the registry's at every
// height. A state restored from its record goes on alike.
func TestRandomChangesKeepAConsortium(t *testing.T) {
	random := seeded.Random(t)
	withdrawn := 0
	for range 25 {
		withdrawn += playChanges(t, random)
	}
	if withdrawn == 0 {
		t.Error("no change is withdrawn: the test tries nothing")
	}
}

func playChanges(t *testing.T, random *rand.Rand) (withdrawn int) {
	const most = 7
	all := ordertest.New(most, 0)
	all.Genesis.Parameters.SnapshotEvery = 10
	p := &changing{T: t, random: random, all: all, state: all.Without(3).Registry(t).Genesis(1)}
	p.validators = []map[string]int64{nil, powersOf(p.state.Registry()), powersOf(p.state.Registry())}
	for nonce := range uint64(150) {
		p.block(nonce)
	}
	if p.accepted == 0 || p.refused == 0 {
		t.Errorf("%d changes accepted, %d refused: the test tries nothing", p.accepted, p.refused)
	}
	return p.withdrawn
}

type changing struct {
	*testing.T
	random     *rand.Rand
	all        *ordertest.Consortium
	state      *order.State
	validators []map[string]int64 // CometBFT's, by height
	live       []order.Accepted

	accepted, refused, withdrawn int
}

func powersOf(r *order.Registry) map[string]int64 {
	out := map[string]int64{}
	for _, o := range r.Record().Organisations {
		for _, v := range o.Validators {
			out[string(v.Key)] = v.Power
		}
	}
	return out
}

// block makes the next block as an honest proposer would, and checks what it leaves.
func (p *changing) block(nonce uint64) {
	p.Helper()
	before := p.state
	registry, height := before.Registry(), before.Height()+1
	if got, want := powersOf(registry), p.validators[height]; fmt.Sprint(got) != fmt.Sprint(want) {
		p.Fatalf("height %d: CometBFT has validators %x, the registry %x", height, want, got)
	}
	b := order.Block{Height: height, TimeMicro: height * 1000, Hash: wire.Hash{byte(height), byte(height >> 8)}}
	add := func(raw []byte) bool {
		tx, err := registry.Open(raw)
		if err == nil {
			b.Txs = append(b.Txs, tx)
		}
		return err == nil
	}
	pending := before.Pending()
	if pending != nil && p.random.IntN(3) > 0 {
		add(p.certificate(pending))
		pending = nil
	}
	next := p.change
	if before.Governance().Waiting != nil && p.random.IntN(2) == 0 {
		next = p.withdrawal
	}
	if p.random.IntN(4) == 0 && !add(next()) {
		p.refused++
	}
	if pending == nil && !before.Settles() {
		names := registry.Organisations()
		i := int(names[p.random.IntN(len(names))][1] - '0')
		if !add(p.all.Bundle(i, p.all.Proposal(i, nonce, uint64(height)+100))) {
			p.Fatalf("height %d: bundle of %s is refused", height, names)
		}
	}
	after, result, err := before.Apply(b)
	if err != nil {
		p.Fatalf("height %d: %v", height, err)
	}
	p.live = append(p.live, after.Added()...)
	snapshot := seal(after)
	after.Settle()
	p.check(before, after, result)
	if p.state = after; p.random.IntN(5) == 0 {
		p.state = restored(p.T, after, p.live)
	}
	if snapshot != nil {
		p.state = reopened(p.T, snapshot, p.state)
	}
}

// certificate has all organisations of the registry agree.
func (p *changing) certificate(pending *order.Pending) []byte {
	hash := wire.Hash{byte(pending.Number), 1}
	var votes []*wire.ExtendedVote
	for _, name := range p.state.Registry().Organisations() {
		votes = append(votes, p.all.Effects(int(name[1]-'0'), p.state.Height(), pending.Key(), hash))
	}
	slices.SortFunc(votes, func(a, b *wire.ExtendedVote) int {
		return strings.Compare(string(a.ValidatorAddress), string(b.ValidatorAddress))
	})
	return ordertest.Certificate(pending.Key(), &hash, votes...)
}

// change is one that may fit the registry or not, approved by all.
func (p *changing) change() []byte {
	registry := p.state.Registry()
	c := &wire.GovernanceChange{Sequence: registry.Record().Changes + 1}
	if p.random.IntN(3) == 0 {
		c.EffectiveHeight = uint64(p.state.Height() + int64(p.random.IntN(12)))
	}
	name := func() string { return fmt.Sprintf("o%d", p.random.IntN(7)) }
	for range 1 + p.random.IntN(2) {
		a := &wire.GovernanceAction{}
		switch p.random.IntN(8) {
		case 0:
			a.Body = &wire.GovernanceAction_Consent{Consent: uint32(p.random.IntN(6))}
		case 1:
			a.Body = &wire.GovernanceAction_Approvals{Approvals: uint32(p.random.IntN(6))}
		case 2:
			a.Body = &wire.GovernanceAction_Add{Add: p.all.Member(p.random.IntN(7))}
		case 3:
			a.Body = &wire.GovernanceAction_Remove{Remove: name()}
		case 4:
			i := p.random.IntN(7)
			a = validator(fmt.Sprintf("o%d", i), p.all.Validators[i].Key, uint64(p.random.IntN(30)))
		case 5:
			a.Body = &wire.GovernanceAction_BlockShares{BlockShares: &wire.BlockShares{Client: uint32(p.random.IntN(3)), Organisation: uint32(p.random.IntN(3))}}
		case 6:
			a.Body = &wire.GovernanceAction_SnapshotEvery{SnapshotEvery: uint32(p.random.IntN(2)) * wire.SnapshotEveryMin}
		default:
			a.Body = &wire.GovernanceAction_OrderingOnly{OrderingOnly: &wire.OrderingOnly{Organisation: name(), Only: p.random.IntN(2) == 0}}
		}
		c.Actions = append(c.Actions, a)
	}
	return p.approved(c)
}

// withdrawal is of the change that waits.
func (p *changing) withdrawal() []byte {
	waiting := p.state.Governance()
	return p.approved(&wire.GovernanceChange{Sequence: waiting.Changes + 1, Actions: []*wire.GovernanceAction{
		{Body: &wire.GovernanceAction_Withdraw{Withdraw: waiting.Hash[:]}},
	}})
}

func (p *changing) approved(c *wire.GovernanceChange) []byte {
	var approve []int
	for _, name := range p.state.Registry().Organisations() {
		approve = append(approve, int(name[1]-'0'))
	}
	return p.all.Governance(c, approve...)
}

func (p *changing) check(before, next *order.State, result *order.Result) {
	p.Helper()
	r := next.Registry()
	if n := len(r.Organisations()); n == 0 || r.Consent() < 1 || r.Consent() > n || 2*r.Approvals() <= n || r.Approvals() > n {
		p.Fatalf("registry of %d organisations with consent %d and approvals %d", n, r.Consent(), r.Approvals())
	}
	if r.Record().Changes == before.Governance().Changes+1 {
		p.withdrawn++
		if r.Hash() != before.Registry().Hash() || r.Record().FromBlock != before.Registry().Record().FromBlock || next.Governance().Waiting != nil {
			p.Fatalf("a withdrawal leaves change %d, and who takes part from block %d", next.Governance().Changes, r.Record().FromBlock)
		}
	} else if r != before.Registry() && (next.Pending() != nil || result.Ordered != nil || r.Record().FromBlock != next.LastOrdered()+1) {
		p.Fatalf("a change comes into force from block %d while block %d is pending or new", r.Record().FromBlock, next.LastOrdered())
	}
	if q := next.Pending(); q != nil && (q.Consent != r.Consent() || q.Organisations != len(r.Organisations())) {
		p.Fatalf("block %d needs %d of %d, its registry says %d of %d", q.Number, q.Consent, q.Organisations, r.Consent(), len(r.Organisations()))
	}
	if next.Governance().Changes > before.Governance().Changes {
		p.accepted++
	}
	told := map[string]int64{}
	for key, power := range p.validators[len(p.validators)-1] {
		told[key] = power
	}
	for _, v := range result.Validators {
		if _, known := told[string(v.Key)]; v.Power == 0 && !known {
			p.Fatal("CometBFT is told to remove a validator that it does not have")
		}
		if told[string(v.Key)] = v.Power; v.Power == 0 {
			delete(told, string(v.Key))
		}
	}
	p.validators = append(p.validators, told)
}
