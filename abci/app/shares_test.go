package app

import (
	"testing"

	abci "github.com/cometbft/cometbft/abci/types"
	cmttypes "github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// owners counts what was proposed of each organisation.
func (c *chain) owners(txs [][]byte) map[string]int {
	c.t.Helper()
	count := map[string]int{}
	for _, raw := range txs {
		count[wire.PeekOwner(raw)]++
	}
	return count
}

// One organisation that fills the mempool first leaves the others as much of a block as itself, and
// all of it when they want none.
func TestAGreedyOrganisationLeavesOthersTheirShareOfABlock(t *testing.T) {
	c := newChain(t, 3, 0)
	var mempool [][]byte
	for n := range uint64(400) {
		mempool = append(mempool, c.consortium.Bundle(0, c.consortium.Proposal(0, n, 100)))
	}
	space := 120 * sizeInBlock(mempool[0])
	alone, _ := pick(c.sorted(mempool), space, 10_000, c.app.state.Registry().Shares())
	if len(alone) < 110 {
		t.Errorf("alone it has %d of 120 places", len(alone))
	}
	for i := range alone {
		if string(alone[i]) != string(mempool[i]) {
			t.Fatal("alone, its bundles are not in their order")
		}
	}
	for n := range uint64(400) {
		mempool = append(mempool, c.consortium.Bundle(1, c.consortium.Proposal(1, n, 100)))
	}
	mempool = append(mempool, c.consortium.Bundle(2, c.consortium.Proposal(2, 1, 100)))
	taken, _ := pick(c.sorted(mempool), space, 10_000, c.app.state.Registry().Shares())
	if got := c.owners(taken); got["o2"] != 1 || got["o0"]-got["o1"] > 1 || got["o1"]-got["o0"] > 1 || len(taken) < 110 {
		t.Errorf("of a block in which all want to be: %v", got)
	}
	// The same of transactions: few large bundles take no more than many small ones.
	var large []*wire.Proposal
	for n := range uint64(50) {
		large = append(large, c.consortium.Proposal(0, 1000+n, 100))
	}
	mempool = append([][]byte{c.consortium.Bundle(0, large...), c.consortium.Bundle(0, large[1:]...), c.consortium.Bundle(0, large[2:]...)}, mempool[400:]...)
	taken, _ = pick(c.sorted(mempool), 1<<20, 100, c.app.state.Registry().Shares())
	if got := c.owners(taken); got["o0"] != 1 || got["o1"] != 49 || got["o2"] != 1 {
		t.Errorf("of 100 transactions: %v", got)
	}
}

// sorted is the mempool's bundles.
func (c *chain) sorted(mempool [][]byte) []waiting {
	c.t.Helper()
	_, _, bundles := c.app.sort(c.app.state, mempool)
	if len(bundles) != len(mempool) {
		c.t.Fatalf("%d bundles of %d", len(bundles), len(mempool))
	}
	return bundles
}

// Changes of clients, of which an organisation may send as many as it likes with one sequence, take
// a part of a proposal alone, each organisation its share.
func TestChangesOfClientsDoNotTakeThePlaceOfBundles(t *testing.T) {
	c := newChain(t, 2, 0)
	var mempool [][]byte
	for n := range 3 * clientsMax {
		key := make([]byte, 32)
		key[0], key[1] = byte(n), byte(n>>8)
		mempool = append(mempool, c.consortium.Client(0, &wire.ClientChange{Sequence: 1, Key: key, Role: "clerk"}))
	}
	mempool = append(mempool, c.consortium.Client(1, &wire.ClientChange{Sequence: 1, Key: make([]byte, 32), Role: "clerk"}))
	for n := range uint64(10) {
		mempool = append(mempool, c.consortium.Bundle(1, c.consortium.Proposal(1, n, 100)))
	}
	out := c.prepare(mempool...)
	changes, others, bundles := 0, 0, 0
	for _, raw := range out {
		tx, err := c.app.state.Registry().Open(raw)
		switch {
		case err != nil:
			t.Fatal(err)
		case tx.IsClient():
			changes++
			if tx.Organisation() == "o1" {
				others++
			}
		default:
			bundles++
		}
	}
	if changes > clientsMax || others != 1 || bundles != 10 {
		t.Errorf("proposed %d changes, %d of the other organisation, and %d bundles", changes, others, bundles)
	}
	if !c.process(out...) {
		t.Error("own proposal refused")
	}
}

// CometBFT gives a proposer the first of the mempool. That one organisation's are before all
// others' keeps these out of no proposal.
func TestAGreedyOrganisationIsNotAllThatIsProposed(t *testing.T) {
	c := newChain(t, 3, 0)
	var mempool [][]byte
	for n := range uint64(400) {
		mempool = append(mempool, c.consortium.Bundle(0, c.consortium.Proposal(0, n, 100)))
	}
	space := 120 * sizeInBlock(mempool[0])
	for n := range uint64(20) {
		mempool = append(mempool, c.consortium.Bundle(1, c.consortium.Proposal(1, n, 100)))
	}
	mempool = append(mempool, c.consortium.Client(2, &wire.ClientChange{Sequence: 1, Key: make([]byte, 32), Role: "clerk"}))
	c.app.opt.Mempool = &pool{held: mempool}
	out, err := c.app.PrepareProposal(ctx, &abci.RequestPrepareProposal{
		MaxTxBytes: space, Txs: mempool[:118], LocalLastCommit: c.commit, Height: c.height + 1, Time: c.now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.owners(out.Txs); got["o1"] != 20 || got["o2"] != 1 || got["o0"] < 80 {
		t.Errorf("proposed: %v", got)
	}
	if !c.process(out.Txs...) {
		t.Error("own proposal refused")
	}
	few := mempool[400:]
	if got := c.app.among(few, 4<<20); len(got) != len(few) || string(got[0]) != string(few[0]) {
		t.Error("where all fits, it is not as it was")
	}
}

// A transaction takes as many of a block's bytes as CometBFT counts.
func TestATransactionTakesTheBytesThatCometBFTCounts(t *testing.T) {
	for _, length := range []int{0, 1, 127, 128, 1 << 14, 1<<14 - 1, 1 << 21} {
		raw := make([]byte, length)
		if got, want := sizeInBlock(raw), cmttypes.ComputeProtoSizeForTxs([]cmttypes.Tx{raw}); got != want {
			t.Errorf("%d bytes take %d, want %d", length, got, want)
		}
	}
}
