package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// Invariant R11: the ledger's own maintenance and blocks that change definitions never wait for
// each other in a circle. Random deployments beside folding, checkpoints, the scrubber and the
// audit, on a server that looks for deadlocks after ten milliseconds.
func TestMaintenanceBesideDeploymentsDoesNotDeadlock(t *testing.T) {
	const tables, lasts = 5, 12 * time.Second
	r := seeded.Random(t)
	server := crashServer(t, map[string]string{
		"deadlock_timeout": "'10ms'", "chainify.conflict_grace": "-1", "autovacuum": "off",
		"chainify.checkpoint_interval": "1", "chainify.checkpoints_kept": "1", "chainify.scrub_interval": "1",
	})
	dsn := newLedger(t, server, "maintained")
	b := steady(t, dsn)
	at := connected(t, b)

	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	var beside sync.WaitGroup
	for i, sql := range []string{
		"SELECT chainify_node.fold_history(100)",
		"SELECT chainify_node.scrub(r.oid) FROM (SELECT relation::oid AS oid FROM chainify_ledger.ledger_table WHERE detached_at IS NULL ORDER BY random() LIMIT 1) r",
		"SELECT chainify_node.audit(100)",
		"SELECT chainify_node.checkpoint()",
	} {
		beside.Go(func() { again(ctx, t, dsn, sql, i == 0) })
	}
	defer beside.Wait()
	defer stop()

	begun := time.Now()
	blocks := 0
	for n := at.Number + 1; ctx.Err() == nil; n++ {
		x, err := b.Execute(t.Context(), maintainedBlock(n, r, tables), at.Hash)
		if err == nil {
			err = b.Commit(t.Context())
		}
		if err != nil {
			t.Fatalf("block %d: %v", n, err)
		}
		for i, result := range x.Results {
			if !result.Succeeded {
				t.Fatalf("transaction %d of block %d: %s %s", i, n, result.SQLState, result.Message)
			}
		}
		at.Hash = x.Hash
		blocks++
	}
	stop()
	beside.Wait()
	t.Logf("%d blocks in %v", blocks, time.Since(begun))

	var deadlocks, deviations int64
	query(t, server+" dbname=postgres", "SELECT pg_stat_force_next_flush(), deadlocks FROM pg_stat_database WHERE datname = 'maintained'", nil, &deadlocks)
	query(t, dsn, "SELECT count(*) FROM chainify.deviations", &deviations)
	if deadlocks > 0 || deviations > 0 {
		t.Errorf("%d deadlocks, %d deviations found where nobody changed anything", deadlocks, deviations)
	}
}

// newLedger makes a database with the extension and nothing on its ledger yet.
func newLedger(t *testing.T, server, name string) (dsn string) {
	t.Helper()
	run(t, server+" dbname=postgres", "CREATE DATABASE "+name)
	dsn = server + " dbname=" + name
	run(t, dsn, setup+"; GRANT CREATE, USAGE ON SCHEMA public TO effects_ops")
	return dsn
}

// again runs a statement over and over until the context ends. A finding that cannot be made now,
// since the table is gone or a block is being committed, is no defect.
func again(ctx context.Context, t *testing.T, dsn, sql string, quick bool) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for ctx.Err() == nil {
		_, err := conn.Exec(ctx, sql)
		switch state := sqlState(err); {
		case err == nil, ctx.Err() != nil, state == "42P01", state == "55000":
		default:
			told := new(pgconn.PgError)
			errors.As(err, &told)
			t.Errorf("%.60s: %v: %s", sql, err, told.Detail)
			return
		}
		if !quick {
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		}
	}
}

// maintainedBlock has two deployments on tables chosen at random, or rows for all tables.
func maintainedBlock(n uint64, r *rand.Rand, tables int) *wire.OrderedBlock {
	table := func() string { return fmt.Sprintf("public.t%d", r.IntN(tables)) }
	if n == 1 {
		var sql string
		for i := range tables {
			sql += fmt.Sprintf("CREATE TABLE public.t%[1]d (id bigint PRIMARY KEY, n int); CREATE VIEW public.v%[1]d AS SELECT id FROM public.t%[1]d; ", i)
		}
		return orderedBlock(n, wire.Kind_KIND_DEPLOY, sql)
	}
	if n%2 == 0 {
		var statements []string
		for range 10 {
			statements = append(statements, fmt.Sprintf("INSERT INTO %s SELECT %d + g FROM generate_series(1, 20) g ON CONFLICT DO NOTHING", table(), r.IntN(1_000_000)))
		}
		return orderedBlock(n, wire.Kind_KIND_SQL, statements...)
	}
	var deployments []string
	for range 2 {
		switch name := table(); r.IntN(4) {
		case 0:
			deployments = append(deployments, fmt.Sprintf("ALTER TABLE %s ALTER n SET DEFAULT %d", name, r.IntN(100)))
		case 1:
			deployments = append(deployments, fmt.Sprintf("DROP TABLE %[1]s CASCADE; CREATE TABLE %[1]s (id bigint PRIMARY KEY, n int); CREATE VIEW public.v%[2]s AS SELECT id FROM %[1]s",
				name, name[len("public.t"):]))
		case 2:
			deployments = append(deployments, fmt.Sprintf("ALTER TABLE %[1]s ADD m int DEFAULT 1; ALTER TABLE %[1]s DROP m", name))
		default:
			deployments = append(deployments, fmt.Sprintf("CREATE INDEX i ON %s (n); DROP INDEX public.i", name))
		}
	}
	return orderedBlock(n, wire.Kind_KIND_DEPLOY, deployments...)
}

