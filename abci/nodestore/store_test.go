package nodestore

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"testing"
)

// A transaction read from the node's own store, each id once, does not stay in memory.
func TestOwnStoreKeepsLittleOfWhatIsRead(t *testing.T) {
	db, err := Open(t.TempDir())
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
	if cached, err := strconv.Atoi(db.Stats()["leveldb.cachedblock"]); err != nil || read != keys || cached > cacheBytes {
		t.Errorf("%d bytes are cached after %d of %d keys were read, want at most %d (%v)", cached, read, keys, cacheBytes, err)
	}
}
