package propose

import (
	"testing"
	"time"
)

func TestAProposalHoldsWhatTheDatabaseExecutesInTime(t *testing.T) {
	p := &Pace{}
	want := func(most int) {
		t.Helper()
		if got := p.Most(5*time.Second, 10_000); got != most {
			t.Fatalf("%d transactions, want %d", got, most)
		}
	}
	want(10_000)
	p.Ran(99, time.Minute) // a few slow ones
	want(10_000)
	p.Ran(1_000, 100*time.Millisecond)
	want(10_000)
	for range 20 {
		p.Ran(1_000, time.Second)
	}
	if got := p.Most(5*time.Second, 10_000); got < 2_400 || got > 2_600 {
		t.Fatalf("%d transactions of a millisecond each, want about 2,500", got)
	}
	for range 40 {
		p.Ran(1_000, time.Minute)
	}
	want(1_000)
	if got := p.Most(5*time.Second, 10); got != 10 {
		t.Fatalf("%d transactions, the block's bound is 10", got)
	}
}
