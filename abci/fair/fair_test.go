package fair

import (
	"slices"
	"sync"
	"testing"

	"github.com/chainify-db/chainify/abci/seeded"
)

func TestAGreedyMemberLeavesRoomForNewcomers(t *testing.T) {
	s := New[string](100)
	take := func(member string) (n int) {
		for s.Take(member, 1) {
			n++
		}
		return n
	}
	if n := take("greedy"); n != 50 {
		t.Errorf("alone, one has %d of 100", n)
	}
	if n := take("second"); n != 25 {
		t.Errorf("a second has %d", n)
	}
	if s.Take("greedy", 1) || !s.Take("third", 25) || s.Take("third", 1) {
		t.Error("shares are not what is free")
	}
	s.Give("greedy", 50)
	if !s.Take("second", 1) || s.held["greedy"] != 0 || len(s.held) != 2 {
		t.Error("what is given back is not for the others")
	}
	if !New[string](100).Take("large", 100) {
		t.Error("a large request could never be made")
	}
}

// All members together never hold more than there is, whatever they do. The amount that one holds
// beyond its first request was free beside it.
func TestSharesHoldForRandomMembers(t *testing.T) {
	r := seeded.Random(t)
	s, held := New[int](200), map[int][]int{}
	for range 20_000 {
		m := r.IntN(6)
		if list := held[m]; len(list) > 0 && r.IntN(2) == 0 {
			s.Give(m, list[0])
			held[m] = list[1:]
			continue
		}
		amount, before := 1+r.IntN(30), s.used
		if s.Take(m, amount) {
			held[m] = append(held[m], amount)
			if s.used > 200 || len(held[m]) > 1 && s.held[m] > 200-before {
				t.Fatalf("member %d holds %d of %d used", m, s.held[m], s.used)
			}
		} else if len(held[m]) == 0 && amount <= 200-before {
			t.Fatalf("a newcomer finds no room for %d beside %d", amount, before)
		}
	}
	sum := 0
	for m, list := range held {
		for _, amount := range list {
			sum += amount
			s.Give(m, amount)
		}
	}
	if sum == 0 || s.used != 0 || len(s.held) != 0 {
		t.Errorf("%d are used and %d members known when all is given back", s.used, len(s.held))
	}
}

func TestSharesAreSafeForConcurrentUse(t *testing.T) {
	s := New[int](10)
	var all sync.WaitGroup
	for m := range 8 {
		all.Go(func() {
			for range 1000 {
				if s.Take(m, 1) {
					s.Give(m, 1)
				}
			}
		})
	}
	all.Wait()
	if s.Used() != 0 {
		t.Errorf("%d used", s.Used())
	}
}

func TestRoundTakesFromWhoGotLeast(t *testing.T) {
	room := 12
	var got []int
	size := func(n int) int { return n / 10 }
	Round([][]int{{41, 42, 43}, {11, 12, 13, 14}, {91}}, size, func(n int) bool {
		if size(n) > room {
			return false
		}
		room -= size(n)
		got = append(got, n)
		return true
	})
	// 4, 1, then 9 does not fit and its line ends; then the second line, up to as much as the
	// first, and the first again.
	if want := []int{41, 11, 12, 13, 14, 42}; !slices.Equal(got, want) {
		t.Errorf("took %v, want %v", got, want)
	}
}
