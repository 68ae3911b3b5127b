package app

import (
	"slices"
	"time"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/wire"
)

// lagMax is how far the time of a block may be behind while blocks follow each other.
const lagMax = 2 * time.Second

// lags tells that a block without bundles comes first. The time of a block is that of the commit
// before it. After a while without blocks it is old, and the order would refuse clients whose
// suspension is over. One such block gives the next one a new time. There are no two in a row,
// however wrong this clock is.
func (a *App) lags(state *order.State, bundles []waiting, block order.Block) bool {
	now := time.Now()
	if now.Sub(time.UnixMicro(block.TimeMicro)) < lagMax || a.lagged == block.Height-1 {
		return false
	}
	released := slices.ContainsFunc(bundles, func(b waiting) bool {
		return b.bundle != nil && state.Released(b.bundle, block.TimeMicro, wire.TimeOf(now))
	})
	if released {
		a.lagged = block.Height
	}
	return released
}
