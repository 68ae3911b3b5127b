package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// waiter waits for the outcomes of several transactions.
type waiter struct {
	missing int
	done    chan struct{}
}

// settled counts one outcome; true when it was the last one missing.
func (w *waiter) settled() bool {
	w.missing--
	if w.missing == 0 {
		close(w.done)
	}
	return w.missing == 0
}

// WaitAs returns the outcomes of the transactions named, in the order asked for, when each has one.
// At the limit it returns those that there are; a limit of 0 answers with what is known now. It
// looks up ids of other organisations' transactions and of earlier runs in the database. An id
// without outcome is left out of the answer.
//
// Errors are *Error: malformed requests (22023), too many (54000, 53400), or, when an outcome is
// missing only because the database could not be asked, 57P03.
//
// The waits of a client leave others room: client is a name that it has shown to bear, or its
// connection.
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
	w, unknown := g.register(ids)
	defer g.unregister(ids, w)
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

// register lists the waiter under every id without outcome, and returns those ids nothing is known
// of. It does so before the database is asked, so that no outcome falls between asking and waiting.
func (g *Gateway) register(ids []wire.TxID) (*waiter, []wire.TxID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits++
	w := &waiter{done: make(chan struct{})}
	var unknown []wire.TxID
	for _, id := range ids {
		if _, ok := g.recent.get(id); ok {
			continue
		}
		w.missing++
		g.waiting[id] = append(g.waiting[id], w)
		if g.entries[id] == nil {
			unknown = append(unknown, id)
		}
	}
	if w.missing == 0 {
		close(w.done)
	}
	return w, unknown
}

func (g *Gateway) unregister(ids []wire.TxID, w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits--
	for _, id := range ids {
		list := g.waiting[id]
		kept := list[:0]
		for _, other := range list {
			if other != w {
				kept = append(kept, other)
			}
		}
		clear(list[len(kept):])
		if len(kept) == 0 {
			delete(g.waiting, id)
		} else {
			g.waiting[id] = kept
		}
	}
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
	g.mu.Lock()
	defer g.mu.Unlock()
	results := make([]wire.TxResult, 0, len(ids))
	for _, id := range ids {
		if r, ok := g.recent.get(id); ok {
			results = append(results, r)
		}
	}
	return results
}
