package effects

import (
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// ladder is how far recovery has come for one block: retry, then repair by each of the steps, then
// adopt, then excluded.
type ladder struct {
	climb
	number     uint64
	step       step
	needRepair bool
	deviated   bool // found is compared with the certified hash, and differed
	found      wire.Hash
	rows       int          // put right by repair
	helped     backend.Step // the last that put some right
	repairs    int
	// sound: a step has shown all tables to be as certified before the block.
	sound bool
	// unadoptable: with sound tables, or as the last resort, the block could not be adopted, and
	// nothing was put right since.
	unadoptable bool
	fails       string // DEPLOY transactions that failed when the block was tried again
	sinceMS     int64
}

type step uint8

const (
	untried  step = iota // the block's first execution counts
	retried              // the next execution is a retry
	repaired             // the next execution follows a repair
	adopting             // the block is not executed again, but taken from another organisation
)

// round begins a further effect round of the block. own is the vote of this organisation in the
// round before. The votes were split, so this database may be the one that deviates, unless its
// execution did not come to the end.
func (l *ladder) round(own *ballot) {
	l.needRepair = l.number > 1 && (own == nil || own.vote.Kind != wire.VoteStuck)
	l.step, l.deviated = untried, false
	if own != nil && own.known {
		l.found = own.hash
	}
}

// deviates follows an execution that came out otherwise than agreed, where adopts does not. It
// climbs: retry, repair, repair again; false: nothing is left to try.
func (l *ladder) deviates(found wire.Hash, repairsMax int) (Incident, bool) {
	if l.step == untried {
		l.step = retried
		if l.deviated {
			return RecoveryEscalates, true
		}
		l.deviated, l.found = true, found
		return Deviation, true
	}
	if l.exhausted(repairsMax) {
		return NodeExcluded, false
	}
	l.step, l.needRepair, l.by = repaired, true, 0 // what a step changed may let a cheaper one help
	return RecoveryEscalates, true
}

// adopts takes the step Adopt, where it is its turn: the tables are as certified, or no repair is
// left. With sound they are, beside what the ladder knows.
func (l *ladder) adopts(repairsMax int, sound bool) bool {
	if l.step == untried || l.unadoptable || !sound && !l.sound && !l.exhausted(repairsMax) {
		return false
	}
	l.step = adopting
	return true
}

// cannotAdopt follows a block that cannot be adopted, for this reason. Where the tables were only
// believed to be sound, it is tried again after a repair.
func (l *ladder) cannotAdopt(repairsMax int, why string) {
	l.unadoptable = l.sound || l.exhausted(repairsMax)
	l.failed(why)
}

// exhausted: no repair is left. Before block 1 nothing is on the ledger.
func (l *ladder) exhausted(repairsMax int) bool { return l.number == 1 || l.repairs == repairsMax }

// repaired follows a step that put rows right, or found all as certified: the block is executed
// again.
func (l *ladder) repaired(by backend.Step, rows int) {
	if rows > 0 {
		l.helped = by
	}
	l.needRepair = false
	l.sound = l.sound || !by.InPart()
	l.unadoptable = l.unadoptable && rows == 0
	l.rows += rows
	l.repairs++
}

// recovers tells that the block is not executed for the first time.
func (l *ladder) recovers(number uint64) bool {
	return l.number == number && (l.needRepair || l.step != untried)
}

// cure returns the record of a cured deviation once the block has its certified effects; false: it
// did not deviate.
func (l *ladder) cure(number uint64, hash wire.Hash, nowMS int64) (RecordDeviation, bool) {
	if l.number != number || l.rows == 0 && (!l.deviated || l.found == hash) {
		return RecordDeviation{}, false
	}
	r := RecordDeviation{Number: number, Expected: hash, Found: l.found, CuredBy: "retry", TookMS: nowMS - l.sinceMS}
	switch {
	case l.step == adopting:
		r.CuredBy = curedBy[backend.Adopt]
	case l.rows > 0:
		r.CuredBy = curedBy[l.helped]
	}
	return r, true
}

// curedBy names what cured a deviation, in chainify.deviations.
var curedBy = map[backend.Step]string{
	backend.Definitions: "definitions", backend.Reindex: "reindex", backend.Rows: "repair", backend.Replay: "replay", backend.Rebase: "rebase", backend.State: "state", backend.Adopt: "adopt", backend.Full: "full",
}
