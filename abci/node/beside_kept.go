package node

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"sync"

	dbm "github.com/cometbft/cometbft-db"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// Keys in the node's own store, beside those of memory.
const (
	bodyKey     = "node/body/"
	ownVotesKey = "node/votes"
)

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

// ownVotes are this organisation's newest votes on effects, one for each execution (E5).
type ownVotes struct {
	db dbm.DB

	mu   sync.Mutex // guards all below
	kept [][]byte   // encoded, the oldest first
	of   map[wire.Key]bool
}

// open reads the stored votes and transactions.
func (o *ownVotes) open() ([]wire.EffectVote, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	raw, err := o.db.Get([]byte(ownVotesKey))
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &o.kept)
	}
	if err != nil {
		return nil, fmt.Errorf("read own votes: %w", err)
	}
	o.of = map[wire.Key]bool{}
	out := make([]wire.EffectVote, len(o.kept))
	for i, one := range o.kept {
		if out[i], err = wire.DecodeEffectVote(one); err != nil {
			return nil, fmt.Errorf("read own votes: %w", err)
		}
		o.of[out[i].Key()] = true
	}
	return out, nil
}

// keep waits for the disk, once for each execution.
func (o *ownVotes) keep(raw []byte) error {
	vote, err := wire.DecodeEffectVote(raw)
	if err != nil {
		return fmt.Errorf("keep own vote: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[vote.Key()] {
		return nil
	}
	kept := append(o.kept[max(0, len(o.kept)-votedMax+1):len(o.kept):len(o.kept)], raw)
	text, err := json.Marshal(kept)
	if err == nil {
		err = o.db.SetSync([]byte(ownVotesKey), text)
	}
	if err != nil {
		return fmt.Errorf("keep own vote: %w", err)
	}
	o.kept, o.of[vote.Key()] = kept, true
	if len(o.of) > 2*votedMax { // those whose votes are kept no more
		o.of = map[wire.Key]bool{}
		for _, one := range kept {
			if v, err := wire.DecodeEffectVote(one); err == nil {
				o.of[v.Key()] = true
			}
		}
	}
	return nil
}
