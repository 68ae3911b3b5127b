package takeover

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dbm "github.com/cometbft/cometbft-db"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"

	"github.com/chainify-db/chainify/abci/comet/votelog"
	"github.com/chainify-db/chainify/abci/comet/votelog/votelogtest"
	"github.com/chainify-db/chainify/abci/effects"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/nodestore"
	"github.com/chainify-db/chainify/abci/wire"
)

// lossOf is a node's knowledge of an earlier one's votes.
type lossOf struct {
	*LostVotes
	under effects.Unknown
	own   []wire.EffectVote
	told  []effects.Unknown
	voted []wire.EffectVote
}

func newLoss(t *testing.T, db dbm.DB) *lossOf {
	t.Helper()
	l := &lossOf{under: effects.Unknown{Number: 7, Round: 2}}
	l.LostVotes = NewLostVotes(LostVotesOptions{
		Store: db, Log: slog.New(slog.DiscardHandler),
		Pending: func() effects.Unknown { return l.under }, OnChain: func() []wire.EffectVote { return l.own },
		Tell: func(u effects.Unknown, voted []wire.EffectVote) {
			l.told, l.voted = append(l.told, u), voted
		},
	})
	return l
}

// A node in a lost one's place votes on nothing before it signs, and on nothing that was pending by
// then, also after a restart.
func TestWhatALostNodeMayHaveVotedOnIsLeftOut(t *testing.T) {
	db := dbm.NewMemDB()
	must.Do(t, takeVotes(db, "", false))
	l := newLoss(t, db)
	if _, err := l.Start(); err != nil {
		t.Fatal(err)
	}
	l.own = []wire.EffectVote{wire.NewStuckVote(wire.Key{Number: 7, Round: 2}, 3)}
	if want := []effects.Unknown{effects.Everything()}; !slices.Equal(l.told, want) {
		t.Fatalf("told %+v, want %+v", l.told, want)
	}
	l.Signed(9, false)
	unknown := effects.Unknown{Number: 7, Round: 2}
	if want := []effects.Unknown{effects.Everything(), unknown}; !slices.Equal(l.told, want) || !slices.Equal(l.voted, l.own) {
		t.Fatalf("told %+v with votes %v, want %+v and the vote on the chain", l.told, l.voted, want)
	}
	l.under = effects.UpTo(8)
	l.Signed(10, false)
	after := newLoss(t, db)
	if _, err := after.Start(); err != nil {
		t.Fatal(err)
	}
	if want := []effects.Unknown{unknown}; !slices.Equal(after.told, want) || len(l.told) != 2 {
		t.Errorf("after a restart told %+v, want %+v; before it %d words, want 2", after.told, want, len(l.told))
	}
}

// An operator who knows how the lost node voted has the node vote, once it signs.
func TestAnOperatorHasANodeVoteAgain(t *testing.T) {
	spare, first, _ := spareOf(t, unchanged)
	must.Do(t, TakeOver(spare, first, false))
	if err := VoteAgain(spare); err == nil || !strings.Contains(err.Error(), "start it first") {
		t.Errorf("%v, want that the node has to sign first", err)
	}
	with := func(do func(*lossOf)) {
		t.Helper()
		db, err := nodestore.Open(spare.Data())
		must.Do(t, err)
		l := newLoss(t, db)
		if _, err := l.Start(); err != nil {
			t.Fatal(err)
		}
		do(l)
		must.Do(t, db.Close())
	}
	with(func(l *lossOf) { l.Signed(9, false) })
	must.Do(t, VoteAgain(spare))
	with(func(l *lossOf) {
		if len(l.told) > 0 {
			t.Errorf("told %+v, want nothing", l.told)
		}
	})
	if err := VoteAgain(spare); err == nil || !strings.Contains(err.Error(), "abstains from nothing") {
		t.Errorf("%v, want that there is nothing to do", err)
	}
}

