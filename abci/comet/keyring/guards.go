package keyring

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/comet/signer"
	"github.com/chainify-db/chainify/abci/config"
)

// Order is what guards ask of the order.
type Order interface {
	// Reported are the heights that the nodes of each organisation work on, the greatest of those
	// that are connected. Each told its own on a connection made after this process began.
	Reported() map[string]int64
	// Counted tells that a key was a validator's at a height, or that this is not known; false at
	// height 0.
	Counted(height int64, address []byte) bool
}

// Votes are this organisation's votes on effects: they follow what is found of its key.
type Votes interface {
	// Doubted is told that the key was used by an earlier process.
	Doubted()
	// Signed is told that the key signed for a height. Again: another process keeps its last
	// signature.
	Signed(height int64, again bool)
}

// Guards is the shell of the double-sign guards, one for each validator key of the home. It passes
// to them what the node learns of signatures and heights, and stores their findings over a restart.
// signer.Guard decides.
type Guards struct {
	home     config.Home
	chainID  string
	registry func() *order.Registry
	log      *slog.Logger

	mu      sync.Mutex // guards all below
	order   Order      // nil: not made yet
	kept    config.Signing
	reports signer.Reports
	guards  map[string]*signer.Guard // by the key's address
	keys    map[string]*signer.Key
	asked   *cmtproto.Vote // the last vote that CometBFT asked for and that was refused; nil: none
	votes   Votes          // nil: not made yet
}

// NewGuards reads what is kept of the keys of a home.
func NewGuards(home config.Home, chainID string, registry func() *order.Registry, log *slog.Logger) (*Guards, error) {
	kept, err := home.Signing()
	if err != nil {
		return nil, err
	}
	return &Guards{home: home, chainID: chainID, registry: registry, log: log, kept: kept, guards: map[string]*signer.Guard{}, keys: map[string]*signer.Key{}}, nil
}

// Attach sets the order, which the guards ask about heights.
func (s *Guards) Attach(order Order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = order
}

// Follow lets votes on effects depend on the findings about the key that counts.
func (s *Guards) Follow(counts *signer.Key, votes Votes) {
	s.mu.Lock()
	s.votes = votes
	doubts := s.kept.DoubtSince != nil || counts != nil && s.guard(counts).Doubts()
	s.mu.Unlock()
	if doubts {
		votes.Doubted()
	}
}

