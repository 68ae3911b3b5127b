package app

import (
	"context"
	"time"
)

// Mempool is what waits for the order.
type Mempool interface {
	// Reap returns what waits, in its order, of at most bytesMax bytes; -1: all of it. nil: that is
	// not known.
	Reap(bytesMax int64) [][]byte
}

// gatherLook is how often a proposer looks whether those it waits for have come.
const gatherLook = 500 * time.Microsecond

// hurryMax is how often the time for which a proposer waits is halved.
const hurryMax = 4

// gather holds a proposal that certifies a ledger block back until as many transactions have come
// as that block had, at most for opt.Gather, and for half as long after each time that not all
// came, and returns what the mempool holds then. The clients of that block were answered on live
// votes a moment ago, and are about to submit their next transactions. Without it, these would miss
// this order block, which would carry nothing but the certificate, and wait for it and for their
// own; and once clients are in two groups that take turns, nothing would bring them together again.
// Clients that do not come back at once are soon not waited for.
func (a *App) gather(ctx context.Context, mempool [][]byte, bytesMax int64) [][]byte {
	if a.opt.Mempool == nil || a.opt.Gather <= 0 {
		return mempool
	}
	all := a.await(ctx, a.opt.Gather>>a.hurry)
	switch {
	case all && a.hurry > 0:
		a.hurry--
	case !all && a.hurry < hurryMax:
		a.hurry++
	}
	if now := a.opt.Mempool.Reap(bytesMax); now != nil {
		return now
	}
	return mempool
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

// expect notes, before a ledger block is decided, how many transactions will have come when all its
// clients have submitted another.
func (a *App) expect(transactions int) {
	a.expected.Store(a.admitted.Load() + int64(transactions))
}
