package order

import "github.com/chainify-db/chainify/abci/wire"

// Window remembers the ids of accepted transactions until they expire, so that none is accepted
// twice. It is the one part of the state that is not copied: it may hold millions of ids, of about
// 60 bytes each. It changes in Settle alone.
type Window struct {
	height int64 // of the last order block it knows
	// byExpiry holds ids by the valid_until_height of their transactions, which they are hashes of;
	// those that expire go together, and their memory with them. Only ever asked for one height,
	// never ranged over.
	byExpiry map[uint64]map[wire.TxID]struct{}
}

// Accepted is an accepted transaction's id with the last height at which it could be accepted
// again.
type Accepted struct {
	ID         wire.TxID
	ValidUntil uint64
}

func newWindow(height int64) *Window {
	return &Window{height: height, byExpiry: map[uint64]map[wire.TxID]struct{}{}}
}

func (w *Window) has(a Accepted) bool {
	_, seen := w.byExpiry[a.ValidUntil][a.ID]
	return seen
}

// settle adds what the order block at height accepted and forgets what can no longer be replayed.
func (w *Window) settle(height int64, added []Accepted) {
	for _, a := range added {
		ids := w.byExpiry[a.ValidUntil]
		if ids == nil {
			ids = map[wire.TxID]struct{}{}
			w.byExpiry[a.ValidUntil] = ids
		}
		ids[a.ID] = struct{}{}
	}
	for expired := uint64(w.height) + 1; expired <= uint64(height); expired++ {
		delete(w.byExpiry, expired)
	}
	w.height = height
}
