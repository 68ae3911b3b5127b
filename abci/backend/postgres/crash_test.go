package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// long is a value that is stored apart from its row (TOAST), another one for each number.
func long(number string) string {
	return "(SELECT string_agg(md5(i || ' ' || " + number + "), '' ORDER BY i) FROM generate_series(1, 200) i)"
}

// crashTables are those of crashSetup: long values; rows that go with others, and numbers that are
// drawn; partitions.
var crashTables = []string{"parts", "uses", "places"}

var crashSetup = setup + `;
CREATE TABLE public.parts (id bigint PRIMARY KEY, item bigint REFERENCES public.items, n int CHECK (n < 60), note text);
CREATE TABLE public.uses (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, part bigint REFERENCES public.parts ON DELETE CASCADE);
CREATE TABLE public.places (shelf int, id bigint, PRIMARY KEY (shelf, id)) PARTITION BY LIST (shelf);
CREATE TABLE public.low PARTITION OF public.places FOR VALUES IN (0);
CREATE TABLE public.high PARTITION OF public.places FOR VALUES IN (1);
INSERT INTO public.parts SELECT g, 1, g, ` + long("g") + ` FROM generate_series(0, 49) g;
INSERT INTO public.uses (part) SELECT id FROM public.parts ORDER BY id;
INSERT INTO public.places SELECT id % 2, id FROM public.parts;
GRANT ALL ON public.parts, public.uses, public.places TO effects_ops`

// crashBlock changes rows in every part, some transactions failing; transaction i touches rows of
// its own, and those of one part alone draw numbers.
func crashBlock(n uint64) *wire.OrderedBlock {
	if n == 1 {
		return orderedBlock(n, wire.Kind_KIND_DEPLOY, "ATTACH TABLE public.items, public.parts, public.uses, public.places")
	}
	var statements []string
	for i := range 40 {
		var sql string
		if i%3 == 2 {
			sql = fmt.Sprintf("INSERT INTO uses (part) VALUES (%d); ", i)
		}
		switch i % 5 {
		case 0:
			sql += fmt.Sprintf("INSERT INTO parts VALUES (%d, 1, 1, chainify.uuid()::text || now())", uint64(i)+100*n)
		case 1:
			sql += fmt.Sprintf("DELETE FROM parts WHERE id = %d; INSERT INTO parts VALUES (%d, 1, 2, 'again')", i, i)
		case 2:
			shelf := (i + int(n)) % 2
			sql += fmt.Sprintf("UPDATE places SET shelf = %d WHERE shelf = %d AND id = %d", 1-shelf, shelf, i)
		case 3:
			sql += fmt.Sprintf("UPDATE parts SET note = %s WHERE id = %d", long(fmt.Sprint(100*n)), i)
		default:
			sql += fmt.Sprintf("UPDATE parts SET n = n + 2 * id WHERE id = %d", i) // fails from 24 on
		}
		statements = append(statements, sql)
	}
	block := orderedBlock(n, wire.Kind_KIND_SQL, statements...)
	raw, err := wire.SplitTransactions(block.Transactions)
	if err != nil {
		panic(err)
	}
	for i, set := range crashWriteSets(n) {
		raw = append(raw, orderWriteSet(block, n<<8+uint64(len(statements)+i), "effects_ops", set))
	}
	block.Transactions = wire.EncodeTransactions(raw)
	return block
}

// crashWriteSets follow the statements of block n: an insert and a delete in partitions, an update,
// and one that fails. No statement touches their rows.
func crashWriteSets(n uint64) []*wire.WriteSet {
	const places, uses = "public.places", "public.uses"
	number := func(v uint64) []byte { return binary.BigEndian.AppendUint64([]byte{2, 0, 0, 0, 8}, v) }
	row := func(values ...uint64) []byte {
		out := []byte{0, byte(len(values))}
		for i, v := range values {
			out = append(append(out, 0, byte(i+1)), number(v)...)
		}
		return out
	}
	set := func(table string, changes ...wire.RowChange) *wire.WriteSet {
		return &wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{table}, Changes: changes}
	}
	old, part := row((46+n)%2, 46+n), 51-n
	update := func(seen uint64) wire.RowChange {
		return wire.RowChange{
			Op: 'U', Row: row(50), Before: wire.RowHash(uses, row(50, seen)), Cells: []wire.Cell{{Ordinal: 2, Value: number(part - 1)}},
		}
	}
	return []*wire.WriteSet{
		set(places, wire.RowChange{Op: 'I', Row: row(0, 1000+n)}, wire.RowChange{Op: 'D', Row: old, Before: wire.RowHash(places, old)}),
		set(uses, update(part)),
		set(uses, update(1)),
	}
}

