package effects

// How long nobody is asked for a block after that failed; doubled from the first to the second.
const (
	pastPauseMinMS int64 = 1_000
	pastPauseMaxMS int64 = 10 * 60_000
)

// The time that blocks of the past leave to those that are executed: three times that of the last
// one, and no less than this.
const (
	pastShare    int64 = 3
	pastGapMinMS int64 = 50
)

// past is how far asking for blocks has come that are not kept as agreed.
type past struct {
	rounds  int   // how often nobody told one, in a row
	afterMS int64 // none is asked for before
	turnMS  int64 // until then blocks that are executed come first
}

// next is the block to ask for, one that is certified at the position or before: one that could not
// be had makes way for the next.
func (p *past) next(nowMS int64, blocks []uint64, certified uint64) (uint64, bool) {
	if len(blocks) == 0 || nowMS < p.afterMS {
		return 0, false
	}
	n := blocks[p.rounds%len(blocks)]
	return n, n <= certified
}

// told ends the row of blocks that could not be had.
func (p *past) told() { p.rounds, p.afterMS = 0, 0 }

// untold follows a block that nobody told, and reports whether it is the first in a row.
func (p *past) untold(nowMS int64) bool {
	p.afterMS = nowMS + doubled(pastPauseMinMS, p.rounds, pastPauseMaxMS)
	p.rounds++
	return p.rounds == 1
}

// leaves leaves the database to the blocks that are executed, after an operation that took so long.
func (p *past) leaves(nowMS, tookMS int64) { p.turnMS = nowMS + max(pastShare*tookMS, pastGapMinMS) }
