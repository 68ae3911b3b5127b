package app

import (
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	cmttypes "github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// Precommitted takes a precommit that CometBFT added to those of its height: the whole vote is checked there, also that the address is that of the
// validator whose key signed. Its effect vote is counted live (E1) when the registry says so too, by the rule of votes, which is stricter than
// CometBFT's, and when it is about an execution of now: then its validator is one of the registry under which that block is voted on (A5). A vote that
// never comes here costs a block's wait for its certificate, nothing else.
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
	organisation, err := state.Registry().CheckExtension(signed)
	if err != nil {
		a.log.Debug("live vote does not count", "height", v.Height, "error", err)
		return
	}
	// Of an organisation that only orders no vote counts; its precommit orders like any other.
	if _, orderingOnly := state.Registry().Knows(organisation); orderingOnly || organisation == a.opt.Organisation {
		return
	}
	vote, err := wire.DecodeEffectVote(v.Extension) // CometBFT does not show us a late precommit before it counts
	if err != nil || !state.Awaits(vote.Key(), v.Height) {
		return
	}
	a.watchLive(organisation, vote)
	a.opt.Effects.Seen(organisation, vote)
}
