package gateway

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// CometBFT's Commit needs the gateway's lock: one id named many times is one to wait for.
func TestAnIDNamedManyTimesIsWaitedForOnce(t *testing.T) {
	f := newFixture(t, nil)
	id := wire.TxID{1}
	done := f.waitLater(time.Minute, slices.Repeat([]wire.TxID{id}, waitIDsMax)...)
	listed := 0
	f.g.mu.Lock()
	for p := f.g.waiting[id]; p != nil; p = p.after {
		listed++
	}
	f.g.mu.Unlock()
	if listed != 1 {
		t.Errorf("the wait is listed %d times under its id, want once", listed)
	}
	f.decide(id)
	f.commit(id)
	if w := <-done; w.err != nil || len(w.results) != waitIDsMax {
		t.Errorf("%d outcomes, %v, want one for each name", len(w.results), w.err)
	}
}

// locks counts how often it is taken.
type locks struct {
	sync.Mutex
	taken int
}

func (l *locks) Lock() {
	l.Mutex.Lock()
	l.taken++
}

// A client's many ids leave others the lock in between, and each gets its turn once.
func TestManyIDsAreLookedAtInParts(t *testing.T) {
	for _, n := range []int{0, 1, lockedAtOnce, lockedAtOnce + 1, waitIDsMax} {
		var l locks
		calls := map[int]int{} // by how often the lock was taken before
		list := make([]int, n)
		inParts(&l, list, func(one *int) { *one++; calls[l.taken]++ })
		if l.taken != (n+lockedAtOnce-1)/lockedAtOnce || slices.ContainsFunc(list, func(times int) bool { return times != 1 }) {
			t.Errorf("%d ids: the lock was taken %d times", n, l.taken)
		}
		for _, together := range calls {
			if together > lockedAtOnce {
				t.Errorf("%d ids: %d of them under one lock", n, together)
			}
		}
	}
}

// Random waits for few ids come, go and end: the lists have the waits that a list for each id, gone
// through, would have, and each ends with its last outcome.
func TestListsOfWaitersAreThoseOfAModel(t *testing.T) {
	r := seeded.Random(t)
	lists, model := waiters{}, map[wire.TxID][]*waiter{}
	var all []*waiter
	for range 5_000 {
		switch r.IntN(3) {
		case 0:
			w := &waiter{done: make(chan struct{}), places: make([]place, 0, 4)}
			for _, i := range r.Perm(4)[:1+r.IntN(4)] {
				id := wire.TxID{byte(i)}
				w.missing++
				w.places = append(w.places, place{of: w, id: id})
				lists.add(&w.places[len(w.places)-1])
				model[id] = append(model[id], w)
			}
			all = append(all, w)
		case 1:
			goes(r, lists, model, &all)
		case 2:
			id, ended := wire.TxID{byte(r.IntN(4))}, 0
			for _, w := range model[id] {
				if w.missing == 1 {
					ended++
				}
			}
			delete(model, id)
			if got := lists.settle(id); got != ended {
				t.Fatalf("%d waits ended, want %d", got, ended)
			}
		}
		for id := range 4 {
			listed, want := []*waiter(nil), model[wire.TxID{byte(id)}]
			for p := lists[wire.TxID{byte(id)}]; p != nil; p = p.after {
				listed = append(listed, p.of)
			}
			slices.Reverse(listed)
			if !slices.Equal(listed, want) {
				t.Fatalf("id %d: %d waits listed, want %d", id, len(listed), len(want))
			}
		}
	}
}

// goes has a random wait leave all of its lists.
func goes(r *rand.Rand, lists waiters, model map[wire.TxID][]*waiter, all *[]*waiter) {
	if len(*all) == 0 {
		return
	}
	i := r.IntN(len(*all))
	w := (*all)[i]
	*all = slices.Delete(*all, i, i+1)
	for j := range w.places {
		lists.remove(&w.places[j])
	}
	for id, list := range model {
		model[id] = slices.DeleteFunc(list, func(other *waiter) bool { return other == w })
	}
}

// Many ids that nothing is known of do not have the search for overdue outcomes look at each.
func TestTheSearchForOverdueOutcomesEnds(t *testing.T) {
	f, db := withDatabase(t)
	ids, _ := others(3 * lookupsAtOnce)
	w, _ := f.g.register(ids)
	f.g.addOverdue()
	if len(f.g.lookups) != lookupsAtOnce || len(db.queries()) > 0 {
		t.Errorf("%d ids to look up, want %d", len(f.g.lookups), lookupsAtOnce)
	}
	f.g.unregister(w)
	if len(f.g.waiting) != 0 || f.g.waits != 0 {
		t.Errorf("%d ids are waited for when the wait is gone", len(f.g.waiting))
	}
	if r, err := f.g.WaitAs(context.Background(), "", ids[:1], 0); err != nil || len(r) > 0 {
		t.Errorf("an unknown id: %v, %v", r, err)
	}
}
