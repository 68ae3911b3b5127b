package lane

import (
	"math/rand/v2"

	"github.com/cometbft/cometbft/consensus"
	cstypes "github.com/cometbft/cometbft/consensus/types"
	"github.com/cometbft/cometbft/libs/bits"
	"github.com/cometbft/cometbft/p2p"
	cmtcons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"
	"github.com/cosmos/gogoproto/proto"
)

// partsAtOnce is how many parts (64 KiB each) the consensus routine itself sends. It leaves larger
// proposals to the lines.
const partsAtOnce = 2

// line is the lane to one peer. Its goroutine gives the peer what it lacks when it is woken.
type line struct {
	lane *Lane
	peer p2p.Peer
	told *consensus.PeerState // CometBFT's knowledge of the peer
	wake chan struct{}        // holds one
	last standing             // when help was given last
}

// standing is where a peer and this node stand. While nothing of it changes, there is nothing new
// to help with, however often the peer says where it stands.
type standing struct {
	height, own, decided int64
	round                int32
	parts                *bits.BitArray // another one each time the peer says which parts it has
	proposal             *types.Proposal
}

// add opens the line to a peer.
func (l *Lane) add(peer p2p.Peer) {
	told, ok := peer.Get(types.PeerStateKey).(*consensus.PeerState)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !ok || l.closed {
		return
	}
	n := &line{lane: l, peer: peer, told: told, wake: make(chan struct{}, 1)}
	l.lines[peer.ID()] = n
	l.work.Go(n.run)
}

// run helps until the peer is gone.
func (n *line) run() {
	defer func() {
		n.lane.mu.Lock()
		defer n.lane.mu.Unlock()
		if n.lane.lines[n.peer.ID()] == n {
			delete(n.lane.lines, n.peer.ID())
		}
	}()
	for {
		select {
		case <-n.wake:
			n.help()
		case <-n.peer.Quit():
			return
		case <-n.lane.closing:
			return
		}
	}
}

func (l *Lane) wake(peer p2p.ID) {
	l.mu.Lock()
	n := l.lines[peer]
	l.mu.Unlock()
	if n != nil {
		n.wakeUp()
	}
}

func (n *line) wakeUp() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Voted is told of each vote that CometBFT has logged, checked and added, and sends those of this
// node. It does not wait.
func (l *Lane) Voted(v *types.Vote) {
	s := l.seen()
	if s.height != v.Height || s.own != v.ValidatorIndex {
		return
	}
	for _, n := range l.all() {
		if n.takes(v) {
			n.vote(v, s.validators, false)
		}
	}
}

// takes reports whether the peer can use a vote, as far as this node knows. At its height the vote
// is of its round or of the next, which it lets each peer tell of. A precommit may be of the height
// before. The peer may also have come to the next height meanwhile.
func (n *line) takes(v *types.Vote) bool {
	p := n.told.GetRoundState()
	switch p.Height {
	case 0:
		return false
	case v.Height:
		return v.Round == p.Round || v.Round == p.Round+1
	case v.Height - 1:
		return true
	case v.Height + 1:
		return v.Type == cmtproto.PrecommitType
	}
	return false
}

// vote sends a vote and notes that the peer has it, when the peer is where it counts.
func (n *line) vote(v *types.Vote, validators int, wait bool) bool {
	if validators > 0 {
		n.told.EnsureVoteBitArrays(v.Height, validators)
	}
	if !n.send(consensus.VoteChannel, &cmtcons.Vote{Vote: v.ToProto()}, wait) {
		return false
	}
	n.told.SetHasVote(v)
	return true
}

// propose sends this node's own proposal to all peers that can take it.
func (l *Lane) propose(s shown) {
	for _, n := range l.all() {
		if s.proposed.Total() > partsAtOnce {
			n.wakeUp()
			continue
		}
		n.propose(s, false)
	}
}

// propose gives the peer the own proposal and its parts, those that it lacks.
func (n *line) propose(s shown, wait bool) (sent int) {
	p := n.told.GetRoundState()
	if s.proposal == nil || p.Height != s.proposal.Height || p.Round != s.proposal.Round {
		return 0
	}
	if !p.Proposal {
		if !n.send(consensus.DataChannel, &cmtcons.Proposal{Proposal: *s.proposal.ToProto()}, wait) {
			return 0
		}
		sent++
		n.told.SetHasProposal(s.proposal)
		n.proof(s, p, wait)
	}
	return sent + n.parts(s.proposed.Header(), s.proposed.GetPart, wait)
}

