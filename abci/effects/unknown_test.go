package effects

import (
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// A node in the place of a lost one repeats what the order shows of the lost one's votes, and
// abstains from the other executions of that time (E5).
func TestALostNodesVotesAreRepeatedOrLeftOut(t *testing.T) {
	executed := func(t *testing.T, events ...Event) (*Core, *wire.OrderedBlock) {
		t.Helper()
		c := fourOf(t)
		block := &wire.OrderedBlock{Organisations: 4, Consent: 3, Number: 1, Height: 1, OrderHash: wire.Hash{1}}
		c.Step(1, Started{})
		for _, e := range events {
			c.Step(1, e)
		}
		c.Step(1, DatabaseAt{Position: backend.Position{}})
		c.Step(1, Decided{Height: 1, Ordered: block})
		if _, asked := c.op.(Execute); asked {
			c.Step(1, Executed{Key: block.Key(), Hash: wire.Hash{7}})
		}
		return c, block
	}
	voted := func(c *Core, k wire.Key) string {
		switch v, more := c.Vote(k); {
		case v == nil && more:
			return "later"
		case v == nil:
			return "nothing"
		case v.IsFor("a", wire.Hash{7}):
			return "effects"
		default:
			return "stuck"
		}
	}
	t.Run("known", func(t *testing.T) {
		c, block := executed(t)
		if got := voted(c, block.Key()); got != "effects" {
			t.Error(got)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		c, block := executed(t, VotesUnknown{Unknown: Everything()})
		if got := voted(c, block.Key()); got != "nothing" {
			t.Errorf("during the silence: %s", got)
		}
		c.Step(1, VotesUnknown{Unknown: Unknown{Number: 1}})
		if got := voted(c, block.Key()); got != "nothing" {
			t.Errorf("after it: %s", got)
		}
		if _, may := c.mayGiveUp(1); may {
			t.Error("the operator may have it vote that a transaction does not end")
		}
		next := *block
		next.Round = 1
		c.Step(1, Decided{Height: 2, Ordered: &next})
		for _, a := range c.Step(1, RolledBack{}) {
			if x, ok := a.(Execute); ok {
				c.Step(1, Executed{Key: x.Block.Key(), Hash: wire.Hash{7}})
			}
		}
		if got := voted(c, next.Key()); got != "effects" {
			t.Errorf("in the round that began afterwards: %s", got)
		}
	})
	t.Run("executed before the silence ended", func(t *testing.T) {
		c, block := executed(t, VotesUnknown{Unknown: Everything()})
		c.Step(1, VotesUnknown{})
		if got := voted(c, block.Key()); got != "effects" {
			t.Error(got)
		}
	})
	t.Run("rolled back before the silence ended", func(t *testing.T) {
		c, block := executed(t, VotesUnknown{Unknown: Everything()})
		c.open, c.shelved = nil, block.Key()
		again := false
		for _, a := range c.Step(1, VotesUnknown{}) {
			_, x := a.(Execute)
			again = again || x
		}
		if got := voted(c, block.Key()); !again || got != "later" {
			t.Errorf("executed again: %v, votes %s", again, got)
		}
	})
	t.Run("on the chain", func(t *testing.T) {
		k := wire.Key{Number: 1, OrderHash: wire.Hash{1}}
		stuck := wire.NewStuckVote(k, 0)
		c, block := executed(t, VotesUnknown{Unknown: Unknown{Number: 1}, Voted: []wire.EffectVote{stuck}})
		if got := voted(c, block.Key()); got != "stuck" {
			t.Error(got)
		}
	})
	t.Run("the others agree", func(t *testing.T) {
		c, block := executed(t, VotesUnknown{Unknown: Everything()})
		var out []Action
		for _, org := range []string{"b", "c", "d"} {
			out = c.Step(1, VoteSeen{Organisation: org, Vote: wire.NewEffectsVote(block.Key(), org, wire.Hash{7})})
		}
		if len(out) != 1 || out[0] != (Commit{Number: 1}) {
			t.Errorf("%+v, want COMMIT: three of the others agree", out)
		}
	})
}

// A database that is behind repairs the block that it needs, however many rounds a later one has.
func TestRoundsOfALaterBlockLeaveTheLadder(t *testing.T) {
	c := fourOf(t)
	c.Step(1, Started{Ordered: 2, Certified: 1})
	c.Step(1, DatabaseAt{Position: backend.Position{}})
	c.ladderOf(1).step = retried
	c.Step(1, Decided{Height: 3, Ordered: &wire.OrderedBlock{Organisations: 4, Consent: 3, Number: 2, Height: 2, OrderHash: wire.Hash{2}, Round: 1}})
	if c.ladder.number != 1 || c.ladder.step != retried {
		t.Errorf("ladder of block %d at step %d, want block 1 at %d", c.ladder.number, c.ladder.step, retried)
	}
}
