package node

import (
	"fmt"

	"github.com/cometbft/cometbft/consensus"
	"github.com/cometbft/cometbft/mempool"
	cometnode "github.com/cometbft/cometbft/node"
	"github.com/cometbft/cometbft/p2p"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/comet/peers"
)

// overhear has the node's silence hear each vote that a peer sends, and finds the consensus that
// takes late own votes.
func (o *ordering) overhear(n *node) error {
	found, _ := o.comet.Switch().Reactor(consensusName)
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
	next := func() int64 { return n.height.Load() + 1 }
	cometnode.CustomReactors(map[string]p2p.Reactor{consensusName: listening{
		consensusReactor: inner,
		ballots:          peers.NewBallots(n.conduct, next, func() int { return n.registry().Validators() }),
		parts:            peers.NewParts(n.conduct, next, o.sizeOf),
		overheard:        func(v *cmtproto.Vote) { n.silence.overheard(v, next()) },
	}})(o.comet)
	return nil
}

// sizeOf is how many bytes a decided order block has; 0: it is not here.
func (o *ordering) sizeOf(height int64) int64 {
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
func (o *ordering) bound(n *node) {
	work, doors := peers.NewWork(n.conduct), map[string]p2p.Reactor{}
	for _, name := range workNames {
		if inner, found := o.comet.Switch().Reactor(name); found {
			doors[name] = peers.NewWorkDoor(inner, work, o.catchingUp)
		}
	}
	cometnode.CustomReactors(doors)(o.comet)
}

// signLate signs the vote that CometBFT asked for before the key might sign, if there is one.
func (o *ordering) signLate(n *node) {
	asked := n.silence.again(n.keys.counts(), n.next())
	if asked == nil {
		return
	}
	err := n.signer.SignVote(n.founded.ChainID(), asked)
	var vote *types.Vote
	if err == nil {
		vote, err = types.VoteFromProto(asked)
	}
	if err == nil {
		_, err = o.consensus.AddVote(vote, "")
	}
	if err != nil {
		n.log.Warn("a vote that was asked for before is not signed", "error", err)
	}
}

// reported implements orderer. A peer tells its height when it is connected, and when it changes.
func (o *ordering) reported() map[string]int64 {
	heights := map[string]int64{}
	if o.comet == nil {
		return heights
	}
	for _, peer := range o.comet.Switch().Peers().Copy() {
		at, known := peer.Get(types.PeerStateKey).(mempool.PeerState)
		if of := o.admits.organisationOf(peer); known && of != "" {
			heights[of] = max(heights[of], at.GetHeight())
		}
	}
	return heights
}

// counted implements orderer.
func (o *ordering) counted(height int64, address []byte) bool {
	if height <= 0 {
		return false
	}
	validators, err := o.states.LoadValidators(height)
	return err != nil || validators.HasAddress(address)
}
