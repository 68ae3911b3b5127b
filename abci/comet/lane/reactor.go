package lane

import (
	"github.com/cometbft/cometbft/consensus"
	"github.com/cometbft/cometbft/p2p"
	cmtcons "github.com/cometbft/cometbft/proto/tendermint/consensus"
)

// reactor is CometBFT's consensus reactor, with the lane beside it.
type reactor struct {
	*consensus.Reactor
	lane *Lane
}

var _ p2p.Reactor = (*reactor)(nil)

// SetSwitch implements p2p.Reactor: the inner reactor tells through a teller.
func (r *reactor) SetSwitch(net p2p.Switcher) {
	if net == nil {
		r.Reactor.SetSwitch(nil)
		return
	}
	t := newTeller(net, &r.lane.counters.untold)
	r.lane.mu.Lock()
	r.lane.net = t
	r.lane.mu.Unlock()
	r.Reactor.SetSwitch(t)
}

// AddPeer implements p2p.Reactor.
func (r *reactor) AddPeer(peer p2p.Peer) {
	r.Reactor.AddPeer(peer)
	r.lane.add(peer)
}

// Receive implements p2p.Reactor: a peer that says where it stands is given what it lacks there.
// Votes, those that come too late included, tell which validators are there.
func (r *reactor) Receive(e p2p.Envelope) {
	r.Reactor.Receive(e)
	switch m := e.Message.(type) {
	case *cmtcons.NewRoundStep, *cmtcons.NewValidBlock:
		r.lane.wake(e.Src.ID())
	case *cmtcons.Vote:
		r.lane.heard(m.Vote.GetValidatorAddress())
	}
}