// proof tells which prevotes of an earlier round a proposal of a later one rests on.
func (n *line) proof(s shown, p *cstypes.PeerRoundState, wait bool) {
	if s.proposal.POLRound < 0 || s.votes == nil || s.height != p.Height {
		return
	}
	prevotes := s.votes.Prevotes(s.proposal.POLRound)
	if prevotes == nil {
		return
	}
	n.send(consensus.DataChannel, &cmtcons.ProposalPOL{
		Height: s.height, ProposalPolRound: s.proposal.POLRound, ProposalPol: *prevotes.BitArray().ToProto(),
	}, wait)
}

// parts gives the peer those parts of a block that it waits for. It begins anywhere, so that peers
// that help at the same time begin with different ones.
func (n *line) parts(header types.PartSetHeader, part func(int) *types.Part, wait bool) (sent int) {
	p := n.told.GetRoundState()
	if p.ProposalBlockParts == nil || !p.ProposalBlockPartSetHeader.Equals(header) {
		return 0
	}
	total := int(header.Total)
	for i, first := 0, rand.IntN(max(total, 1)); i < total; i++ {
		index := (first + i) % total
		if p.ProposalBlockParts.GetIndex(index) {
			continue
		}
		one := part(index)
		if one == nil {
			return sent
		}
		encoded, err := one.ToProto()
		if err != nil || !n.send(consensus.DataChannel, &cmtcons.BlockPart{Height: p.Height, Round: p.Round, Part: *encoded}, wait) {
			return sent
		}
		sent++
		n.told.SetHasProposalBlockPart(p.Height, p.Round, index)
	}
	return sent
}

// help gives the peer what it lacks: where it is behind, the votes and the parts of the decided
// block; where it is with this node, this node's votes and proposal.
func (n *line) help() {
	s, store := n.lane.seen(), n.lane.store
	p := n.told.GetRoundState()
	now := standing{p.Height, s.height, store.Height(), p.Round, p.ProposalBlockParts, s.proposal}
	if now == n.last {
		return
	}
	n.last = now
	sent := n.propose(s, true)
	switch {
	case p.Height <= 0:
	case p.Height <= store.Height():
		if p.Height >= store.Base() {
			sent += n.catchUp(store, p.Height)
		}
	case p.Height == s.height && s.own >= 0:
		if s.parts != nil {
			sent += n.parts(s.parts.Header(), s.parts.GetPart, true)
		}
		for _, votes := range []*types.VoteSet{s.votes.Prevotes(p.Round), s.votes.Precommits(p.Round)} {
			if v := votes.GetByIndex(s.own); v != nil && !n.has(v) && n.vote(v, s.validators, true) {
				sent++
			}
		}
	}
	n.lane.counters.helped.Add(uint64(sent))
}

// has reports whether the peer is known to have a vote of its height and round.
func (n *line) has(v *types.Vote) bool {
	p := n.told.GetRoundState()
	if p.Height != v.Height || p.Round != v.Round {
		return false
	}
	votes := p.Prevotes
	if v.Type == cmtproto.PrecommitType {
		votes = p.Precommits
	}
	return votes.GetIndex(int(v.ValidatorIndex))
}

// catchUp gives the peer a decided block: first the votes that decided it, by which the peer knows
// which parts it needs and says so, then those parts.
func (n *line) catchUp(store blockStore, height int64) (sent int) {
	commit := store.LoadBlockExtendedCommit(height)
	if commit == nil {
		return 0 // without its extensions a vote counts nowhere
	}
	for range commit.Size() {
		v := n.told.PickVoteToSend(commit)
		if v == nil {
			break
		}
		if !n.vote(v, 0, true) {
			return sent
		}
		sent++
	}
	meta := store.LoadBlockMeta(height)
	if meta == nil {
		return sent
	}
	return sent + n.parts(meta.BlockID.PartSetHeader, func(i int) *types.Part { return store.LoadBlockPart(height, i) }, true)
}

// send puts a message into the peer's queue. With wait it waits for room, as CometBFT's gossip
// does; without it, a full queue leaves the message to gossip.
func (n *line) send(channel byte, message proto.Message, wait bool) bool {
	e := p2p.Envelope{ChannelID: channel, Message: message}
	fate := Sent
	if n.lane.opt.Fate != nil {
		fate = n.lane.opt.Fate(message)
	}
	ok := fate == Lost
	switch {
	case fate != Sent:
	case wait:
		ok = n.peer.Send(e)
	default:
		ok = n.peer.TrySend(e)
	}
	n.lane.counters.count(message, ok)
	return ok
}