// executed executes a block and commits it, at most within the time given.
func executed(t *testing.T, b *Backend, block *wire.OrderedBlock, previous wire.Hash, limit time.Duration) wire.Hash {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	x, err := b.Execute(ctx, block, previous)
	if err == nil {
		err = b.Commit(ctx)
	}
	must.Do(t, err)
	for i, result := range x.Results {
		if !result.Succeeded {
			t.Fatalf("transaction %d of block %d: %s %s", i, block.Number, result.SQLState, result.Message)
		}
	}
	return x.Hash
}

// The scrubber reads a table for minutes and holds no lock meanwhile that a deployment on it waits
// for.
func TestADeploymentDoesNotWaitForTheScrubber(t *testing.T) {
	server := crashServer(t, map[string]string{"chainify.conflict_grace": "-1"})
	dsn := newLedger(t, server, "scrubbed")
	b := steady(t, dsn)
	at := connected(t, b)
	hash := executed(t, b, orderedBlock(1, wire.Kind_KIND_DEPLOY,
		"CREATE TABLE public.t (id bigint PRIMARY KEY, n int); CREATE VIEW public.v AS SELECT id FROM public.t"), at.Hash, time.Minute)
	hash = executed(t, b, orderedBlock(2, wire.Kind_KIND_SQL, "INSERT INTO t SELECT g, g FROM generate_series(1, 50000) g"), hash, time.Minute)

	conn, err := pgx.Connect(t.Context(), dsn)
	must.Do(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	ctx, stop := context.WithCancel(t.Context())
	scrubbed := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "SELECT chainify_node.scrub('public.t', 100)") // eight minutes
		scrubbed <- err
	}()
	eventually(t, dsn, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%.scrub(%' AND pid <> pg_backend_pid() AND wait_event = 'Extension')")
	executed(t, b, orderedBlock(3, wire.Kind_KIND_DEPLOY, "ALTER TABLE public.t ADD m int"), hash, 20*time.Second)
	select {
	case err := <-scrubbed:
		t.Errorf("the scrubber has ended: %v", err)
	default:
	}
	stop()
	<-scrubbed
}

// A session locks a table before its partitions, as TRUNCATE does. The scrubber has no partition
// while it waits for the table.
func TestTheScrubberLocksATableBeforeItsPartitions(t *testing.T) {
	server := crashServer(t, map[string]string{"chainify.conflict_grace": "-1", "chainify.scrub_rate": "0"})
	dsn := newLedger(t, server, "parted")
	b := steady(t, dsn)
	at := connected(t, b)
	executed(t, b, orderedBlock(1, wire.Kind_KIND_DEPLOY, `CREATE TABLE public.t (region text, id bigint, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
		CREATE TABLE public.eu PARTITION OF public.t FOR VALUES IN ('eu'); CREATE TABLE public.us PARTITION OF public.t FOR VALUES IN ('us')`), at.Hash, time.Minute)

	holder, err := pgx.Connect(t.Context(), dsn)
	must.Do(t, err)
	defer func() { _ = holder.Close(context.Background()) }()
	locks := func(sql string) {
		t.Helper()
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	locks("SET chainify.guard = off")
	locks("BEGIN")
	locks("LOCK TABLE ONLY public.t IN ACCESS EXCLUSIVE MODE")
	scrubber, err := pgx.Connect(t.Context(), dsn)
	must.Do(t, err)
	defer func() { _ = scrubber.Close(context.Background()) }()
	scrubbed := make(chan error, 1)
	go func() {
		_, err := scrubber.Exec(t.Context(), "SELECT chainify_node.scrub('public.t')")
		scrubbed <- err
	}()
	eventually(t, dsn, fmt.Sprintf("SELECT EXISTS (SELECT FROM pg_locks WHERE pid = %d AND NOT granted)", scrubber.PgConn().PID()))
	locks("LOCK TABLE public.eu, public.us IN ACCESS EXCLUSIVE MODE")
	locks("COMMIT")
	if err := <-scrubbed; err != nil {
		t.Errorf("the scrubber: %v", err)
	}
}

// The ledger's own maintenance is in the way of a deployment for as long as any session may be, and
// goes on later.
func TestMaintenanceGivesWayToABlock(t *testing.T) {
	const limit = 5 * time.Minute
	server := crashServer(t, map[string]string{
		"chainify.conflict_grace": "'200ms'", "chainify.checkpoint_interval": "1", "chainify.checkpoints_kept": "1", "chainify.scrub_rate": "0",
	})
	dsn := newLedger(t, server, "busy")
	b := steady(t, dsn)
	at := connected(t, b)
	hash := executed(t, b, orderedBlock(1, wire.Kind_KIND_DEPLOY, "CREATE TABLE public.t (id bigint PRIMARY KEY, n int)"), at.Hash, limit)

	// A session that holds the base that is folded into is in the way of folding, not of the block.
	holder, err := pgx.Connect(t.Context(), dsn)
	must.Do(t, err)
	defer func() { _ = holder.Close(context.Background()) }()
	for _, sql := range []string{"SET chainify.guard = off", "BEGIN", "LOCK TABLE chainify_checkpoint.t IN EXCLUSIVE MODE"} {
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	hash = executed(t, b, orderedBlock(2, wire.Kind_KIND_SQL, "INSERT INTO t VALUES (1, 1)"), hash, limit)
	const folding = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'chainify maintenance' AND wait_event_type = 'Lock')"
	eventually(t, dsn, folding)
	hash = executed(t, b, orderedBlock(3, wire.Kind_KIND_DEPLOY, "ALTER TABLE public.t ALTER n SET DEFAULT 1"), hash, limit)
	if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatalf("the session that is not in the block's way: %v", err)
	}
	executed(t, b, orderedBlock(4, wire.Kind_KIND_SQL, "INSERT INTO t VALUES (2, 1)"), hash, limit)
	eventually(t, dsn, "SELECT bool_and(base_block > 1) FROM chainify_ledger.ledger_table WHERE name = 'public.t'")
}

// The changes of a block are found through the index by block, though nothing vacuums: ranges of
// pages are summed up as they fill.
func TestMaintenanceSumsUpIndexesByBlock(t *testing.T) {
	const blocks, limit = 60, 5 * time.Minute
	server := crashServer(t, map[string]string{"autovacuum": "off"})
	dsn := newLedger(t, server, "summed_up")
	b := steady(t, dsn)
	hash := executed(t, b, orderedBlock(1, wire.Kind_KIND_DEPLOY, "CREATE TABLE public.t (id bigint PRIMARY KEY, filler text)"), connected(t, b).Hash, limit)
	for n := uint64(2); n < 2+blocks; n++ {
		insert := fmt.Sprintf("INSERT INTO t SELECT %d + g, repeat('x', 500) FROM generate_series(1, 100) g", 1000*n)
		hash = executed(t, b, orderedBlock(n, wire.Kind_KIND_SQL, insert), hash, limit)
	}
	run(t, dsn, "SELECT chainify.mirror('public.t')")

	conn, err := pgx.Connect(t.Context(), dsn)
	must.Do(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var pages int
	must.Do(t, conn.QueryRow(t.Context(), "SELECT pg_relation_size('chainify_history.t') / 8192").Scan(&pages))
	// One block's rows are in one or two ranges of 16 pages. The last range is not full.
	most := pages / 6
	err = harness.Poll(t.Context(), time.Minute, "few pages are read", func(ctx context.Context) (bool, string, error) {
		const changes = "SELECT chainify.mirror_changes(m.table_id, 9, 10) FROM chainify.mirrored_tables m"
		var plans []struct {
			Plan struct {
				Rows float64 `json:"Actual Rows"` // 18 has the mean of several rounds
				Hit  int     `json:"Shared Hit Blocks"`
				Read int     `json:"Shared Read Blocks"`
			}
		}
		err := conn.QueryRow(ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+changes).Scan(&plans)
		if err != nil {
			return false, "", err
		}
		if len(plans) != 1 || plans[0].Plan.Rows != 1 {
			return false, "", fmt.Errorf("the changes come by %v, want one plan with one row", plans)
		}
		read := plans[0].Plan.Hit + plans[0].Plan.Read
		return read <= most, fmt.Sprintf("%d pages of %d were read, want %d at most", read, pages, most), nil
	})
	must.Do(t, err)
}

// eventually polls until a query says true.
func eventually(t *testing.T, dsn, sql string) {
	t.Helper()
	err := harness.Poll(t.Context(), time.Minute, sql, func(context.Context) (is bool, _ string, _ error) {
		query(t, dsn, sql, &is)
		return is, "it is not so yet", nil
	})
	must.Do(t, err)
}
