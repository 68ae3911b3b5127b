package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// rehearsable is a database with a ledger table, the backend on it, and how often anybody waited
// for an answer to a rehearsal.
type rehearsable struct {
	*testing.T
	*Backend
	dsn   string
	trips *atomic.Int64
}

func newRehearsable(t *testing.T, limit time.Duration) rehearsable {
	t.Helper()
	dsn := database(t, setup)
	b := open(t, dsn+" user=effects_node")
	at := connected(t, b)
	if _, err := b.Execute(t.Context(), extensionBlock(1), at.Hash); err != nil {
		t.Fatal(err)
	}
	must.Do(t, b.Commit(t.Context()))
	b.rehearsals.close()
	config, trips := counted(b.pool.Config())
	var err error
	if b.rehearsals, err = newRehearsals(config, limit); err != nil {
		t.Fatal(err)
	}
	return rehearsable{t, b, dsn, trips}
}

// counted counts the round trips of the connections of a pool so configured: whatever is written
// after an answer was read.
func counted(config *pgxpool.Config) (*pgxpool.Config, *atomic.Int64) {
	trips := &atomic.Int64{}
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &tripping{Conn: conn, trips: trips}, err
	}
	return config, trips
}

type tripping struct {
	net.Conn
	trips *atomic.Int64
	asked atomic.Bool
}

func (c *tripping) Write(b []byte) (int, error) {
	if !c.asked.Swap(true) {
		c.trips.Add(1)
	}
	return c.Conn.Write(b)
}

func (c *tripping) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.asked.Store(false)
	}
	return n, err
}

func rehearsalOf(sql string) []byte {
	return wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: marshal(&wire.Proposal{
		ChainId: "test", Client: &wire.Client{Organisation: "a", Role: "effects_ops"}, Nonce: 1, ValidUntilHeight: 1000, Kind: wire.Kind_KIND_SQL, Sql: sql,
	})}})
}

func inserting(id int) []byte {
	return rehearsalOf(fmt.Sprintf("INSERT INTO items VALUES (%d, 'x')", id))
}

// blocking holds up every rehearsal that inserts this item, until it is let go.
func (r rehearsable) blocking(id int) (let func()) {
	r.Helper()
	conn, err := pgx.Connect(r.Context(), r.dsn)
	if err == nil {
		_, err = conn.Exec(r.Context(), fmt.Sprintf(`SET chainify.guard = off; BEGIN; INSERT INTO items VALUES (%d, 'not committed')`, id))
	}
	if err != nil {
		r.Fatal(err)
	}
	let = sync.OnceFunc(func() { _ = conn.Close(context.Background()) })
	r.Cleanup(let)
	return let
}

// later rehearses transactions while the test goes on.
func (r rehearsable) later(ctx context.Context, txs ...[]byte) chan rehearsed {
	done := make(chan rehearsed, 1)
	go func() {
		shown, err := r.Rehearse(ctx, txs)
		done <- rehearsed{shown, err}
	}()
	return done
}

type rehearsed struct {
	shown []backend.Rehearsal
	err   error
}

func (r rehearsed) String() string { return fmt.Sprintf("%+v, %v", r.shown, r.err) }

// until polls.
func (r rehearsable) until(what string, ok func() bool) {
	r.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("not within 20 s: %s", what)
		}
	}
}

