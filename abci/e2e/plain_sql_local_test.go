package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// preparingNetwork has a table of acme's own beside the ledger, and a ledger table like it.
func preparingNetwork(ctx context.Context, t *testing.T) *harness.Organisation {
	t.Helper()
	net := newNetwork(ctx, t)
	acme := net.Organisation("acme")
	must(t, net.Each(func(o *harness.Organisation) error {
		return o.Exec(ctx, "postgres", "GRANT CREATE ON SCHEMA public TO dba")
	}))
	must(t, acme.Exec(ctx, "dba", "SELECT chainify.deploy('CREATE TABLE marks (id bigint PRIMARY KEY); GRANT ALL ON marks TO bank')"))
	must(t, acme.Exec(ctx, "postgres", `CREATE TABLE local_marks (id bigint PRIMARY KEY); GRANT ALL ON local_marks TO bank;
		GRANT SET ON PARAMETER chainify.crash_point TO bank`))
	return acme
}

// allowPrepared restarts acme's server with room for prepared transactions.
func allowPrepared(ctx context.Context, t *testing.T, acme *harness.Organisation) {
	t.Helper()
	must(t, acme.StopNode())
	must(t, acme.Cluster.Stop())
	must(t, acme.Cluster.Configure(map[string]string{"max_prepared_transactions": "20"}))
	must(t, acme.Cluster.Start(ctx))
	must(t, acme.StartNode())
	must(t, acme.WaitServing(ctx, readyLimit))
}

// preparingSession is a plainSession that prepares its local changes.
func preparingSession(ctx context.Context, t *testing.T, o *harness.Organisation) *pgx.Conn {
	t.Helper()
	conn := plainSession(ctx, t, o)
	run(ctx, t, conn, "SET chainify.local_writes = 'prepare'")
	return conn
}

// mark changes both tables in one transaction.
func mark(id int) []string {
	return []string{
		"BEGIN", fmt.Sprintf("INSERT INTO local_marks VALUES (%d)", id), fmt.Sprintf("INSERT INTO marks VALUES (%d)", id), "COMMIT",
	}
}

// sameMarks waits until nothing is prepared at acme, and compares its two tables, as far as ids go.
func sameMarks(ctx context.Context, t *testing.T, acme *harness.Organisation, ids string) {
	t.Helper()
	nothingPrepared(ctx, t, acme)
	for _, table := range []string{"marks", "local_marks"} {
		var got string
		must(t, acme.Scan(ctx, "SELECT coalesce(string_agg(id::text, ',' ORDER BY id), '') FROM "+table, &got))
		if got != ids {
			t.Errorf("%s has %q, want %q", table, got, ids)
		}
	}
}

func nothingPrepared(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	must(t, harness.Poll(ctx, catchUpLimit, "no prepared transaction at "+o.Name, func(ctx context.Context) (ok bool, why string, err error) {
		if err := o.Scan(ctx, `SELECT NOT EXISTS (SELECT FROM pg_prepared_xacts), format('prepared are %s; workers %s', (SELECT array_agg(gid) FROM pg_prepared_xacts),
			(SELECT array_agg((state, query, wait_event)) FROM pg_stat_activity WHERE backend_type = 'chainify maintenance'))`, &ok, &why); err != nil {
			return false, err.Error(), nil // the server may be recovering
		}
		return ok, why, nil
	}))
}

