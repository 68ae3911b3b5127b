package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

const (
	lookupRetry   = time.Second // while the database is not available
	lookupLimit   = 5 * time.Second
	lookupAgain   = 2 * time.Second // an outcome not told for so long is looked up
	lookupsAtOnce = 1_000
)

// lookUp asks the database for outcomes of committed blocks that came without results, and now and then for those
// that are overdue.
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
			id, more := g.nextLookup()
			if !more {
				break
			}
			if err := g.lookUpOne(ctx, id); err != nil {
				g.opt.Log.Debug("outcome cannot be looked up yet", "id", fmt.Sprintf("%x", id), "err", err)
				pause(ctx, lookupRetry)
				continue
			}
			g.lookedUp()
		}
	}
}

// addOverdue lists ordered transactions without outcome, and ids of others that clients wait for. A COMMIT whose answer
// was lost is known to the database only. Cost: one step per pending transaction.
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
		if g.entries[id] == nil && len(g.lookups) < lookupsAtOnce {
			g.lookups = append(g.lookups, id)
		}
	}
}

func (g *Gateway) nextLookup() (wire.TxID, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.lookups) == 0 {
		return wire.TxID{}, false
	}
	return g.lookups[0], true
}

func (g *Gateway) lookedUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lookups = g.lookups[1:]
}

func (g *Gateway) lookUpOne(ctx context.Context, id wire.TxID) error {
	if g.opt.Outcomes == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	r, found, err := g.opt.Outcomes.Outcome(ctx, id)
	if err != nil || !found {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settle(r)
	g.dropDone()
	return nil
}
