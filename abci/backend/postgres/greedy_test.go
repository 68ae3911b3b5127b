package postgres

import (
	"errors"
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

// A rehearsal ends when the time that its asker has is gone, and is not tried again: nothing more
// runs for that asker. Another one's goes on, and what runs counts.
func TestARehearsalEndsWithItsAllowance(t *testing.T) {
	b := newRehearsable(t, time.Minute)
	let := b.blocking(100)
	const given = 300 * time.Millisecond
	allowed := backend.NewAllowance(given)
	ctx := backend.Allow(backend.For(t.Context(), "organisation bolt"), allowed)
	if shown, err := b.Rehearse(ctx, [][]byte{inserting(2)}); err != nil || shown[0].SQLState != "" || allowed.Spent() <= 0 || allowed.Gone() {
		t.Errorf("a quick one: %v, %v, after %s", shown, err, allowed.Spent())
	}
	other := b.later(t.Context(), inserting(100))
	b.held(1)
	shown, err := b.Rehearse(ctx, [][]byte{inserting(100)})
	if err == nil || !allowed.Gone() || allowed.Spent() < given-time.Millisecond {
		t.Errorf("one that is held up: %+v, %v, after %s of %s", shown, err, allowed.Spent(), given)
	}
	connections := b.rehearsals.pool.Stat().AcquireCount()
	if _, err := b.Rehearse(ctx, [][]byte{inserting(2)}); !errors.Is(err, errNoTime) || b.rehearsals.pool.Stat().AcquireCount() != connections {
		t.Errorf("one when the time is gone: %v", err)
	}
	b.held(1)
	let()
	if v := <-other; v.err != nil {
		t.Errorf("one without a bound: %v", v)
	}
}
