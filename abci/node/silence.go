package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"
	"github.com/cometbft/cometbft/p2p"
	cmtcons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/state"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/comet/signer"
	"github.com/chainify-db/chainify/abci/config"
)

// silence is the shell of the double-sign guards, one for each validator key of the home. It passes
// to them what the node learns of signatures and heights, and stores their findings over a restart.
// signer.Guard decides.
type silence struct {
	home     config.Home
	chainID  string
	registry func() *order.Registry
	log      *slog.Logger

	mu      sync.Mutex // guards all below
	order   orderer    // nil: not made yet
	kept    config.Signing
	reports signer.Reports
	guards  map[string]*signer.Guard // by the key's address
	keys    map[string]*signer.Key
	asked   *cmtproto.Vote // the last vote that CometBFT asked for and that was refused; nil: none
	lost    *lostVotes     // nil: the node is not made yet
}

func newSilence(n *node) (*silence, error) {
	kept, err := n.opt.Home.Signing()
	if err != nil {
		return nil, err
	}
	return &silence{
		home: n.opt.Home, chainID: n.founded.ChainID(), registry: n.registry, log: n.log.With("part", "signing"), kept: kept,
		guards: map[string]*signer.Guard{}, keys: map[string]*signer.Key{},
	}, nil
}

// attach sets the order, which silence asks about heights and votes.
func (s *silence) attach(order orderer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = order
}

// follow lets votes on effects depend on the findings about the key that counts.
func (s *silence) follow(counts *signer.Key, lost *lostVotes) {
	s.mu.Lock()
	s.lost = lost
	doubts := s.kept.DoubtSince != nil || counts != nil && s.guard(counts).Doubts()
	s.mu.Unlock()
	if doubts {
		lost.doubted()
	}
}

// guard returns the guard of a key. Called with mu held.
func (s *silence) guard(key *signer.Key) *signer.Guard {
	address := string(key.Key.Address)
	g := s.guards[address]
	if g == nil {
		lost := key.Last != nil && key.Last.Height == 0 && !key.Unused()
		g = signer.NewGuard(key.Last, lost || s.kept.DoubtSince != nil, s.kept.Elsewhere != nil)
		if s.kept.Found {
			g.Suspect()
		}
		s.guards[address], s.keys[address] = g, key
		if g.Doubts() && !g.Stopped() {
			s.log.Info("what a validator key signed last is not known: it signs only for heights that it cannot have been used for", "validator", key.Key.Address)
		}
	}
	return g
}

// know begins to watch a key.
func (s *silence) know(key *signer.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guard(key)
}

// powers returns the voting power of the key with this address, and that of all other keys by
// organisation.
func (s *silence) powers(address string) signer.Powers {
	p := signer.Powers{Others: map[string]int64{}}
	for _, o := range s.registry().Record().Organisations {
		for _, v := range o.Validators {
			if of := order.AddressOf(v.Key); string(of[:]) == address {
				p.Key += v.Power
			} else {
				p.Others[o.Name] += v.Power
			}
		}
	}
	return p
}

// look asks the connected nodes for their heights, until enough have answered. Called with mu held.
func (s *silence) look(p signer.Powers) (reach int64) {
	if reach = s.reports.Reach(p); reach == 0 && s.order != nil {
		s.reports.Take(s.order.reported())
		reach = s.reports.Reach(p)
	}
	return reach
}

// waits reports whether the heights of further nodes are needed.
func (s *silence) waits(counts *signer.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.powers(string(counts.Key.Address))
	return s.asked != nil || s.guard(counts).Doubts() || s.reports.Reach(p) == 0 && p.OthersSuffice()
}

// standing describes the state of the order for the guard of a key. Called with mu held.
func (s *silence) standing(address string, height int64) signer.Standing {
	p := s.powers(address)
	reach := s.look(p)
	// A doubt that is kept on disk comes from an earlier process, which may have begun this height.
	first := s.kept.DoubtSince == nil && p.Key > 0 && s.order != nil && !s.order.counted(height-1, []byte(address)) && s.reports.Begins(height, p)
	return signer.Standing{Reach: reach, First: first}
}

