package comet

import (
	"testing"

	comet "github.com/cometbft/cometbft/config"
	cometstore "github.com/cometbft/cometbft/store"

	"github.com/chainify-db/chainify/abci/must"
)

// A routine of CometBFT that outlives its stop must find nothing in the block store, not panic.
func TestBlockStoreAnswersAfterClose(t *testing.T) {
	settings := comet.DefaultConfig()
	settings.SetRoot(t.TempDir())
	db, err := openStore(&comet.DBContext{ID: "blockstore", Config: settings})
	must.Do(t, err)
	must.Do(t, db.Set([]byte("key"), []byte("value")))
	if got, err := db.Get([]byte("key")); err != nil || string(got) != "value" {
		t.Fatalf("open: got %q, %v", got, err)
	}
	blocks := cometstore.NewBlockStore(db)
	must.Do(t, blocks.Close())
	if commit := blocks.LoadBlockCommit(7); commit != nil {
		t.Errorf("closed: got commit %v", commit)
	}
	if meta := blocks.LoadBlockMeta(7); meta != nil {
		t.Errorf("closed: got block %v", meta)
	}
	if err := db.Set([]byte("key"), []byte("other")); err == nil {
		t.Error("closed: a write was taken")
	}
}
