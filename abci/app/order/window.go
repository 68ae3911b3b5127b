package order

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/google/btree"

	"github.com/chainify-db/chainify/abci/wire"
)

// Window remembers the ids of accepted transactions until they expire, so that none is accepted
// twice. It is the one part of the state that is not copied: it may hold millions of ids, of about
// 50 bytes each. It changes in Settle alone.
type Window struct {
	height int64 // of the last order block it knows
	// byExpiry holds ids by the valid_until_height of their transactions. Ids that expire at one
	// height go together, with their memory. They are sorted, so that a snapshot reads them as they
	// stand.
	byExpiry map[uint64]*btree.BTreeG[wire.TxID]
}

// windowDegree makes nodes of two kilobytes.
const windowDegree = 32

// Accepted is an accepted transaction's id with the last height at which it could be accepted
// again.
type Accepted struct {
	ID         wire.TxID
	ValidUntil uint64
}

func (a Accepted) compare(b Accepted) int {
	return cmp.Or(cmp.Compare(a.ValidUntil, b.ValidUntil), bytes.Compare(a.ID[:], b.ID[:]))
}

func newWindow(height int64) *Window {
	return &Window{height: height, byExpiry: map[uint64]*btree.BTreeG[wire.TxID]{}}
}

func (w *Window) has(a Accepted) bool {
	ids := w.byExpiry[a.ValidUntil]
	return ids != nil && ids.Has(a.ID)
}

func (w *Window) add(a Accepted) {
	ids := w.byExpiry[a.ValidUntil]
	if ids == nil {
		ids = btree.NewG(windowDegree, func(a, b wire.TxID) bool { return bytes.Compare(a[:], b[:]) < 0 })
		w.byExpiry[a.ValidUntil] = ids
	}
	ids.ReplaceOrInsert(a.ID)
}

// settle adds the transactions accepted by the order block at height, and forgets those that can no
// longer be replayed.
func (w *Window) settle(height int64, added []Accepted) {
	for _, a := range added {
		w.add(a)
	}
	for expired := uint64(w.height) + 1; expired <= uint64(height); expired++ {
		delete(w.byExpiry, expired)
	}
	w.height = height
}

// after returns the ids that expire after a height, by expiry and id, and their number.
func (w *Window) after(height int64) (count int, all iter.Seq[Accepted]) {
	expiries := slices.DeleteFunc(slices.Sorted(maps.Keys(w.byExpiry)), func(expiry uint64) bool { return expiry <= uint64(height) })
	for _, expiry := range expiries {
		count += w.byExpiry[expiry].Len()
	}
	return count, func(yield func(Accepted) bool) {
		for _, expiry := range expiries {
			more := true
			w.byExpiry[expiry].Ascend(func(id wire.TxID) bool {
				more = yield(Accepted{id, expiry})
				return more
			})
			if !more {
				return
			}
		}
	}
}
