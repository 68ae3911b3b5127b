package votelog

import (
	"path/filepath"
	"slices"
	"testing"

	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"

	"github.com/chainify-db/chainify/abci/comet/votelog/votelogtest"
	"github.com/chainify-db/chainify/abci/wire"
)

// The node's own votes are read from a height on, over all files of the log, up to where it was
// cut; no other's.
func TestOwnVotesAreReadFromTheLog(t *testing.T) {
	vote := func(number uint64, hash byte) wire.EffectVote {
		return wire.NewEffectsVote(wire.Key{Number: number}, "acme", wire.Hash{hash})
	}
	const own, peer, precommit = "", "f00d", cmtproto.PrecommitType
	head := filepath.Join(t.TempDir(), "wal")
	votelogtest.Write(t, head+".999", 0, votelogtest.EndOf(3), votelogtest.Logged(own, precommit, 4, vote(1, 1)), votelogtest.EndOf(4), votelogtest.Logged(own, precommit, 5, vote(2, 2)))
	votelogtest.Write(t, head+".1000", 0, votelogtest.Logged(peer, precommit, 5, vote(3, 9)), votelogtest.Logged(own, precommit, 5, vote(3, 3)),
		votelogtest.Logged(own, cmtproto.PrevoteType, 5, vote(4, 4)), votelogtest.EndOf(5), votelogtest.Logged(own, precommit, 6, vote(3, 4)))
	votelogtest.Write(t, head, 3, votelogtest.EndOf(6), votelogtest.Logged(own, precommit, 7, vote(5, 5)), votelogtest.EndOf(7), votelogtest.Logged(own, precommit, 8, vote(6, 6)))
	for from, want := range map[int64][]wire.EffectVote{
		0: {vote(1, 1), vote(2, 2), vote(3, 3), vote(5, 5)},
		5: {vote(2, 2), vote(3, 3), vote(5, 5)},
		6: {vote(3, 4), vote(5, 5)},
		7: {vote(5, 5)},
		9: nil,
	} {
		if got, err := Read(head, from, 8, wire.Key{}); err != nil || !slices.Equal(got.Votes, want) {
			t.Errorf("from %d: %v, %v; want %v", from, got, err, want)
		}
	}
	// A vote on what is pending, in a file that begins before the next height, is enough; a file
	// that begins within that height is not.
	if got, err := Read(head, 1, 7, wire.Key{Number: 5}); err != nil || !slices.Equal(got.Votes, []wire.EffectVote{vote(5, 5)}) {
		t.Errorf("with block 5 pending: %v, %v", got, err)
	}
	if got, err := Read(head, 1, 6, wire.Key{Number: 5}); err != nil || !slices.Equal(got.Votes, []wire.EffectVote{vote(3, 3), vote(5, 5)}) {
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
		if got, err := Read(head, c.from, c.from, wire.Key{}); err != nil || got.Lost(c.last) != c.lost {
			t.Errorf("from %d: %+v, %v; lost to a node that signed for %d: want %v", c.from, got, err, c.last, c.lost)
		}
	}
	if got, err := Read(filepath.Join(t.TempDir(), "wal"), 1, 2, wire.Key{}); err != nil || got.Votes != nil || got.Lost(0) || !got.Lost(1) {
		t.Errorf("without a log: %v, %v", got, err)
	}
}
