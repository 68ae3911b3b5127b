package node

import (
	"fmt"

	dbm "github.com/cometbft/cometbft-db"
)

// memory is what effects has to know after a restart, in the node's own store beside that of the
// order.
type memory struct{ db dbm.DB }

// excludedKey begins with a letter that no key of app.Store begins with.
var excludedKey = []byte("node/excluded")

// Excluded implements effects.Memory.
func (m memory) Excluded() (string, error) {
	raw, err := m.db.Get(excludedKey)
	if err != nil {
		return "", fmt.Errorf("read whether the organisation is excluded: %w", err)
	}
	return string(raw), nil
}

// Exclude implements effects.Memory, waiting for the disk.
func (m memory) Exclude(reason string) error {
	if err := m.db.SetSync(excludedKey, []byte(reason)); err != nil {
		return fmt.Errorf("keep why the organisation is excluded: %w", err)
	}
	return nil
}

// Rejoin implements effects.Memory, waiting for the disk.
func (m memory) Rejoin() error {
	if err := m.db.DeleteSync(excludedKey); err != nil {
		return fmt.Errorf("keep that the organisation rejoins: %w", err)
	}
	return nil
}
