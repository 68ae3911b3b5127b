package order_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

func clientKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{100 + seed}, 32))
}

// clients plays blocks and says what each transaction came to.
type clients struct {
	*testing.T
	all   *ordertest.Consortium
	state *order.State
	nonce uint64
}

func newClients(t *testing.T) *clients {
	c := ordertest.New(4, 0)
	return &clients{T: t, all: c, state: c.Registry(t).Genesis(1)}
}

func (c *clients) play(raw ...[]byte) *order.Result {
	c.Helper()
	b := order.Block{Height: c.state.Height() + 1, Hash: wire.Hash{byte(c.state.Height())}}
	if p := c.state.Pending(); p != nil { // certify it
		hash := wire.Hash{1}
		var votes []*wire.ExtendedVote
		for i := range 4 {
			votes = append(votes, c.all.Effects(i, c.state.Height(), p.Key(), hash))
		}
		slices.SortFunc(votes, func(a, b *wire.ExtendedVote) int { return bytes.Compare(a.ValidatorAddress, b.ValidatorAddress) })
		raw = append([][]byte{ordertest.Certificate(p.Key(), &hash, votes...)}, raw...)
	}
	for _, r := range raw {
		tx, err := c.state.Registry().Open(r)
		if err != nil {
			c.Fatal(err)
		}
		b.Txs = append(b.Txs, tx)
	}
	next, result, err := c.state.Apply(b)
	if err != nil {
		c.Fatal(err)
	}
	next.Settle()
	c.state = next
	return result
}

func (c *clients) register(i int, sequence uint64, seed byte, role string) []byte {
	return c.all.Client(i, &wire.ClientChange{Sequence: sequence, Key: clientKey(seed).Public().(ed25519.PublicKey), Role: role})
}

// signed is a bundle of organisation i with one transaction that a client signed.
func (c *clients) signed(i int, seed byte, role string) []byte {
	c.nonce++
	p := c.all.Proposal(i, c.nonce, uint64(c.state.Height())+100)
	p.Client.Role = role
	return c.all.SignBundle(i, &wire.Bundle{
		ChainId: ordertest.ChainID, Organisation: p.Client.Organisation, Sequence: c.nonce,
		Transactions: []*wire.ChainedTx{{Proposal: wire.SignProposal(clientKey(seed), p)}},
	})
}

// together are n transactions of the first organisation that its client signed together.
func (c *clients) together(seed byte, n int) []*wire.SignedProposal {
	proposals := make([]*wire.Proposal, n)
	for i := range proposals {
		c.nonce++
		proposals[i] = c.all.Proposal(0, c.nonce, uint64(c.state.Height())+100)
	}
	return wire.SignProposals(clientKey(seed), proposals)
}

// bundle is one of the first organisation.
func (c *clients) bundle(signed ...*wire.SignedProposal) []byte {
	c.nonce++
	b := &wire.Bundle{ChainId: ordertest.ChainID, Organisation: "o0", Sequence: c.nonce}
	for _, s := range signed {
		b.Transactions = append(b.Transactions, &wire.ChainedTx{Proposal: s})
	}
	return c.all.SignBundle(0, b)
}

func (c *clients) wants(what, refusal string, raw ...[]byte) {
	c.Helper()
	r := c.play(raw...)
	var got string
	if len(r.Refused) > 0 {
		got = r.Refused[0].SQLState
	}
	if got != refusal || (r.Ordered == nil) != (refusal != "") {
		c.Errorf("%s: refused with %q, want %q", what, got, refusal)
	}
}

