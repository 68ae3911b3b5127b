package comet

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	dbm "github.com/cometbft/cometbft-db"
	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/comet/votelog"
	"github.com/chainify-db/chainify/abci/wire"
)

// voter is an application with a vote.
type voter struct {
	abci.BaseApplication
	vote []byte
}

func (v voter) ExtendVote(context.Context, *abci.RequestExtendVote) (*abci.ResponseExtendVote, error) {
	return &abci.ResponseExtendVote{VoteExtension: v.vote}, nil
}

// full is a store whose disk is full.
type full struct{ dbm.DB }

func (full) SetSync(_, _ []byte) error { return errors.New("no space left on device") }

// E5: CometBFT gets no vote that the disk does not hold.
func TestAVoteIsKeptBeforeCometBFTHasIt(t *testing.T) {
	v := wire.NewEffectsVote(wire.Key{Number: 7}, "acme", wire.Hash{1})
	for name, db := range map[string]dbm.DB{"kept": dbm.NewMemDB(), "not kept": full{dbm.NewMemDB()}} {
		b := &Beside{opt: Options{Log: slog.New(slog.DiscardHandler)}, votes: votelog.NewStore(db)}
		if _, err := b.votes.Open(); err != nil {
			t.Fatal(err)
		}
		answer, err := besideApp{voter{vote: v.Encode()}, b}.ExtendVote(context.Background(), &abci.RequestExtendVote{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again := votelog.NewStore(db)
		votes, err := again.Open()
		if err != nil || slices.Contains(votes, v) != (name == "kept") || len(answer.VoteExtension) > 0 != (name == "kept") {
			t.Errorf("%s: stored %v, given %x, %v", name, votes, answer.VoteExtension, err)
		}
	}
}
