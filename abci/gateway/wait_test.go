package gateway

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// fakeDatabase knows outcomes that the gateway's memory does not have.
type fakeDatabase struct {
	mu    sync.Mutex
	known map[wire.TxID]wire.TxResult
	down  error
	asked []int  // how many ids in each query
	meet  func() // called in each query, when it is there
}

func (d *fakeDatabase) Outcomes(ctx context.Context, ids []wire.TxID) (found []wire.TxResult, err error) {
	if d.meet != nil {
		d.meet()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, len(ids))
	for _, id := range ids {
		if r, ok := d.known[id]; ok && !slices.Contains(found, r) {
			found = append(found, r)
		}
	}
	return found, errors.Join(d.down, ctx.Err())
}

func (d *fakeDatabase) queries() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.asked)
}

func (d *fakeDatabase) set(err error, results ...wire.TxResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = err
	for _, r := range results {
		d.known[r.ID] = r
	}
}

func withDatabase(t *testing.T) (*fixture, *fakeDatabase) {
	db := &fakeDatabase{known: map[wire.TxID]wire.TxResult{}}
	return newFixture(t, func(o *Options) { o.Outcomes = db }), db
}

type waited struct {
	results []wire.TxResult
	err     error
}

func (f *fixture) waitLater(limit time.Duration, ids ...wire.TxID) chan waited {
	done := make(chan waited, 1)
	go func() {
		r, err := f.g.WaitAs(context.Background(), "", ids, limit)
		done <- waited{r, err}
	}()
	eventually(f.t, func() bool {
		f.g.mu.Lock()
		defer f.g.mu.Unlock()
		return f.g.waits > 0
	})
	return done
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("did not happen in 10 s")
		}
	}
}

func TestWaitAnswersWhenAllHaveOutcomesInTheOrderAsked(t *testing.T) {
	f, _ := withDatabase(t)
	ids := f.submit("bank", 3)
	f.step()
	done := f.waitLater(time.Minute, ids[2], ids[0], ids[2])
	f.decide(ids...)
	f.commit(ids[0], ids[1])
	select {
	case w := <-done:
		t.Fatalf("answered %+v before the last outcome", w)
	default:
	}
	f.commit(ids[2])
	w := <-done
	if w.err != nil || len(w.results) != 3 || w.results[0].ID != ids[2] || w.results[1].ID != ids[0] {
		t.Fatalf("answer %+v", w)
	}
	if len(f.g.waiting) != 0 || f.g.waits != 0 {
		t.Fatal("the wait left something behind")
	}
}

func TestWaitEndsAtItsLimitWithWhatIsKnown(t *testing.T) {
	f, _ := withDatabase(t)
	ids := f.submit("bank", 2)
	f.decide(ids...)
	f.commit(ids[0])
	r, err := f.g.WaitAs(context.Background(), "", ids, 20*time.Millisecond)
	if err != nil || len(r) != 1 || r[0].ID != ids[0] {
		t.Fatalf("answer %+v %v", r, err)
	}
	if len(f.g.waiting) != 0 || f.g.waits != 0 {
		t.Fatal("the wait left something behind")
	}
}

func TestWaitFindsOlderOutcomesInTheDatabase(t *testing.T) {
	f, db := withDatabase(t)
	old := wire.TxResult{ID: wire.TxID{1}, Block: 3, Succeeded: true}
	db.set(nil, old)
	if r, done := f.outcome(old.ID); !done || r != old {
		t.Fatalf("outcome %+v", r)
	}
}

// others are ids of transactions that this gateway did not take, and their outcomes.
func others(n int) (ids []wire.TxID, results []wire.TxResult) {
	for i := range n {
		ids = append(ids, wire.TxIDOf([]byte(strconv.Itoa(i))))
		results = append(results, wire.TxResult{ID: ids[i], Block: 3, Index: uint32(i), Succeeded: true})
	}
	return ids, results
}

