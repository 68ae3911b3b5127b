package gateway

import (
	"context"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

const (
	lookupRetry   = time.Second // while the database is not available
	lookupLimit   = 5 * time.Second
	lookupAgain   = 2 * time.Second // an outcome not told for so long is looked up
	lookupsAtOnce = 1_000           // ids in one query
)

// lookUp asks the database for outcomes of committed blocks that came without results, and now and
// then for those that are overdue.
func (g *Gateway) lookUp(ctx context.Context) {
	again := time.NewTicker(lookupAgain)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.lookupWake:
		case <-again.C:
			g.addOverdue()
		}
		for ctx.Err() == nil {
			ids := g.nextLookups()
			if len(ids) == 0 {
				break
			}
			if err := g.lookUpSome(ctx, ids); err != nil {
				g.opt.Log.Debug("outcomes cannot be looked up yet", "transactions", len(ids), "err", err)
				pause(ctx, lookupRetry)
				continue
			}
			g.lookedUp(len(ids))
		}
	}
}

// addOverdue lists ordered transactions without outcome, and ids of others that clients wait for. A
// COMMIT whose answer was lost is known to the database only. Cost: one step per pending
// transaction.
func (g *Gateway) addOverdue() {
	if g.opt.Outcomes == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.lookups) > 0 {
		return
	}
	now := g.opt.Now()
	for id, e := range g.entries {
		if e.ordered && now.Sub(e.orderedAt) > lookupAgain && len(g.lookups) < lookupsAtOnce {
			g.lookups = append(g.lookups, id)
		}
	}
	for id := range g.waiting {
		if len(g.lookups) >= lookupsAtOnce {
			return
		}
		if g.entries[id] == nil {
			g.lookups = append(g.lookups, id)
		}
	}
}

func (g *Gateway) nextLookups() []wire.TxID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lookups[:min(len(g.lookups), lookupsAtOnce)]
}

func (g *Gateway) lookedUp(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lookups = g.lookups[n:]
}

// lookUpSome asks the database once, for at most lookupsAtOnce ids.
func (g *Gateway) lookUpSome(ctx context.Context, ids []wire.TxID) error {
	if g.opt.Outcomes == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	found, err := g.opt.Outcomes.Outcomes(ctx, ids)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range found {
		g.settle(r)
	}
	g.dropDone()
	return nil
}
