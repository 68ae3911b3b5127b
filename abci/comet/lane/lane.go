// Package lane is the express lane of consensus messages. This node's own votes and proposals go to
// every peer at once. Messages that only the gossip protocol needs are sent later, or never.
// CometBFT's gossip stays as it is, and delivers every message that the lane did not. Nodes do not
// wait for a proposer that is not connected. (Elsewhere: eager push.)
//
// The lane only sends, on CometBFT's own channels, messages that CometBFT's gossip would send, too.
// The receiver checks them as it checks gossip. README.md says how it works.
package lane

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cometbft/cometbft/consensus"
	cometnode "github.com/cometbft/cometbft/node"
	"github.com/cometbft/cometbft/p2p"
	cmtcons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	"github.com/cometbft/cometbft/types"
	"github.com/cosmos/gogoproto/proto"
)

// GossipSleep is how long CometBFT's gossip rests between two looks where the lane reaches all.
const GossipSleep = 50 * time.Millisecond

// reactorName is that of CometBFT's consensus in its switch.
const reactorName = "CONSENSUS"

// Options are for tests.
type Options struct {
	// Fate decides what becomes of a message; nil: it is sent.
	Fate func(proto.Message) Fate
	// Made is told of the lane; nil: nobody is.
	Made func(*Lane)
}

// Fate is the treatment of a message of the lane.
type Fate int

// The fates: a message is sent. It is refused, as by a full queue, and left to gossip. Or it is
// lost, though the lane believes it sent, as when the process ends.
const (
	Sent Fate = iota
	Refused
	Lost
)

// Counts holds counters of a lane since the start.
type Counts struct {
	Votes, Proposals, Parts uint64 // sent, to each peer
	Helped                  uint64 // of these: to peers that said where they stand, and lacked them
	Dropped                 uint64 // left to gossip: the peer's queue was full
	Untold                  uint64 // messages about a height that was over before they were due
	Missed                  uint64 // turns to propose that passed without a word of the proposer
	Skipped                 uint64 // turns of proposers that were missing since, not waited for
}

// Lane is one node's. Safe for concurrent use.
type Lane struct {
	opt   Options
	state *consensus.State // read by the consensus routine alone
	store blockStore
	net   *teller

	mu       sync.Mutex // guards all below
	shown    shown
	absence  absence
	signed   types.BlockID // of the newest own proposal
	own      types.Address
	lines    map[p2p.ID]*line
	closed   bool
	work     sync.WaitGroup
	closing  chan struct{}
	counters counters
}

type counters struct{ votes, proposals, parts, helped, dropped, untold, missed, skipped atomic.Uint64 }

// count notes what became of a message.
func (c *counters) count(message proto.Message, sent bool) {
	if !sent {
		c.dropped.Add(1)
		return
	}
	switch message.(type) {
	case *cmtcons.Vote:
		c.votes.Add(1)
	case *cmtcons.Proposal:
		c.proposals.Add(1)
	case *cmtcons.BlockPart:
		c.parts.Add(1)
	}
}

// blockStore is the part of CometBFT's that peers which are behind are helped from.
type blockStore interface {
	Base() int64
	Height() int64
	LoadBlockMeta(height int64) *types.BlockMeta
	LoadBlockPart(height int64, index int) *types.Part
	LoadBlockExtendedCommit(height int64) *types.ExtendedCommit
}

// New makes a lane. Application and Signer go between it and CometBFT's node, then Attach.
func New(opt Options) *Lane {
	l := &Lane{opt: opt, lines: map[p2p.ID]*line{}, closing: make(chan struct{})}
	if opt.Made != nil {
		opt.Made(l)
	}
	return l
}

// Attach puts the lane before the consensus of a node that has not started.
func (l *Lane) Attach(node *cometnode.Node) error {
	// The only way that CometBFT exports to its consensus.
	env, err := node.ConfigureRPC()
	if err != nil {
		return fmt.Errorf("find CometBFT's consensus: %w", err)
	}
	state, ok := env.ConsensusState.(*consensus.State)
	if !ok {
		return fmt.Errorf("CometBFT: a consensus of type %T, to which the express lane does not fit", env.ConsensusState)
	}
	l.state, l.store = state, node.BlockStore()
	inner := consensus.NewTimeoutTicker()
	inner.SetLogger(state.Logger)
	state.SetTimeoutTicker(newTicker(inner, inner.ScheduleTimeout, l.vain))
	cometnode.CustomReactors(map[string]p2p.Reactor{reactorName: &reactor{Reactor: node.ConsensusReactor(), lane: l}})(node)
	return nil
}

// Counts tells what the lane has done.
func (l *Lane) Counts() Counts {
	c := &l.counters
	return Counts{
		Votes: c.votes.Load(), Proposals: c.proposals.Load(), Parts: c.parts.Load(),
		Helped: c.helped.Load(), Dropped: c.dropped.Load(), Untold: c.untold.Load(),
		Missed: c.missed.Load(), Skipped: c.skipped.Load(),
	}
}

// Close ends the lane's goroutines and waits for them; a send under way may take ten seconds. It
// comes after CometBFT has stopped.
func (l *Lane) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.closing)
	}
	net := l.net
	l.mu.Unlock()
	if net != nil {
		net.close()
	}
	l.work.Wait()
}

// all are the lines to the peers that are connected now.
func (l *Lane) all() []*line {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*line, 0, len(l.lines))
	for _, n := range l.lines {
		out = append(out, n)
	}
	return out
}