// crashServer starts a server of its own with more settings, which crashes and recovers without
// harm to other tests.
func crashServer(t *testing.T, more map[string]string) string {
	t.Helper()
	server, _ := crashCluster(t, more)
	return server
}

// crashCluster gives the server itself as well.
func crashCluster(t *testing.T, more map[string]string) (string, *harness.Cluster) {
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
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	network, err := harness.New(t.Context(), harness.Config{Dir: dir, PG: tree, Database: "unused", Organisations: []string{"crash"}})
	must.Do(t, err)
	t.Cleanup(func() { _ = network.Close() })
	cluster := network.Organisation("crash").Cluster
	// Each database of a test has a maintenance worker; executor workers need room beside them.
	settings := map[string]string{"shared_preload_libraries": "'chainify'", "fsync": "off", "max_worker_processes": "32"}
	maps.Copy(settings, more)
	must.Do(t, cluster.Configure(settings))
	must.Do(t, network.StartDatabases(t.Context()))
	return fmt.Sprintf("host=%s port=%d user=postgres", cluster.SocketDir, cluster.Port), cluster
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
	b := steady(t, dsn)
	at := connected(t, b)
	first, err := b.Execute(t.Context(), crashBlock(1), at.Hash)
	if err == nil {
		err = b.Commit(t.Context())
	}
	if err == nil {
		err = b.Close()
	}
	must.Do(t, err)
	return dsn, first
}

// steady is a node's connection to a database that may be slow: no transaction is stuck soon.
func steady(t *testing.T, dsn string) *Backend {
	t.Helper()
	b, err := New(Config{DSN: dsn + " user=effects_node", ChainID: "test", Organisation: "a"})
	must.Do(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// contents reads what two databases with the same blocks must share.
func contents(t *testing.T, dsn string) (text string) {
	t.Helper()
	sql := `SELECT concat_ws(E'\n',
		(SELECT string_agg(t::text, E'\n' ORDER BY block, index) FROM chainify_ledger.transaction t),
		(SELECT string_agg(b::text, E'\n' ORDER BY number) FROM chainify_ledger.block b),
		(SELECT string_agg(encode(sha256(lanes), 'hex') || row_count, E'\n' ORDER BY table_id) FROM chainify_ledger.table_state),
		(SELECT string_agg(s::text, E'\n') FROM chainify_ledger.sequence s), (SELECT last_value || ' ' || is_called FROM uses_id_seq),
		(SELECT string_agg(v::text, E'\n') FROM chainify.verify_ledger() v WHERE what <> 'certificate missing')`
	for _, table := range crashTables {
		sql += fmt.Sprintf(`, (SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM %[1]s r),
			(SELECT string_agg(h::text, E'\n' ORDER BY h::text) FROM chainify_history.%[1]s h),
			(SELECT string_agg(v::text, E'\n') FROM chainify.verify_table('%[1]s') v)`, table)
	}
	query(t, dsn, sql+")", &text)
	return text
}

// query reads one row in a session of its own.
func query(t *testing.T, dsn, sql string, into ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err == nil {
		err = conn.QueryRow(ctx, sql).Scan(into...)
		_ = conn.Close(ctx)
	}
	if err != nil {
		t.Fatalf("%.60s: %v", sql, err)
	}
}

// sameContents compares a database with what it should have.
func sameContents(t *testing.T, dsn, want string) {
	t.Helper()
	got := contents(t, dsn)
	only := func(text, other string) {
		lines := strings.Split(other, "\n")
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); !slices.Contains(lines, line) {
				t.Logf("%.200s", line)
			}
		}
	}
	if got != want {
		t.Error("contents differ; it has")
		only(got, want)
		t.Log("and should have")
		only(want, got)
	}
}

// checkpointer polls until the server accepts sessions and its checkpointer is not process former.
// It ends in a crash, and another one is started after that; so two calls tell that a crash lies
// between them.
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
	must.Do(t, err)
	return pid
}

