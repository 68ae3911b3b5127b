package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/wire"
)

const crashSetup = setup + `;
CREATE TABLE public.parts (id bigint PRIMARY KEY, item bigint REFERENCES public.items, n int CHECK (n < 60), note text);
INSERT INTO public.parts SELECT g, 1, g, repeat('note ' || g, 500) FROM generate_series(0, 49) g;
GRANT ALL ON public.parts TO effects_ops`

// crashBlock changes rows in every part, some transactions failing; transaction i touches rows of its own.
func crashBlock(n uint64) *wire.OrderedBlock {
	if n == 1 {
		return orderedBlock(n, wire.Kind_KIND_DEPLOY, "ATTACH TABLE public.items, public.parts")
	}
	var statements []string
	for i := range 40 {
		switch i % 5 {
		case 0:
			statements = append(statements, fmt.Sprintf("INSERT INTO parts VALUES (%d, 1, 1, chainify.uuid()::text || now())", uint64(i)+100*n))
		case 1:
			statements = append(statements, fmt.Sprintf("DELETE FROM parts WHERE id = %d; INSERT INTO parts VALUES (%d, 1, 2, 'again')", i, i))
		default:
			statements = append(statements, fmt.Sprintf("UPDATE parts SET n = n + 10 WHERE id = %d", i))
		}
	}
	return orderedBlock(n, wire.Kind_KIND_SQL, statements...)
}

