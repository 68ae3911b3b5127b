package fabric

import (
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/report"
)

// fate is the end of a fired transaction.
type fate int

const (
	succeeded  fate = iota
	conflicted      // in its block
	early           // the gateway knew that it was stale, and did not have it ordered
	simulated       // it lost in its client's database, against a block
	dropped         // too many waited to be ordered
	fates
)

const firedDetail = "fired"

var fateNames = [fates]string{"succeeded", "conflicted", "stale_before_order", "lost_in_simulation", "dropped"}

// meter counts transactions between two times, by their ends. It is safe for concurrent use.
//
// Transactions end in blocks, and as few as two blocks may end in a second. So the rate is over
// whole intervals: from the last end before the first of the two times to the last end before the
// second.
type meter struct {
	from, until time.Time

	mu           sync.Mutex
	fired        int
	ends         [fates]int
	before, last time.Time // ends in a block; zero: none
}

func (m *meter) fire(at time.Time) {
	if at.Before(m.from) || !at.Before(m.until) {
		return
	}
	m.mu.Lock()
	m.fired++
	m.mu.Unlock()
}

func (m *meter) end(at time.Time, of fate, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inBlock := of == succeeded || of == conflicted
	switch {
	case at.Before(m.from):
		if inBlock && at.After(m.before) {
			m.before = at
		}
	case at.Before(m.until):
		m.ends[of] += n
		if inBlock && at.After(m.last) {
			m.last = at
		}
	}
}

// seconds is the time that the blocks which were counted took.
func (m *meter) seconds() float64 {
	begin := m.from
	if !m.before.IsZero() {
		begin = m.before
	}
	if m.last.IsZero() {
		return m.until.Sub(begin).Seconds()
	}
	return m.last.Sub(begin).Seconds()
}

// outcome tells the end of an ordered transaction. Block 0 stands for none.
func (m *meter) outcome(at time.Time, o *wire.Outcome) {
	switch {
	case o.Succeeded:
		m.end(at, succeeded, 1)
	case o.Block == 0:
		m.end(at, early, 1)
	default:
		m.end(at, conflicted, 1)
	}
}

// sample is what was counted, by the second.
func (m *meter) sample(repetition int) report.Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	seconds := m.seconds()
	each := func(n int) float64 { return float64(n) / seconds }
	s := report.Sample{
		Repetition: repetition, Value: each(m.ends[succeeded]), Transactions: m.ends[succeeded], Seconds: seconds,
		Detail: map[string]float64{firedDetail: float64(m.fired) / m.until.Sub(m.from).Seconds()},
	}
	for end := conflicted; end < fates; end++ {
		s.Detail[fateNames[end]] = each(m.ends[end])
	}
	return s
}
