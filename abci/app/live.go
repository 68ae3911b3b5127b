package app

import "github.com/chainify-db/chainify/abci/wire"

// Precommitted takes the effect vote of a precommit that CometBFT added to those of its height. The
// whole vote is checked there, also that the address is that of the validator whose key signed. It
// is counted live (E1) when the order's state says so too (order.State.LiveVote). A vote that never
// comes here costs a block's wait for its certificate, nothing else.
func (a *App) Precommitted(signed *wire.ExtendedVote) {
	state, err := a.current()
	if err != nil {
		return
	}
	organisation, vote, err := state.LiveVote(signed)
	if err != nil {
		a.log.Debug("live vote does not count", "height", signed.Height, "error", err)
		return
	}
	a.mu.Lock()
	a.watchVote(organisation, vote, signed, state.LastOrdered()) // the own ones, too: keys may be in use twice
	a.mu.Unlock()
	if organisation != a.opt.Organisation {
		a.opt.Effects.Seen(organisation, vote)
	}
}