// crashServer starts a server of its own with more settings, which crashes and recovers without harm to other tests.
func crashServer(t *testing.T, more map[string]string) string {
	t.Helper()
	tree := os.Getenv("CHAINIFY_TEST_PGTREE")
	if tree == "" {
		t.Skip("CHAINIFY_TEST_PGTREE is not set: it names a PostgreSQL tree with the extension; `make test` sets it")
	}
	// Not t.TempDir(): the server may run as another user, who cannot reach it.
	dir, err := os.MkdirTemp("", "chainify-crash")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	network, err := harness.New(t.Context(), harness.Config{Dir: dir, PG: tree, Database: "unused", Organisations: []string{"crash"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = network.Close() })
	cluster := network.Organisation("crash").Cluster
	settings := map[string]string{"shared_preload_libraries": "'chainify'", "fsync": "off"}
	maps.Copy(settings, more)
	if err := cluster.Configure(settings); err != nil {
		t.Fatal(err)
	}
	if err := network.StartDatabases(t.Context()); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("host=%s port=%d user=postgres", cluster.SocketDir, cluster.Port)
}

// crashDatabase makes a database with some executor workers and its first block.
func crashDatabase(t *testing.T, server, name string, workers int) (dsn string, first backend.Execution) {
	t.Helper()
	run(t, server+" dbname=postgres", "CREATE DATABASE "+name)
	dsn = server + " dbname=" + name
	run(t, dsn, crashSetup)
	run(t, dsn, fmt.Sprintf("ALTER DATABASE %s SET chainify.executor_workers = %d", name, workers))
	if workers > 1 {
		run(t, dsn, fmt.Sprintf("ALTER DATABASE %s SET chainify.debug_parts = %d", name, workers))
	}
	b := open(t, dsn+" user=effects_node")
	at := connected(t, b)
	first, err := b.Execute(t.Context(), crashBlock(1), at.Hash)
	if err == nil {
		err = b.Commit(t.Context())
	}
	if err == nil {
		err = b.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dsn, first
}

// contents reads what two databases with the same blocks must share.
func contents(t *testing.T, dsn string) (text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, `SELECT concat_ws(E'\n',
		(SELECT string_agg(p::text, E'\n' ORDER BY id) FROM parts p),
		(SELECT string_agg(h::text, E'\n' ORDER BY _block, id, _serial) FROM chainify_history.parts h),
		(SELECT string_agg(t::text, E'\n' ORDER BY block, index) FROM chainify_ledger.transaction t),
		(SELECT string_agg(b::text, E'\n' ORDER BY number) FROM chainify_ledger.block b),
		(SELECT string_agg(encode(sha256(lanes), 'hex') || row_count, E'\n' ORDER BY table_id) FROM chainify_ledger.table_state),
		(SELECT string_agg(v::text, E'\n') FROM chainify.verify_ledger() v WHERE what <> 'certificate missing'),
		(SELECT string_agg(v::text, E'\n') FROM chainify.verify_table('parts') v))`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// checkpointer polls until the server accepts sessions and its checkpointer is not process former. It ends in a crash, and
// another one is started after that; so two calls tell that a crash lies between them.
func checkpointer(t *testing.T, dsn string, former int32) (pid int32) {
	t.Helper()
	err := harness.Poll(t.Context(), time.Minute, "recover from the crash", func(ctx context.Context) (bool, string, error) {
		conn, err := pgx.Connect(ctx, dsn)
		if err == nil {
			err = conn.QueryRow(ctx, `SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'`).Scan(&pid)
			_ = conn.Close(ctx)
		}
		if err != nil {
			return false, err.Error(), nil
		}
		return pid != former, "it has not crashed yet", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// Wherever the server crashes while a block is executed and committed, the block ends up as in a database that did not crash.
func TestACrashAtEveryPointLeavesTheSameBlock(t *testing.T) {
	server := crashServer(t, nil)
	control, first := crashDatabase(t, server, "control", 1)
	b := open(t, control+" user=effects_node")
	connected(t, b)
	want := []backend.Execution{first}
	for n := uint64(2); n <= 3; n++ {
		x, err := b.Execute(t.Context(), crashBlock(n), want[n-2].Hash)
		if err == nil {
			err = b.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, x)
	}
	wantContents := contents(t, control)

	points := []struct {
		name      string
		workers   int
		half, all bool // what is committed of the block when the server is back
	}{
		{"before_part_commit", 1, false, false},
		{"before_block_commit", 1, false, false},
		{"after_block_commit", 1, false, true},
		{"parts_ready", 3, false, false},
		{"before_part_commit", 3, false, false},
		{"after_part_commit:1", 3, true, false},
		{"after_part_commit:2", 3, true, false},
		{"before_block_commit", 3, true, false},
		{"after_block_commit", 3, false, true},
	}
	for i, point := range points {
		t.Run(fmt.Sprintf("%s/%d", point.name, point.workers), func(t *testing.T) {
			name := fmt.Sprintf("crash%d", i)
			dsn, first := crashDatabase(t, server, name, point.workers)
			if first.Hash != want[0].Hash {
				t.Fatalf("first block %x, want %x", first.Hash, want[0].Hash)
			}
			run(t, dsn, fmt.Sprintf("ALTER DATABASE %s SET chainify.crash_point = '%s'", name, point.name))
			before := checkpointer(t, server+" dbname=postgres", 0)
			b := open(t, dsn+" user=effects_node")
			connected(t, b)
			if _, err := b.Execute(t.Context(), crashBlock(2), first.Hash); err == nil {
				if err = b.Commit(t.Context()); err == nil {
					t.Fatal("nothing crashed")
				}
			}
			checkpointer(t, server+" dbname=postgres", before)
			run(t, server+" dbname=postgres", fmt.Sprintf("ALTER DATABASE %s RESET chainify.crash_point", name))
			if half := refusesHalf(t, dsn); half != point.half {
				t.Errorf("half committed: %v, want %v", half, point.half)
			}
			at := connected(t, b)
			if all := at.Number == 2; all != point.all {
				t.Fatalf("position %d", at.Number)
			}
			if point.half {
				finishedAsExecuted(t, b, want[:2])
			}
			for n := at.Number + 1; n <= 3; n++ {
				x, err := b.Execute(t.Context(), crashBlock(n), want[n-2].Hash)
				if err != nil {
					t.Fatal(err)
				}
				if x.Hash != want[n-1].Hash || fmt.Sprint(x.Results) != fmt.Sprint(want[n-1].Results) {
					t.Fatalf("block %d is %x with %+v, want %x with %+v", n, x.Hash, x.Results, want[n-1].Hash, want[n-1].Results)
				}
				if err := b.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if got := contents(t, dsn); got != wantContents {
				t.Errorf("contents are\n%s\nwant\n%s", got, wantContents)
			}
		})
	}
}

// finishedAsExecuted tries to have the half committed block 2 finished as another one, and leaves it half committed (P6).
func finishedAsExecuted(t *testing.T, b *Backend, want []backend.Execution) {
	t.Helper()
	var refused *pgconn.PgError
	_, err := b.Execute(t.Context(), orderedBlock(2, wire.Kind_KIND_SQL, "SELECT 1"), want[0].Hash)
	if !errors.As(err, &refused) || refused.Code != "XX001" {
		t.Errorf("with other transactions: %v, want XX001", err)
	}
	other := crashBlock(2)
	other.Height, other.TimeMicro, other.Quarantined = other.Height+5, other.TimeMicro+1_000_000, []uint32{2, 3}
	x, err := b.Execute(t.Context(), other, want[0].Hash)
	if err != nil {
		t.Fatal(err)
	}
	if x.Hash != want[1].Hash {
		t.Errorf("ordered and quarantined otherwise the block is %x, want it as executed, %x", x.Hash, want[1].Hash)
	}
	if err := b.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// refusesHalf says whether verification and readers of one block are refused because a block is half committed.
func refusesHalf(t *testing.T, dsn string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	refused := 0
	for _, call := range []string{"verify_ledger()", "verify_table('parts')", "read_block()"} {
		_, err := conn.Exec(ctx, "SELECT FROM chainify."+call)
		var e *pgconn.PgError
		switch {
		case err == nil:
		case errors.As(err, &e) && e.Code == "55000":
			refused++
		default:
			t.Fatal(err)
		}
	}
	if refused != 0 && refused != 3 {
		t.Fatalf("%d of 3 functions refuse", refused)
	}
	return refused > 0
}
