package config

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/comet/files"
)

// snapshotsMax is how many snapshots CometBFT tells another node of.
const snapshotsMax = 10

// TrustPeriod is how old the order block may be that a node joins by.
const TrustPeriod = 30 * 24 * time.Hour

// Join says by which order block a node begins that joins the order by a snapshot.
type Join struct {
	Height int64  `json:"trust_height"`
	Hash   string `json:"trust_hash"` // hexadecimal
	// Period is how old that block may be.
	Period Duration `json:"trust_period"`
}

// ParseTrust reads HEIGHT:HASH, as data/trust of another node has it.
func ParseTrust(text string) (Join, error) {
	height, hash, both := strings.Cut(strings.TrimSpace(text), ":")
	n, err := strconv.ParseInt(height, 10, 64)
	if err != nil || !both || n < 1 {
		return Join{}, fmt.Errorf("%q is not HEIGHT:HASH, the height and the hash of an order block", text)
	}
	j := Join{Height: n, Hash: strings.ToUpper(hash), Period: Duration(TrustPeriod)}
	return j, j.check()
}

func (j Join) check() error {
	if raw, err := hex.DecodeString(j.Hash); err != nil || len(raw) != 32 {
		return fmt.Errorf("hash %q of order block %d: want 64 hexadecimal digits", j.Hash, j.Height)
	}
	if j.Height < 1 || j.Period <= 0 {
		return fmt.Errorf("order block %d, trusted for %s: want a positive height and time", j.Height, j.Period)
	}
	return nil
}

// HashBytes is the hash of the block.
func (j Join) HashBytes() []byte {
	raw, _ := hex.DecodeString(j.Hash) // checked before
	return raw
}

func (h Home) joinFile() string { return h.Path("config", "join.json") }

// Trust is the file with the order block of the newest snapshot, which other nodes may join by.
func (h Home) Trust() string { return h.Path("data", "trust") }

// Joining reads how the node joins; nil: it does not.
func (h Home) Joining() (*Join, error) {
	text, err := os.ReadFile(h.joinFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var j Join
	if err := json.Unmarshal(text, &j); err != nil {
		return nil, fmt.Errorf("%s: %w", h.joinFile(), err)
	}
	if err := j.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", h.joinFile(), err)
	}
	return &j, nil
}

// Join has the node join at its next start.
func (h Home) Join(j Join) error {
	text, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(h.joinFile(), append(text, '\n'), 0o600)
}

// Joined ends joining: the node has an order of its own.
func (h Home) Joined() error { return os.Remove(h.joinFile()) }

// HasOrder tells that the home holds order blocks or their state.
func (h Home) HasOrder() (bool, error) { return files.HasOrder(h.Data()) }

// DropOrder removes the order blocks and their state. It refuses while a node runs on the home.
func (h Home) DropOrder() error { return files.DropOrder(h.Data()) }
