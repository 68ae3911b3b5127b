package wire

import (
	"fmt"
	"testing"
)

func TestTheFirstVoteForAnExecutionIsKept(t *testing.T) {
	vote := func(number uint64, index uint32) EffectVote { return NewStuckVote(Key{Number: number}, index) }
	index := func(v EffectVote) uint32 {
		at, _ := v.StuckAt()
		return at
	}
	var votes FirstVotes[EffectVote]
	numbers := func() string {
		out := ""
		for _, v := range votes {
			out += fmt.Sprint(v.Number)
		}
		return out
	}
	if votes.Of(Key{Number: 1}) != nil {
		t.Error("there is a vote before the first")
	}
	stays := func(v EffectVote) bool { return v.Number == 1 }
	for _, c := range []struct {
		number uint64
		index  uint32
		before string
		kept   string
	}{
		{1, 7, "", "1"},
		{1, 8, "7", "1"},
		{2, 7, "", "12"},
		{3, 7, "", "123"},
		{4, 7, "", "134"}, // the oldest that does not stay has made room
		{1, 7, "7", "134"},
		{2, 9, "", "142"},
	} {
		before := ""
		if v := votes.Take(vote(c.number, c.index), 3, stays); v != nil {
			before = fmt.Sprint(index(*v))
		}
		if before != c.before || numbers() != c.kept {
			t.Errorf("vote %d of block %d: before it %q, want %q; kept %s, want %s", c.index, c.number, before, c.before, numbers(), c.kept)
		}
	}
	if votes.Take(vote(5, 7), 3, nil); numbers() != "425" {
		t.Errorf("kept %s when none stays", numbers())
	}
	if votes.Take(vote(6, 7), 3, func(EffectVote) bool { return true }); numbers() != "256" {
		t.Errorf("kept %s when all stay", numbers())
	}
	if votes.Forget(func(v EffectVote) bool { return v.Number == 5 }); numbers() != "26" || index(*votes.Of(Key{Number: 2})) != 9 {
		t.Errorf("kept %s", numbers())
	}
}
