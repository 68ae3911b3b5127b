package app

import (
	"context"
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
	a.returned.Begin(a.expected.Load(), time.Now())
	if a.await(ctx, a.patience.Limit(most)) {
		a.returned.Admitted(a.admitted.Load(), time.Now())
		a.learn(most)
	}
	if now := a.opt.Mempool.Reap(bytesMax); now != nil {
		return now
	}
	return mempool
}

// learn judges the last wait, once.
func (a *App) learn(most time.Duration) {
	if after, began := a.returned.Take(); began {
		a.patience.Learn(after, most)
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
		a.patience.Came(time.Since(a.ownMade))
		a.ownHeight = 0
	}
}
