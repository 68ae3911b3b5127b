package effects

import (
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// ladder is how far recovery has come for one block: retry, then repair by each of the steps, then
// excluded.
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
	sinceMS    int64
}

type step uint8

const (
	untried  step = iota // the block's first execution counts
	retried              // the next execution is a retry
	repaired             // the next execution follows a repair
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

// deviates follows an execution that came out otherwise than agreed. It climbs: retry, repair,
// repair again; false: nothing is left to try. Before block 1 nothing is on the ledger, so nothing
// can be repaired.
func (l *ladder) deviates(found wire.Hash, repairsMax int) (Incident, bool) {
	if l.step == untried {
		l.step = retried
		if l.deviated {
			return RecoveryEscalates, true
		}
		l.deviated, l.found = true, found
		return Deviation, true
	}
	if l.number == 1 || l.repairs == repairsMax {
		return NodeExcluded, false
	}
	l.step, l.needRepair, l.by = repaired, true, 0 // what a step changed may let a cheaper one help
	return RecoveryEscalates, true
}

// repaired follows a step that put rows right, or found all as certified: the block is executed
// again.
func (l *ladder) repaired(by backend.Step, rows int) {
	if rows > 0 {
		l.helped = by
	}
	l.needRepair = false
	l.rows += rows
	l.repairs++
}

// recovers tells that the block is not executed for the first time.
func (l *ladder) recovers(number uint64) bool {
	return l.number == number && (l.needRepair || l.step != untried)
}

// cure is what is recorded when the block came out right; false: it did not deviate.
func (l *ladder) cure(number uint64, hash wire.Hash, nowMS int64) (RecordDeviation, bool) {
	if l.number != number || l.rows == 0 && (!l.deviated || l.found == hash) {
		return RecordDeviation{}, false
	}
	r := RecordDeviation{Number: number, Expected: hash, Found: l.found, CuredBy: "retry", TookMS: nowMS - l.sinceMS}
	if l.rows > 0 {
		r.CuredBy = curedBy[l.helped]
	}
	return r, true
}

// curedBy names what cured a deviation, in chainify.deviations.
var curedBy = map[backend.Step]string{
	backend.Definitions: "definitions", backend.Reindex: "reindex", backend.Rows: "repair", backend.Replay: "replay", backend.Rebase: "rebase", backend.State: "state", backend.Full: "full",
}
