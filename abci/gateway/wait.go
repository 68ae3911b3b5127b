package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// waiter waits for the outcomes of several transactions.
type waiter struct {
	missing int
	done    chan struct{}
	places  []place // one for each id that had no outcome
}

// settled counts one outcome; true when it was the last one missing.
func (w *waiter) settled() bool {
	w.missing--
	if w.missing == 0 {
		close(w.done)
	}
	return w.missing == 0
}

// place is a waiter's entry in the list of waiters for an id. Removing it takes constant time, so
// that a client's waits cost the others nothing.
type place struct {
	of            *waiter // nil: it is in no list
	id            wire.TxID
	before, after *place
}

// waiters are lists of places by id: the newest of each.
type waiters map[wire.TxID]*place

func (w waiters) add(p *place) {
	if p.after = w[p.id]; p.after != nil {
		p.after.before = p
	}
	w[p.id] = p
}

func (w waiters) remove(p *place) {
	switch {
	case p.of == nil:
		return
	case p.before != nil:
		p.before.after = p.after
	case p.after != nil:
		w[p.id] = p.after
	default:
		delete(w, p.id)
	}
	if p.after != nil {
		p.after.before = p.before
	}
	*p = place{}
}

// settle counts the outcome of an id, and returns how many waits it ended.
func (w waiters) settle(id wire.TxID) (ended int) {
	for p := w[id]; p != nil; {
		if p.of.settled() {
			ended++
		}
		next := p.after
		*p = place{}
		p = next
	}
	delete(w, id)
	return ended
}

// lockedAtOnce is how many ids of a client the gateway handles before it releases its lock for
// others. CometBFT's Commit needs that lock.
const lockedAtOnce = 256

// inParts calls each under a lock, which it releases after every lockedAtOnce calls.
func inParts[T any](lock sync.Locker, list []T, each func(*T)) {
	for part := range slices.Chunk(list, lockedAtOnce) {
		lock.Lock()
		for i := range part {
			each(&part[i])
		}
		lock.Unlock()
	}
}

// unique returns each id once.
func unique(ids []wire.TxID) []wire.TxID {
	if len(ids) == 1 {
		return ids
	}
	met, out := make(map[wire.TxID]struct{}, len(ids)), make([]wire.TxID, 0, len(ids))
	for _, id := range ids {
		if _, twice := met[id]; !twice {
			met[id], out = struct{}{}, append(out, id)
		}
	}
	return out
}

// WaitAs returns the outcomes of the transactions named, in the order asked for, when each has one.
// At the limit it returns those that there are; a limit of 0 returns the outcomes known now. It
// looks up ids of other organisations' transactions and of earlier runs in the database. An id
// without outcome is left out of the answer.
//
// Errors are *Error: malformed requests (22023), too many (54000, 53400), or, when an outcome is
// missing only because the database could not be asked, 57P03.
//
// client bounds the waits of one client: it is an authenticated name, or the connection.
func (g *Gateway) WaitAs(ctx context.Context, client string, ids []wire.TxID, limit time.Duration) ([]wire.TxResult, error) {
	if len(ids) == 0 {
		return nil, malformed("ids: at least one is needed")
	}
	if len(ids) > waitIDsMax {
		return nil, beyondBound("number of ids", len(ids), waitIDsMax)
	}
	if !g.waitShares.Take(client, 1) {
		return nil, waitsFull(g.idShares.Most())
	}
	defer g.waitShares.Give(client, 1)
	if !g.idShares.Take(client, len(ids)) {
		return nil, waitsFull(g.idShares.Most())
	}
	defer g.idShares.Give(client, len(ids))
	ctx, cancel := context.WithTimeout(ctx, waitTime(limit))
	defer cancel()
	w, unknown := g.register(unique(ids))
	defer g.unregister(w)
	lookupErr := g.lookUpUnknown(ctx, unknown, limit)
	if limit > 0 {
		select {
		case <-w.done:
		case <-ctx.Done():
		}
	}
	results := g.known(ids)
	if lookupErr != nil && len(results) < len(ids) {
		return nil, &Error{
			SQLState: StateCannotOrder, Message: "the outcome cannot be looked up now",
			Detail: "The organisation's database does not answer: " + lookupErr.Error() + ".", Hint: "Retry later.",
		}
	}
	return results, nil
}

// waitTime bounds a wait; one without limit may still look into the database for a moment.
func waitTime(limit time.Duration) time.Duration {
	if limit <= 0 {
		return lookupLimit
	}
	return min(limit, waitMax)
}

// register lists the waiter under every id without outcome, and returns the unknown ids. It runs
// before the database is asked, so that no outcome can arrive unseen in between. Each id is listed
// once.
func (g *Gateway) register(ids []wire.TxID) (*waiter, []wire.TxID) {
	w := &waiter{missing: 1, done: make(chan struct{}), places: make([]place, 0, len(ids))} // 1: it does not end before all are listed
	var unknown []wire.TxID
	inParts(&g.mu, ids, func(id *wire.TxID) {
		if _, ok := g.recent.get(*id); ok {
			return
		}
		w.missing++
		w.places = append(w.places, place{of: w, id: *id}) // within its capacity: no place moves
		g.waiting.add(&w.places[len(w.places)-1])
		if g.entries[*id] == nil {
			unknown = append(unknown, *id)
		}
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits++
	w.settled()
	return w, unknown
}

func (g *Gateway) unregister(w *waiter) {
	inParts(&g.mu, w.places, g.waiting.remove)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits--
}

// lookUpUnknown asks the database for lookupsAtOnce ids at a time, until it cannot be asked, which
// is the error returned.
func (g *Gateway) lookUpUnknown(ctx context.Context, ids []wire.TxID, limit time.Duration) error {
	for some := range slices.Chunk(ids, lookupsAtOnce) {
		if err := g.lookUpSome(ctx, some); err != nil {
			if limit > 0 {
				g.lookUpLater(ids)
			}
			return err
		}
	}
	return nil
}

// lookUpLater lets Run's second half ask again, until the database answers.
func (g *Gateway) lookUpLater(ids []wire.TxID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.lookups)+len(ids) <= lookupsMax {
		g.lookups = append(g.lookups, ids...)
		signal(g.lookupWake)
	}
}

func (g *Gateway) known(ids []wire.TxID) []wire.TxResult {
	results := make([]wire.TxResult, 0, len(ids))
	inParts(&g.mu, ids, func(id *wire.TxID) {
		if r, ok := g.recent.get(*id); ok {
			results = append(results, r)
		}
	})
	return results
}
