// Package nodestore is a node's own store: it holds the state of the order, and what the parts of a
// node have to know after a restart. Each of them has keys of its own in it.
package nodestore

import (
	dbm "github.com/cometbft/cometbft-db"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

// DB is the store: keys and values, in the order of the keys.
type DB = dbm.DB

// cacheBytes is what the node's own store keeps in memory of what was read, in bytes. Read are,
// each once, ids that expire: LevelDB's 8 MiB would fill with them for half an hour, of no use to
// anybody.
const cacheBytes = 1 << 20

// Open opens the store in a directory, which one process at a time can.
func Open(dir string) (dbm.DB, error) {
	db, err := dbm.NewGoLevelDBWithOpts("chainify", dir, &opt.Options{BlockCacheCapacity: cacheBytes})
	if err != nil {
		return nil, err // not a nil pointer in an interface
	}
	return db, nil
}
