package postgres

import (
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
)

// One for whom every connection that it may have is held up, and more waits, leaves others a
// connection at once, and their turn before its own.
func TestAGreedyOneLeavesOthersTheirRehearsals(t *testing.T) {
	b := newRehearsable(t, time.Minute)
	let := b.blocking(100)
	greedy := backend.For(t.Context(), "greedy")
	var held []chan rehearsed
	for n := range rehearsalConns / 2 {
		held = append(held, b.later(greedy, inserting(100)))
		b.held(n + 1)
	}
	for n := range 40 {
		held = append(held, b.later(greedy, inserting(100)))
		b.queued(n + 1)
	}
	for _, whom := range []string{"role clerk", "organisation bolt"} {
		for range 3 {
			if v := <-b.later(backend.For(t.Context(), whom), inserting(2)); v.err != nil || v.shown[0].SQLState != "" {
				t.Errorf("%s: %v", whom, v)
			}
		}
	}
	b.held(rehearsalConns / 2)
	let()
	for _, h := range held {
		if v := <-h; v.err != nil {
			t.Errorf("one that waited: %v", v)
		}
	}
}
