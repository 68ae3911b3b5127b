package effects

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

func fourOf(t *testing.T) *Core {
	t.Helper()
	c, err := NewCore(Config{Organisation: "a"})
	must.Do(t, err)
	return c
}

func TestPausesGrowUpToTheCap(t *testing.T) {
	c := fourOf(t)
	now := int64(1)
	c.Step(now, Started{})
	var pauses []int64
	for range 10 {
		c.Step(now, DatabaseAt{Failure: Unavailable})
		pauses = append(pauses, c.DeadlineMS()-now)
		if out := c.Step(c.DeadlineMS()-1, Tick{}); len(out) > 0 {
			t.Fatalf("%+v before the pause is over", out)
		}
		now = c.DeadlineMS()
		if out := c.Step(now, Tick{}); !slices.Contains(out, Action(ReadPosition{})) {
			t.Fatalf("%+v after the pause, want to read the position", out)
		}
	}
	if want := []int64{50, 100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000}; !slices.Equal(pauses, want) {
		t.Fatalf("pauses %v, want %v", pauses, want)
	}
}

func TestMemoryIsBoundedWhateverOthersSend(t *testing.T) {
	c := fourOf(t)
	c.Step(1, Started{})
	c.Step(1, DatabaseAt{})
	for i := range uint64(1000) {
		hash := wire.Hash{byte(i), byte(i >> 8)}
		key := wire.Key{Number: 1 + i%3, OrderHash: hash}
		c.Step(1, VoteSeen{Organisation: "b", Vote: wire.NewEffectsVote(key, "b", hash)})
		for j := range uint64(2) {
			c.Step(1, VoteSeen{Organisation: fmt.Sprint("o", 2*i+j), Vote: wire.NewEffectsVote(key, "o", hash)})
		}
		block := &wire.OrderedBlock{Organisations: 4, Consent: 3, Number: 1, Height: 1, OrderHash: hash}
		for _, a := range c.Step(1, Proposed{Block: block}) {
			if x, ok := a.(Cancel); ok {
				c.Step(1, Executed{Key: x.Key, Failure: Cancelled})
			}
		}
		c.Step(1, Decided{Height: 0, Certificate: &wire.Certificate{Number: 100 + i}})
	}
	if ordered, next := c.votes.Kept("b"); max(ordered, next) > wire.HeardMax || c.votes.Organisations() > wire.OrganisationsMax || len(c.ballots) > ballotsMax ||
		len(c.blocks) > blocksAhead || len(c.certs) > blocksAhead {
		t.Fatalf("%d and %d votes of b, of %d organisations, %d ballots, %d blocks, %d certificates",
			ordered, next, c.votes.Organisations(), len(c.ballots), len(c.blocks), len(c.certs))
	}
}

func TestOfTwoVotesOfAnOrganisationTheFirstCounts(t *testing.T) {
	c := fourOf(t)
	c.Step(1, Started{})
	c.Step(1, DatabaseAt{Position: backend.Position{}})
	block := &wire.OrderedBlock{Organisations: 4, Consent: 3, Number: 1, Height: 1, OrderHash: wire.Hash{1}}
	key, good, bad := block.Key(), wire.Hash{7}, wire.Hash{8}
	c.Step(1, Decided{Height: 1, Ordered: block})
	c.Step(1, Executed{Key: key, Hash: good})
	c.Step(1, VoteSeen{Organisation: "b", Vote: wire.NewEffectsVote(key, "b", good)})
	c.Step(1, VoteSeen{Organisation: "c", Vote: wire.NewEffectsVote(key, "c", bad)})
	out := c.Step(1, VoteSeen{Organisation: "c", Vote: wire.NewEffectsVote(key, "c", good)})
	if len(out) != 1 || out[0].(Report).What != ConflictingVotes {
		t.Fatalf("%+v, want a report of conflicting votes and no COMMIT", out)
	}
	// A vote copied from another organisation is for no hash at all.
	copied := wire.NewEffectsVote(key, "b", good)
	if out = c.Step(1, VoteSeen{Organisation: "d", Vote: copied}); slices.Contains(out, Action(Commit{Number: 1})) {
		t.Fatalf("a copied vote gives consent: %+v", out)
	}
}

func TestANegativeLimitIsRefused(t *testing.T) {
	if _, err := NewCore(Config{Organisation: "a", OpenMaxMS: -1}); err == nil {
		t.Error("a negative limit is accepted")
	}
}
