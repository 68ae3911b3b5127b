package comet

import (
	"encoding/binary"
	"fmt"
	"math"

	dbm "github.com/cometbft/cometbft-db"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
)

// bodyKey begins the keys of bodies in the node's own store.
const bodyKey = "node/body/"

// dropMost bounds how many blocks are dropped at a time.
const dropMost = 1000

// bodies are the transactions of the newest order blocks, from that of the pending ledger block on.
// They are written before the state of their block, in the same store, so no crash leaves one
// without the other.
type bodies struct {
	db     dbm.DB
	oldest int64 // that is kept; of the consensus connection alone
}

func bodyOf(height int64) []byte {
	return binary.BigEndian.AppendUint64([]byte(bodyKey), uint64(height))
}

// open finds the oldest that is kept.
func (b *bodies) open() error {
	it, err := b.db.Iterator(bodyOf(0), bodyOf(math.MaxInt64))
	if err != nil {
		return fmt.Errorf("read kept blocks: %w", err)
	}
	defer it.Close()
	b.oldest = math.MaxInt64
	if it.Valid() {
		b.oldest = int64(binary.BigEndian.Uint64(it.Key()[len(bodyKey):]))
	}
	return it.Error()
}

// keep keeps a block and drops those below another one. It does not wait for the disk: CometBFT
// gives again what a crash of the machine took.
func (b *bodies) keep(height int64, txs [][]byte, below int64) error {
	raw, err := (&cmtproto.Data{Txs: txs}).Marshal()
	if err != nil {
		return fmt.Errorf("keep block %d: %w", height, err)
	}
	batch := b.db.NewBatch()
	defer batch.Close()
	err = batch.Set(bodyOf(height), raw)
	first := min(b.oldest, height)
	for last := min(below, height, first+dropMost); first < last && err == nil; first++ {
		err = batch.Delete(bodyOf(first))
	}
	if err == nil {
		err = batch.Write()
	}
	if err != nil {
		return fmt.Errorf("keep block %d: %w", height, err)
	}
	b.oldest = first
	return nil
}

// has tells whether a block is kept.
func (b *bodies) has(height int64) bool {
	found, err := b.db.Has(bodyOf(height))
	return found && err == nil
}

// load reads a block; nil: it is not kept.
func (b *bodies) load(height int64) ([][]byte, error) {
	raw, err := b.db.Get(bodyOf(height))
	if err != nil {
		return nil, fmt.Errorf("read kept block %d: %w", height, err)
	}
	if raw == nil {
		return nil, nil
	}
	var data cmtproto.Data
	if err := data.Unmarshal(raw); err != nil {
		return nil, fmt.Errorf("read kept block %d: %w", height, err)
	}
	return append([][]byte{}, data.Txs...), nil
}