// Local changes that are prepared become durable exactly if the ledger applies the others (W4).
func TestLocalChangesArePrepared(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	acme := preparingNetwork(ctx, t)

	// Without room for prepared transactions nothing is submitted.
	one := preparingSession(ctx, t, acme)
	for _, sql := range mark(1)[:3] {
		run(ctx, t, one, sql)
	}
	if failed := fails(ctx, t, one, "55000", "COMMIT"); !strings.Contains(failed.Hint, "max_prepared_transactions") {
		t.Errorf("the hint is %q", failed.Hint)
	}
	idle(t, one)
	allowPrepared(ctx, t, acme)
	sameMarks(ctx, t, acme, "")

	one = preparingSession(ctx, t, acme)
	for _, sql := range mark(1) {
		run(ctx, t, one, sql)
	}
	idle(t, one)
	// Cursors are open, rows were read, and another transaction of the same level follows.
	run(ctx, t, one, "BEGIN ISOLATION LEVEL REPEATABLE READ")
	run(ctx, t, one, "DECLARE c CURSOR FOR SELECT id FROM marks")
	run(ctx, t, one, "FETCH c")
	for _, sql := range mark(2)[1:3] {
		run(ctx, t, one, sql)
	}
	run(ctx, t, one, "COMMIT AND CHAIN")
	want(ctx, t, one, "SHOW transaction_isolation", "repeatable read")
	run(ctx, t, one, "ROLLBACK")
	// Without BEGIN: several statements of one request, and a pipeline.
	run(ctx, t, one, "INSERT INTO local_marks VALUES (3); INSERT INTO marks VALUES (3)")
	batch := &pgx.Batch{}
	batch.Queue("INSERT INTO local_marks VALUES ($1)", 4)
	batch.Queue("INSERT INTO marks VALUES ($1)", 4)
	must(t, one.SendBatch(ctx, batch).Close())
	idle(t, one)
	run(ctx, t, one, "BEGIN; SET LOCAL ROLE bank; INSERT INTO local_marks VALUES (5); INSERT INTO marks VALUES (5); COMMIT")
	sameMarks(ctx, t, acme, "1,2,3,4,5")

	t.Run("what cannot be prepared is not submitted", func(t *testing.T) {
		for name, first := range map[string]string{
			"temporary tables": "CREATE TEMPORARY TABLE mine (id int); INSERT INTO mine VALUES (1)",
			"LISTEN":           "INSERT INTO local_marks VALUES (6); LISTEN marks",
			"WITH HOLD":        "INSERT INTO local_marks VALUES (6); DECLARE held CURSOR WITH HOLD FOR SELECT 1",
		} {
			run(ctx, t, one, "BEGIN; "+first)
			run(ctx, t, one, "INSERT INTO marks VALUES (6)")
			failed := fails(ctx, t, one, "0A000", "COMMIT")
			t.Logf("%s: %s", name, describe(failed))
			idle(t, one)
		}
		sameMarks(ctx, t, acme, "1,2,3,4,5")
	})
	conflicts(ctx, t, acme)
}

// conflicts has sessions change one row, beside local rows: a refused transaction leaves none.
func conflicts(ctx context.Context, t *testing.T, acme *harness.Organisation) {
	t.Helper()
	const sessions, each = 4, 10
	var before, after, rows, refused int
	must(t, acme.Scan(ctx, "SELECT balance::int FROM checking WHERE custid = 7", &before))
	var wait sync.WaitGroup
	var lock sync.Mutex
	for s := range sessions {
		conn := preparingSession(ctx, t, acme)
		wait.Go(func() {
			for i := range each {
				_, err := conn.Exec(ctx, fmt.Sprintf("BEGIN; INSERT INTO local_marks VALUES (%d); UPDATE checking SET balance = balance + 1 WHERE custid = 7", 1000+s*each+i))
				if err == nil {
					_, err = conn.Exec(ctx, "COMMIT")
				}
				if err != nil {
					if !strings.HasPrefix(describe(err), "40001") {
						t.Errorf("a conflict: %s", describe(err))
					}
					_, _ = conn.Exec(ctx, "ROLLBACK")
					lock.Lock()
					refused++
					lock.Unlock()
				}
			}
		})
	}
	wait.Wait()
	nothingPrepared(ctx, t, acme)
	must(t, acme.Scan(ctx, "SELECT balance::int FROM checking WHERE custid = 7", &after))
	must(t, acme.Scan(ctx, "SELECT count(*) FROM local_marks WHERE id >= 1000", &rows))
	if refused == 0 || after-before != sessions*each-refused || rows != after-before {
		t.Errorf("the row rose by %d, %d local rows are there, of %d transactions %d were refused", after-before, rows, sessions*each, refused)
	}
}

