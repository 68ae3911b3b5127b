package comet

import (
	"context"
	"fmt"

	abci "github.com/cometbft/cometbft/abci/types"
	"github.com/cometbft/cometbft/consensus"
	"github.com/cometbft/cometbft/mempool"
	cometnode "github.com/cometbft/cometbft/node"
	"github.com/cometbft/cometbft/p2p"
	cmtcons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/state"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/comet/keyring"
	"github.com/chainify-db/chainify/abci/comet/peers"
)

// overhear has the guards hear each vote that a peer sends, and finds the consensus that
// takes late own votes.
func (o *Inside) overhear() error {
	found := o.Reactor(consensusName)
	inner, ok := found.(consensusReactor)
	if !ok {
		return fmt.Errorf("CometBFT: a consensus of type %T, whose votes cannot be heard", found)
	}
	env, err := o.comet.ConfigureRPC() // the only way that CometBFT exports to its consensus
	if err != nil {
		return fmt.Errorf("find CometBFT's consensus: %w", err)
	}
	if o.consensus, ok = env.ConsensusState.(*consensus.State); !ok {
		return fmt.Errorf("CometBFT: a consensus of type %T, which takes no votes", env.ConsensusState)
	}
	next := func() int64 { return o.opt.Decided() + 1 }
	cometnode.CustomReactors(map[string]p2p.Reactor{consensusName: listening{
		consensusReactor: inner,
		ballots:          peers.NewBallots(o.opt.Conduct, next, func() int { return o.opt.Registry().Validators() }),
		parts:            peers.NewParts(o.opt.Conduct, next, o.sizeOf),
		overheard:        func(v *cmtproto.Vote) { o.opt.Guards.Overheard(v, next()) },
	}})(o.comet)
	return nil
}

// sizeOf is how many bytes a decided order block has; 0: it is not here.
func (o *Inside) sizeOf(height int64) int64 {
	meta := o.comet.BlockStore().LoadBlockMeta(height)
	if meta == nil {
		return 0
	}
	return int64(meta.BlockSize)
}

// consensusName is that of CometBFT's consensus in its switch.
const consensusName = "CONSENSUS"

// workNames are those of CometBFT's reactors that work for other nodes at once.
var workNames = []string{"BLOCKSYNC", "STATESYNC", "EVIDENCE"}

// bound has the work of CometBFT's reactors for a member bounded.
func (o *Inside) bound() {
	work, doors := peers.NewWork(o.opt.Conduct), map[string]p2p.Reactor{}
	for _, name := range workNames {
		if inner := o.Reactor(name); inner != nil {
			doors[name] = peers.NewWorkDoor(inner, work, o.CatchingUp)
		}
	}
	cometnode.CustomReactors(doors)(o.comet)
}

// signLate signs the vote that CometBFT asked for before the key might sign, if there is one.
func (o *Inside) signLate() {
	asked := o.opt.Guards.Late(o.opt.Keys.Counting(), o.opt.Next())
	if asked == nil {
		return
	}
	err := o.opt.Signer.SignVote(o.opt.Founded.ChainID(), asked)
	var vote *types.Vote
	if err == nil {
		vote, err = types.VoteFromProto(asked)
	}
	if err == nil {
		_, err = o.consensus.AddVote(vote, "")
	}
	if err != nil {
		o.opt.Log.Warn("a vote that was asked for before is not signed", "error", err)
	}
}

// Reported implements keyring.Order. A peer tells its height when it is connected, and when it
// changes.
func (o *Inside) Reported() map[string]int64 {
	heights := map[string]int64{}
	if o.comet == nil {
		return heights
	}
	for _, peer := range o.comet.Switch().Peers().Copy() {
		at, known := peer.Get(types.PeerStateKey).(mempool.PeerState)
		if of := o.admits.OrganisationOf(peer); known && of != "" {
			heights[of] = max(heights[of], at.GetHeight())
		}
	}
	return heights
}

// Counted implements keyring.Order.
func (o *Inside) Counted(height int64, address []byte) bool {
	if height <= 0 {
		return false
	}
	validators, err := o.states.LoadValidators(height)
	return err != nil || validators.HasAddress(address)
}

// showing is an application that shows the guards what is decided.
type showing struct {
	abci.Application
	guards *keyring.Guards
}

// FinalizeBlock implements abci.Application.
func (w showing) FinalizeBlock(ctx context.Context, req *abci.RequestFinalizeBlock) (*abci.ResponseFinalizeBlock, error) {
	w.guards.Decided(req.Height, req.DecidedLastCommit, req.Misbehavior)
	return w.Application.FinalizeBlock(ctx, req)
}

// listening is CometBFT's consensus, or the express lane before it, whose votes are overheard. It
// gets votes of a member as ballots admit them, and everything else as parts do.
type listening struct {
	consensusReactor
	ballots   *peers.Ballots
	parts     *peers.Parts
	overheard func(*cmtproto.Vote)
}

// consensusReactor is all that CometBFT asks of its consensus by name.
type consensusReactor interface {
	p2p.Reactor
	SwitchToConsensus(state state.State, skipWAL bool)
}

// Receive implements p2p.Reactor.
func (l listening) Receive(e p2p.Envelope) {
	if m, ok := e.Message.(*cmtcons.Vote); ok {
		if !l.ballots.Admit(e.Src, m.Vote) {
			return
		}
		l.overheard(m.Vote)
	} else if !l.parts.Admit(e.Src, e.Message) {
		return
	}
	l.consensusReactor.Receive(e)
}