// held waits until so many rehearsals are held up in the database.
func (r rehearsable) held(n int) {
	r.Helper()
	r.until(fmt.Sprintf("%d are held up", n), func() bool {
		var waiting int
		err := r.pool.QueryRow(r.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted`).Scan(&waiting)
		return err == nil && waiting == n
	})
}

// queued waits until so many wait for the next group.
func (r rehearsable) queued(n int) {
	r.Helper()
	r.until(fmt.Sprintf("%d wait", n), func() bool {
		r.rehearsals.mu.Lock()
		defer r.rehearsals.mu.Unlock()
		return len(r.rehearsals.waiting) == n
	})
}

// busy holds up every connection that one alone may have.
func (r rehearsable) busy() (let func(), first []chan rehearsed) {
	r.Helper()
	let = r.blocking(100)
	for n := range rehearsalConns / 2 {
		first = append(first, r.later(r.Context(), inserting(100)))
		r.held(n + 1)
	}
	return let, first
}

// A rehearsal leaves nothing behind, neither its rows nor a transaction on its connection, and says
// how the transaction would fail.
func TestRehearsalsLeaveNothing(t *testing.T) {
	b := newRehearsable(t, rehearsalLimit)
	for range 2 { // the second time as the first
		if r, err := b.Rehearse(t.Context(), [][]byte{inserting(2)}); err != nil || r[0].SQLState != "" || len(r[0].Wanted) != 0 {
			t.Errorf("an insert: %+v, %v", r, err)
		}
		if r, err := b.Rehearse(t.Context(), [][]byte{inserting(1)}); err != nil || r[0].SQLState != "23505" {
			t.Errorf("a duplicate key: %+v, %v", r, err)
		}
		if _, err := b.Rehearse(t.Context(), [][]byte{{1, 2, 3}}); sqlState(err) != "22023" {
			t.Errorf("no transaction: %v", err)
		}
		if r, err := b.Rehearse(t.Context(), nil); err != nil || len(r) != 0 {
			t.Errorf("nothing: %+v, %v", r, err)
		}
	}
	if s := b.rehearsals.pool.Stat(); s.NewConnsCount() != 1 || s.AcquiredConns() != 0 {
		t.Errorf("%d connections were made, %d are in use, want one that is used again", s.NewConnsCount(), s.AcquiredConns())
	}
}

// Rehearsals submitted together take one round trip for each group; none sees what another did.
func TestRehearsalsOfAListTakeOneRoundTrip(t *testing.T) {
	b := newRehearsable(t, rehearsalLimit)
	if _, err := b.Rehearse(t.Context(), [][]byte{inserting(2)}); err != nil { // connects
		t.Fatal(err)
	}
	large := slices.Repeat([][]byte{rehearsalOf("SELECT '" + strings.Repeat("x", 400_000) + "'")}, 5)
	for name, c := range map[string]struct {
		txs   [][]byte
		trips int64
	}{
		"none":              {nil, 0},
		"one":               {slices.Repeat([][]byte{inserting(2)}, 1), 1},
		"a group":           {slices.Repeat([][]byte{inserting(2)}, rehearsalsMax), 1},
		"more than a group": {slices.Repeat([][]byte{inserting(2)}, 2*rehearsalsMax+1), 3},
	} {
		before := b.trips.Load()
		shown, err := b.Rehearse(t.Context(), c.txs)
		if trips := b.trips.Load() - before; err != nil || len(shown) != len(c.txs) || trips != c.trips {
			t.Errorf("%s: %d of %d rehearsals in %d round trips, want %d: %v", name, len(shown), len(c.txs), trips, c.trips, err)
		}
		for i, r := range shown {
			if r.SQLState != "" {
				t.Errorf("%s: rehearsal %d sees another: %+v", name, i, r)
			}
		}
	}
	before := b.trips.Load()
	if shown, err := b.Rehearse(t.Context(), large); err != nil || len(shown) != len(large) || b.trips.Load()-before < 3 {
		t.Errorf("%d large ones in %d round trips, want at least 3: %v", len(shown), b.trips.Load()-before, err)
	}
}

// Rehearsals that gather while all connections are at work go together, and each has its own
// verdict. One that fails, is no transaction, or takes too long says nothing of the others.
func TestRehearsalsThatWaitGoTogether(t *testing.T) {
	b := newRehearsable(t, time.Minute)
	let, first := b.busy()
	cases := []struct {
		tx    []byte
		state string // of the outcome
		fails string // SQLSTATE of an error
	}{
		{inserting(2), "", ""},
		{inserting(1), "23505", ""},
		{[]byte{1, 2, 3}, "", "22023"},
		{inserting(2), "", ""},
		{rehearsalOf("SELECT 1/0"), "22012", ""},
		{rehearsalOf("INSERT INTO items VALUES (2, 'x'); SELECT 1/0"), "22012", ""},
		{inserting(2), "", ""},
	}
	var verdicts []chan rehearsed
	for i, c := range cases {
		verdicts = append(verdicts, b.later(t.Context(), c.tx))
		b.queued(i + 1)
	}
	before := b.trips.Load()
	let()
	for i, c := range cases {
		v := <-verdicts[i]
		if sqlState(v.err) != c.fails || (c.fails == "" && (v.err != nil || v.shown[0].SQLState != c.state)) {
			t.Errorf("rehearsal %d: %+v, want outcome %q, error %q", i, v, c.state, c.fails)
		}
	}
	for _, f := range first {
		if v := <-f; v.err != nil || v.shown[0].SQLState != "" {
			t.Errorf("one that was held up: %+v", v)
		}
	}
	if trips := b.trips.Load() - before; trips != 1 {
		t.Errorf("%d that waited took %d round trips, want 1", len(cases), trips)
	}
}

// One that does not end delays those of its group for its own limit alone; it is tried again, and
// then it is an error.
func TestARehearsalThatDoesNotEnd(t *testing.T) {
	b := newRehearsable(t, 200*time.Millisecond)
	group := b.rehearsals.add(t.Context(), inserting(2), rehearsalOf(endless), inserting(2))
	for i, want := range []string{"", "57014", ""} {
		if r, err := group[i].wait(t.Context()); sqlState(err) != want || r.SQLState != want || (want == "" && err != nil) {
			t.Errorf("rehearsal %d: %+v, %v, want error %q", i, r, err, want)
		}
	}
	before := b.trips.Load()
	if _, err := b.Rehearse(t.Context(), [][]byte{inserting(2), rehearsalOf(endless)}); sqlState(err) != "57014" {
		t.Errorf("it gives %v", err)
	}
	if trips := b.trips.Load() - before; trips != rehearsalAttempts {
		t.Errorf("it was tried %d times, want %d", trips, rehearsalAttempts)
	}
}

// Clients that go while they wait, or while their group is under way, take nothing from the others
// of their group.
func TestClientsThatGoTakeNothingFromOthers(t *testing.T) {
	b := newRehearsable(t, time.Minute)
	let, first := b.busy()
	letGroup := b.blocking(101)
	goes, cancel := context.WithCancel(t.Context())
	early, cancelEarly := context.WithCancel(t.Context())
	waits := b.later(early, inserting(101), inserting(2))
	b.queued(2)
	under := b.later(goes, inserting(101), inserting(2))
	b.queued(4)
	stays := b.later(t.Context(), inserting(2))
	b.queued(5)
	cancelEarly()
	if v := <-waits; !errors.Is(v.err, context.Canceled) {
		t.Errorf("one that goes while it waits: %+v", v)
	}
	let()
	for _, f := range first {
		<-f
	}
	b.held(1)
	cancel()
	if v := <-under; !errors.Is(v.err, context.Canceled) {
		t.Errorf("one that goes while its group is under way: %+v", v)
	}
	letGroup()
	if v := <-stays; v.err != nil || v.shown[0].SQLState != "" {
		t.Errorf("one that stays: %+v", v)
	}
}

// A group for which nobody waits any more ends, and its connection with it.
func TestAGroupNobodyWaitsForEnds(t *testing.T) {
	const limit = 10 * time.Second
	b := newRehearsable(t, limit)
	ctx, cancel := context.WithCancel(t.Context())
	many := b.later(ctx, slices.Repeat([][]byte{rehearsalOf(endless)}, rehearsalsMax)...)
	b.until("it is under way", func() bool { return b.rehearsals.pool.Stat().AcquiredConns() == 1 })
	cancel()
	<-many
	begun := time.Now()
	b.until("it ends", func() bool {
		return b.rehearsals.shares.Used() == 0
	})
	b.until("the server ends it", func() bool {
		var sessions int
		err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%rehearse(%' AND pid <> pg_backend_pid()`).Scan(&sessions)
		return err == nil && sessions == 0
	})
	if took := time.Since(begun); took > rehearsalsMax*limit/2 {
		t.Errorf("it took %s to end, the whole group takes %s", took, rehearsalsMax*limit)
	}
	if r, err := b.Rehearse(t.Context(), [][]byte{inserting(2)}); err != nil || r[0].SQLState != "" {
		t.Errorf("afterwards: %+v, %v", r, err)
	}
}

