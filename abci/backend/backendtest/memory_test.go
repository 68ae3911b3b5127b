package backendtest

import (
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

func TestMemoryConforms(t *testing.T) {
	Run(t, func(*testing.T) Subject {
		db := NewDatabase()
		block := func(n uint64) *wire.OrderedBlock {
			return &wire.OrderedBlock{Number: n, Height: int64(n), IDs: []wire.TxID{{byte(n), 1}, {byte(n), 2}}}
		}
		return Subject{
			Open:          func(*testing.T) backend.Backend { return Open(db, time.Second) },
			Block:         block,
			Tamper:        func(*testing.T) { db.Tamper("x") },
			TamperBoth:    func(*testing.T) { db.TamperUntil(backend.Replay, "x") },
			TamperHistory: func(*testing.T) { db.TamperHistory("x") },
			TamperPast:    func(*testing.T) { db.FalsifyPast(2) },
			Scrub:         func(*testing.T) { db.Scrub() },
			Stick: func(n uint64) (*wire.OrderedBlock, func()) {
				db.StickAt(0, true)
				return block(n), func() { db.StickAt(0, false) }
			},
		}
	})
}
