package nodestore

import (
	"fmt"

	dbm "github.com/cometbft/cometbft-db"
)

// Private implements private.Disk: private values on their way, in the node's own store.
type Private struct{ DB dbm.DB }

// privatePrefix begins with a letter that no key of app.Store begins with; privateEnd is the first
// key after all that begin so.
const privatePrefix, privateEnd = "node/private/", "node/private0"

// Each implements private.Disk.
func (p Private) Each(each func(key, value []byte) error) error {
	all, err := p.DB.Iterator([]byte(privatePrefix), []byte(privateEnd))
	if err != nil {
		return fmt.Errorf("read private values on their way: %w", err)
	}
	defer all.Close()
	for ; all.Valid(); all.Next() {
		if err := each(all.Key()[len(privatePrefix):], all.Value()); err != nil {
			return err
		}
	}
	return all.Error()
}

// Get implements private.Disk.
func (p Private) Get(key []byte) ([]byte, error) {
	return p.DB.Get(append([]byte(privatePrefix), key...))
}

// Put implements private.Disk, waiting for the disk.
func (p Private) Put(key, value []byte) error {
	return p.DB.SetSync(append([]byte(privatePrefix), key...), value)
}

// Delete implements private.Disk. It does not wait for the disk: what comes back after a crash is
// deleted again.
func (p Private) Delete(key []byte) error { return p.DB.Delete(append([]byte(privatePrefix), key...)) }
