package comet

import (
	"testing"

	dbm "github.com/cometbft/cometbft-db"
)

func TestKeptBlocksBeginWithThePendingOne(t *testing.T) {
	b := bodies{db: dbm.NewMemDB()}
	if err := b.open(); err != nil {
		t.Fatal(err)
	}
	for height := int64(1); height <= 9; height++ {
		below := height // nothing is pending
		if height > 5 {
			below = 5 // block 5 is
		}
		if err := b.keep(height, [][]byte{{byte(height)}}, below); err != nil {
			t.Fatal(err)
		}
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
	if err := again.keep(10, nil, 10); err != nil {
		t.Fatal(err)
	}
	if txs, err := again.load(10); err != nil || txs == nil || len(txs) > 0 {
		t.Errorf("an empty block: %v, %v", txs, err)
	}
	if again.has(5) {
		t.Error("a block that nobody needs stays")
	}
}
