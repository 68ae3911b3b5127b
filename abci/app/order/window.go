package order

import "github.com/chainify-db/chainify/abci/wire"

// Window remembers the ids of accepted transactions until they expire, so that none is accepted twice. It is the
// one part of the state that is not copied: it may hold millions of ids. It changes in Settle alone.
type Window struct {
	height   int64 // of the last order block it knows
	ids      map[wire.TxID]struct{}
	byExpiry map[uint64][]wire.TxID // only ever asked for one height, never ranged over
}

// Accepted is an accepted transaction's id with the last height at which it could be accepted again.
type Accepted struct {
	ID         wire.TxID
	ValidUntil uint64
}

func newWindow(height int64) *Window {
	return &Window{height: height, ids: map[wire.TxID]struct{}{}, byExpiry: map[uint64][]wire.TxID{}}
}

func (w *Window) has(id wire.TxID) bool {
	_, seen := w.ids[id]
	return seen
}

// settle adds what the order block at height accepted and forgets what can no longer be replayed.
func (w *Window) settle(height int64, added []Accepted) {
	for _, a := range added {
		w.ids[a.ID] = struct{}{}
		w.byExpiry[a.ValidUntil] = append(w.byExpiry[a.ValidUntil], a.ID)
	}
	for expired := uint64(w.height) + 1; expired <= uint64(height); expired++ {
		for _, id := range w.byExpiry[expired] {
			delete(w.ids, id)
		}
		delete(w.byExpiry, expired)
	}
	w.height = height
}
