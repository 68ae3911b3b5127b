package propose

import (
	"math"
	"slices"
	"sync"
	"time"
)

// halvingsMax bounds how often the proposer halves its wait.
const halvingsMax = 4

// tripsKept is for how many own proposals Patience remembers the round trip.
const tripsKept = 8

// Patience decides how long a proposer waits for new transactions of the clients that were just
// answered. Clients of other organisations are answered at the same time as the proposer's own, and
// their transactions have to travel. So an estimate of the one-way latency is added to the wait.
type Patience struct {
	halvings uint // of the longest wait
	trips    [tripsKept]time.Duration
	went     int // the number of round trips measured so far
}

// InHurry is a patience that halves the wait so often.
func InHurry(halvings uint) Patience { return Patience{halvings: min(halvings, halvingsMax)} }

// Halvings is how often it halves the wait now.
func (p *Patience) Halvings() uint { return p.halvings }

// Trips is how many round trips it measured.
func (p *Patience) Trips() int { return p.went }

// Came notes how long a proposal took to the others, and their prevotes back.
func (p *Patience) Came(trip time.Duration) {
	p.trips[p.went%tripsKept] = trip
	p.went++
}

// distance estimates the one-way latency to another organisation: half of the shortest remembered
// round trip, because busy nodes make the others longer. It is 0 before the first round trip.
func (p *Patience) distance() time.Duration {
	known := p.trips[:min(p.went, tripsKept)]
	if len(known) == 0 {
		return 0
	}
	return slices.Min(known) / 2
}

// Limit is the longest time to wait now. At the shortest wait, after clients stayed away several
// times, the latency is not added.
func (p *Patience) Limit(most time.Duration) time.Duration {
	if p.halvings == halvingsMax {
		return most >> p.halvings
	}
	return min(most, p.distance()+most>>p.halvings)
}

// Learn adjusts the next wait. All expected transactions had come this long after the beginning of
// the last wait, even if that was after its end; Never: they did not come.
func (p *Patience) Learn(came, most time.Duration) {
	longer := *p
	longer.halvings = max(p.halvings, 1) - 1
	switch {
	case came <= longer.Limit(most):
		p.halvings = longer.halvings
	case p.halvings < halvingsMax:
		p.halvings++
	}
}

// Never is longer than any wait.
const Never = time.Duration(math.MaxInt64)

// Return measures how long a proposal waited until all transactions that it expected had come.
type Return struct {
	mu    sync.Mutex // guards all below
	want  int64      // admitted by then; 0: no proposal waited
	begun time.Time
	after time.Duration // Never: they have not come
}

// Begin notes that a proposal waits until so many transactions have come.
func (c *Return) Begin(want int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want, c.begun, c.after = want, now, Never
}

// Admitted notes that so many have come.
func (c *Return) Admitted(count int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want > 0 && count >= c.want && c.after == Never {
		c.after = now.Sub(c.begun)
	}
}

// Take returns, once for each begin, the time after which they had come.
func (c *Return) Take() (after time.Duration, began bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	began = c.want > 0
	c.want = 0
	return c.after, began
}
