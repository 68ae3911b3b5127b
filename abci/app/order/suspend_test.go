package order_test

import (
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// A transaction refused for a suspension, or because the block is full, is remembered, so that it
// is never ordered. A block remembers twice as many as it accepts at most, or a client could fill
// the memory of all.
func TestWhatASuspendedClientSendsIsBounded(t *testing.T) {
	c := ordertest.New(4, 3)
	c.Genesis.Parameters.BlockTransactionsMax = 3
	registry := c.Registry(t)
	state := registry.Genesis(1)
	apply := func(second int64, raw ...[]byte) *order.Result {
		t.Helper()
		b := order.Block{Height: state.Height() + 1, TimeMicro: second * 1_000_000, Hash: wire.Hash{byte(second)}}
		for _, r := range raw {
			b.Txs = append(b.Txs, opened(t, registry, r))
		}
		next, result, err := state.Apply(b)
		must.Do(t, err)
		next.Settle()
		state = next
		return result
	}
	bundle := func(first uint64, count int) []byte {
		var proposals []*wire.Proposal
		for i := range uint64(count) {
			proposals = append(proposals, c.Proposal(0, first+i, 100))
		}
		return c.Bundle(0, proposals...)
	}
	apply(1, bundle(1, 1))
	var votes []*wire.ExtendedVote
	for i := range 3 {
		votes = append(votes, c.Sign(i, state.Height(), wire.NewStuckVote(state.Pending().Key(), 0)))
	}
	certificate := state.Certificate(votes, func(wire.Key) (wire.Hash, bool) { return wire.Hash{}, false })
	apply(2, wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Certificate{Certificate: certificate}}))
	votes = nil
	for i := range 3 {
		votes = append(votes, c.Effects(i, state.Height(), state.Pending().Key(), wire.Hash{7}))
	}
	certificate = state.Certificate(votes, func(wire.Key) (wire.Hash, bool) { return wire.Hash{7}, true })
	apply(3, wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Certificate{Certificate: certificate}}))
	if names := state.SuspendedClients(); len(names) != 1 || names[0] != "o0/clerk" {
		t.Fatalf("suspended are %q", names)
	}
	before := len(state.Added())
	b := order.Block{Height: state.Height() + 1, TimeMicro: 4_000_000, Hash: wire.Hash{4}, Txs: []order.Tx{
		opened(t, registry, bundle(10, 3)), opened(t, registry, bundle(20, 3)), opened(t, registry, bundle(30, 3)), opened(t, registry, c.Bundle(1, c.Proposal(1, 1, 100))),
	}}
	next, result, err := state.Apply(b)
	must.Do(t, err)
	if len(next.Added())-before != 6 || len(result.Refused) != 10 || result.Ordered != nil {
		t.Fatalf("%d are remembered, %d refused, want 6 of 10", len(next.Added())-before, len(result.Refused))
	}
}
