package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/must"
)

// Sessions around a COMMIT, for process.
const (
	committing     = "query = 'COMMIT' AND backend_type = 'client backend' AND state = 'active'"
	leaderSettling = leader + " AND wait_event_type = 'Extension'" // waits until the parts of an earlier block have ended
	waitingReader  = "query LIKE '%read_block()%' AND wait_event_type = 'Lock' AND wait_event = 'advisory'"

	halfCommitted = "EXISTS (SELECT FROM chainify_ledger.part WHERE block = 2)"
)

// stop has the block executed in parts, and stops the worker of one of them before its COMMIT.
func (r *partsRun) stop(part int) (worker int) {
	r.t.Helper()
	r.executeInParts()
	worker = r.worker(part)
	signal(r.t, worker, syscall.SIGSTOP)
	// Stopped, it would keep the server from ending.
	r.t.Cleanup(func() { _ = syscall.Kill(worker, syscall.SIGCONT) })
	return worker
}

// worker is the process whose part of the open block is ready. Only its title tells which part it
// has.
func (r *partsRun) worker(part int) int {
	r.t.Helper()
	var pids []int
	query(r.t, r.dsn, "SELECT array_agg(pid) FROM pg_stat_activity WHERE datname = current_database() AND "+anyWorker, &pids)
	for _, pid := range pids {
		title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			r.t.Fatal(err)
		}
		if strings.Contains(string(title), fmt.Sprintf("chainify executor %d", part)) {
			return pid
		}
	}
	r.t.Fatalf("none of %v has part %d", pids, part)
	return 0
}

// commitHalf asks for a COMMIT that comes to part 2, whose worker is stopped. The caller waits for
// its error.
func (r *partsRun) commitHalf() (worker int, committed chan error) {
	r.t.Helper()
	worker, committed = r.stop(2), make(chan error, 1)
	go func() { committed <- r.b.Commit(r.t.Context()) }()
	r.eventually(halfCommitted)
	return worker, committed
}

// beside executes the block again while a part of the first time is open, and then lets that one go
// on.
func (r *partsRun) beside(worker int) {
	r.t.Helper()
	connected(r.t, r.b)
	r.start()
	r.process(leaderSettling)
	signal(r.t, worker, syscall.SIGCONT)
	if err := <-r.executed; err != nil {
		r.t.Fatal(err)
	}
}

// failed checks what a COMMIT says that came to nothing.
func failed(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("COMMIT: %v, want %q", err, want)
	}
}

// A COMMIT that ends in the middle while the server goes on: the block is finished as it was
// executed, and not before all of its parts have ended (P3, P6).
func TestACommitThatEndsInTheMiddleIsFinished(t *testing.T) {
	server := crashServer(t, nil)
	want, wantContents := undisturbed(t, server)

	t.Run("a worker does not answer", func(t *testing.T) {
		r := newPartsRun(t, server, "silent")
		t.Parallel() // it takes the leader ten seconds
		worker := r.stop(1)
		failed(t, r.b.Commit(t.Context()), "part 1 of the block does not answer")
		// That part commits when the leader has long given up.
		r.beside(worker)
		r.finish(true, want, wantContents)
	})
	t.Run("a worker is terminated", func(t *testing.T) {
		r := newPartsRun(t, server, "ended")
		t.Parallel()
		worker, committed := r.commitHalf()
		signal(t, worker, syscall.SIGTERM)
		signal(t, worker, syscall.SIGCONT)
		failed(t, <-committed, "the worker of part 2 is gone")
		if !refusesHalf(t, r.dsn) {
			t.Error("the block is not half committed")
		}
		r.finish(false, want, wantContents)
	})
	t.Run("the leader is terminated", func(t *testing.T) {
		r := newPartsRun(t, server, "led")
		t.Parallel()
		worker, committed := r.commitHalf()
		run(t, server+" dbname=postgres", fmt.Sprintf("SELECT pg_terminate_backend(%d, 60000)", r.process(committing)))
		failed(t, <-committed, "57P01")
		r.beside(worker)
		r.finish(true, want, wantContents)
	})
	t.Run("nothing ends it", func(t *testing.T) {
		r := newPartsRun(t, server, "whole")
		t.Parallel()
		readersOfOneBlock(r)
		sameContents(t, r.dsn, wantContents)
	})
}

// readersOfOneBlock has the block committed before readers' eyes: read_block() shows all of it or
// none, and so waits for the rest (P4).
func readersOfOneBlock(r *partsRun) {
	t := r.t
	var before int64
	query(t, r.dsn, "SELECT sum(n) FROM parts", &before)
	sum := func(conn *pgx.Conn) (n int64) {
		t.Helper()
		must.Do(t, conn.QueryRow(t.Context(), "SELECT sum(n) FROM parts").Scan(&n))
		return n - before
	}
	worker, committed := r.commitHalf()

	snapshot := r.session("BEGIN ISOLATION LEVEL REPEATABLE READ")
	if n := sum(snapshot); n != 130 {
		t.Errorf("half committed the block has added %d, want 130: part 1 has every third transaction", n)
	}
	_, err := r.session("SET lock_timeout = '100ms'").Exec(t.Context(), "SELECT chainify.read_block()")
	refused(t, err, "55P03")
	patient, number := r.session("BEGIN"), make(chan int64, 1)
	go func() {
		var n int64
		if err := patient.QueryRow(t.Context(), "SELECT chainify.read_block()").Scan(&n); err != nil {
			t.Error(err)
		}
		number <- n
	}()
	r.process(waitingReader)

	signal(t, worker, syscall.SIGCONT)
	must.Do(t, <-committed)
	if n := <-number; n != 2 {
		t.Errorf("who waited reads block %d, want 2", n)
	} else if added := sum(patient); added != 390 {
		t.Errorf("block 2 has added %d, want 390", added)
	}
	if n := sum(snapshot); n != 130 {
		t.Errorf("in the snapshot the block has added %d, want 130 as before", n)
	}
	_, err = snapshot.Exec(t.Context(), "SELECT chainify.read_block()")
	refused(t, err, "55000")
}

// session opens one in this database, and begins with a statement.
func (r *partsRun) session(sql string) *pgx.Conn {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.dsn)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(r.t.Context(), sql); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

func refused(t *testing.T, err error, state string) {
	t.Helper()
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != state {
		t.Errorf("%v, want %s", err, state)
	}
}
