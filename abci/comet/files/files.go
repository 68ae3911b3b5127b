// Package files reads and writes those files of a node's home whose form is CometBFT's: the
// genesis, the node key and the stores. Keys that sign are in package signer.
package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	dbm "github.com/cometbft/cometbft-db"
	"github.com/cometbft/cometbft/crypto/ed25519"
	cometjson "github.com/cometbft/cometbft/libs/json"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/types"
)

// Genesis is CometBFT's genesis file, read and checked.
type Genesis = types.GenesisDoc

// Validator is a founding validator. Name is that of its organisation.
type Validator struct {
	Name  string
	Key   []byte // Ed25519
	Power int64
}

// Founding has the contents of a genesis file.
type Founding struct {
	ChainID       string
	Time          time.Time
	BlockBytesMax int64
	Validators    []Validator
	AppState      []byte // JSON
}

// effectsHeight is from where on votes have extensions: effect votes travel in them.
const effectsHeight = 1

// Encode gives the file. The same founding gives the same bytes.
func (f Founding) Encode() ([]byte, error) {
	doc := types.GenesisDoc{ChainID: f.ChainID, GenesisTime: f.Time, InitialHeight: 1, ConsensusParams: types.DefaultConsensusParams(), AppState: f.AppState}
	doc.ConsensusParams.Block.MaxBytes = f.BlockBytesMax
	doc.ConsensusParams.ABCI.VoteExtensionsEnableHeight = effectsHeight // never changed later
	for _, v := range f.Validators {
		key := ed25519.PubKey(v.Key)
		doc.Validators = append(doc.Validators, types.GenesisValidator{Address: key.Address(), PubKey: key, Power: v.Power, Name: v.Name})
	}
	if err := doc.ValidateAndComplete(); err != nil {
		return nil, fmt.Errorf("genesis: %w", err)
	}
	text, err := cometjson.MarshalIndent(&doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode genesis: %w", err)
	}
	return append(text, '\n'), nil
}

// ReadGenesis reads a genesis file. One under which effects could not be voted on is an error.
func ReadGenesis(path string) (*Genesis, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc, err := types.GenesisDocFromJSON(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if height := doc.ConsensusParams.ABCI.VoteExtensionsEnableHeight; height != effectsHeight {
		return nil, fmt.Errorf("%s: vote extensions start at height %d, want %d: effects travel in them", path, height, effectsHeight)
	}
	return doc, nil
}

// NodeKey names a node among its peers, by its ID.
type NodeKey = p2p.NodeKey

// ReadNodeKey reads a node key.
func ReadNodeKey(path string) (*NodeKey, error) {
	key, err := p2p.LoadNodeKey(path)
	if err != nil {
		return nil, fmt.Errorf("read node key: %w", err)
	}
	return key, nil
}

// MakeNodeKey makes a node key where there is none, and reads it.
func MakeNodeKey(path string) (*NodeKey, error) {
	key, err := p2p.LoadOrGenNodeKey(path)
	if err != nil {
		return nil, fmt.Errorf("make node key: %w", err)
	}
	return key, nil
}

// orderStores are those that CometBFT makes anew of a snapshot. The validator's last signature and
// the log of the consensus stay: the node must not contradict what it signed.
var orderStores = []string{"blockstore.db", "state.db", "evidence.db", "tx_index.db"}

// HasOrder tells that a directory holds order blocks or their state.
func HasOrder(dir string) (bool, error) {
	for _, name := range orderStores[:2] {
		_, err := os.Stat(filepath.Join(dir, name))
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return err == nil, err
		}
	}
	return false, nil
}

// DropOrder removes the order blocks and their state. It refuses while a node has them open.
func DropOrder(dir string) error {
	for _, name := range orderStores {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			continue // it is not there
		}
		db, err := dbm.NewGoLevelDB(strings.TrimSuffix(name, ".db"), dir)
		if err != nil {
			return fmt.Errorf("remove order blocks (does a node run on this home?): %w", err)
		}
		if err := db.Close(); err != nil {
			return err
		}
	}
	for _, name := range orderStores {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
