package propose

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// An organisation leaves the others twice the time that its slow transactions took, while these
// have something.
func TestASlowOrganisationWaitsForTheOthers(t *testing.T) {
	now := time.Unix(1_000, 0)
	slow := &Slow{}
	want := func(who string, waiting ...string) {
		t.Helper()
		got := strings.Join(slices.Sorted(maps.Keys(slow.Waits(waiting, now))), " ")
		if got != who {
			t.Fatalf("at %s waits %q, want %q", now.Format("04:05"), got, who)
		}
	}
	slow.Ordered(1, map[string]bool{"acme": true, "bolt": true})
	slow.Took(map[string]time.Duration{"acme": 3 * time.Second}, now)
	slow.Certified(now)
	want("acme", "acme", "bolt")
	want("acme", "acme") // bolt was there a moment ago
	slow.Ordered(2, map[string]bool{"bolt": true})
	slow.Certified(now.Add(time.Second))
	now = now.Add(1500 * time.Millisecond)
	want("acme", "acme")
	now = now.Add(time.Second)
	want("", "acme") // bolt has nothing for a while
	want("acme", "acme", "bolt")
	now = now.Add(4 * time.Second)
	want("", "acme", "bolt") // it left twice 3 s

	// More of it in the meantime adds up, to a bound; whoever else is slow waits too, but not all.
	slow.Took(map[string]time.Duration{"acme": 10 * time.Second}, now)
	slow.Took(map[string]time.Duration{"acme": 10 * time.Second, "bolt": time.Second}, now)
	want("acme bolt", "acme", "bolt", "cargo")
	want("", "acme", "bolt")
	now = now.Add(29 * time.Second)
	want("acme", "acme", "bolt")
	now = now.Add(time.Second)
	want("", "acme", "bolt")
}

// One that was in none of the last blocks does not hold up who is slow.
func TestWhoIsAwayHoldsUpNobody(t *testing.T) {
	now := time.Unix(1_000, 0)
	slow := &Slow{}
	slow.Took(map[string]time.Duration{"acme": 3 * time.Second}, now)
	slow.Ordered(1, map[string]bool{"bolt": true})
	slow.Certified(now)
	for n := uint64(2); n < 5; n++ {
		if slow.Waits([]string{"acme"}, now) == nil {
			t.Fatalf("before block %d acme does not wait", n)
		}
		slow.Ordered(n, map[string]bool{"acme": true})
	}
	if who := slow.Waits([]string{"acme"}, now); who != nil {
		t.Fatalf("%v waits", who)
	}
}