// A client's key signs for the role it is registered for, of its organisation, as long as it is
// registered.
func TestClientsSignForTheirRole(t *testing.T) {
	c := newClients(t)
	c.wants("not registered", "28000", c.signed(0, 1, "clerk"))
	c.wants("registered in the same block", "", c.register(0, 1, 1, "clerk"), c.signed(0, 1, "clerk"))
	c.wants("registered", "", c.signed(0, 1, "clerk"))
	c.wants("for another role", "28000", c.signed(0, 1, "dba"))
	c.wants("another key", "28000", c.signed(0, 2, "clerk"))
	c.wants("of another organisation", "28000", c.signed(1, 1, "clerk"))
	if r := c.play(c.register(0, 1, 2, "clerk"), c.register(0, 3, 2, "clerk"), c.register(0, 2, 3, "")); !slices.Contains(r.Codes, order.CodeNothingLive) || slices.Contains(r.Codes, 0) {
		t.Errorf("a change again, out of turn, and of a key that is not there: codes %v", r.Codes)
	}
	c.wants("moved to another role", "", c.register(0, 2, 1, "dba"), c.signed(0, 1, "dba"))
	c.wants("the role before", "28000", c.signed(0, 1, "clerk"))
	record, err := c.state.Clients().Record()
	must.Do(t, err)
	again, err := order.OpenClients(record)
	if list, changes := again.Of("o0"); err != nil || len(list) != 1 || list[0].Role != "dba" || changes != 2 {
		t.Errorf("stored and read again: %v after %d changes, %v", list, changes, err)
	}
	c.wants("taken away", "28000", c.register(0, 3, 1, ""), c.signed(0, 1, "dba"))
}

// Proposals that a client signed together are ordered wherever they get: in part, in another order,
// beside others, the rest in a later block or never.
func TestWhatIsSignedTogetherIsOrderedApart(t *testing.T) {
	c := newClients(t)
	c.wants("not registered", "28000", c.bundle(c.together(1, 2)...))
	c.play(c.register(0, 1, 1, "clerk"), c.register(0, 2, 2, "clerk"))
	some, others := c.together(1, 5), c.together(2, 3)
	r := c.play(c.bundle(some[4], others[2], some[0]), c.bundle(some[2]))
	var want []wire.TxID
	for _, s := range []*wire.SignedProposal{some[4], others[2], some[0], some[2]} {
		want = append(want, wire.TxIDOf(s.Proposal))
	}
	if r.Ordered == nil || !slices.Equal(r.Ordered.IDs, want) {
		t.Errorf("ordered %v, want %x", r.Ordered, want)
	}
	c.wants("the rest", "", c.bundle(some[3]))
	again := c.play(c.bundle(some[0], some[1]))
	if again.Ordered == nil || len(again.Ordered.IDs) != 1 || again.Ordered.IDs[0] != wire.TxIDOf(some[1].Proposal) {
		t.Errorf("one that was ordered is ordered again: %v", again.Ordered)
	}
}

// When an organisation leaves, its clients do too; their changes cannot be played again when it
// comes back.
func TestClientsLeaveWithTheirOrganisation(t *testing.T) {
	c := newClients(t)
	first := c.register(3, 1, 1, "clerk")
	c.play(first)
	change := func(sequence uint64, a *wire.GovernanceAction) {
		c.play(c.all.Governance(&wire.GovernanceChange{Sequence: sequence, Actions: []*wire.GovernanceAction{a}}, 0, 1, 2))
		c.play()
	}
	change(1, &wire.GovernanceAction{Body: &wire.GovernanceAction_Remove{Remove: "o3"}})
	if _, err := c.state.Registry().Open(c.register(3, 2, 2, "clerk")); err == nil || order.CodeOf(err) != order.CodeUnknown {
		t.Errorf("a change by an organisation that left: %v", err)
	}
	change(2, &wire.GovernanceAction{Body: &wire.GovernanceAction_Add{Add: c.all.Member(3)}})
	if r := c.play(first); r.Codes[0] != order.CodeNothingLive {
		t.Errorf("a change from before has codes %v", r.Codes)
	}
	if list, changes := c.state.Clients().Of("o3"); len(list) != 0 || changes != 1 {
		t.Errorf("back with %d clients and %d changes, want none and 1", len(list), changes)
	}
}

