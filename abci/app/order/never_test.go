package order_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// No transaction that an honest node may hold is held against a node. Such a one is stale, is
// signed with a key from before a change or after one that waits, or has a client's signature that
// its gateway should have verified. All else that is refused could never be right.
func TestWhatCouldNeverBeRight(t *testing.T) {
	c := ordertest.New(4, 0).Without(1)
	all := ordertest.New(4, 0)
	registry := c.Registry(t)
	before := c.Copy()
	before.Renew(0, 201)
	record := registry.Record()
	record.Organisations = append([]order.Organisation{}, record.Organisations...)
	record.Organisations[0].GatewayKey = before.Renew(0, 201)
	after := c.Copy()
	waits := c.Governance(&wire.GovernanceChange{Sequence: 1, EffectiveHeight: 50, Actions: []*wire.GovernanceAction{
		{Body: &wire.GovernanceAction_GatewayKey{GatewayKey: &wire.GatewayKey{Organisation: "o1", Key: after.Renew(1, 202)}}},
		{Body: &wire.GovernanceAction_Add{Add: all.Member(3)}},
	}}, 0, 1, 2)
	tx, err := registry.Open(waits)
	must.Do(t, err)
	state, _, err := registry.Genesis(1).Apply(order.Block{Height: 1, Txs: []order.Tx{tx}})
	if err != nil {
		t.Fatal(err)
	}
	keys := state.KeysOf([]order.RegistryRecord{record, registry.Record()})
	stranger := ordertest.New(1, 0)
	stranger.Renew(0, 203)
	forgedClient := func() []byte {
		p := c.Proposal(0, 1, 100)
		s := wire.SignProposal(clientKey(1), p)
		s.Signature[5] ^= 1
		return c.SignBundle(0, &wire.Bundle{ChainId: ordertest.ChainID, Organisation: "o0", Sequence: 1, Transactions: []*wire.ChainedTx{{Proposal: s}}})
	}
	approve := func(by *ordertest.Consortium, sequence uint64, who ...int) []byte {
		return by.Governance(&wire.GovernanceChange{Sequence: sequence, Actions: []*wire.GovernanceAction{{Body: &wire.GovernanceAction_Consent{Consent: 2}}}}, who...)
	}
	unsigned := approve(c, 1, 0, 1, 2)
	unsigned[len(unsigned)-1] ^= 1
	otherChain := c.SignBundle(0, &wire.Bundle{ChainId: "otherchain", Organisation: "o0", Sequence: 1, Transactions: []*wire.ChainedTx{{Proposal: &wire.SignedProposal{Proposal: []byte{1}}}}})
	for name, x := range map[string]struct {
		raw   []byte
		never bool
	}{
		"a key from before":                       {before.Bundle(0, c.Proposal(0, 1, 100)), false},
		"a key to come":                           {after.Bundle(1, c.Proposal(1, 1, 100)), false},
		"an organisation to come":                 {all.Bundle(3, all.Proposal(3, 1, 100)), false},
		"a client's wrong signature":              {forgedClient(), false},
		"a change approved with a key before":     {approve(before, 1, 0, 1, 2), false},
		"a stale change":                          {approve(c, 9, 0, 1, 2), false},
		"too few approve":                         {approve(c, 1, 0), false},
		"a client's change by a key from before":  {before.Client(0, &wire.ClientChange{Sequence: 1, Key: make([]byte, 32), Role: "a"}), false},
		"a key that nobody ever had":              {stranger.Bundle(0, c.Proposal(0, 1, 100)), true},
		"another organisation's key":              {c.SignBundle(1, &wire.Bundle{ChainId: ordertest.ChainID, Organisation: "o0", Sequence: 1, Transactions: []*wire.ChainedTx{{}}}), true},
		"malformed behind a right signature":      {c.SignBundle(0, &wire.Bundle{ChainId: ordertest.ChainID, Organisation: "o0", Sequence: 1, Transactions: []*wire.ChainedTx{{}}}), true},
		"of a later version":                      {append(c.Bundle(0, c.Proposal(0, 1, 100)), 0x78, 1), false},
		"a bundle of a later version":             {c.SignBundle(0, later(&wire.Bundle{ChainId: ordertest.ChainID, Organisation: "o0", Sequence: 1, Transactions: []*wire.ChainedTx{{}}})), false},
		"a transaction of a later version":        {c.SignBundle(0, &wire.Bundle{ChainId: ordertest.ChainID, Organisation: "o0", Sequence: 1, Transactions: []*wire.ChainedTx{later(&wire.ChainedTx{})}}), false},
		"a client's change of a later version":    {c.Client(0, later(&wire.ClientChange{Sequence: 1, Key: make([]byte, 32), Role: "a"})), false},
		"a later version that nobody signed":      {stranger.SignBundle(0, &wire.Bundle{ChainId: ordertest.ChainID, Organisation: "o0", Sequence: 1, Transactions: []*wire.ChainedTx{later(&wire.ChainedTx{})}}), true},
		"an organisation that never was":          {c.SignBundle(0, &wire.Bundle{ChainId: ordertest.ChainID, Organisation: "o9", Sequence: 1, Transactions: []*wire.ChainedTx{{}}}), true},
		"another chain":                           {otherChain, true},
		"garbage":                                 {[]byte{1, 2, 3}, true},
		"a certificate":                           {ordertest.Certificate(wire.Key{Number: 1}, &wire.Hash{}), true},
		"a client's change that nobody signed":    {stranger.Client(0, &wire.ClientChange{Sequence: 1, Key: make([]byte, 32), Role: "a"}), true},
		"a change with an approval nobody signed": {unsigned, true},
	} {
		_, err := state.Registry().Open(x.raw)
		code := order.CodeNotABundle // of a certificate, which opens
		if err != nil {
			code = order.CodeOf(err)
		}
		if got := keys.NeverRight(ordertest.ChainID, x.raw, code); got != x.never {
			t.Errorf("%s: %t for code %d (%v), want %t", name, got, code, err, x.never)
		}
	}
}

// later is a message with a field that this version does not know.
func later[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown([]byte{0x78, 1})
	return m
}
