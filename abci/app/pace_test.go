package app

import (
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/app/order"
)

// The largest bundle that waits fits, or it would wait for ever.
func TestNoBundleIsTooLargeForAProposal(t *testing.T) {
	a := &App{}
	for range 40 {
		a.pace.Ran(1_000, time.Minute)
	}
	p := order.Parameters{BlockTimeMaxMS: 5_000, BlockTransactionsMax: 10_000}
	for largest, want := range map[int]int{10: 1_000, 4_000: 4_000, 20_000: 10_000} {
		if got := a.transactionsMax(p, []waiting{{transactions: 7}, {transactions: largest}}); got != want {
			t.Errorf("with a bundle of %d a proposal holds %d transactions, want %d", largest, got, want)
		}
	}
}