func TestWaitAsksForManyOutcomesAtOnce(t *testing.T) {
	ids, results := others(2*lookupsAtOnce + 1)
	last := len(ids) - 1
	for name, c := range map[string]struct {
		ids  []wire.TxID
		asks []int
		want int
	}{
		"one":                {ids[:1], []int{1}, 1},
		"a list":             {ids[:lookupsAtOnce], []int{lookupsAtOnce}, lookupsAtOnce},
		"more than a list":   {ids, []int{lookupsAtOnce, lookupsAtOnce, 1}, len(ids)},
		"one twice":          {[]wire.TxID{ids[1], ids[0], ids[1]}, []int{2}, 3},
		"one of them nobody": {[]wire.TxID{ids[0], {9}, ids[last]}, []int{3}, 2},
	} {
		f, db := withDatabase(t)
		db.set(nil, results...)
		r, err := f.g.WaitAs(context.Background(), "", c.ids, 0)
		if asks := db.queries(); err != nil || len(r) != c.want || !slices.Equal(asks, c.asks) {
			t.Errorf("%s: %d outcomes of queries of %v ids, want %d of %v: %v", name, len(r), asks, c.want, c.asks, err)
		}
		if r, err := f.g.WaitAs(context.Background(), "", c.ids[:1], 0); err != nil || len(r) != 1 || len(db.queries()) != len(c.asks) {
			t.Errorf("%s: what is known is asked for again: %+v, %v", name, r, err)
		}
	}
}

// The database goes after the first list: what it told stays, and the rest is asked for until it is
// there again.
func TestWaitSurvivesADatabaseThatGoesBetweenTwoLists(t *testing.T) {
	ids, results := others(lookupsAtOnce + 1)
	f, db := withDatabase(t)
	db.set(nil, results...)
	db.meet = func() {
		if len(db.queries()) == 1 {
			db.set(errors.New("connection refused"))
		}
	}
	_, err := f.g.WaitAs(context.Background(), "", ids, 0)
	wantState(t, err, StateCannotOrder)
	if n := len(f.g.known(ids)); n != lookupsAtOnce {
		t.Fatalf("%d outcomes are known, want %d", n, lookupsAtOnce)
	}
	done := f.waitLater(time.Minute, ids...)
	eventually(t, func() bool { f.g.mu.Lock(); defer f.g.mu.Unlock(); return len(f.g.lookups) == 1 })
	db.set(nil)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f.g.lookUp(ctx) })
	if w := <-done; w.err != nil || len(w.results) != len(ids) {
		t.Errorf("%d of %d outcomes, %v", len(w.results), len(ids), w.err)
	}
	cancel()
	running.Wait()
}

// A client that goes while it is asked for its ids leaves nothing behind but what is found out
// later.
func TestAWaitCancelledWhileTheDatabaseIsAsked(t *testing.T) {
	ids, results := others(lookupsAtOnce + 1)
	f, db := withDatabase(t)
	db.set(nil, results...)
	ctx, cancel := context.WithCancel(context.Background())
	db.meet = cancel
	_, err := f.g.WaitAs(ctx, "", ids, time.Minute)
	wantState(t, err, StateCannotOrder)
	if asks := db.queries(); len(asks) != 1 || len(f.g.waiting) != 0 || f.g.waits != 0 {
		t.Errorf("queries of %v ids, want one; %d ids are waited for", asks, len(f.g.waiting))
	}
}

// Blocks without results are looked up by the list, too.
func TestOutcomesOfManyAreLookedUpAtOnce(t *testing.T) {
	f, db := withDatabase(t)
	ids := f.submit("bank", 30)
	f.decide(ids...)
	for _, id := range ids {
		db.set(nil, wire.TxResult{ID: id, Block: 4, Succeeded: true})
	}
	f.g.Committed(&wire.OrderedBlock{Number: 4, IDs: ids}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f.g.lookUp(ctx) })
	eventually(t, func() bool { return f.g.Stats().Pending == 0 })
	cancel()
	running.Wait()
	if asks := db.queries(); !slices.Equal(asks, []int{len(ids)}) {
		t.Errorf("queries of %v ids, want one of %d", asks, len(ids))
	}
}

func TestWaitForATransactionOfAnotherOrganisation(t *testing.T) {
	f, _ := withDatabase(t)
	done := f.waitLater(time.Minute, wire.TxID{5})
	f.decide(wire.TxID{5})
	f.commit(wire.TxID{5})
	if w := <-done; w.err != nil || len(w.results) != 1 {
		t.Fatalf("answer %+v", w)
	}
}

