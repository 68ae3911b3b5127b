package app

import (
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/app/order"
)

func TestAProposalHoldsWhatTheDatabaseExecutesInTime(t *testing.T) {
	p := &pace{}
	want := func(most int) {
		t.Helper()
		if got := p.most(5*time.Second, 10_000); got != most {
			t.Fatalf("%d transactions, want %d", got, most)
		}
	}
	want(10_000)
	p.ran(99, time.Minute) // a few slow ones
	want(10_000)
	p.ran(1_000, 100*time.Millisecond)
	want(10_000)
	for range 20 {
		p.ran(1_000, time.Second)
	}
	if got := p.most(5*time.Second, 10_000); got < 2_400 || got > 2_600 {
		t.Fatalf("%d transactions of a millisecond each, want about 2,500", got)
	}
	for range 40 {
		p.ran(1_000, time.Minute)
	}
	want(1_000)
	if got := p.most(5*time.Second, 10); got != 10 {
		t.Fatalf("%d transactions, the block's bound is 10", got)
	}
}

// The largest bundle that waits fits, or it would wait for ever.
func TestNoBundleIsTooLargeForAProposal(t *testing.T) {
	a := &App{}
	for range 40 {
		a.pace.ran(1_000, time.Minute)
	}
	p := order.Parameters{BlockTimeMaxMS: 5_000, BlockTransactionsMax: 10_000}
	for largest, want := range map[int]int{10: 1_000, 4_000: 4_000, 20_000: 10_000} {
		if got := a.transactionsMax(p, []waiting{{transactions: 7}, {transactions: largest}}); got != want {
			t.Errorf("with a bundle of %d a proposal holds %d transactions, want %d", largest, got, want)
		}
	}
}
