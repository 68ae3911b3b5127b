package comet

import (
	"testing"

	dbm "github.com/cometbft/cometbft-db"

	"github.com/chainify-db/chainify/abci/must"
)

func TestKeptBlocksBeginWithThePendingOne(t *testing.T) {
	b := bodies{db: dbm.NewMemDB()}
	must.Do(t, b.open())
	for height := int64(1); height <= 9; height++ {
		below := height // nothing is pending
		if height > 5 {
			below = 5 // block 5 is
		}
		must.Do(t, b.keep(height, [][]byte{{byte(height)}}, below))
	}
	again := bodies{db: b.db} // as after a restart
	if err := again.open(); err != nil || again.oldest != 5 {
		t.Fatalf("the oldest is %d, %v", again.oldest, err)
	}
	for height := int64(1); height <= 10; height++ {
		txs, err := again.load(height)
		if err != nil || (txs != nil) != (height >= 5 && height <= 9) || again.has(height) != (txs != nil) {
			t.Errorf("block %d: %v, %v", height, txs, err)
		}
	}
	must.Do(t, again.keep(10, nil, 10))
	if txs, err := again.load(10); err != nil || txs == nil || len(txs) > 0 {
		t.Errorf("an empty block: %v, %v", txs, err)
	}
	if again.has(5) {
		t.Error("a block that nobody needs stays")
	}
}