func TestWaitSaysThatTheDatabaseDoesNotAnswer(t *testing.T) {
	f, db := withDatabase(t)
	db.set(errors.New("connection refused"))
	_, err := f.g.WaitAs(context.Background(), "", []wire.TxID{{1}}, 0)
	var e *Error
	if !errors.As(err, &e) || e.SQLState != StateCannotOrder {
		t.Fatalf("error %v", err)
	}
}

// The database comes back while a client waits; the block was committed by an earlier process.
func TestOutcomesWithoutResultsAreLookedUp(t *testing.T) {
	f, db := withDatabase(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.g.Run(ctx) }()
	ids := f.submit("bank", 1)
	done := f.waitLater(time.Minute, ids[0])
	db.set(nil, wire.TxResult{ID: ids[0], Block: 4, Succeeded: true})
	f.decide(ids...)
	f.g.Committed(&wire.OrderedBlock{Number: 4, IDs: ids}, nil)
	if w := <-done; w.err != nil || len(w.results) != 1 || w.results[0].Block != 4 {
		t.Fatalf("answer %+v", w)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// The answer of a COMMIT was lost: effects does not tell, the database knows.
func TestOverdueOutcomesAreLookedUp(t *testing.T) {
	f, db := withDatabase(t)
	ids := f.submit("bank", 2)
	f.decide(ids[0])
	f.now = f.now.Add(lookupAgain)
	f.g.addOverdue()
	if len(f.g.lookups) != 0 {
		t.Fatal("looked up before it is overdue")
	}
	f.now = f.now.Add(time.Millisecond)
	f.g.addOverdue()
	if len(f.g.lookups) != 1 || f.g.lookups[0] != ids[0] {
		t.Fatalf("lookups %v, want the ordered transaction", f.g.lookups)
	}
	db.set(nil, wire.TxResult{ID: ids[0], Block: 4, Succeeded: true})
	must.Do(t, f.g.lookUpSome(context.Background(), f.g.lookups))
	if s := f.g.Stats(); s.Pending != 1 {
		t.Fatalf("%d transactions pending, want 1", s.Pending)
	}
}

func TestWaitsAreBounded(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.WaitsMax = 1 })
	ids := f.submit("bank", 1)
	done := f.waitLater(time.Minute, ids[0])
	_, err := f.g.WaitAs(context.Background(), "", ids, 0)
	var e *Error
	if !errors.As(err, &e) || e.SQLState != StateFull {
		t.Fatalf("error %v", err)
	}
	f.decide(ids...)
	f.commit(ids...)
	<-done
	for _, ids := range [][]wire.TxID{nil, make([]wire.TxID, waitIDsMax+1)} {
		if _, err := f.g.WaitAs(context.Background(), "", ids, 0); err == nil {
			t.Errorf("wait for %d ids was accepted", len(ids))
		}
	}
}

// Many clients at once, through Run, with a mempool that orders everything: for the race detector.
func TestConcurrentClients(t *testing.T) {
	f, _ := withDatabase(t)
	f.g.opt.Now = time.Now
	f.g.opt.Limits.PendingMax = 10_000
	ids := make(chan wire.TxID, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Add(2)
	go func() { defer running.Done(); f.g.Run(ctx) }()
	go func() {
		defer running.Done()
		for n := uint64(1); ; n++ {
			select {
			case <-ctx.Done():
				return
			case id := <-ids:
				f.g.Decided(int64(10+n), []wire.TxID{id})
				f.g.Committed(&wire.OrderedBlock{Number: n, IDs: []wire.TxID{id}}, []wire.TxResult{{ID: id, Block: n, Succeeded: true}})
			}
		}
	}()
	var clients sync.WaitGroup
	for range 8 {
		clients.Add(1)
		go func() {
			defer clients.Done()
			for range 50 {
				id, err := f.g.Submit("bank", []*wire.Statement{sql("SELECT 1")})
				if err != nil {
					t.Error(err)
					return
				}
				ids <- id[0]
				r, err := f.g.WaitAs(context.Background(), "", id, 10*time.Second)
				if err != nil || len(r) != 1 || !r[0].Succeeded {
					t.Errorf("outcome %+v %v", r, err)
					return
				}
			}
		}()
	}
	clients.Wait()
	cancel()
	running.Wait()
	if s := f.g.Stats(); s.Pending != 0 || s.Unordered != 0 {
		t.Fatalf("stats %+v", s)
	}
}
