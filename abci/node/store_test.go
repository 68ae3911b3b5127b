package node

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"testing"

	comet "github.com/cometbft/cometbft/config"
	cometstore "github.com/cometbft/cometbft/store"
)

// A routine of CometBFT that outlives its stop must find nothing in the block store, not panic.
func TestBlockStoreAnswersAfterClose(t *testing.T) {
	settings := comet.DefaultConfig()
	settings.SetRoot(t.TempDir())
	db, err := openStore(&comet.DBContext{ID: "blockstore", Config: settings})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Set([]byte("key"), []byte("value")); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Get([]byte("key")); err != nil || string(got) != "value" {
		t.Fatalf("open: got %q, %v", got, err)
	}
	blocks := cometstore.NewBlockStore(db)
	if err := blocks.Close(); err != nil {
		t.Fatal(err)
	}
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

// A transaction read from the node's own store, each id once, does not stay in memory.
func TestOwnStoreKeepsLittleOfWhatIsRead(t *testing.T) {
	db, err := openOwnStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const keys = 200_000
	batch := db.NewBatch()
	defer batch.Close()
	for i := range keys {
		key := binary.BigEndian.AppendUint64(nil, uint64(i))
		id := sha256.Sum256(key)
		if err := batch.Set(key, id[:]); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.WriteSync(); err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(nil, nil); err != nil {
		t.Fatal(err)
	}
	it, err := db.Iterator(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	read := 0
	for ; it.Valid(); it.Next() {
		read++
	}
	if cached, err := strconv.Atoi(db.Stats()["leveldb.cachedblock"]); err != nil || read != keys || cached > ownStoreCache {
		t.Errorf("%d bytes are cached after %d of %d keys were read, want at most %d (%v)", cached, read, keys, ownStoreCache, err)
	}
}
