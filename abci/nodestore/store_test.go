package nodestore

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

// A transaction read from the node's own store, each id once, does not stay in memory.
func TestOwnStoreKeepsLittleOfWhatIsRead(t *testing.T) {
	db, err := Open(t.TempDir())
	must.Do(t, err)
	defer db.Close()
	const keys = 200_000
	batch := db.NewBatch()
	defer batch.Close()
	for i := range keys {
		key := binary.BigEndian.AppendUint64(nil, uint64(i))
		id := sha256.Sum256(key)
		must.Do(t, batch.Set(key, id[:]))
	}
	must.Do(t, batch.WriteSync())
	must.Do(t, db.Compact(nil, nil))
	it, err := db.Iterator(nil, nil)
	must.Do(t, err)
	defer it.Close()
	read := 0
	for ; it.Valid(); it.Next() {
		read++
	}
	if cached, err := strconv.Atoi(db.Stats()["leveldb.cachedblock"]); err != nil || read != keys || cached > cacheBytes {
		t.Errorf("%d bytes are cached after %d of %d keys were read, want at most %d (%v)", cached, read, keys, cacheBytes, err)
	}
}
