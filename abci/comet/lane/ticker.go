package lane

import (
	"bytes"
	"time"

	"github.com/cometbft/cometbft/consensus"
	cstypes "github.com/cometbft/cometbft/consensus/types"
)

// wait is CometBFT's timeoutInfo, a name that it does not export.
type wait = struct {
	Duration time.Duration         `json:"duration"`
	Height   int64                 `json:"height"`
	Round    int32                 `json:"round"`
	Step     cstypes.RoundStepType `json:"step"`
}

// ticker is CometBFT's, which ends at once the waits that the lane says are in vain. T is
// CometBFT's timeoutInfo.
type ticker[T ~wait] struct {
	consensus.TimeoutTicker
	schedule func(T)
	vain     func(wait) bool
}

// newTicker makes a ticker. The compiler infers T from schedule, the inner one's method.
func newTicker[T ~wait](inner consensus.TimeoutTicker, schedule func(T), vain func(wait) bool) *ticker[T] {
	return &ticker[T]{TimeoutTicker: inner, schedule: schedule, vain: vain}
}

// ScheduleTimeout implements consensus.TimeoutTicker.
func (t *ticker[T]) ScheduleTimeout(of T) {
	w := wait(of)
	if t.vain(w) {
		w.Duration = 0
	}
	t.schedule(T(w))
}

// vain reports whether a wait is for a missing proposer: for its proposal, or, when more than two
// thirds precommitted nothing in its turn, for further precommits. It is called on the consensus
// routine, as look is.
func (l *Lane) vain(w wait) bool {
	if w.Step != cstypes.RoundStepPropose && w.Step != cstypes.RoundStepPrecommitWait {
		return false
	}
	rs := &l.state.RoundState
	if rs.Height != w.Height || rs.Round != w.Round {
		return false
	}
	proposer := rs.Validators.GetProposer().Address
	t := turn{height: w.Height, round: w.Round, proposer: string(proposer), validators: rs.Validators.Size()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.Step == cstypes.RoundStepPropose {
		l.absence.begin(t)
	}
	if rs.Proposal != nil {
		l.absence.heard(t.proposer)
	}
	if w.Step == cstypes.RoundStepPrecommitWait {
		id, decided := rs.Votes.Precommits(w.Round).TwoThirdsMajority()
		if !decided || !id.IsZero() {
			return false
		}
		if l.absence.lost(t) {
			l.counters.missed.Add(1)
		}
	}
	if bytes.Equal(proposer, l.own) || !l.absence.skips(t) {
		return false
	}
	if w.Step == cstypes.RoundStepPropose {
		l.counters.skipped.Add(1)
	}
	return true
}

// heard is told of messages that a validator signed. They need not be checked: a forged one only
// brings the wait back.
func (l *Lane) heard(validator []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.absence.heard(string(validator))
}
