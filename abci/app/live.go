package app

import (
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	cmttypes "github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// Precommitted takes a precommit that CometBFT added to those of its height: the whole vote is
// checked there, also that the address is that of the validator whose key signed. Its effect vote
// is counted live (E1) when the order's state says so too (order.State.LiveVote). A vote that never
// comes here costs a block's wait for its certificate, nothing else.
func (a *App) Precommitted(v *cmttypes.Vote) {
	if v.Type != cmtproto.PrecommitType || len(v.Extension) == 0 {
		return
	}
	state, err := a.current()
	if err != nil {
		return
	}
	signed := &wire.ExtendedVote{
		ValidatorAddress: v.ValidatorAddress, Height: v.Height, Round: v.Round, Extension: v.Extension, Signature: v.ExtensionSignature,
	}
	organisation, vote, err := state.LiveVote(signed)
	if err != nil {
		a.log.Debug("live vote does not count", "height", v.Height, "error", err)
		return
	}
	a.mu.Lock()
	a.watchVote(organisation, vote, signed, state.LastOrdered()) // the own ones, too: keys may be in use twice
	a.mu.Unlock()
	if organisation != a.opt.Organisation {
		a.opt.Effects.Seen(organisation, vote)
	}
}