// A node whose log of its votes is lost votes on nothing before it signs for a height for which its
// keys had signed nothing, also after a restart. One whose log is there says nothing, nor one that
// was given the votes of the node whose last signature it has.
func TestALostLogLeavesVotesUnknown(t *testing.T) {
	db := dbm.NewMemDB()
	l := newLoss(t, db)
	if _, err := l.Start(); err != nil {
		t.Fatal(err)
	}
	l.Compare(votelog.Own{From: 7, Reach: 9}, 9)
	l.Compare(votelog.Own{From: 10}, 9)
	if len(l.told) > 0 {
		t.Fatalf("told %+v with a log, want nothing", l.told)
	}
	l.Compare(votelog.Own{From: 7, Reach: 8}, 9)
	l.Signed(9, false) // again, for a block on which it may have voted
	after := newLoss(t, db)
	if _, err := after.Start(); err != nil {
		t.Fatal(err)
	}
	after.Signed(9, false)
	if want := []effects.Unknown{effects.Everything()}; !slices.Equal(l.told, want) || !slices.Equal(after.told, want) {
		t.Fatalf("told %+v, after a restart %+v; want %+v", l.told, after.told, want)
	}
	after.Signed(10, false)
	if want := []effects.Unknown{effects.Everything(), {Number: 7, Round: 2}}; !slices.Equal(after.told, want) {
		t.Fatalf("told %+v, want %+v", after.told, want)
	}

	taken := newLoss(t, dbm.NewMemDB())
	must.Do(t, keepLoss(taken.opt.Store, Loss{Known: 9}))
	if _, err := taken.Start(); err != nil {
		t.Fatal(err)
	}
	taken.Compare(votelog.Own{From: 7, Reach: 8}, 9)
	taken.Compare(votelog.Own{From: 7, Reach: 8}, 9)
	if len(taken.told) > 0 {
		t.Errorf("told %+v with a lost node's votes, want nothing", taken.told)
	}
	taken.Compare(votelog.Own{From: 7, Reach: 8}, 10)
	if len(taken.told) != 1 {
		t.Errorf("told %+v of a log lost later, want once", taken.told)
	}
}

// A signer of its own may give out a signature of the earlier node: the height after tells.
func TestASignerOfItsOwnMayHaveSignedTheFirstHeight(t *testing.T) {
	db := dbm.NewMemDB()
	must.Do(t, takeVotes(db, "", false))
	l := newLoss(t, db)
	if _, err := l.Start(); err != nil {
		t.Fatal(err)
	}
	l.Signed(8, true)
	l.Signed(8, true)
	if len(l.told) != 1 {
		t.Fatalf("told %+v after the first height, want once", l.told)
	}
	if l.Signed(9, true); len(l.told) != 2 {
		t.Errorf("told %+v after the second, want twice", l.told)
	}
}

// A node that learns that an earlier process used its key does so, too; a node that knows its votes
// says nothing.
func TestAKeyThatWasUsedBeforeLeavesVotesUnknown(t *testing.T) {
	l := newLoss(t, dbm.NewMemDB())
	if _, err := l.Start(); err != nil || len(l.told) > 0 {
		t.Fatalf("%v, told %+v, want nothing", err, l.told)
	}
	l.Signed(9, false)
	l.Doubted()
	l.Doubted()
	if want := []effects.Unknown{effects.Everything()}; !slices.Equal(l.told, want) {
		t.Errorf("told %+v, want %+v", l.told, want)
	}
}

// The votes of a lost node travel with its disk, from CometBFT's log and from the node's own store.
func TestVotesTravelWithTheDisk(t *testing.T) {
	spare, first, _ := spareOf(t, unchanged)
	stuck := wire.NewStuckVote(wire.Key{Number: 7}, 1)
	earlier := wire.NewEffectsVote(wire.Key{Number: 6}, "acme", wire.Hash{6})
	must.Do(t, os.MkdirAll(filepath.Join(first.Data(), "cs.wal"), 0o700))
	votelogtest.Write(t, filepath.Join(first.Data(), "cs.wal", "wal"), 0, votelogtest.EndOf(40), votelogtest.Logged("", cmtproto.PrecommitType, 41, stuck))
	db, err := nodestore.Open(first.Data())
	must.Do(t, err)
	kept := votelog.NewStore(db)
	if _, err := kept.Open(); err != nil {
		t.Fatal(err)
	}
	must.Do(t, kept.Keep(earlier.Encode()))
	must.Do(t, db.Close())
	must.Do(t, TakeOver(spare, first, true))
	if db, err = nodestore.Open(spare.Data()); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l := newLoss(t, db)
	votes, err := l.Start()
	if want := []wire.EffectVote{earlier, stuck}; err != nil || !slices.Equal(votes, want) || len(l.told) > 0 {
		t.Errorf("votes %v (%v), told %+v; want %v and nothing", votes, err, l.told, want)
	}
	if l.Compare(votelog.Own{From: 40}, 41); len(l.told) > 0 {
		t.Errorf("told %+v, with all votes of the lost node", l.told)
	}
	if l.Compare(votelog.Own{From: 40}, 42); len(l.told) != 1 {
		t.Errorf("told %+v, where the lost node signed for a height that its log does not reach", l.told)
	}
}
