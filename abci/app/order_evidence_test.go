package app

import (
	"slices"
	"testing"

	abci "github.com/cometbft/cometbft/abci/types"
)

// CometBFT's evidence in order blocks is kept with the organisation that it is against, once, also
// over a restart, and only so much of one validator.
func TestEvidenceInOrderBlocksIsKept(t *testing.T) {
	c := newChain(t, 4, 3)
	against := func(i int, height int64) abci.Misbehavior {
		return abci.Misbehavior{Type: abci.MisbehaviorType_DUPLICATE_VOTE, Validator: abci.Validator{Address: c.consortium.Address(i), Power: 10}, Height: height}
	}
	finalize := func(height int64, found ...abci.Misbehavior) {
		t.Helper()
		if _, err := c.app.FinalizeBlock(ctx, &abci.RequestFinalizeBlock{Hash: c.blockHash(nil), Height: height, Time: c.now(), Misbehavior: found}); err != nil {
			t.Fatal(err)
		}
	}
	c.decide(nil)
	next := c.height + 1
	finalize(next, against(1, 7), against(2, 8))
	stranger := abci.Misbehavior{Type: abci.MisbehaviorType_LIGHT_CLIENT_ATTACK, Validator: abci.Validator{Address: make([]byte, 20)}, Height: 9}
	finalize(next, against(1, 7), against(2, 8), stranger) // again, as after a crash
	for range 2 {
		kept, count := c.app.OrderEvidence()
		if count != 3 || len(kept) != 3 || kept[0].Organisation != "o1" || kept[0].Height != 7 || kept[0].Decided != next || kept[0].Attack || kept[1].Organisation != "o2" || kept[2].Organisation != "" || !kept[2].Attack {
			t.Fatalf("%d pieces: %+v", count, kept)
		}
		c.open()
		c.attach()
	}
	for height := range int64(2 * evidencePerOrganisation) {
		finalize(next, against(1, 100+height))
	}
	kept, count := c.app.OrderEvidence()
	of := slices.DeleteFunc(kept, func(e OrderEvidence) bool { return e.Organisation != "o1" })
	if len(of) != evidencePerOrganisation || count != 3+2*evidencePerOrganisation {
		t.Errorf("%d pieces of %d against o1", len(of), count)
	}
}
