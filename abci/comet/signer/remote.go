package signer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cometbft/cometbft/crypto"
	cmtlog "github.com/cometbft/cometbft/libs/log"
	"github.com/cometbft/cometbft/privval"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"
)

// A signer has signerLimit to connect when the node starts. A signature that is asked for is asked
// for signatureTries times, since the connection may come back.
const (
	signerLimit    = 30 * time.Second
	signatureTries = 5
	signaturePause = 100 * time.Millisecond
)

// remoteKey is a validator key that another process holds. That process never signs twice; what it
// answers is checked here.
type remoteKey struct {
	asked  types.PrivValidator
	public crypto.PubKey
	close  func() error
}

var _ types.PrivValidator = (*remoteKey)(nil)

// OpenRemote listens at an address and waits for the signer (CometBFT's privval protocol).
func OpenRemote(address, chainID string, log cmtlog.Logger) (*Key, error) {
	endpoint, err := privval.NewSignerListener(address, log)
	if err != nil {
		return nil, fmt.Errorf("listen for the signer: %w", err)
	}
	client, err := privval.NewSignerClient(endpoint, chainID)
	if err != nil {
		return nil, fmt.Errorf("listen for the signer: %w", err)
	}
	if err := client.WaitForConnection(signerLimit); err != nil {
		return nil, errors.Join(fmt.Errorf("no signer connected to %s within %s: %w", address, signerLimit, err), endpoint.Stop())
	}
	asked := privval.NewRetrySignerClient(client, signatureTries, signaturePause)
	public, err := asked.GetPubKey()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask the signer for its public key: %w", err), endpoint.Stop())
	}
	return Checked(asked, public, endpoint.Stop), nil
}

// Checked is a key of another process, which asked reaches. Its answers are checked.
func Checked(asked types.PrivValidator, public crypto.PubKey, close func() error) *Key {
	return &Key{PrivValidator: &remoteKey{asked, public, close}, Key: StoredKey{Address: public.Address(), PubKey: public}}
}

// Close ends the connection.
func (r *remoteKey) Close() error { return r.close() }

// GetPubKey implements types.PrivValidator.
func (r *remoteKey) GetPubKey() (crypto.PubKey, error) { return r.public, nil }

// SignVote implements types.PrivValidator. Of the answer only time and signatures count, and they
// have to be right.
func (r *remoteKey) SignVote(chainID string, vote *cmtproto.Vote) error {
	answer := *vote
	answer.Extension = slices.Clone(vote.Extension)
	if err := r.asked.SignVote(chainID, &answer); err != nil {
		return fmt.Errorf("have the signer sign a vote: %w", err)
	}
	signed := *vote
	signed.Timestamp, signed.Signature, signed.ExtensionSignature = answer.Timestamp, answer.Signature, answer.ExtensionSignature
	if !r.public.VerifySignature(types.VoteSignBytes(chainID, &signed), signed.Signature) {
		return errors.New("the signer's signature of a vote is false")
	}
	extended := vote.Type == cmtproto.PrecommitType && !types.ProtoBlockIDIsNil(&vote.BlockID)
	if extended && !r.public.VerifySignature(types.VoteExtensionSignBytes(chainID, &signed), signed.ExtensionSignature) {
		return errors.New("the signer's signature of a vote extension is false")
	}
	*vote = signed
	return nil
}

// SignProposal implements types.PrivValidator, as SignVote does.
func (r *remoteKey) SignProposal(chainID string, proposal *cmtproto.Proposal) error {
	answer := *proposal
	if err := r.asked.SignProposal(chainID, &answer); err != nil {
		return fmt.Errorf("have the signer sign a proposal: %w", err)
	}
	signed := *proposal
	signed.Timestamp, signed.Signature = answer.Timestamp, answer.Signature
	if !r.public.VerifySignature(types.ProposalSignBytes(chainID, &signed), signed.Signature) {
		return errors.New("the signer's signature of a proposal is false")
	}
	*proposal = signed
	return nil
}
