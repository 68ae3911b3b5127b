package holder

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	cmtcrypto "github.com/cometbft/cometbft/crypto"
	cmted25519 "github.com/cometbft/cometbft/crypto/ed25519"
	privvalproto "github.com/cometbft/cometbft/proto/tendermint/privval"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cosmos/gogoproto/proto"

	"github.com/chainify-db/chainify/abci/comet/signer"
)

// callLimit bounds a call: connecting, asking, and the token's work.
const callLimit = 5 * time.Second

// caller calls a holder over one connection, which it makes again when it ended. Safe for
// concurrent use: one call at a time.
type caller struct {
	address string
	mu      sync.Mutex
	conn    net.Conn
}

// call asks; an error says who failed.
func (c *caller) call(op byte, parts ...[]byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reused := c.conn != nil
	answer, lost, err := c.once(op, parts)
	if lost && reused { // the holder ends connections that rest; signing twice gives the same
		answer, _, err = c.once(op, parts)
	}
	if err != nil {
		return nil, fmt.Errorf("key holder at %s: %w", c.address, err)
	}
	return answer, nil
}

// once asks over the connection, made where there is none. lost tells that the connection failed.
func (c *caller) once(op byte, parts [][]byte) (answer []byte, lost bool, err error) {
	end := time.Now().Add(callLimit)
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("unix", pathOf(c.address), callLimit); err != nil {
			c.conn = nil
			return nil, true, err
		}
	}
	err = errors.Join(c.conn.SetDeadline(end), writeFrame(c.conn, op, parts...))
	first := byte(0)
	if err == nil {
		first, answer, err = readFrame(c.conn, answerBytesMax)
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("it ended the connection: is this user among those who may ask? (%w)", err)
	}
	if err != nil {
		err = errors.Join(err, c.conn.Close())
		c.conn = nil
		return nil, true, err
	}
	switch first {
	case answered:
		return answer, false, nil
	case refused:
		return nil, false, errors.New(string(answer))
	}
	return nil, false, fmt.Errorf("an answer begins with %d", first)
}

// List names the keys that a holder has, one connection's worth.
func List(address string) ([]Named, error) {
	c := &caller{address: address}
	answer, err := c.call(opKeys)
	if c.conn != nil {
		err = errors.Join(err, c.conn.Close())
	}
	if err != nil {
		return nil, err
	}
	return decodeKeys(answer)
}

// Signer signs messages with a key of a holder: those that May allows. It checks each signature.
func Signer(address string, public ed25519.PublicKey) crypto.Signer {
	return &remoteSigner{caller{address: address}, public}
}

type remoteSigner struct {
	caller
	public ed25519.PublicKey
}

func (r *remoteSigner) Public() crypto.PublicKey { return r.public }

// Sign implements crypto.Signer for whole messages, as ed25519.PrivateKey does.
func (r *remoteSigner) Sign(_ io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts.HashFunc() != crypto.Hash(0) {
		return nil, errors.New("a key holder signs messages, no hashes")
	}
	signature, err := r.call(opSign, r.public, message)
	if err != nil {
		return nil, err
	}
	if !ed25519.Verify(r.public, message, signature) {
		return nil, fmt.Errorf("key holder at %s: its signature is false", r.address)
	}
	return signature, nil
}

// OpenValidator signs votes and proposals with a validator key of a holder. The holder keeps what
// the key signed last, and its answers are checked.
func OpenValidator(address string, public ed25519.PublicKey) *signer.Key {
	r := &remoteValidator{caller{address: address}, cmted25519.PubKey(bytes.Clone(public))}
	return signer.Checked(r, r.public, r.close)
}

type remoteValidator struct {
	caller
	public cmted25519.PubKey
}

// GetPubKey implements types.PrivValidator.
func (r *remoteValidator) GetPubKey() (cmtcrypto.PubKey, error) { return r.public, nil }

// SignVote implements types.PrivValidator.
func (r *remoteValidator) SignVote(chainID string, vote *cmtproto.Vote) error {
	answer, err := r.ask(&privvalproto.Message{Sum: &privvalproto.Message_SignVoteRequest{SignVoteRequest: &privvalproto.SignVoteRequest{Vote: vote, ChainId: chainID}}})
	if err != nil {
		return err
	}
	made := answer.GetSignedVoteResponse()
	if made == nil {
		return fmt.Errorf("key holder at %s: no vote in its answer", r.address)
	}
	*vote = made.Vote
	return nil
}

// SignProposal implements types.PrivValidator.
func (r *remoteValidator) SignProposal(chainID string, proposal *cmtproto.Proposal) error {
	answer, err := r.ask(&privvalproto.Message{Sum: &privvalproto.Message_SignProposalRequest{SignProposalRequest: &privvalproto.SignProposalRequest{Proposal: proposal, ChainId: chainID}}})
	if err != nil {
		return err
	}
	made := answer.GetSignedProposalResponse()
	if made == nil {
		return fmt.Errorf("key holder at %s: no proposal in its answer", r.address)
	}
	*proposal = made.Proposal
	return nil
}

func (r *remoteValidator) ask(request *privvalproto.Message) (*privvalproto.Message, error) {
	raw, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	if raw, err = r.call(opVote, r.public, raw); err != nil {
		return nil, err
	}
	answer := &privvalproto.Message{}
	if err := proto.Unmarshal(raw, answer); err != nil {
		return nil, fmt.Errorf("key holder at %s: %w", r.address, err)
	}
	return answer, nil
}

func (r *remoteValidator) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == nil {
		return nil
	}
	return r.conn.Close()
}