// guard returns the guard of a key. Called with mu held.
func (s *Guards) guard(key *signer.Key) *signer.Guard {
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

// Know begins to watch a key.
func (s *Guards) Know(key *signer.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guard(key)
}

// powers returns the voting power of the key with this address, and that of all other keys by
// organisation.
func (s *Guards) powers(address string) signer.Powers {
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
func (s *Guards) look(p signer.Powers) (reach int64) {
	if reach = s.reports.Reach(p); reach == 0 && s.order != nil {
		s.reports.Take(s.order.Reported())
		reach = s.reports.Reach(p)
	}
	return reach
}

// Waits reports whether the heights of further nodes are needed.
func (s *Guards) Waits(counts *signer.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.powers(string(counts.Key.Address))
	return s.asked != nil || s.guard(counts).Doubts() || s.reports.Reach(p) == 0 && p.OthersSuffice()
}

// progress describes the state of the order for the guard of a key. Called with mu held.
func (s *Guards) progress(address string, height int64) signer.Progress {
	p := s.powers(address)
	reach := s.look(p)
	// A doubt that is kept on disk comes from an earlier process, which may have begun this height.
	first := s.kept.DoubtSince == nil && p.Key > 0 && s.order != nil && !s.order.Counted(height-1, []byte(address)) && s.reports.Begins(height, p)
	return signer.Progress{Reach: reach, First: first}
}

// May returns why a key must not sign for a height; nil: it may sign.
func (s *Guards) May(key *signer.Key, height int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mayNow(key, height)
}

func (s *Guards) mayNow(key *signer.Key, height int64) error {
	g := s.guard(key)
	if !g.Doubts() {
		return nil
	}
	address, stopped := string(key.Key.Address), g.Stopped()
	at := s.progress(address, height)
	err := g.May(height, at)
	if g.Stopped() && !stopped {
		s.keep(g, height)
	}
	switch {
	case !errors.Is(err, signer.ErrSilent):
		return err
	case at.Reach > 0:
		return fmt.Errorf("%w: it signs after order block %d", err, g.Until(at.Reach))
	}
	return fmt.Errorf("%w: it waits until all of these have told how far the order is: %s", err, strings.Join(s.reports.Missing(s.powers(address)), ", "))
}

// Hides reports whether CometBFT should see no validator in a key: the key signs nothing for the
// next height, so CometBFT need not ask.
func (s *Guards) Hides(key *signer.Key, next func() int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guard(key)
	if !g.Doubts() {
		return false
	}
	height := next()
	return (g.Stopped() || s.order == nil || s.order.Counted(height-1, key.Key.Address)) && s.mayNow(key, height) != nil
}

// Refused notes a vote that CometBFT asked for and that was refused.
func (s *Guards) Refused(vote *cmtproto.Vote) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := *vote
	s.asked = &asked
}

// Late checks once more whether the refused vote may be signed now, and returns it then; nil:
// there is none. next is the height that is decided next.
func (s *Guards) Late(counts *signer.Key, next int64) *cmtproto.Vote {
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

// Signed notes each signature before it leaves the node.
func (s *Guards) Signed(key *signer.Key, at signer.Step, signature []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guard(key)
	doubted := g.Doubts()
	g.Made(at, signature)
	if s.votes != nil {
		s.votes.Signed(at.Height, key.Last == nil)
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

// Overheard takes a vote that a node sent, before CometBFT has checked it: CometBFT tells nobody of
// a vote that contradicts one of its own. Votes far from the next height cost no signature's check.
func (s *Guards) Overheard(raw *cmtproto.Vote, next int64) {
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
		s.Heard(vote)
	}
}

// Heard takes a vote whose signature is valid.
func (s *Guards) Heard(vote *types.Vote) {
	at := signer.StepOf(vote.Height, vote.Round, vote.Type)
	s.learn(string(vote.ValidatorAddress), vote.Height, func(g *signer.Guard, order signer.Progress) bool { return g.Heard(at, vote.Signature, order) })
}

// Joins notes that the node joins by a snapshot, so that it does not see earlier blocks.
func (s *Guards) Joins() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Joins = true
	return s.home.KeepSigning(s.kept)
}

// joined looks at the keys once the node is at the first order block after a snapshot. A home that
// Joins may be an old copy of one whose node went on, and signed in blocks that it never sees.
// Where the others decide without a key, blocks after the snapshot may show none of these
// signatures: it waits (A14). Otherwise each block shows one. Called with mu held.
func (s *Guards) joined() {
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
		if s.votes != nil {
			s.votes.Doubted()
		}
	}
	if err := s.home.KeepSigning(s.kept); err != nil {
		s.log.Error("a restart may forget that the node must not sign", "error", err)
	}
}

// Decided takes an order block: which keys precommitted the block before it, and of which it has
// evidence.
func (s *Guards) Decided(height int64, commit abci.CommitInfo, evidence []abci.Misbehavior) {
	s.mu.Lock()
	if s.kept.Joins {
		s.joined()
	}
	s.mu.Unlock()
	for _, v := range commit.Votes {
		if v.BlockIdFlag == cmtproto.BlockIDFlagCommit || v.BlockIdFlag == cmtproto.BlockIDFlagNil {
			s.learn(string(v.Validator.Address), height-1, func(g *signer.Guard, order signer.Progress) bool { return g.Decided(height-1, order) })
		}
	}
	for _, e := range evidence {
		s.learn(string(e.Validator.Address), e.Height, func(g *signer.Guard, order signer.Progress) bool { return g.Twice(e.Height, order) })
	}
}

// learn passes a fact to a key's guard, and stores the guard's finding.
func (s *Guards) learn(address string, height int64, tell func(*signer.Guard, signer.Progress) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guards[address]
	if g == nil || !tell(g, signer.Progress{Reach: s.reports.Reach(s.powers(address))}) {
		return
	}
	s.keep(g, height)
}

// keep stores on disk that a key was used elsewhere. Called with mu held.
func (s *Guards) keep(g *signer.Guard, height int64) {
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
	if s.votes != nil && !g.Stopped() {
		s.votes.Doubted()
	}
	if err := s.home.KeepSigning(next); err != nil {
		s.log.Error("a restart may forget that the node must not sign", "error", err)
	}
}

// Why returns why a key that counts must not sign for a height; nil: it may. stopped: for good,
// until the operator acts.
func (s *Guards) Why(key *signer.Key, height int64) (stopped bool, why error) {
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
