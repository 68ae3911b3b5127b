package nodestore

import (
	"encoding/json"
	"fmt"

	dbm "github.com/cometbft/cometbft-db"

	"github.com/chainify-db/chainify/abci/anchor"
	"github.com/chainify-db/chainify/abci/backend/postgres"
)

// Memory is what effects has to know after a restart, in the node's own store beside that of the
// order.
type Memory struct{ DB dbm.DB }

// excludedKey begins with a letter that no key of app.Store begins with.
var excludedKey = []byte("node/excluded")

// Excluded implements effects.Memory.
func (m Memory) Excluded() (string, error) {
	raw, err := m.DB.Get(excludedKey)
	if err != nil {
		return "", fmt.Errorf("read whether the organisation is excluded: %w", err)
	}
	return string(raw), nil
}

// Exclude implements effects.Memory, waiting for the disk.
func (m Memory) Exclude(reason string) error {
	if err := m.DB.SetSync(excludedKey, []byte(reason)); err != nil {
		return fmt.Errorf("keep why the organisation is excluded: %w", err)
	}
	return nil
}

// Rejoin implements effects.Memory, waiting for the disk.
func (m Memory) Rejoin() error {
	if err := m.DB.DeleteSync(excludedKey); err != nil {
		return fmt.Errorf("keep that the organisation rejoins: %w", err)
	}
	return nil
}

var followedKey = []byte("node/server")

// Followed implements postgres.Memory.
func (m Memory) Followed() (f postgres.Followed, err error) {
	raw, err := m.DB.Get(followedKey)
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &f)
	}
	if err != nil {
		return f, fmt.Errorf("read which database server is followed: %w", err)
	}
	return f, nil
}

// Follow implements postgres.Memory, waiting for the disk.
func (m Memory) Follow(f postgres.Followed) error {
	raw, err := json.Marshal(f)
	if err == nil {
		err = m.DB.SetSync(followedKey, raw)
	}
	if err != nil {
		return fmt.Errorf("keep which database server is followed: %w", err)
	}
	return nil
}

var anchoredKey = []byte("node/anchor")

// Anchored implements anchor.Memory.
func (m Memory) Anchored() (kept anchor.Kept, err error) {
	raw, err := m.DB.Get(anchoredKey)
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &kept)
	}
	if err != nil {
		return kept, fmt.Errorf("read which digest was exported: %w", err)
	}
	return kept, nil
}

// KeepAnchored implements anchor.Memory, waiting for the disk.
func (m Memory) KeepAnchored(kept anchor.Kept) error {
	raw, err := json.Marshal(kept)
	if err == nil {
		err = m.DB.SetSync(anchoredKey, raw)
	}
	if err != nil {
		return fmt.Errorf("keep which digest was exported: %w", err)
	}
	return nil
}
