package app

import (
	"testing"

	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/wire"
)

// A client's suspension is over by the clock. The next block of an idle chain has the time of the
// last one, at which the client would be refused: it leaves the bundles to the block after it.
func TestABlockOfAnOldTimeRefusesNobodyWhoseSuspensionIsOver(t *testing.T) {
	c := newChain(t, 4, 3)
	block := c.order(1)
	var stuck []*wire.ExtendedVote
	for i := range 3 {
		stuck = append(stuck, c.consortium.Sign(i, c.height, wire.NewStuckVote(block.Key(), 0)))
	}
	sortVotes(stuck)
	c.decide(nil, ordertest.Certificate(block.Key(), nil, stuck...))
	next, err := c.app.Ordered(1)
	if err != nil || next.Round != 1 {
		t.Fatalf("round %d, %v", next.Round, err)
	}
	hash := wire.Hash{7}
	var votes []*wire.ExtendedVote
	for i := range 3 {
		votes = append(votes, c.consortium.Effects(i, c.height, next.Key(), hash))
	}
	sortVotes(votes)
	c.decide(nil, ordertest.Certificate(next.Key(), &hash, votes...))

	later := c.bundle(2) // of the client that is suspended at the block's time, of 2023
	if txs := c.prepare(later); len(txs) != 0 || !c.process(txs...) {
		t.Fatalf("%d transactions are proposed in a block of an old time", len(txs))
	}
	c.decide(nil)
	if txs := c.prepare(later); len(txs) != 1 {
		t.Fatalf("%d transactions are proposed in the block after it, want the bundle: there are no two such blocks in a row", len(txs))
	}
	others := c.consortium.Bundle(1, c.consortium.Proposal(1, 2, uint64(c.height)+100))
	c.decide(nil)
	if txs := c.prepare(others); len(txs) != 1 {
		t.Errorf("a client that was never suspended waits for a new time")
	}
}
