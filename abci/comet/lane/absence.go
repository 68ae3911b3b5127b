package lane

// fullTurnEvery is of how many turns of a missing validator one is waited for in full. So one that
// is there, though no vote of it comes in time, gets turns, too.
const fullTurnEvery = 256

// turn is a validator's to propose, in a round of a height.
type turn struct {
	height     int64
	round      int32
	proposer   string // its address
	validators int    // how many there are
}

// absence knows which validators are missing: one of their turns was lost, and nothing was heard of
// them since it began. It holds no clock and no lock.
type absence struct {
	now     turn                // that began last
	silent  bool                // its proposer, since it began
	missing map[string]struct{} // by address
}

// begin is told of each turn when its proposal is first waited for.
func (a *absence) begin(t turn) { a.now, a.silent = t, true }

// heard is told of each message that a validator signed.
func (a *absence) heard(validator string) {
	delete(a.missing, validator)
	if a.now.proposer == validator {
		a.silent = false
	}
}

// lost is told of each turn in which more than two thirds precommitted no block. It reports whether
// the turn was missed: its proposer was silent all the time. It is missing from now on.
func (a *absence) lost(t turn) (missed bool) {
	if _, known := a.missing[t.proposer]; known || a.now != t || !a.silent {
		return false
	}
	if a.missing == nil || len(a.missing) >= t.validators { // some are validators no more
		a.missing = map[string]struct{}{}
	}
	a.missing[t.proposer] = struct{}{}
	return true
}

// skips reports whether a turn is not waited for: its proposer is missing. Once a height had as
// many rounds as there are validators, each further turn is waited for. CometBFT's waits grow from
// round to round then, until they are long enough for any network. The full turns of missing
// validators are in the same heights at all nodes.
func (a *absence) skips(t turn) bool {
	_, missing := a.missing[t.proposer]
	full := t.round == 0 && t.height/int64(t.validators)%fullTurnEvery == 0
	return missing && int(t.round) < t.validators && !full
}
