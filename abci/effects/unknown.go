package effects

import (
	"math"

	"github.com/chainify-db/chainify/abci/wire"
)

// Unknown are the executions on which this organisation may have voted by a node that is lost, and
// of whose votes no log is left. The zero value holds none.
type Unknown struct {
	// Pending is the number of a ledger block. Executions of blocks before it are unknown, and
	// those of its own up to effect round Round.
	Pending uint64
	Round   uint32
	// Ordered is the number of the last ledger block ordered. Of blocks between Pending and this
	// one the executions of round 0 are unknown.
	Ordered uint64
}

// Everything holds all executions: as long as nobody knows when the lost node voted last.
func Everything() Unknown { return Unknown{Pending: math.MaxUint64} }

// Holds tells whether an execution is unknown.
func (u Unknown) Holds(k wire.Key) bool {
	return k.Number < u.Pending || k.Number == u.Pending && k.Round <= u.Round && u.Pending > 0 ||
		k.Number <= u.Ordered && k.Round == 0
}

// votesUnknown takes what is unknown from now on, and own votes that the order shows.
func (c *Core) votesUnknown(e VotesUnknown) {
	c.unknown = e.Unknown
	c.ballots.Forget(func(b ballot) bool { return c.unknown.Holds(b.Key()) })
	for _, v := range e.Voted {
		c.ballots.Take(ballot{vote: v}, ballotsMax, nil)
	}
}