// may returns why a key must not sign for a height; nil: it may sign.
func (s *silence) may(key *signer.Key, height int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mayNow(key, height)
}

func (s *silence) mayNow(key *signer.Key, height int64) error {
	g := s.guard(key)
	if !g.Doubts() {
		return nil
	}
	address, stopped := string(key.Key.Address), g.Stopped()
	standing := s.standing(address, height)
	err := g.May(height, standing)
	if g.Stopped() && !stopped {
		s.keep(g, height)
	}
	switch {
	case !errors.Is(err, signer.ErrSilent):
		return err
	case standing.Reach > 0:
		return fmt.Errorf("%w: it signs after order block %d", err, g.Until(standing.Reach))
	}
	return fmt.Errorf("%w: it waits until all of these have told how far the order is: %s", err, strings.Join(s.reports.Missing(s.powers(address)), ", "))
}

// quiet reports whether CometBFT should not ask for signatures of a key for the next height.
func (s *silence) quiet(key *signer.Key, next func() int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guard(key)
	if !g.Doubts() {
		return false
	}
	height := next()
	return (g.Stopped() || s.order == nil || s.order.counted(height-1, key.Key.Address)) && s.mayNow(key, height) != nil
}

// vain notes a vote that CometBFT asked for and that was refused.
func (s *silence) vain(vote *cmtproto.Vote) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := *vote
	s.asked = &asked
}

// again checks once more whether the refused vote may be signed now, and returns it then; nil:
// there is none. next is the height that is decided next.
func (s *silence) again(counts *signer.Key, next int64) *cmtproto.Vote {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look(s.powers(string(counts.Key.Address)))
	if s.asked == nil {
		return nil
	}
	asked := s.asked
	if asked.Height < next {
		s.asked = nil
		return nil
	}
	key := s.keys[string(asked.ValidatorAddress)]
	if key == nil || s.mayNow(key, asked.Height) != nil {
		return nil
	}
	s.asked = nil
	return asked
}

// made notes each signature before it leaves the node.
func (s *silence) made(key *signer.Key, at signer.Step, signature []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guard(key)
	doubted := g.Doubts()
	g.Made(at, signature)
	if s.lost != nil {
		s.lost.signed(at.Height, key.Last == nil)
	}
	if !doubted {
		return nil
	}
	s.log.Info("the node signs from now on", "height", at.Height)
	if s.kept.DoubtSince == nil {
		return nil
	}
	s.kept.DoubtSince, s.kept.Found = nil, false
	return s.home.KeepSigning(s.kept)
}

// overheard takes a vote that a node sent, before CometBFT has checked it: CometBFT tells nobody of
// a vote that contradicts one of its own. Votes far from the next height cost no signature's check.
func (s *silence) overheard(raw *cmtproto.Vote, next int64) {
	if h := raw.GetHeight(); h < next-1 || h > next+1 {
		return
	}
	s.mu.Lock()
	key := s.keys[string(raw.GetValidatorAddress())]
	s.mu.Unlock()
	if key == nil {
		return
	}
	vote, err := types.VoteFromProto(raw)
	if err == nil && vote.Verify(s.chainID, key.Key.PubKey) == nil {
		s.heard(vote)
	}
}

// heard takes a vote whose signature is valid.
func (s *silence) heard(vote *types.Vote) {
	at := signer.StepOf(vote.Height, vote.Round, vote.Type)
	s.learn(string(vote.ValidatorAddress), vote.Height, func(g *signer.Guard, order signer.Standing) bool { return g.Heard(at, vote.Signature, order) })
}

// joins notes that the node joins by a snapshot, so that it does not see earlier blocks.
func (s *silence) joins() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Joins = true
	return s.home.KeepSigning(s.kept)
}

