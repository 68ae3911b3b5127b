package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/chainify-db/chainify/abci/wire"
)

const (
	// pruneStep is how many order blocks go at a time: CometBFT waits for the disk at each.
	pruneStep = 100
	// pruneMost bounds how long a block waits for others to go, after the setting was changed.
	pruneMost = 1000
)

// Retention says which order blocks this node keeps (docs/operator/retention.md). It concerns this
// node alone, and is no part of the order.
type Retention struct {
	// Keep is how many of the newest order blocks stay; 0: all of them.
	Keep int64
	// Snapshots is how many snapshots of the order stay, for nodes that join; 0: none is kept.
	Snapshots int
	// Executed is the ledger block that the organisation's database has; nil: it has none.
	Executed func() uint64
	// Oldest is the oldest order block in CometBFT's block store.
	Oldest func() int64
	// Aged tells that CometBFT needs a block no more as evidence against a validator. Then it needs
	// none before it either.
	Aged func(height, last int64) bool
}

// pruneTo returns the order block below which all may go, 0 when none or few would. The block
// `needed` and those after it stay: from there on the database may have to execute again.
// Cost: one call of aged where nothing goes, else ten.
func pruneTo(oldest, last, keep, needed int64, aged func(height int64) bool) int64 {
	limit := min(last-keep+1, needed, oldest+pruneMost)
	if keep == 0 || limit < oldest+pruneStep || !aged(oldest+pruneStep-1) {
		return 0
	}
	fresh := sort.Search(int(limit-oldest), func(i int) bool { return !aged(oldest + int64(i)) })
	return oldest + int64(fresh)
}

// retain returns the order block below which CometBFT drops all, and drops what belongs to them
// here; 0: nothing goes.
func (a *App) retain(last int64) (int64, error) {
	r := a.opt.Retention
	if r.Keep == 0 {
		return 0, nil
	}
	executed := a.LastCertified()
	if r.Executed != nil {
		executed = min(executed, r.Executed())
	}
	needed, err := a.opt.Store.neededFrom(executed)
	if err != nil {
		return 0, fmt.Errorf("find what may go: %w", err)
	}
	to := pruneTo(r.Oldest(), last, r.Keep, needed, func(h int64) bool { return r.Aged(h, last) })
	if to == 0 {
		return 0, nil
	}
	joinable, err := a.opt.Store.newestJoinable(a.LastCertified())
	if err != nil {
		return 0, err
	}
	if joinable > 0 && to > joinable { // whoever joins by it needs the blocks from there on
		if to = joinable; to < r.Oldest()+pruneStep {
			return 0, nil
		}
	}
	return to, a.opt.Store.prune(to)
}

// neededFrom is the first order block that a database needs which has executed a ledger block. It
// is 0, for all of them, when the database has executed none, or one that went already, as from an
// old backup.
func (s *Store) neededFrom(executed uint64) (int64, error) {
	if executed == 0 {
		return 0, nil
	}
	record, err := s.ledgerBlock(executed)
	if errors.Is(err, wire.ErrPruned) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return record.Height, nil
}

// prune drops the records and certificates of ledger blocks in order blocks below one. Not more at
// a time than order blocks go: the rest goes the next time.
func (s *Store) prune(below int64) error {
	it, err := s.db.Iterator(numberKey('b', 0), numberKey('b', math.MaxUint64))
	if err != nil {
		return fmt.Errorf("read ledger blocks: %w", err)
	}
	defer it.Close()
	batch := s.db.NewBatch()
	defer batch.Close()
	w := &writer{batch: batch}
	for i := 0; it.Valid() && i < pruneMost; i++ {
		var record ledgerRecord
		if err := json.Unmarshal(it.Value(), &record); err != nil {
			return fmt.Errorf("decode %q: %w", it.Key(), err)
		}
		if record.Height >= below {
			break
		}
		key := append([]byte{}, it.Key()...)
		w.delete(key)
		w.delete(append([]byte{'c'}, key[1:]...))
		it.Next()
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("read ledger blocks: %w", err)
	}
	kept, err := s.snapshots()
	if err != nil {
		return err
	}
	for _, k := range kept {
		if k.height < below { // no node has all that comes after it
			k.drop(w)
		}
	}
	if w.err != nil {
		return w.err
	}
	return batch.Write()
}

// missing is the error for a ledger block that is not in the store.
func (s *Store) missing(what string, number uint64) error {
	it, err := s.db.Iterator(numberKey('b', 0), numberKey('b', math.MaxUint64))
	if err != nil {
		return fmt.Errorf("read ledger blocks: %w", err)
	}
	defer it.Close()
	joined, err := s.joined()
	if err != nil {
		return err
	}
	if number <= joined.Ordered || it.Valid() && string(it.Key()) > string(numberKey('b', number)) {
		return fmt.Errorf("%s %d: %w", what, number, wire.ErrPruned)
	}
	return fmt.Errorf("%s %d is not in the store", what, number)
}