func TestClientsAreBounded(t *testing.T) {
	c := newClients(t)
	var raw [][]byte
	for i := range uint64(order.ClientsMax + 1) {
		raw = append(raw, c.all.Client(0, &wire.ClientChange{Sequence: i + 1, Key: append(make([]byte, 30), byte(i>>8), byte(i)), Role: "clerk"}))
	}
	r := c.play(raw...)
	if list, _ := c.state.Clients().Of("o0"); len(list) != order.ClientsMax || r.Codes[order.ClientsMax] != order.CodeNothingLive {
		t.Errorf("%d clients, the last change has code %d", len(list), r.Codes[order.ClientsMax])
	}
}

func TestClientsRefuseWhatIsForged(t *testing.T) {
	c := newClients(t)
	registry := c.state.Registry()
	forged := func(i int, change *wire.ClientChange) []byte {
		return wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Client{Client: c.all.SignedClient(i, change)}})
	}
	good := func() *wire.ClientChange {
		return &wire.ClientChange{ChainId: ordertest.ChainID, Organisation: "o0", Sequence: 1, Key: make([]byte, 32), Role: "clerk"}
	}
	stranger, chain := good(), good()
	stranger.Organisation, chain.ChainId = "o9", "otherchain"
	together := func() []*wire.SignedProposal { return c.together(1, 3) }
	elsewhere := together()
	elsewhere[0].Signature = elsewhere[1].Signature
	bundle := c.signed(0, 1, "clerk")
	at := bytes.LastIndex(bundle, []byte("SELECT 1"))
	for name, x := range map[string]struct {
		raw  []byte
		code uint32
		want string
	}{
		"by another organisation": {forged(1, good()), order.CodeSignature, `not by the gateway of "o0"`},
		"of a stranger":           {forged(0, stranger), order.CodeUnknown, `"o9" is not in the registry`},
		"for another chain":       {forged(0, chain), order.CodeMalformed, `"otherchain"`},
		"a proposal changed by its gateway": {
			c.bundle(changed(wire.SignProposal(clientKey(1), c.all.Proposal(0, 9, 99)))), order.CodeSignature, "bundle.transactions[0].proposal.signature: not by the client's key",
		},
		"one of several changed by its gateway": {c.bundle(together()[0], changed(together()[1])), order.CodeSignature, "bundle.transactions[1].proposal.signature: not by the client's key"},
		"one of several in another's place":     {c.bundle(elsewhere...), order.CodeSignature, "bundle.transactions[0].proposal.signature: not by the client's key"},
		"a bundle changed on its way":           {slices.Concat(bundle[:at+7], []byte("2"), bundle[at+8:]), order.CodeSignature, "signed bundle.signature"},
	} {
		if _, err := registry.Open(x.raw); err == nil || order.CodeOf(err) != x.code || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: error %v, want %q", name, err, x.want)
		}
	}
}

// changed has another text than its client signed.
func changed(s *wire.SignedProposal) *wire.SignedProposal {
	s.Proposal = bytes.Replace(s.Proposal, []byte("SELECT 1"), []byte("SELECT 2"), 1)
	return s
}

// BenchmarkOpenSigned is BenchmarkOpen when all clients sign.
func BenchmarkOpenSigned(b *testing.B) {
	c := ordertest.New(4, 0)
	bundle := &wire.Bundle{ChainId: ordertest.ChainID, Organisation: "o0", Sequence: 1}
	for i := range uint64(1000) {
		p := c.Proposal(0, i, 1000)
		p.Sql = fmt.Sprint("SELECT ", i)
		bundle.Transactions = append(bundle.Transactions, &wire.ChainedTx{Proposal: wire.SignProposal(clientKey(byte(i%20)), p)})
	}
	registry, raw := c.Registry(b), c.SignBundle(0, bundle)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := registry.Open(raw); err != nil {
			b.Fatal(err)
		}
	}
}
