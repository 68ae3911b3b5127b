package postgres

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// patient waits for its row as long as it takes; a part's own statements give up after
// milliseconds.
const patient = `CREATE FUNCTION public.patient(at bigint) RETURNS void LANGUAGE plpgsql SET lock_timeout = 0 AS
	'BEGIN UPDATE public.parts SET n = n + 10 WHERE id = at; END'`

// waitingRow is changed by the last transaction of waitingBlock, in the last of three parts: by a
// worker.
const waitingRow = 38

// waitingBlock is crashBlock 2 with a transaction that waits for whoever has locked waitingRow.
func waitingBlock() *wire.OrderedBlock {
	var statements []string
	for i := range waitingRow {
		statements = append(statements, fmt.Sprintf("UPDATE parts SET n = n + 10 WHERE id = %d", i))
	}
	return orderedBlock(2, wire.Kind_KIND_SQL, append(statements, fmt.Sprintf("SELECT patient(%d)", waitingRow))...)
}

// partsRun is a database that executes waitingBlock in parts, and a session that holds up the last
// one.
type partsRun struct {
	t                 *testing.T
	server, name, dsn string
	b                 *Backend
	first             backend.Execution
	locker            *pgx.Conn
	executed          chan error
	execution         backend.Execution
}

func newPartsRun(t *testing.T, server, name string) *partsRun {
	t.Helper()
	r := &partsRun{t: t, server: server, name: name, executed: make(chan error, 1)}
	r.dsn, r.first = crashDatabase(t, server, name, 3)
	run(t, r.dsn, patient)
	r.b = steady(t, r.dsn)
	connected(t, r.b)
	return r
}

// lock takes the row that the block will wait for.
func (r *partsRun) lock() {
	r.t.Helper()
	r.hold(fmt.Sprintf("SELECT FROM parts WHERE id = %d FOR UPDATE", waitingRow))
}

// hold opens a transaction with what others will wait for.
func (r *partsRun) hold(sql string) *pgx.Conn {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.dsn)
	if err != nil {
		r.t.Fatal(err)
	}
	r.locker = conn
	r.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, sql := range []string{"SET chainify.guard = off", "BEGIN", sql} {
		if _, err := conn.Exec(r.t.Context(), sql); err != nil {
			r.t.Fatal(err)
		}
	}
	return conn
}