// The server crashes between each two steps of COMMIT: the local row is there just when the ledger
// has the other (W4).
func TestLocalChangesSurviveCrashes(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	acme := preparingNetwork(ctx, t)
	allowPrepared(ctx, t, acme)
	for i, point := range []string{"local_submitted", "local_decided", "local_prepared"} {
		one := preparingSession(ctx, t, acme)
		run(ctx, t, one, "SET chainify.crash_point = '"+point+"'")
		for _, sql := range mark(i)[:3] {
			run(ctx, t, one, sql)
		}
		var failed *pgconn.PgError
		if _, err := one.Exec(ctx, "COMMIT"); err == nil || errors.As(err, &failed) {
			t.Fatalf("%s: COMMIT: %s", point, describe(err))
		}
		if point != "local_prepared" {
			want := []string{"0", "0,1"}[i]
			sameMarks(ctx, t, acme, want)
		}
	}
	// It was never submitted, which is certain when its last height has passed.
	// The node takes itself as serving, until it asks the database over a connection that is gone.
	must(t, harness.Poll(ctx, readyLimit, "a deposit after the crash", func(ctx context.Context) (bool, string, error) {
		conn, err := acme.Cluster.Connect(ctx, database, "bank")
		if err != nil {
			return false, describe(err), nil
		}
		defer conn.Close(ctx)
		err = conn.QueryRow(ctx, "SELECT outcome FROM chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = 1')").Scan(new(bool))
		return err == nil, describe(err), nil
	}))
	must(t, acme.WaitServing(ctx, readyLimit))
	deposits(ctx, t, acme, 10)
	var prepared int
	must(t, acme.Scan(ctx, "SELECT count(*) FROM pg_prepared_xacts", &prepared))
	if prepared != 1 {
		t.Fatalf("%d transactions are prepared, want 1", prepared)
	}
	// Nothing of the ledger is locked by it.
	var locked int
	must(t, acme.Scan(ctx, "SELECT count(*) FROM pg_locks WHERE pid IS NULL AND relation = 'marks'::regclass", &locked))
	if locked != 0 {
		t.Errorf("%d locks on the ledger table", locked)
	}
	deposits(ctx, t, acme, 200)
	sameMarks(ctx, t, acme, "0,1")
}

// Server and node are killed again and again under sessions that change both tables.
func TestLocalChangesSurviveKills(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	acme := preparingNetwork(ctx, t)
	allowPrepared(ctx, t, acme)
	ended := make(chan struct{})
	var wait sync.WaitGroup
	for s := range 3 {
		wait.Go(func() { marksUntil(ctx, acme, s*100_000, ended) })
	}
	kills := []func(){
		acme.KillNode,
		acme.Cluster.Kill,
	}
	for round := range 6 {
		var before int
		must(t, acme.Scan(ctx, "SELECT count(*) FROM local_marks", &before))
		must(t, harness.Poll(ctx, progressLimit, "marks", func(ctx context.Context) (bool, string, error) {
			var now int
			err := acme.Scan(ctx, "SELECT count(*) FROM local_marks", &now)
			return now > before+5+round, fmt.Sprint(now), err
		}))
		kills[round%2]()
		if round%2 == 0 {
			must(t, acme.StartNode())
		} else {
			must(t, acme.Cluster.Start(ctx))
		}
		must(t, acme.WaitServing(ctx, catchUpLimit))
	}
	close(ended)
	wait.Wait()
	must(t, acme.WaitServing(ctx, catchUpLimit))
	deposits(ctx, t, acme, 205)
	nothingPrepared(ctx, t, acme)
	var one, other int
	must(t, acme.Scan(ctx, "SELECT (SELECT count(*) FROM (TABLE marks EXCEPT TABLE local_marks) x), (SELECT count(*) FROM (TABLE local_marks EXCEPT TABLE marks) x)", &one, &other))
	if one+other > 0 {
		t.Errorf("%d rows are on the ledger alone, %d beside it alone", one, other)
	}
}

// marksUntil marks from an id on, in a new session after each failure.
func marksUntil(ctx context.Context, o *harness.Organisation, id int, ended <-chan struct{}) {
	for {
		conn, err := o.Cluster.Connect(ctx, database, "bank")
		if err == nil {
			_, err = conn.Exec(ctx, "SET chainify.writes = 'effects'; SET chainify.local_writes = 'prepare'; SET chainify.wait_timeout = '5s'")
		}
		for err == nil {
			id++
			for _, sql := range mark(id) {
				if err == nil {
					_, err = conn.Exec(ctx, sql)
				}
			}
			select {
			case <-ended:
				_ = conn.Close(ctx)
				return
			default:
			}
		}
		if conn != nil {
			_ = conn.Close(ctx)
		}
		select {
		case <-ended:
			return
		case <-time.After(50 * time.Millisecond): // until the next attempt
		}
	}
}
