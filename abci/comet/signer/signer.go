// Package signer signs votes and proposals with a validator key on this machine, and never two
// different ones of the same step. It keeps the last signature in a file of fixed size, which costs
// one write and one flush, where CometBFT's own signer writes and renames a file.
package signer

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cometbft/cometbft/crypto"
	"github.com/cometbft/cometbft/libs/protoio"
	"github.com/cometbft/cometbft/privval"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"
	"github.com/cosmos/gogoproto/proto"
)

// The steps of a round, in the numbers of CometBFT's file.
const (
	stepPropose   = 1
	stepPrevote   = 2
	stepPrecommit = 3
)

// Last is the last signature. A signer of a key that has signed nothing has the zero value.
type Last struct {
	Height    int64
	Round     int32
	Step      int8
	SignBytes []byte // empty: nothing was signed
	Signature []byte
}

// compare orders by height, round and step.
func (l *Last) compare(height int64, round int32, step int8) int {
	switch {
	case l.Height != height:
		return sign(l.Height - height)
	case l.Round != round:
		return sign(int64(l.Round) - int64(round))
	}
	return sign(int64(l.Step) - int64(step))
}

func sign(difference int64) int {
	switch {
	case difference < 0:
		return -1
	case difference > 0:
		return 1
	}
	return 0
}

// Signer signs with one key. Not safe for concurrent use.
//
// Invariant E7: a signature leaves only after the disk holds it. Of each height, round and step one
// content is signed, but for its time. Asked again, the signer gives the time and the signature of
// before. A crash between the two leaves a signature that nobody saw.
type Signer struct {
	key  crypto.PrivKey
	last Last
	file store
}

// store keeps the last signature; a call that returns no error has it on disk.
type store interface {
	save(Last) error
	close() error
}

var _ types.PrivValidator = (*Signer)(nil)

// Open opens the file beside CometBFT's state of a key, which it takes over the first time. From
// then on CometBFT's state forbids its own signer everything (GiveBack ends that). It fails when
// the last signature is in neither.
func Open(key *privval.FilePV, stateFile string) (*Signer, error) {
	file, last, err := takeOver(key, stateFile)
	if err != nil {
		return nil, fmt.Errorf("last signature of validator %X: %w", key.GetAddress(), err)
	}
	return &Signer{key: key.Key.PrivKey, last: last, file: file}, nil
}

// Last returns the last signature.
func (s *Signer) Last() *Last {
	last := s.last
	return &last
}

// Close closes the file. The signer then refuses everything new.
func (s *Signer) Close() error { return s.file.close() }

// GetPubKey implements types.PrivValidator.
func (s *Signer) GetPubKey() (crypto.PubKey, error) { return s.key.PubKey(), nil }

// SignVote implements types.PrivValidator. An extension is signed anew each time: the application
// may make another one after a crash.
func (s *Signer) SignVote(chainID string, vote *cmtproto.Vote) error {
	step, ok := map[cmtproto.SignedMsgType]int8{cmtproto.PrevoteType: stepPrevote, cmtproto.PrecommitType: stepPrecommit}[vote.Type]
	if !ok {
		return fmt.Errorf("sign vote: unknown type %d", vote.Type)
	}
	var extension []byte
	var err error
	switch {
	case vote.Type == cmtproto.PrecommitType && !types.ProtoBlockIDIsNil(&vote.BlockID):
		if extension, err = s.key.Sign(types.VoteExtensionSignBytes(chainID, vote)); err != nil {
			return fmt.Errorf("sign vote extension: %w", err)
		}
	case len(vote.Extension) > 0:
		return errors.New("sign vote: an extension belongs to a precommit for a block alone")
	}
	signature, at, err := s.sign(vote.Height, vote.Round, step, types.VoteSignBytes(chainID, vote), func(b []byte) (timed, error) {
		var v cmtproto.CanonicalVote
		err := protoio.UnmarshalDelimited(b, &v)
		return timed{&v, &v.Timestamp}, err
	})
	if err != nil {
		return fmt.Errorf("sign vote: %w", err)
	}
	vote.Signature, vote.ExtensionSignature = signature, extension
	if at != nil {
		vote.Timestamp = *at
	}
	return nil
}

// SignProposal implements types.PrivValidator.
func (s *Signer) SignProposal(chainID string, proposal *cmtproto.Proposal) error {
	signature, at, err := s.sign(proposal.Height, proposal.Round, stepPropose, types.ProposalSignBytes(chainID, proposal), func(b []byte) (timed, error) {
		var p cmtproto.CanonicalProposal
		err := protoio.UnmarshalDelimited(b, &p)
		return timed{&p, &p.Timestamp}, err
	})
	if err != nil {
		return fmt.Errorf("sign proposal: %w", err)
	}
	proposal.Signature = signature
	if at != nil {
		proposal.Timestamp = *at
	}
	return nil
}

// timed is a decoded message and its time.
type timed struct {
	message proto.Message
	at      *time.Time
}

// sign signs a step, or gives the signature of before, with the time that it was made for when that
// is another.
func (s *Signer) sign(height int64, round int32, step int8, message []byte, decode func([]byte) (timed, error)) (signature []byte, at *time.Time, err error) {
	switch order := s.last.compare(height, round, step); {
	case order > 0:
		return nil, nil, fmt.Errorf("height %d round %d step %d is before %d/%d/%d, which was signed", height, round, step, s.last.Height, s.last.Round, s.last.Step)
	case order == 0 && bytes.Equal(message, s.last.SignBytes):
		return s.last.Signature, nil, nil
	case order == 0:
		at, err := sameButTime(s.last.SignBytes, message, decode)
		if err != nil {
			return nil, nil, fmt.Errorf("height %d round %d step %d: %w", height, round, step, err)
		}
		return s.last.Signature, at, nil
	}
	if signature, err = s.key.Sign(message); err != nil {
		return nil, nil, err
	}
	next := Last{Height: height, Round: round, Step: step, SignBytes: message, Signature: signature}
	if err := s.file.save(next); err != nil {
		return nil, nil, err
	}
	s.last = next
	return signature, nil, nil
}

// sameButTime returns the time of a message when another one differs from it in nothing else.
func sameButTime(last, message []byte, decode func([]byte) (timed, error)) (*time.Time, error) {
	before, err := decode(last)
	after, errAfter := decode(message)
	if err := errors.Join(err, errAfter); err != nil {
		return nil, fmt.Errorf("something else was signed: %w", err)
	}
	at := *before.at
	*after.at = at
	if !proto.Equal(before.message, after.message) {
		return nil, errors.New("something else was signed")
	}
	return &at, nil
}