// joined looks at the keys once the node is at the first order block after a snapshot. A home that
// joins may be an old copy of one whose node went on, and signed in blocks that it never sees.
// Where the others decide without a key, blocks after the snapshot may show none of these
// signatures: it waits (A14). Otherwise each block shows one. Called with mu held.
func (s *silence) joined() {
	doubts := false
	for address, g := range s.guards {
		used := s.keys[address].Last != nil && s.keys[address].Last.Height > 0
		if p := s.powers(address); used && p.Key > 0 && p.OthersSuffice() && !g.Doubts() {
			g.Doubt()
			doubts = true
		}
	}
	s.kept.Joins = false
	if doubts {
		now := time.Now().UTC()
		s.kept.DoubtSince = &now
		s.log.Info("the node has joined by a snapshot, and its validator key may have signed in blocks before: it signs only for heights that the key cannot have been used for")
		if s.lost != nil {
			s.lost.doubted()
		}
	}
	if err := s.home.KeepSigning(s.kept); err != nil {
		s.log.Error("a restart may forget that the node must not sign", "error", err)
	}
}

// decided takes an order block: which keys precommitted the block before it, and of which it has
// evidence.
func (s *silence) decided(height int64, commit abci.CommitInfo, evidence []abci.Misbehavior) {
	s.mu.Lock()
	if s.kept.Joins {
		s.joined()
	}
	s.mu.Unlock()
	for _, v := range commit.Votes {
		if v.BlockIdFlag == cmtproto.BlockIDFlagCommit || v.BlockIdFlag == cmtproto.BlockIDFlagNil {
			s.learn(string(v.Validator.Address), height-1, func(g *signer.Guard, order signer.Standing) bool { return g.Decided(height-1, order) })
		}
	}
	for _, e := range evidence {
		s.learn(string(e.Validator.Address), e.Height, func(g *signer.Guard, order signer.Standing) bool { return g.Twice(e.Height, order) })
	}
}

// learn passes a fact to a key's guard, and stores the guard's finding.
func (s *silence) learn(address string, height int64, tell func(*signer.Guard, signer.Standing) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guards[address]
	if g == nil || !tell(g, signer.Standing{Reach: s.reports.Reach(s.powers(address))}) {
		return
	}
	s.keep(g, height)
}

// keep stores on disk that a key was used elsewhere. Called with mu held.
func (s *silence) keep(g *signer.Guard, height int64) {
	now := time.Now().UTC()
	next := s.kept
	switch {
	case g.Stopped() && next.Elsewhere == nil:
		next.Elsewhere = &config.Elsewhere{Height: height, At: now}
		s.log.Error("another process signs with this node's validator key: this node signs nothing any more. Stop the other one for good, then \"chainify sign-again\"", "height", height)
	case !g.Stopped() && next.DoubtSince == nil:
		next.DoubtSince, next.Found = &now, true
		s.log.Warn("this node's validator key signed what this node did not: it signs nothing before heights that the key cannot have been used for", "height", height)
	default:
		return
	}
	s.kept = next
	if s.lost != nil && !g.Stopped() {
		s.lost.doubted()
	}
	if err := s.home.KeepSigning(next); err != nil {
		s.log.Error("a restart may forget that the node must not sign", "error", err)
	}
}

// why returns why a key that counts must not sign for a height; nil: it may. stopped: for good,
// until the operator acts.
func (s *silence) why(key *signer.Key, height int64) (stopped bool, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept.Elsewhere != nil {
		return true, fmt.Errorf("%w: seen at order block %d, on %s", signer.ErrElsewhere, s.kept.Elsewhere.Height, s.kept.Elsewhere.At.Format(time.RFC3339))
	}
	if s.powers(string(key.Key.Address)).Key == 0 {
		return false, nil
	}
	return false, s.mayNow(key, height)
}

// showing wraps the application, and passes each decided block to silence.
type showing struct {
	abci.Application
	silence *silence
}

// FinalizeBlock implements abci.Application.
func (w showing) FinalizeBlock(ctx context.Context, req *abci.RequestFinalizeBlock) (*abci.ResponseFinalizeBlock, error) {
	w.silence.decided(req.Height, req.DecidedLastCommit, req.Misbehavior)
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
