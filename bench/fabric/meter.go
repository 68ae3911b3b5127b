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

const (
	blocksLeast = 3                // blocks that end in the time that counts
	longest     = 10 * time.Second // of it, where they are slow
	extension   = time.Second
)

// meter counts transactions between two times, by their ends. It is safe for concurrent use.
//
// Transactions end in blocks, and few may end in a second. So the rate is over whole intervals:
// from the last end before the first of the two times to the last end before the second. The second
// is put off while fewer than blocksLeast blocks have ended, until longest after the first.
type meter struct {
	from time.Time

	mu           sync.Mutex
	until        time.Time
	fired        int
	ends         [fates]int
	blocks       int
	newest       uint64    // of these blocks
	before, last time.Time // ends in a block; before: the start where none ended; last: zero
}

// over says whether the time that counts is over.
func (m *meter) over(at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.putOff(at)
	return !at.Before(m.until)
}

// putOff is called at each moment that the meter hears of. The caller holds m.mu.
func (m *meter) putOff(at time.Time) {
	for !at.Before(m.until) && m.blocks < blocksLeast && m.until.Sub(m.from) < longest {
		m.until = m.until.Add(extension)
	}
}

func (m *meter) fire(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.putOff(at); at.Before(m.from) || !at.Before(m.until) {
		return
	}
	m.fired++
}

func (m *meter) end(at time.Time, of fate, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(at, of, n)
}

// count says whether the end is in the time that counts. The caller holds m.mu.
func (m *meter) count(at time.Time, of fate, n int) bool {
	m.putOff(at)
	inBlock := of == succeeded || of == conflicted
	if at.Before(m.from) {
		if inBlock && at.After(m.before) {
			m.before = at
		}
		return false
	}
	if !at.Before(m.until) {
		return false
	}
	m.ends[of] += n
	if inBlock && at.After(m.last) {
		m.last = at
	}
	return true
}

// seconds is the time that the blocks which were counted took.
func (m *meter) seconds() float64 {
	if m.last.IsZero() {
		return m.until.Sub(m.before).Seconds()
	}
	return m.last.Sub(m.before).Seconds()
}

// outcome tells the end of an ordered transaction. Block 0 stands for none.
func (m *meter) outcome(at time.Time, o *wire.Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := conflicted
	switch {
	case o.Succeeded:
		of = succeeded
	case o.Block == 0:
		of = early
	}
	if m.count(at, of, 1) && o.Block > m.newest {
		m.newest = o.Block
		m.blocks++
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
