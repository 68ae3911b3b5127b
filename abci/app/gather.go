package app

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// Mempool holds the bundles that wait for the order.
type Mempool interface {
	// Reap returns waiting bundles in their order, at most bytesMax bytes; -1: all. nil: they are
	// not known.
	Reap(bytesMax int64) [][]byte
}

// gatherLook is how often a proposer looks whether those it waits for have come.
const gatherLook = 500 * time.Microsecond

// hurryMax is how often the proposer's wait is halved at most.
const hurryMax = 4

// tripsKept is the number of own proposals whose round trip is remembered.
const tripsKept = 8

// patience decides how long a proposer waits for new transactions of the clients that were just
// answered. Clients of other organisations are answered at the same time as the proposer's own, and
// their transactions have to travel. So an estimate of the one-way latency is added to the wait.
type patience struct {
	hurry uint // the wait is opt.Gather / 2^hurry
	trips [tripsKept]time.Duration
	went  int // the number of round trips measured so far
}

// came notes how long a proposal took to the others, and their prevotes back.
func (p *patience) came(trip time.Duration) {
	p.trips[p.went%tripsKept] = trip
	p.went++
}

// distance estimates the one-way latency to another organisation: half of the shortest remembered
// round trip, because busy nodes make the others longer. It is 0 before the first round trip.
func (p *patience) distance() time.Duration {
	known := p.trips[:min(p.went, tripsKept)]
	if len(known) == 0 {
		return 0
	}
	return slices.Min(known) / 2
}

// limit is the longest time to wait now. At the shortest wait, after clients stayed away several
// times, the latency is not added.
func (p *patience) limit(most time.Duration) time.Duration {
	if p.hurry == hurryMax {
		return most >> p.hurry
	}
	return min(most, p.distance()+most>>p.hurry)
}

// learn adjusts the next wait. All expected transactions had come this long after the beginning of
// the last wait, even if that was after its end; comeNot: they did not come.
func (p *patience) learn(came, most time.Duration) {
	longer := *p
	longer.hurry = max(p.hurry, 1) - 1
	switch {
	case came <= longer.limit(most):
		p.hurry = longer.hurry
	case p.hurry < hurryMax:
		p.hurry++
	}
}

// comeNot is longer than any wait.
const comeNot = time.Duration(math.MaxInt64)

// comeback measures how long a proposal waited until all transactions that it expected had come.
type comeback struct {
	mu    sync.Mutex // guards all below
	want  int64      // admitted by then; 0: no proposal waited
	begun time.Time
	after time.Duration // comeNot: they have not come
}

func (c *comeback) begin(want int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want, c.begun, c.after = want, time.Now(), comeNot
}

// admitted notes that so many have come.
func (c *comeback) admitted(count int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want > 0 && count >= c.want && c.after == comeNot {
		c.after = time.Since(c.begun)
	}
}

// take returns, once for each begin, the time after which they had come.
func (c *comeback) take() (after time.Duration, began bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	began = c.want > 0
	c.want = 0
	return c.after, began
}

// gather holds back a proposal that certifies a ledger block until as many transactions have come
// as that block had, at most for opt.Gather. It returns the contents of the mempool at that time.
// The wait is shorter after each time that not all came.
//
// Clients of that block got their answers on live votes a moment ago, and are about to submit their
// next transactions. Without the wait, these would miss this order block, which would carry nothing
// but the certificate. They would then wait for it and for their own. Clients would then split into
// two groups that alternate, and stay so. For clients that do not come back at once the wait soon
// becomes short.
func (a *App) gather(ctx context.Context, mempool [][]byte, bytesMax int64) [][]byte {
	most := a.opt.Gather
	if a.opt.Mempool == nil || most <= 0 {
		return mempool
	}
	a.learn(most) // of the last wait, if it ended before all had come
	a.comeback.begin(a.expected.Load())
	if a.await(ctx, a.patience.limit(most)) {
		a.comeback.admitted(a.admitted.Load())
		a.learn(most)
	}
	if now := a.opt.Mempool.Reap(bytesMax); now != nil {
		return now
	}
	return mempool
}

// learn judges the last wait, once.
func (a *App) learn(most time.Duration) {
	if after, began := a.comeback.take(); began {
		a.patience.learn(after, most)
	}
}

// await tells whether all that are expected came within the limit.
func (a *App) await(ctx context.Context, limit time.Duration) bool {
	timer, tick := time.NewTimer(limit), time.NewTicker(gatherLook)
	defer timer.Stop()
	defer tick.Stop()
	for a.admitted.Load() < a.expected.Load() {
		select {
		case <-tick.C:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// expect notes, before a ledger block is decided, the number of transactions to wait for: one more
// for each transaction of the block.
func (a *App) expect(transactions int) {
	a.expected.Store(a.admitted.Load() + int64(transactions))
}

// prepared notes when a proposal of this node for a height was made.
func (a *App) prepared(height int64) { a.ownHeight, a.ownMade = height, time.Now() }

// prevoted notes that the prevotes on the proposal of a height have arrived.
func (a *App) prevoted(height int64) {
	if height == a.ownHeight {
		a.patience.came(time.Since(a.ownMade))
		a.ownHeight = 0
	}
}
