package effects

import (
	"math"

	"github.com/chainify-db/chainify/abci/wire"
)

// Unknown are the executions on which this organisation may have voted by a node that is lost, and
// of whose votes no log is left. The zero value holds none.
type Unknown struct {
	// Number is that of a ledger block. Executions of blocks before it are unknown, and those of
	// its own up to effect round Round. None behind it was: one block at most is pending (A3).
	Number uint64
	Round  uint32
}

// Everything holds all executions: as long as nobody knows when the lost node voted last.
func Everything() Unknown { return UpTo(math.MaxUint64) }

// UpTo holds all executions of blocks up to a number.
func UpTo(number uint64) Unknown { return Unknown{number, math.MaxUint32} }

// Holds tells whether an execution is unknown.
func (u Unknown) Holds(k wire.Key) bool {
	return k.Number < u.Number || k.Number == u.Number && k.Number > 0 && k.Round <= u.Round
}

// votesUnknown takes what is unknown from now on, and own votes that the order shows. It votes on
// what was executed when more was unknown.
func (c *Core) votesUnknown(e VotesUnknown) {
	c.unknown = e.Unknown
	c.ballots.Forget(func(b ballot) bool { return c.unknown.Holds(b.Key()) })
	for _, v := range e.Voted {
		c.ballots.Take(ballot{vote: v}, ballotsMax, nil)
	}
	if o := c.open; o != nil && !o.adopted {
		c.cast(ballot{vote: c.effectsVote(o.key, o.hash, o.parts), hash: o.hash, known: true})
	}
	if !c.unknown.Holds(c.shelved) && c.ballots.Of(c.shelved) == nil {
		c.shelved = wire.Key{} // it is executed again
	}
}