// The connection ends in the midst of a group: what was found out counts, the others are told, and
// later ones have a new connection.
func TestADatabaseGoneInTheMidstOfAGroup(t *testing.T) {
	b := newRehearsable(t, time.Minute)
	let, first := b.busy()
	ahead := b.later(t.Context(), inserting(2))
	b.queued(1)
	held := b.later(t.Context(), inserting(101))
	b.queued(2)
	behind := b.later(t.Context(), inserting(2))
	b.queued(3)
	defer b.blocking(101)()
	let()
	for _, f := range append(first, ahead) {
		if v := <-f; v.err != nil || v.shown[0].SQLState != "" {
			t.Errorf("before it is gone: %+v", v)
		}
	}
	b.held(1)
	run(t, b.dsn, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted`)
	for _, f := range []chan rehearsed{held, behind} {
		if v := <-f; v.err == nil || len(v.shown) != 0 {
			t.Errorf("when it is gone: %+v", v)
		}
	}
	if r, err := b.Rehearse(t.Context(), [][]byte{inserting(2)}); err != nil || r[0].SQLState != "" {
		t.Errorf("afterwards: %+v, %v", r, err)
	}
}

// Closing a backend waits for no rehearsal, and none begins.
func TestClosingEndsRehearsals(t *testing.T) {
	b := newRehearsable(t, time.Minute)
	_, first := b.busy()
	waits := b.later(t.Context(), inserting(2))
	b.queued(1)
	must.Do(t, b.Close())
	for _, f := range append(first, waits) {
		if v := <-f; v.err == nil {
			t.Errorf("a rehearsal ended with %+v", v)
		}
	}
	if _, err := b.Rehearse(t.Context(), [][]byte{inserting(2)}); !errors.Is(err, errClosed) {
		t.Errorf("after it was closed: %v", err)
	}
}

// A list of ids is looked up in one round trip.
func TestOutcomesTakeOneRoundTrip(t *testing.T) {
	b := newRehearsable(t, rehearsalLimit)
	config, trips := counted(b.pool.Config())
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must.Do(t, err)
	b.pool.Close()
	b.pool = pool
	known := extensionBlock(1).IDs[0]
	ids := []wire.TxID{known, known}
	for i := range 1000 {
		ids = append(ids, wire.TxIDOf(fmt.Append(nil, i)))
	}
	for _, some := range [][]wire.TxID{ids[:1], ids, ids[2:], nil} { // the first connects
		before := trips.Load()
		found, err := b.Outcomes(t.Context(), some)
		want := len(some) > 0 && some[0] == known
		if err != nil || (len(found) == 1) != want || (want && found[0].ID != known) {
			t.Errorf("%d ids give %+v, %v", len(some), found, err)
		}
		if n := trips.Load() - before; n != 1 && before > 0 {
			t.Errorf("%d ids took %d round trips, want 1", len(some), n)
		}
	}
	b.pool.Close()
	if _, err := b.Outcomes(t.Context(), ids); err == nil {
		t.Error("a database that is gone has outcomes")
	}
}
