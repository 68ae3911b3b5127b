package node

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cometbft/cometbft/consensus"
	cons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// walFile writes one file of CometBFT's log.
func walFile(t *testing.T, path string, torn int, messages ...*cons.WALMessage) {
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

func endOf(height int64) *cons.WALMessage {
	return &cons.WALMessage{Sum: &cons.WALMessage_EndHeight{EndHeight: &cons.EndHeight{Height: height}}}
}

func logged(peer string, kind cmtproto.SignedMsgType, height int64, v wire.EffectVote) *cons.WALMessage {
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

// The node's own votes are read from a height on, over all files of the log, up to where it was
// cut; no other's.
func TestOwnVotesAreReadFromTheLog(t *testing.T) {
	vote := func(number uint64, hash byte) wire.EffectVote {
		return wire.NewEffectsVote(wire.Key{Number: number}, "acme", wire.Hash{hash})
	}
	const own, peer, precommit = "", "f00d", cmtproto.PrecommitType
	head := filepath.Join(t.TempDir(), "wal")
	walFile(t, head+".999", 0, endOf(3), logged(own, precommit, 4, vote(1, 1)), endOf(4), logged(own, precommit, 5, vote(2, 2)))
	walFile(t, head+".1000", 0, logged(peer, precommit, 5, vote(3, 9)), logged(own, precommit, 5, vote(3, 3)),
		logged(own, cmtproto.PrevoteType, 5, vote(4, 4)), endOf(5), logged(own, precommit, 6, vote(3, 4)))
	walFile(t, head, 3, endOf(6), logged(own, precommit, 7, vote(5, 5)), endOf(7), logged(own, precommit, 8, vote(6, 6)))
	for from, want := range map[int64][]wire.EffectVote{
		0: {vote(1, 1), vote(2, 2), vote(3, 3), vote(5, 5)},
		5: {vote(2, 2), vote(3, 3), vote(5, 5)},
		6: {vote(3, 4), vote(5, 5)},
		7: {vote(5, 5)},
		9: nil,
	} {
		if got, err := voted(head, from, 8, wire.Key{}); err != nil || !slices.Equal(got.votes, want) {
			t.Errorf("from %d: %v, %v; want %v", from, got, err, want)
		}
	}
	// A vote on what is pending, in a file that begins before the next height, is enough; a file
	// that begins within that height is not.
	if got, err := voted(head, 1, 7, wire.Key{Number: 5}); err != nil || !slices.Equal(got.votes, []wire.EffectVote{vote(5, 5)}) {
		t.Errorf("with block 5 pending: %v, %v", got, err)
	}
	if got, err := voted(head, 1, 6, wire.Key{Number: 5}); err != nil || !slices.Equal(got.votes, []wire.EffectVote{vote(3, 3), vote(5, 5)}) {
		t.Errorf("with block 5 pending, at height 6: %v, %v", got, err)
	}
	for _, c := range []struct {
		from, last int64
		lost       bool
	}{
		{6, 8, false}, {6, 9, true}, // the log is of another node, or an old copy
		{10, 9, false}, // nothing of those heights is voted on any more
		{1, 8, true},   // its first files are gone
	} {
		if got, err := voted(head, c.from, c.from, wire.Key{}); err != nil || got.lost(c.last) != c.lost {
			t.Errorf("from %d: %+v, %v; lost to a node that signed for %d: want %v", c.from, got, err, c.last, c.lost)
		}
	}
	if got, err := voted(filepath.Join(t.TempDir(), "wal"), 1, 2, wire.Key{}); err != nil || got.votes != nil || got.lost(0) || !got.lost(1) {
		t.Errorf("without a log: %v, %v", got, err)
	}
}
