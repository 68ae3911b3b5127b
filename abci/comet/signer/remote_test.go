package signer

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/cometbft/cometbft/crypto/ed25519"
	cmtlog "github.com/cometbft/cometbft/libs/log"
	"github.com/cometbft/cometbft/privval"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/must"
)

// liar signs for another block than it is asked for, when lies is set.
type liar struct {
	types.MockPV
	lies bool
}

func (l *liar) SignVote(chainID string, vote *cmtproto.Vote) error {
	if l.lies {
		vote.BlockID.Hash[0]++
	}
	return l.MockPV.SignVote(chainID, vote)
}

func (l *liar) SignProposal(chainID string, proposal *cmtproto.Proposal) error {
	if l.lies {
		proposal.Height++
	}
	return l.MockPV.SignProposal(chainID, proposal)
}

// signedBy opens a remote key whose signer, over a socket, is the given one.
func signedBy(t *testing.T, key types.PrivValidator) *Key {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "signer.sock")
	server := privval.NewSignerServer(privval.NewSignerDialerEndpoint(cmtlog.NewNopLogger(), privval.DialUnixFn(socket),
		privval.SignerDialerEndpointConnRetries(1000), privval.SignerDialerEndpointRetryWaitInterval(10*time.Millisecond)), "trade", key)
	must.Do(t, server.Start())
	remote, err := OpenRemote("unix://"+socket, "trade", cmtlog.NewNopLogger())
	must.Do(t, err)
	t.Cleanup(func() { _ = remote.Close(); _ = server.Stop() })
	return remote
}

// Of a signer's answer nothing counts but a right signature.
func TestARemoteSignersAnswerIsChecked(t *testing.T) {
	signer := &liar{MockPV: types.NewMockPV()}
	remote := signedBy(t, signer)
	block := cmtproto.BlockID{Hash: make([]byte, 32), PartSetHeader: cmtproto.PartSetHeader{Total: 1, Hash: make([]byte, 32)}}
	vote := func() *cmtproto.Vote {
		return &cmtproto.Vote{Type: cmtproto.PrecommitType, Height: 3, BlockID: block, Timestamp: time.Unix(1, 0).UTC(), ValidatorAddress: remote.Key.Address, Extension: []byte("effects")}
	}
	proposal := func() *cmtproto.Proposal {
		return &cmtproto.Proposal{Type: cmtproto.ProposalType, Height: 3, PolRound: -1, BlockID: block, Timestamp: time.Unix(1, 0).UTC()}
	}
	honest := vote()
	if err := remote.SignVote("trade", honest); err != nil || len(honest.ExtensionSignature) != ed25519.SignatureSize {
		t.Errorf("an honest signer: %v, %+v", err, honest)
	}
	if err := remote.SignProposal("trade", proposal()); err != nil {
		t.Errorf("an honest signer: %v", err)
	}
	signer.lies = true
	if v := vote(); remote.SignVote("trade", v) == nil || len(v.Signature) > 0 {
		t.Errorf("a vote for another block counts: %+v", v)
	}
	if p := proposal(); remote.SignProposal("trade", p) == nil || len(p.Signature) > 0 {
		t.Errorf("a proposal of another height counts: %+v", p)
	}
	if err := remote.SignVote("other", vote()); err == nil {
		t.Error("a vote of another chain is signed")
	}
}