// unlock gives the row back.
func (r *partsRun) unlock() {
	r.t.Helper()
	if err := r.locker.Close(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// start has the block executed; its error comes through r.executed. The caller waits for it.
func (r *partsRun) start() {
	go func() {
		x, err := r.b.Execute(r.t.Context(), waitingBlock(), r.first.Hash)
		r.execution = x
		r.executed <- err
	}()
}

// startUntil has the block executed until a process is held up. On a busy machine parts may wait
// too long for each other, and the leader runs the block alone: then it starts again.
func (r *partsRun) startUntil(which string) (pid int) {
	r.t.Helper()
	for range 10 {
		r.start()
		pid, found := r.processOr(which, waitingLeader+" AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = $1 AND "+anyWorker+")")
		if found {
			return pid
		}
		run(r.t, r.server+" dbname=postgres", fmt.Sprintf("SELECT pg_cancel_backend(%d)", pid))
		if err := <-r.executed; err == nil {
			r.t.Fatal("the block was executed, though its leader was stopped")
		}
		connected(r.t, r.b)
	}
	r.t.Fatalf("no process where %s in ten executions: the leader ran the block alone", which)
	return 0
}

// executeInParts has the block executed until its parts are ready, and gives one of their workers.
func (r *partsRun) executeInParts() (pid int) {
	r.t.Helper()
	for range 10 {
		r.start()
		if err := <-r.executed; err != nil {
			r.t.Fatal(err)
		}
		pid, found := r.processOr(anyWorker, leaderReady)
		if found {
			return pid
		}
		connected(r.t, r.b)
	}
	r.t.Fatal("ten executions: the leader ran the block alone")
	return 0
}

// process polls for a process of this database.
func (r *partsRun) process(which string) (pid int) {
	r.t.Helper()
	pid, _ = r.processOr(which, "false")
	return pid
}

// processOr polls for a process of one of two kinds, and says whether it is of the first.
func (r *partsRun) processOr(which, other string) (pid int, first bool) {
	r.t.Helper()
	sql := fmt.Sprintf("SELECT pid, %[1]s FROM pg_stat_activity WHERE datname = $1 AND (%[1]s OR %[2]s) ORDER BY 2 DESC LIMIT 1", which, other)
	err := harness.Poll(r.t.Context(), time.Minute, "find the process where "+which, func(ctx context.Context) (bool, string, error) {
		conn, err := pgx.Connect(ctx, r.server+" dbname=postgres")
		if err != nil {
			return false, err.Error(), nil
		}
		defer func() { _ = conn.Close(ctx) }()
		if err := conn.QueryRow(ctx, sql, r.name).Scan(&pid, &first); err != nil {
			return false, err.Error(), nil
		}
		return true, "", nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return pid, first
}

// Processes of a block, for process.
const (
	anyWorker     = "backend_type = 'chainify executor' AND xact_start IS NOT NULL"
	leader        = "query LIKE '%execute_block(%' AND backend_type = 'client backend' AND state = 'active'"
	waitingWorker = anyWorker + heldUp
	waitingLeader = leader + heldUp
	leaderReady   = "backend_type = 'client backend' AND state = 'idle in transaction'"

	// By the session of hold; parts also wait a moment for each other, to make a table longer
	// (extend).
	heldUp = " AND wait_event_type = 'Lock' AND wait_event IN ('transactionid', 'relation')"
)

// finish executes the block once more, unless it was, commits it and compares with the undisturbed
// run.
func (r *partsRun) finish(executed bool, want backend.Execution, wantContents string) {
	r.t.Helper()
	if !executed {
		if at := connected(r.t, r.b); at.Number != 1 {
			r.t.Fatalf("position %d, want 1", at.Number)
		}
		x, err := r.b.Execute(r.t.Context(), waitingBlock(), r.first.Hash)
		if err != nil {
			r.t.Fatal(err)
		}
		r.execution = x
	}
	if r.execution.Hash != want.Hash || fmt.Sprint(r.execution.Results) != fmt.Sprint(want.Results) {
		r.t.Fatalf("block is %x with %+v, want %x with %+v", r.execution.Hash, r.execution.Results, want.Hash, want.Results)
	}
	if err := r.b.Commit(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	sameContents(r.t, r.dsn, wantContents)
}

// undisturbed executes the block in one process.
func undisturbed(t *testing.T, server string) (backend.Execution, string) {
	t.Helper()
	dsn, first := crashDatabase(t, server, "control", 1)
	run(t, dsn, patient)
	b := steady(t, dsn)
	connected(t, b)
	x, err := b.Execute(t.Context(), waitingBlock(), first.Hash)
	if err == nil {
		err = b.Commit(t.Context())
	}
	must.Do(t, err)
	return x, contents(t, dsn)
}

// After any end of a process of a block that one part holds up, the block ends up as it is
// without (P2, P3).
func TestWhateverEndsAPartOfABlockLeavesTheSameBlock(t *testing.T) {
	server := crashServer(t, map[string]string{"chainify.conflict_grace": "-1"})
	want, wantContents := undisturbed(t, server)

	t.Run("worker killed while it runs", func(t *testing.T) {
		r := newPartsRun(t, server, "killed_running")
		before := checkpointer(t, server+" dbname=postgres", 0)
		r.lock()
		kill(t, r.startUntil(waitingWorker))
		if err := <-r.executed; err == nil {
			t.Fatal("the block was executed, though the server crashed")
		}
		checkpointer(t, server+" dbname=postgres", before)
		r.finish(false, want, wantContents)
	})
	t.Run("worker killed when its part is ready", func(t *testing.T) {
		r := newPartsRun(t, server, "killed_ready")
		before := checkpointer(t, server+" dbname=postgres", 0)
		kill(t, r.executeInParts())
		checkpointer(t, server+" dbname=postgres", before)
		if err := r.b.Commit(t.Context()); err == nil {
			t.Fatal("committed, though the server crashed")
		}
		r.finish(false, want, wantContents)
	})
	for i, signal := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
		t.Run("leader gets "+signal, func(t *testing.T) {
			r := newPartsRun(t, server, fmt.Sprintf("leader%d", i))
			r.lock()
			r.startUntil(waitingWorker)
			run(t, server+" dbname=postgres", fmt.Sprintf("SELECT %s(%d)", signal, r.process(leader)))
			if err := <-r.executed; err == nil {
				t.Fatal("the block was executed, though its leader was stopped")
			}
			// The row is still locked: the worker gave up waiting for it.
			r.closed()
			r.unlock()
			r.finish(false, want, wantContents)
		})
		t.Run("worker gets "+signal, func(t *testing.T) {
			r := newPartsRun(t, server, fmt.Sprintf("worker%d", i))
			r.lock()
			run(t, server+" dbname=postgres", fmt.Sprintf("SELECT %s(%d)", signal, r.startUntil(waitingWorker)))
			r.process(waitingLeader) // runs the block alone
			r.closed()
			r.unlock()
			must.Do(t, <-r.executed)
			r.finish(true, want, wantContents)
		})
	}
}

// closed polls until no worker has a transaction.
func (r *partsRun) closed() {
	r.t.Helper()
	r.eventually("NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND " + anyWorker + ")")
}

// eventually polls until something is true in this database.
func (r *partsRun) eventually(condition string) {
	r.t.Helper()
	err := harness.Poll(r.t.Context(), time.Minute, "see that "+condition, func(ctx context.Context) (is bool, state string, _ error) {
		conn, err := pgx.Connect(ctx, r.dsn)
		if err != nil {
			return false, err.Error(), nil
		}
		defer func() { _ = conn.Close(ctx) }()
		err = conn.QueryRow(ctx, "SELECT "+condition).Scan(&is)
		return is, fmt.Sprintf("%v %v", is, err), nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// A process that is ended while it writes what its part did ends alone: a server that crashed would
// take the session of the lock along.
func TestAProcessEndedWhileItWritesHistoryEndsAlone(t *testing.T) {
	server := crashServer(t, map[string]string{"chainify.conflict_grace": "-1"})
	want, wantContents := undisturbed(t, server)
	for which, process := range map[string]string{"worker": waitingWorker, "leader": waitingLeader} {
		t.Run(which, func(t *testing.T) {
			r := newPartsRun(t, server, "writing_"+which)
			r.hold("LOCK TABLE chainify_history.parts IN SHARE MODE")
			run(t, server+" dbname=postgres", fmt.Sprintf("SELECT pg_terminate_backend(%d, 60000)", r.startUntil(process)))
			if _, err := r.locker.Exec(t.Context(), "COMMIT"); err != nil {
				t.Fatalf("the server crashed: %v", err)
			}
			executed := which == "worker" // the leader runs the block alone then
			if err := <-r.executed; (err == nil) != executed {
				t.Fatalf("the block was executed: %v, want %t", err, executed)
			}
			r.finish(executed, want, wantContents)
		})
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	signal(t, pid, syscall.SIGKILL)
}

func signal(t *testing.T, pid int, number syscall.Signal) {
	t.Helper()
	must.Do(t, syscall.Kill(pid, number))
}

// A half committed block that is not to be finished goes again, with everything that its parts
// wrote (P6, R1).
func TestARepairTakesBackAHalfCommittedBlock(t *testing.T) {
	server := crashServer(t, nil)
	want, wantContents := undisturbed(t, server)
	r := newPartsRun(t, server, "half")
	run(t, r.dsn, "ALTER DATABASE half SET chainify.crash_point = 'after_part_commit:1'")
	before := checkpointer(t, server+" dbname=postgres", 0)
	must.Do(t, r.b.Close())
	r.b = steady(t, r.dsn)
	connected(t, r.b)
	r.executeInParts()
	if err := r.b.Commit(t.Context()); err == nil {
		t.Fatal("nothing crashed")
	}
	checkpointer(t, server+" dbname=postgres", before)
	run(t, server+" dbname=postgres", "ALTER DATABASE half RESET chainify.crash_point")
	if !refusesHalf(t, r.dsn) {
		t.Fatal("the block is not half committed")
	}
	connected(t, r.b)
	rows, err := r.b.Repair(t.Context(), backend.Rows, 1, r.first.Hash, 2, want.Hash)
	must.Do(t, err)
	// Each part has every third transaction. Parts commit together: the first is committed, the
	// second may be.
	changed := slices.DeleteFunc(rows, func(d backend.RowDeviation) bool { return d.Key == nil })
	if len(changed) != 13 && len(changed) != 26 {
		t.Errorf("%d rows were put right, want 13 or 26", len(changed))
	}
	if refusesHalf(t, r.dsn) {
		t.Error("the block is still half committed")
	}
	r.finish(false, want, wantContents)
}
