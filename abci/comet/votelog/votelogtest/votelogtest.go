// Package votelogtest makes logs of CometBFT's consensus, for tests.
package votelogtest

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/cometbft/cometbft/consensus"
	cons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// Write writes one file of CometBFT's log.
func Write(t *testing.T, path string, torn int, messages ...*cons.WALMessage) {
	t.Helper()
	var out bytes.Buffer
	for _, m := range messages {
		decoded, err := consensus.WALFromProto(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := consensus.NewWALEncoder(&out).Encode(&consensus.TimedWALMessage{Time: time.Unix(0, 0).UTC(), Msg: decoded}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, out.Bytes()[:out.Len()-torn], 0o600); err != nil {
		t.Fatal(err)
	}
}

// EndOf is the end of a height.
func EndOf(height int64) *cons.WALMessage {
	return &cons.WALMessage{Sum: &cons.WALMessage_EndHeight{EndHeight: &cons.EndHeight{Height: height}}}
}

// Logged is a vote on effects, in a vote of a height. A peer is the node that sent it; empty: this
// one made it.
func Logged(peer string, kind cmtproto.SignedMsgType, height int64, v wire.EffectVote) *cons.WALMessage {
	vote := &types.Vote{
		Type: kind, Height: height, Timestamp: time.Unix(0, 0).UTC(), ValidatorAddress: make([]byte, 20), Signature: make([]byte, 64),
		BlockID: types.BlockID{Hash: make([]byte, 32), PartSetHeader: types.PartSetHeader{Total: 1, Hash: make([]byte, 32)}},
	}
	if kind == cmtproto.PrecommitType {
		vote.Extension, vote.ExtensionSignature = v.Encode(), make([]byte, 64)
	}
	return &cons.WALMessage{Sum: &cons.WALMessage_MsgInfo{MsgInfo: &cons.MsgInfo{
		Msg: cons.Message{Sum: &cons.Message_Vote{Vote: &cons.Vote{Vote: vote.ToProto()}}}, PeerID: peer,
	}}}
}