// Wherever the server crashes while a block is executed and committed, the block ends up as in a
// database that did not crash.
func TestACrashAtEveryPointLeavesTheSameBlock(t *testing.T) {
	server := crashServer(t, nil)
	control, first := crashDatabase(t, server, "control", 1)
	b := steady(t, control)
	connected(t, b)
	want := []backend.Execution{first}
	for n := uint64(2); n <= 3; n++ {
		x, err := b.Execute(t.Context(), crashBlock(n), want[n-2].Hash)
		if err == nil {
			err = b.Commit(t.Context())
		}
		must.Do(t, err)
		if last := x.Results[len(x.Results)-3:]; !last[0].Succeeded || !last[1].Succeeded || last[2].SQLState != "40001" {
			t.Fatalf("the EFFECTS transactions of block %d have %+v", n, last)
		}
		want = append(want, x)
	}
	wantContents := contents(t, control)

	points := []struct {
		name      string
		workers   int
		again     string // where it crashes once more, while the block is finished
		half, all bool   // what is committed of the block when the server is back
	}{
		{"before_part_commit", 1, "", false, false},
		{"before_block_commit", 1, "", false, false},
		{"after_block_commit", 1, "", false, true},
		{"parts_ready", 3, "", false, false},
		{"before_part_commit", 3, "", false, false},
		{"after_part_commit:1", 3, "", true, false},
		{"after_part_commit:2", 3, "", true, false},
		{"before_block_commit", 3, "", true, false},
		{"after_block_commit", 3, "", false, true},
		{"after_part_commit:1", 3, "before_block_commit", true, false},
		{"after_part_commit:2", 3, "after_block_commit", false, true},
	}
	for i, point := range points {
		t.Run(fmt.Sprintf("%s/%d/%s", point.name, point.workers, point.again), func(t *testing.T) {
			name := fmt.Sprintf("crash%d", i)
			dsn, first := crashDatabase(t, server, name, point.workers)
			if first.Hash != want[0].Hash {
				t.Fatalf("first block %x, want %x", first.Hash, want[0].Hash)
			}
			b := crash(t, server, name, point.name, point.workers > 1, first.Hash)
			if point.again != "" {
				if !refusesHalf(t, dsn) {
					t.Error("there is nothing to finish")
				}
				_ = b.Close()
				b = crash(t, server, name, point.again, false, first.Hash)
			}
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
				must.Do(t, err)
				if x.Hash != want[n-1].Hash || fmt.Sprint(x.Results) != fmt.Sprint(want[n-1].Results) {
					t.Fatalf("block %d is %x with %+v, want %x with %+v", n, x.Hash, x.Results, want[n-1].Hash, want[n-1].Results)
				}
				must.Do(t, b.Commit(t.Context()))
			}
			sameContents(t, dsn, wantContents)
		})
	}
}

// crash has the server crash at a point of block 2, which is executed in parts or alone, and waits
// until it is back. The backend that it gives connects by itself.
func crash(t *testing.T, server, name, point string, inParts bool, previous wire.Hash) *Backend {
	t.Helper()
	dsn := server + " dbname=" + name
	run(t, dsn, fmt.Sprintf("ALTER DATABASE %s SET chainify.crash_point = '%s'", name, point))
	before := checkpointer(t, server+" dbname=postgres", 0)
	b := steady(t, dsn)
	connected(t, b)
	_, err := b.Execute(t.Context(), crashBlock(2), previous)
	// On a busy machine parts may wait too long for each other, and the leader runs the block
	// alone.
	for try := 0; err == nil && inParts && alone(t, dsn) && try < 10; try++ {
		_, err = b.Execute(t.Context(), crashBlock(2), previous)
	}
	if err == nil {
		err = b.Commit(t.Context())
	}
	if err == nil {
		t.Fatal("nothing crashed")
	}
	if sqlState(err) != "" {
		t.Fatalf("it failed and did not crash: %v", err)
	}
	checkpointer(t, server+" dbname=postgres", before)
	run(t, server+" dbname=postgres", fmt.Sprintf("ALTER DATABASE %s RESET chainify.crash_point", name))
	return b
}

// alone says that no worker has a part of the block that is open.
func alone(t *testing.T, dsn string) (is bool) {
	t.Helper()
	query(t, dsn, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND "+anyWorker+")", &is)
	return is
}

// finishedAsExecuted tries to have the half committed block 2 finished as another one, and leaves
// it half committed (P6).
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
	must.Do(t, err)
	if x.Hash != want[1].Hash {
		t.Errorf("ordered and quarantined otherwise the block is %x, want it as executed, %x", x.Hash, want[1].Hash)
	}
	must.Do(t, b.Rollback(t.Context()))
}

// refusesHalf says whether verification and readers of one block are refused because a block is
// half committed.
func refusesHalf(t *testing.T, dsn string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	must.Do(t, err)
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
