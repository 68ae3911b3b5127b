package lane

import (
	"context"
	"errors"

	abci "github.com/cometbft/cometbft/abci/types"
	cstypes "github.com/cometbft/cometbft/consensus/types"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"
)

// shown is the state of the consensus routine when it last called the node. Everything behind its
// pointers has locks of its own.
type shown struct {
	height     int64
	validators int
	own        int32 // the own validator among them; -1: none
	votes      *cstypes.HeightVoteSet
	parts      *types.PartSet // complete; nil: none yet
	proposal   *types.Proposal
	proposed   *types.PartSet // of proposal, the newest of this node
}

// look takes over what the consensus routine shows, and sends a new own proposal. It is called on
// that routine, which holds the state's lock meanwhile: it neither locks the state nor waits.
func (l *Lane) look() {
	if l.state == nil {
		return
	}
	rs := &l.state.RoundState
	l.mu.Lock()
	s := &l.shown
	s.height, s.validators, s.votes, s.parts = rs.Height, rs.Validators.Size(), rs.Votes, nil
	s.own, _ = rs.Validators.GetByAddress(l.own)
	if rs.ProposalBlockParts != nil && rs.ProposalBlockParts.IsComplete() {
		s.parts = rs.ProposalBlockParts
	}
	fresh := s.parts != nil && rs.Proposal != nil && rs.Proposal != s.proposal && rs.Proposal.BlockID.Equals(l.signed) &&
		s.parts.HasHeader(rs.Proposal.BlockID.PartSetHeader)
	if fresh {
		s.proposal, s.proposed = rs.Proposal, s.parts
	}
	now := *s
	if rs.Proposal != nil {
		l.absence.heard(string(rs.Validators.GetProposer().Address))
	}
	l.mu.Unlock()
	if fresh {
		l.propose(now)
	}
}

func (l *Lane) seen() shown {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shown
}

// Application is an application that shows the lane each proposal before it judges it.
func (l *Lane) Application(inner abci.Application) abci.Application {
	return &application{inner, l}
}

type application struct {
	abci.Application
	lane *Lane
}

// ProcessProposal implements abci.Application.
func (a *application) ProcessProposal(ctx context.Context, req *abci.RequestProcessProposal) (*abci.ResponseProcessProposal, error) {
	a.lane.look()
	return a.Application.ProcessProposal(ctx, req)
}

// Signer is a signer, on this machine or elsewhere, that shows the lane what it signs.
func (l *Lane) Signer(inner types.PrivValidator) types.PrivValidator { return &signer{inner, l} }

type signer struct {
	types.PrivValidator
	lane *Lane
}

// SignVote implements types.PrivValidator.
func (s *signer) SignVote(chainID string, vote *cmtproto.Vote) error {
	s.lane.mu.Lock()
	s.lane.own = vote.ValidatorAddress
	s.lane.mu.Unlock()
	s.lane.look()
	return s.PrivValidator.SignVote(chainID, vote)
}

// SignProposal implements types.PrivValidator.
func (s *signer) SignProposal(chainID string, proposal *cmtproto.Proposal) error {
	err := s.PrivValidator.SignProposal(chainID, proposal)
	id, errID := types.BlockIDFromProto(&proposal.BlockID)
	if err = errors.Join(err, errID); err != nil {
		return err
	}
	s.lane.mu.Lock()
	s.lane.signed = *id
	s.lane.mu.Unlock()
	return nil
}
