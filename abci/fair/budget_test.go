package fair

import (
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/seeded"
)

func TestABudgetComesBackWithTime(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	b := NewBudget[string](10, time.Second, 3, func() time.Time { return now })
	b.Spend("greedy", 14)
	if left, wait := b.Left("greedy"), b.Wait("greedy", 1); left != -4 || wait != 5*time.Second || b.Full("greedy") {
		t.Errorf("%d left, %s until there is something", left, wait)
	}
	if b.Left("other") != 10 || !b.Full("other") || b.Wait("other", 10) != 0 {
		t.Error("another member lacks something")
	}
	if now = now.Add(4500 * time.Millisecond); b.Left("greedy") != 0 {
		t.Errorf("%d left after 4.5 s", b.Left("greedy"))
	}
	if now = now.Add(time.Hour); b.Left("greedy") != 10 {
		t.Errorf("%d left after an hour: more than all", b.Left("greedy"))
	}
	b.Spend("greedy", 3)
	b.Give("greedy", 2)
	if b.Left("greedy") != 9 {
		t.Errorf("%d left of 10, less 3, and 2 given back", b.Left("greedy"))
	}
	if b.Give("greedy", 5); b.Left("greedy") != 10 {
		t.Errorf("%d left: more than all", b.Left("greedy"))
	}
}

// The memory of a budget has a bound. It forgets members that lack nothing, then the one that
// lacks least.
func TestMembersOfABudgetAreBounded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	b := NewBudget[int](10, time.Second, 3, func() time.Time { return now })
	for member, lacks := range []int64{5, 2, 9} {
		b.Spend(member, lacks)
	}
	b.Spend(3, 1)
	if b.Left(0) != 5 || b.Left(1) != 10 || b.Left(2) != 1 || b.Left(3) != 9 || len(b.whole) != 3 {
		t.Errorf("left: %d %d %d %d", b.Left(0), b.Left(1), b.Left(2), b.Left(3))
	}
	now = now.Add(6 * time.Second)
	b.Spend(4, 1)
	if len(b.whole) != 2 || b.Left(2) != 7 {
		t.Errorf("%d members are remembered, of which two lack something", len(b.whole))
	}
}

// Each member spends no more than is full, what came back since, and what its last spending went
// beyond.
func TestNobodySpendsMoreThanItsBudget(t *testing.T) {
	r := seeded.Random(t)
	const full, most = 100, 30
	begin := time.Unix(1_700_000_000, 0)
	now := begin
	b := NewBudget[int](full, 10*time.Millisecond, 8, func() time.Time { return now })
	spent := map[int]int64{}
	for range 20_000 {
		now = now.Add(time.Duration(r.IntN(100)) * time.Millisecond)
		m, amount := r.IntN(5), r.Int64N(most)+1
		if b.Left(m) > 0 {
			b.Spend(m, amount)
			spent[m] += amount
			if part := r.Int64N(amount + 1); r.IntN(3) == 0 {
				b.Give(m, part)
				spent[m] -= part
			}
		}
		if allowed := full + most + int64(now.Sub(begin)/(10*time.Millisecond)); spent[m] > allowed {
			t.Fatalf("member %d spent %d of %d", m, spent[m], allowed)
		}
	}
}
