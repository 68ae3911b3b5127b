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
type meter struct {
	from, until time.Time

	mu    sync.Mutex
	fired int
	ends  [fates]int
}

func (m *meter) counts(at time.Time) bool { return !at.Before(m.from) && at.Before(m.until) }

func (m *meter) fire(at time.Time) {
	if !m.counts(at) {
		return
	}
	m.mu.Lock()
	m.fired++
	m.mu.Unlock()
}

func (m *meter) end(at time.Time, of fate, n int) {
	if !m.counts(at) {
		return
	}
	m.mu.Lock()
	m.ends[of] += n
	m.mu.Unlock()
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
func (m *meter) sample(repetition, seconds int) report.Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	each := func(n int) float64 { return float64(n) / float64(seconds) }
	s := report.Sample{
		Repetition: repetition, Value: each(m.ends[succeeded]), Transactions: m.ends[succeeded], Seconds: float64(seconds),
		Detail: map[string]float64{firedDetail: each(m.fired)},
	}
	for end := conflicted; end < fates; end++ {
		s.Detail[fateNames[end]] = each(m.ends[end])
	}
	return s
}
