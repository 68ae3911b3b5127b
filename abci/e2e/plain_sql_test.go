package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// plainSession opens a session whose own changes of ledger tables go through the ledger.
func plainSession(ctx context.Context, t *testing.T, o *harness.Organisation) *pgx.Conn {
	t.Helper()
	conn, err := o.PlainSession(ctx, "bank")
	must(t, err)
	t.Cleanup(func() { conn.Close(context.WithoutCancel(ctx)) })
	return conn
}

func run(ctx context.Context, t *testing.T, conn *pgx.Conn, sql string, args ...any) pgconn.CommandTag {
	t.Helper()
	tag, err := conn.Exec(ctx, sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, describe(err))
	}
	return tag
}

// fails runs a statement that must fail by sqlstate and returns the error.
func fails(ctx context.Context, t *testing.T, conn *pgx.Conn, sqlstate, sql string) *pgconn.PgError {
	t.Helper()
	_, err := conn.Exec(ctx, sql)
	var failed *pgconn.PgError
	if !errors.As(err, &failed) || failed.Code != sqlstate {
		t.Fatalf("%s: %v, want SQLSTATE %s", sql, describe(err), sqlstate)
	}
	return failed
}

func describe(err error) string {
	var failed *pgconn.PgError
	if !errors.As(err, &failed) {
		return errString(err)
	}
	return strings.Join([]string{failed.Code, failed.Message, failed.Detail, failed.Hint}, " | ")
}

func errString(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// plainTables are of the kinds that applications have.
const plainTables = `
	CREATE TABLE parents (id int PRIMARY KEY, name text NOT NULL UNIQUE, note text);
	CREATE TABLE children (id int PRIMARY KEY, parent int REFERENCES parents ON DELETE CASCADE, amount numeric(10,2) CHECK (amount >= 0),
		twice numeric GENERATED ALWAYS AS (amount * 2) STORED, made timestamptz DEFAULT now(), tags text[], data jsonb, code uuid);
	CREATE TABLE deferred (id int PRIMARY KEY, parent int REFERENCES parents DEFERRABLE INITIALLY DEFERRED);
	CREATE TABLE parts (region text, id int, v int, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
	CREATE TABLE parts_eu PARTITION OF parts FOR VALUES IN ('eu');
	CREATE TABLE parts_us PARTITION OF parts FOR VALUES IN ('us');
	CREATE TABLE numbered (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, serial serial UNIQUE, of text NOT NULL);
	CREATE TABLE shapes (id int PRIMARY KEY, at point, seen timestamptz, n int);
	CREATE TABLE forms (id int PRIMARY KEY, n numeric, j json, told text);
	GRANT USAGE ON SEQUENCE numbered_serial_seq TO bank;
	GRANT ALL ON parents, children, deferred, parts, numbered, shapes, forms TO bank;
	GRANT ALL ON parents TO clerk`

// plainRows is what the tables of the test hold, the same in every organisation.
const plainRows = `SELECT coalesce(string_agg(x, E'\n' ORDER BY x), '') FROM (
	SELECT 'parent ' || p::text FROM parents p UNION ALL SELECT 'child ' || c::text FROM children c UNION ALL SELECT 'deferred ' || d::text FROM deferred d
	UNION ALL SELECT 'number ' || n::text FROM numbered n UNION ALL SELECT 'sequence ' || s::text FROM chainify.sequences s
	UNION ALL SELECT 'shape ' || s::text FROM shapes s UNION ALL SELECT 'form ' || f::text FROM forms f
	UNION ALL SELECT tableoid::regclass || ' ' || p::text FROM parts p UNION ALL SELECT 'checking ' || c::text FROM checking c WHERE custid < 10) rows (x)`

// Sessions change ledger tables by plain SQL, each in its own organisation's database, and every
// organisation gets the same rows.
func TestPlainSQL(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	must(t, net.Each(func(o *harness.Organisation) error {
		return o.Exec(ctx, "postgres", "GRANT CREATE ON SCHEMA public TO dba; CREATE ROLE clerk IN ROLE chainify_client; CREATE ROLE guest; GRANT clerk, guest TO bank")
	}))
	acme, bolt := net.Organisation("acme"), net.Organisation("bolt")
	must(t, acme.Exec(ctx, "dba", "SELECT chainify.deploy($$"+plainTables+"$$)"))
	follows(ctx, t, bolt, acme)
	for _, c := range slices.Concat(plainCases, procedureCases) {
		t.Run(c.name, func(t *testing.T) {
			one, two := plainSession(ctx, t, acme), plainSession(ctx, t, bolt)
			c.run(ctx, t, acme, one, two)
			tip, err := acme.Tip(ctx)
			must(t, err)
			waitSame(ctx, t, net.Organisations, tip.Number)
			var first string
			for i, o := range net.Organisations {
				var rows string
				must(t, o.Scan(ctx, plainRows, &rows))
				if i == 0 {
					first = rows
				}
				if rows != first {
					t.Errorf("%s has the rows\n%s\nand %s has\n%s", net.Organisations[0].Name, first, o.Name, rows)
				}
			}
		})
	}
	for _, o := range net.Organisations {
		checkVerified(ctx, t, o)
	}
	checkSameTransactions(ctx, t, net)
}

// want compares the first column of a query's rows.
func want(ctx context.Context, t *testing.T, conn *pgx.Conn, sql string, values ...string) {
	t.Helper()
	rows, err := conn.Query(ctx, sql)
	must(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %s", sql, describe(err))
	}
	if strings.Join(got, ",") != strings.Join(values, ",") {
		t.Errorf("%s: %q, want %q", sql, got, values)
	}
}

// idle fails unless the session is in no transaction.
func idle(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if status := conn.PgConn().TxStatus(); status != 'I' {
		t.Errorf("the session's transaction status is %c, want I", status)
	}
}

// appears waits until a query has a row at an organisation: what a session of another one has
// committed comes there a moment later.
func appears(ctx context.Context, t *testing.T, o *harness.Organisation, sql string) {
	t.Helper()
	must(t, harness.Poll(ctx, progressLimit, sql, func(ctx context.Context) (ok bool, why string, err error) {
		err = o.Scan(ctx, "SELECT EXISTS ("+sql+")", &ok)
		return ok, "no row", err
	}))
}

// idleState is of a session that is idle in a transaction.
type idleState struct {
	row   bool   // it holds a row that it changed
	begun string // when its last statement began
}

func idleSince(ctx context.Context, t *testing.T, o *harness.Organisation, pid uint32) (s idleState) {
	t.Helper()
	must(t, o.Scan(ctx, fmt.Sprintf(`SELECT EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND locktype = 'transactionid'), query_start::text
		FROM pg_stat_activity a WHERE pid = %d AND state = 'idle in transaction'`, pid), &s.row, &s.begun))
	return s
}

// plainCase has sessions of acme and of bolt.
type plainCase struct {
	name string
	run  func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, two *pgx.Conn)
}

var plainCases = []plainCase{
	{"a block commits", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "INSERT INTO parents VALUES (1, 'one'), (2, 'two')")
		run(ctx, t, one, "UPDATE parents SET note = 'changed' WHERE id = 2")
		run(ctx, t, one, "UPDATE checking SET balance = balance + 1 WHERE custid = $1", 1)
		run(ctx, t, one, "COMMIT")
		idle(t, one)
		want(ctx, t, one, "SELECT id || ' ' || name || coalesce(note, '') FROM parents ORDER BY id", "1 one", "2 twochanged")
	}},
	{"rollback leaves nothing", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "INSERT INTO parents VALUES (3, 'three')")
		want(ctx, t, one, "SELECT name FROM parents WHERE id = 3", "three")
		run(ctx, t, one, "ROLLBACK")
		idle(t, one)
		want(ctx, t, one, "SELECT name FROM parents WHERE id = 3")
	}},
	{"statements of their own", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "INSERT INTO parents VALUES (4, 'four')")
		run(ctx, t, one, "INSERT INTO parents VALUES ($1, $2)", 5, "five")
		want(ctx, t, one, "INSERT INTO parents VALUES (6, 'six') RETURNING name", "six")
		idle(t, one)
		if tag := run(ctx, t, one, "UPDATE parents SET note = 'x' WHERE id IN (4, 5, 6)"); tag.RowsAffected() != 3 {
			t.Errorf("the tag is %s", tag)
		}
		want(ctx, t, one, "SELECT name FROM parents WHERE note = 'x' ORDER BY id", "four", "five", "six")
	}},
	{"equal values have one form", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, two *pgx.Conn) {
		want(ctx, t, one, `INSERT INTO forms VALUES (1, 1.50, '{"b": 1.0,  "a": 2}') RETURNING concat(n, j)`, `1.5{"a":2,"b":1}`)
		want(ctx, t, one, `UPDATE forms SET n = 1.500 WHERE id = 1 RETURNING n::text`, "1.5")
		must(t, acme.Exec(ctx, "bank", "SELECT chainify.execute($$UPDATE forms SET told = concat(n, j) WHERE id = 1$$)"))
		must(t, harness.Poll(ctx, progressLimit, "the row at bolt", func(ctx context.Context) (ok bool, why string, err error) {
			err = two.QueryRow(ctx, "SELECT EXISTS (SELECT FROM forms WHERE told IS NOT NULL)").Scan(&ok)
			return ok, "no row", err
		}))
		run(ctx, t, two, "BEGIN")
		want(ctx, t, two, `UPDATE forms SET n = -0.0, j = '{ "a": 2 }' RETURNING concat(n, j)`, `0{"a":2}`)
		run(ctx, t, two, "COMMIT")
		must(t, acme.Exec(ctx, "bank", "SELECT chainify.execute($$UPDATE forms SET told = concat(told, n, j) WHERE id = 1$$)"))
		want(ctx, t, one, `SELECT told FROM forms`, `1.5{"a":2,"b":1}0{"a":2}`)
	}},
	{"several statements in one string", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "INSERT INTO parents VALUES (7, 'seven'); UPDATE parents SET note = 'y' WHERE id = 7; SELECT 1")
		want(ctx, t, one, "SELECT note FROM parents WHERE id = 7", "y")
		fails(ctx, t, one, "23505", "INSERT INTO parents VALUES (8, 'eight'); INSERT INTO parents VALUES (8, 'eight')")
		idle(t, one)
		want(ctx, t, one, "SELECT note FROM parents WHERE id = 8")
	}},
	{"changes are of the role of SET ROLE", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "SAVEPOINT a")
		run(ctx, t, one, "SELECT * FROM parents FOR UPDATE")
		run(ctx, t, one, "SET ROLE clerk")
		run(ctx, t, one, "INSERT INTO parents VALUES (390, 'clerk')")
		run(ctx, t, one, "COMMIT")
		run(ctx, t, one, "RESET ROLE")
		var role string
		must(t, acme.Scan(ctx, "SELECT role FROM chainify.transactions ORDER BY block DESC, index DESC LIMIT 1", &role))
		if role != "clerk" {
			t.Errorf("the transaction is of role %s", role)
		}
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "SAVEPOINT a")
		run(ctx, t, one, "SET ROLE clerk")
		run(ctx, t, one, "RESET ROLE")
		run(ctx, t, one, "INSERT INTO parents VALUES (391, 'bank')")
		run(ctx, t, one, "SET ROLE clerk")
		fails(ctx, t, one, "0A000", "INSERT INTO parents VALUES (392, 'clerk')")
		run(ctx, t, one, "ROLLBACK")
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "SELECT * FROM parents FOR UPDATE")
		run(ctx, t, one, "SET ROLE guest")
		fails(ctx, t, one, "42501", "INSERT INTO parents VALUES (392, 'guest')")
		run(ctx, t, one, "ROLLBACK")
		run(ctx, t, one, "RESET ROLE")
		want(ctx, t, one, "SELECT name FROM parents WHERE id IN (390, 391, 392)", "clerk")
		run(ctx, t, one, "DELETE FROM parents WHERE id = 390")
	}},
	{"savepoints", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "SAVEPOINT a")
		run(ctx, t, one, "INSERT INTO parents VALUES (10, 'ten')")
		run(ctx, t, one, "SAVEPOINT b")
		run(ctx, t, one, "INSERT INTO parents VALUES (11, 'eleven')")
		run(ctx, t, one, "ROLLBACK TO b")
		fails(ctx, t, one, "23505", "INSERT INTO parents VALUES (10, 'ten')")
		run(ctx, t, one, "ROLLBACK TO b")
		run(ctx, t, one, "INSERT INTO parents VALUES (12, 'twelve')")
		run(ctx, t, one, "RELEASE a")
		run(ctx, t, one, "COMMIT")
		want(ctx, t, one, "SELECT name FROM parents WHERE id BETWEEN 10 AND 19 ORDER BY id", "ten", "twelve")
	}},
	{"an error in a block", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "INSERT INTO parents VALUES (20, 'twenty')")
		fails(ctx, t, one, "23505", "INSERT INTO parents VALUES (20, 'again')")
		fails(ctx, t, one, "25P02", "SELECT 1")
		if tag := run(ctx, t, one, "COMMIT"); tag.String() != "ROLLBACK" {
			t.Errorf("COMMIT says %s", tag)
		}
		idle(t, one)
		want(ctx, t, one, "SELECT name FROM parents WHERE id = 20")
	}},
	{"values of many types, and what is not deterministic", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, `INSERT INTO children (id, parent, amount, tags, data, code)
			SELECT i, 1, (random() * 100)::numeric(10,2), ARRAY['a,b', 'c"d', NULL], jsonb_build_object('n', i, 'x', random()), gen_random_uuid() FROM generate_series(1, 5) i`)
		run(ctx, t, one, "UPDATE children SET tags = NULL, data = '[1, null, \"\\u00e9\"]', made = clock_timestamp() WHERE id = 2")
		want(ctx, t, one, "SELECT count(*)::text FROM children WHERE twice = amount * 2", "5")
	}},
	{"actions of foreign keys", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "INSERT INTO children (id, parent, amount) VALUES (10, 2, 1), (11, 2, 2)")
		run(ctx, t, one, "DELETE FROM parents WHERE id = 2")
		want(ctx, t, one, "SELECT id::text FROM children WHERE id IN (10, 11)")
		fails(ctx, t, one, "23503", "INSERT INTO children (id, parent, amount) VALUES (12, 99, 1)")
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "INSERT INTO deferred VALUES (1, 90)")
		run(ctx, t, one, "INSERT INTO parents VALUES (90, 'ninety')")
		run(ctx, t, one, "COMMIT")
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "INSERT INTO deferred VALUES (2, 91)")
		fails(ctx, t, one, "23503", "COMMIT")
		idle(t, one)
		want(ctx, t, one, "SELECT id::text FROM deferred", "1")
	}},
	{"ON CONFLICT, MERGE, COPY", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "INSERT INTO parents VALUES (4, 'four'), (30, 'thirty') ON CONFLICT (id) DO UPDATE SET note = 'met'")
		run(ctx, t, one, "INSERT INTO parents VALUES (4, 'four') ON CONFLICT DO NOTHING")
		run(ctx, t, one, "MERGE INTO parents p USING (VALUES (30, 'merged'), (31, 'thirty-one')) v (id, name) ON p.id = v.id WHEN MATCHED THEN UPDATE SET note = v.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (v.id, v.name)")
		if _, err := one.PgConn().CopyFrom(ctx, strings.NewReader("32\tthirty-two\n33\tthirty-three\n"), "COPY parents (id, name) FROM STDIN"); err != nil {
			t.Fatal(describe(err))
		}
		want(ctx, t, one, "SELECT id || coalesce(note, '') FROM parents WHERE id BETWEEN 30 AND 39 OR id = 4 ORDER BY id", "4met", "30merged", "31", "32", "33")
	}},
	{"partitions", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "INSERT INTO parts SELECT 'eu', i, i FROM generate_series(1, 4) i")
		run(ctx, t, one, "UPDATE parts SET region = 'us' WHERE id = 2")
		run(ctx, t, one, "UPDATE parts SET v = 7 WHERE region = 'us'")
		run(ctx, t, one, "DELETE FROM parts WHERE region = 'eu' AND id = 3")
		want(ctx, t, one, "SELECT tableoid::regclass || ' ' || id || ' ' || v FROM parts ORDER BY id", "parts_eu 1 1", "parts_us 2 7", "parts_eu 4 4")
		run(ctx, t, one, "TRUNCATE parts")
		want(ctx, t, one, "SELECT id::text FROM parts")
	}},
	{"cursors, prepared statements, temporary tables", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "CREATE TEMP TABLE kept (id int)")
		run(ctx, t, one, "INSERT INTO kept SELECT 40 + i FROM generate_series(1, 3) i")
		run(ctx, t, one, "PREPARE ins (int) AS INSERT INTO parents VALUES ($1, 'p' || $1)")
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "DECLARE c CURSOR FOR SELECT id::text FROM parents WHERE id < 6 ORDER BY id")
		want(ctx, t, one, "FETCH 1 FROM c", "1")
		run(ctx, t, one, "EXECUTE ins (41)")
		run(ctx, t, one, "INSERT INTO parents SELECT id, 'k' || id FROM kept WHERE id > 41")
		want(ctx, t, one, "FETCH 1 FROM c", "4")
		run(ctx, t, one, "COMMIT")
		want(ctx, t, one, "SELECT name FROM parents WHERE id BETWEEN 40 AND 49 ORDER BY id", "p41", "k42", "k43")
	}},
	{"COMMIT AND CHAIN", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "INSERT INTO parents VALUES (50, 'fifty')")
		run(ctx, t, one, "COMMIT AND CHAIN")
		if status := one.PgConn().TxStatus(); status != 'T' {
			t.Errorf("after COMMIT AND CHAIN the status is %c", status)
		}
		run(ctx, t, one, "INSERT INTO parents VALUES (51, 'fifty-one')")
		run(ctx, t, one, "ROLLBACK AND CHAIN")
		run(ctx, t, one, "INSERT INTO parents VALUES (52, 'fifty-two')")
		run(ctx, t, one, "COMMIT")
		want(ctx, t, one, "SELECT id::text FROM parents WHERE id BETWEEN 50 AND 59 ORDER BY id", "50", "52")
	}},
	{"a pipeline", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		batch := &pgx.Batch{}
		batch.Queue("INSERT INTO parents VALUES ($1, $2)", 60, "sixty")
		batch.Queue("UPDATE parents SET note = $1 WHERE id = $2", "z", 60)
		batch.Queue("SELECT note FROM parents WHERE id = 60")
		if err := one.SendBatch(ctx, batch).Close(); err != nil {
			t.Fatal(describe(err))
		}
		idle(t, one)
		want(ctx, t, one, "SELECT note FROM parents WHERE id = 60", "z")
	}},
	{"first committer wins", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, two *pgx.Conn) {
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "UPDATE parents SET note = 'of one' WHERE id = 4")
		run(ctx, t, two, "BEGIN")
		run(ctx, t, two, "UPDATE parents SET note = 'of two' WHERE id = 4")
		run(ctx, t, two, "UPDATE checking SET balance = balance + 100 WHERE custid = 3")
		run(ctx, t, one, "COMMIT")
		failed := fails(ctx, t, two, "40001", "COMMIT")
		// The block reaches the session before its COMMIT, or the other way round.
		if said := describe(failed); !strings.Contains(said, `table "public.parents"`) {
			t.Errorf("the conflict says %s", said)
		}
		idle(t, two)
		appears(ctx, t, acme, "SELECT FROM parents WHERE id = 4 AND note = 'of one'")
	}},
	{"rows that are locked must stay as they are", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, two *pgx.Conn) {
		run(ctx, t, one, "BEGIN")
		want(ctx, t, one, "SELECT name FROM parents WHERE id = 5 FOR UPDATE", "five")
		run(ctx, t, one, "UPDATE checking SET balance = balance + 100 WHERE custid = 4")
		run(ctx, t, two, "UPDATE parents SET note = 'meanwhile' WHERE id = 5")
		fails(ctx, t, one, "40001", "COMMIT")
		// The node may have refused it before the other's block was here.
		appears(ctx, t, acme, "SELECT true FROM parents WHERE id = 5 AND note = 'meanwhile'")
		run(ctx, t, one, "BEGIN")
		want(ctx, t, one, "SELECT note FROM parents WHERE id = 5 FOR SHARE", "meanwhile")
		run(ctx, t, one, "UPDATE checking SET balance = balance + 100 WHERE custid = 4")
		run(ctx, t, one, "COMMIT")
	}},
	{"an idle session is in no block's way", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, two *pgx.Conn) {
		// No block gets by because a time is over.
		must(t, acme.SetSystem(ctx, progressLimit, "chainify.conflict_grace", "10min"))
		t.Cleanup(func() { must(t, acme.SetSystem(ctx, progressLimit, "chainify.conflict_grace", "")) })
		pid := one.PgConn().PID()
		for _, end := range []string{"SELECT 1", "COMMIT", "ROLLBACK", "SAVEPOINT s"} {
			run(ctx, t, one, "BEGIN")
			run(ctx, t, one, "SAVEPOINT a")
			run(ctx, t, one, "UPDATE parents SET note = 'idle' WHERE id = 6")
			held := idleSince(ctx, t, acme, pid)
			if !held.row {
				t.Error("the idle session holds no row")
			}
			run(ctx, t, two, "UPDATE parents SET note = $1 WHERE id = 6", "before "+end)
			appears(ctx, t, acme, "SELECT true FROM parents WHERE id = 6 AND note = 'before "+end+"'")
			// Its client has said nothing meanwhile.
			if now := idleSince(ctx, t, acme, pid); now.row || now.begun != held.begun {
				t.Errorf("before the block the idle session was %+v, then %+v", held, now)
			}
			if end == "ROLLBACK" {
				run(ctx, t, one, end)
			} else if failed := fails(ctx, t, one, "40001", end); !strings.Contains(failed.Detail, `changes row (6) of table "public.parents"`) {
				t.Errorf("%s says %s", end, describe(failed))
			}
			if end != "COMMIT" && end != "ROLLBACK" {
				fails(ctx, t, one, "25P02", "SELECT 1")
				run(ctx, t, one, "ROLLBACK")
			}
			idle(t, one)
			want(ctx, t, one, "SELECT note FROM parents WHERE id = 6", "before "+end)
		}
	}},
	{"a conflict names the only row", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, two *pgx.Conn) {
		for _, c := range []struct{ first, says string }{
			{"SELECT FROM parents WHERE id = 6 FOR SHARE", `row (6) of table "public.parents", which`},
			{"SELECT FROM parents WHERE id = 5 FOR SHARE", `a row of table "public.parents" that`},
		} {
			run(ctx, t, one, "BEGIN")
			run(ctx, t, one, c.first)
			run(ctx, t, one, "UPDATE parents SET note = 'one' WHERE id = 6")
			run(ctx, t, two, "UPDATE parents SET note = $1 WHERE id = 6", c.first)
			appears(ctx, t, acme, "SELECT FROM parents WHERE id = 6 AND note = '"+c.first+"'")
			if failed := fails(ctx, t, one, "40001", "COMMIT"); !strings.Contains(failed.Detail, c.says) {
				t.Errorf("COMMIT says %s", describe(failed))
			}
		}
	}},
	{"a statement is in no block's way", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, two *pgx.Conn) {
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "UPDATE parents SET note = 'busy' WHERE id = 6")
		failed := make(chan error, 1)
		go func() {
			_, err := one.Exec(ctx, "SELECT pg_sleep(60)")
			failed <- err
		}()
		run(ctx, t, two, "UPDATE parents SET note = 'busier' WHERE id = 6")
		if err := <-failed; !strings.Contains(describe(err), "40001 | could not serialize access due to a ledger block") || !strings.Contains(describe(err), "changes row (6)") {
			t.Errorf("the statement ended with %s", describe(err))
		}
		run(ctx, t, one, "ROLLBACK")
		appears(ctx, t, acme, "SELECT FROM parents WHERE id = 6 AND note = 'busier'")
	}},
	{"local tables beside", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, two *pgx.Conn) {
		must(t, acme.Exec(ctx, "postgres", "CREATE TABLE beside (id int PRIMARY KEY); GRANT ALL ON beside TO bank"))
		change := func(id int, begin string, ledger ...string) {
			run(ctx, t, one, begin)
			run(ctx, t, one, "INSERT INTO beside VALUES ($1)", id)
			for _, sql := range ledger {
				run(ctx, t, one, sql)
			}
		}
		change(1, "BEGIN", "UPDATE parents SET note = 'beside' WHERE id = 4")
		run(ctx, t, one, "COMMIT")
		idle(t, one)
		// The session gives up to a block.
		change(2, "BEGIN", "UPDATE parents SET note = 'gives up' WHERE id = 4")
		run(ctx, t, two, "UPDATE parents SET note = 'first' WHERE id = 4")
		appears(ctx, t, acme, "SELECT FROM parents WHERE id = 4 AND note = 'first'")
		fails(ctx, t, one, "40001", "COMMIT")
		idle(t, one)
		// The order refuses: the session locks nothing that the block changes.
		change(3, "BEGIN ISOLATION LEVEL SERIALIZABLE", "SELECT FROM parents WHERE id = 4", "UPDATE checking SET balance = balance + 1 WHERE custid = 5")
		run(ctx, t, two, "UPDATE parents SET note = 'second' WHERE id = 4")
		fails(ctx, t, one, "40001", "COMMIT")
		idle(t, one)
		change(4, "BEGIN", "UPDATE parents SET note = 'third' WHERE id = 4")
		run(ctx, t, one, "ROLLBACK")
		want(ctx, t, one, "SELECT id::text FROM beside", "1")
		appears(ctx, t, acme, "SELECT FROM parents WHERE id = 4 AND note = 'second'")
	}},
	{"columns that draw from sequences", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, two *pgx.Conn) {
		run(ctx, t, one, "BEGIN")
		run(ctx, t, two, "BEGIN")
		for range 20 {
			want(ctx, t, one, "INSERT INTO numbered (of) VALUES ('one') RETURNING (currval('numbered_serial_seq') = serial)::text", "true")
			run(ctx, t, two, "INSERT INTO numbered (of) VALUES ('two')")
		}
		run(ctx, t, one, "COMMIT")
		run(ctx, t, two, "COMMIT")
		run(ctx, t, two, "SELECT chainify.execute('INSERT INTO numbered (of) VALUES (''sql'')')")
		run(ctx, t, one, "INSERT INTO numbered (of) SELECT 'one' FROM generate_series(1, 10)")
		run(ctx, t, one, "INSERT INTO numbered OVERRIDING SYSTEM VALUE VALUES (9000000000000000000, 2000000000, 'far')")
		run(ctx, t, two, "INSERT INTO numbered (of) SELECT 'two' FROM generate_series(1, 10)")
		appears(ctx, t, acme, "SELECT FROM numbered HAVING count(*) = 62")
		want(ctx, t, one, "SELECT count(*) || ' ' || count(DISTINCT serial) || ' ' || (max(id) < 1000) FROM numbered WHERE of <> 'far'", "61 61 true")
		want(ctx, t, one, "SELECT (s.last_value < 1000 AND s.last_value >= (SELECT max(id) FROM numbered WHERE of <> 'far'))::text FROM chainify.sequences s WHERE name = 'public.numbered_id_seq'", "true")
	}},
	{"settings outlive the transaction", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "INSERT INTO parents VALUES (80, 'eighty')")
		run(ctx, t, one, "SET application_name = 'kept'")
		run(ctx, t, one, "SET LOCAL work_mem = '65kB'")
		run(ctx, t, one, "SELECT set_config('bank.branch', 'north', false), set_config('IntervalStyle', 'iso_8601', true)")
		run(ctx, t, one, "SET lock_timeout = '9s'")
		run(ctx, t, one, "SET LOCAL lock_timeout = '8s'")
		run(ctx, t, one, "SAVEPOINT a")
		run(ctx, t, one, "SET DateStyle = 'SQL, DMY'")
		run(ctx, t, one, "SELECT set_config('bank.branch', 'south', false)")
		run(ctx, t, one, "ROLLBACK TO a")
		run(ctx, t, one, "INSERT INTO parents VALUES (81, 'eighty-one')")
		run(ctx, t, one, "SAVEPOINT b")
		run(ctx, t, one, "SET extra_float_digits = 2")
		run(ctx, t, one, "COMMIT")
		want(ctx, t, one, `SELECT concat_ws(' ', current_setting('application_name'), current_setting('DateStyle'), current_setting('bank.branch'),
			current_setting('work_mem') = '65kB', current_setting('IntervalStyle'), current_setting('lock_timeout'), current_setting('extra_float_digits'))
			FROM parents WHERE id = 81`, "kept ISO, MDY north f postgres 9s 2")
	}},
	{"settings of a session do not reach its changes", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, two *pgx.Conn) {
		run(ctx, t, two, "INSERT INTO shapes VALUES (1, point(1 / 3.0::float8, 0))")
		run(ctx, t, one, "SET extra_float_digits = 0")
		run(ctx, t, one, "SET TimeZone = 'Asia/Tokyo'")
		run(ctx, t, one, "SET DateStyle = 'German'")
		run(ctx, t, one, "INSERT INTO shapes VALUES (2, point(1 / 3.0::float8, 0), '01.02.2024 12:00')")
		appears(ctx, t, acme, "SELECT FROM shapes WHERE id = 1")
		run(ctx, t, one, "UPDATE shapes SET n = 1 WHERE id = 1")
		run(ctx, t, one, "UPDATE shapes SET n = 1 WHERE id = 2")
		run(ctx, t, one, "SELECT chainify.execute('INSERT INTO shapes VALUES ($1, $2)', 3, point(1 / 3.0::float8, 0))")
		appears(ctx, t, acme, "SELECT FROM shapes WHERE at ~= point(1 / 3.0::float8, 0) AND (id = 3 OR n = 1) HAVING count(*) = 3")
		want(ctx, t, two, "SELECT id::text FROM shapes WHERE seen = '2024-02-01 03:00+00'", "2")
	}},
	{"a literal that reads the clock is of this session's time", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "SET chainify.writes = 'ledger'")
		run(ctx, t, one, "INSERT INTO shapes (id, seen) VALUES (10, 'now')")
		want(ctx, t, one, "SELECT sqlstate FROM chainify.execute('INSERT INTO shapes (id, seen) VALUES (11, ''now'')')", "CH006")
		run(ctx, t, one, "SELECT chainify.execute('INSERT INTO shapes (id, seen) VALUES (12, now())')")
		appears(ctx, t, acme, "SELECT FROM shapes WHERE seen IS NOT NULL AND id IN (10, 12) HAVING count(*) = 2")
	}},
	{"refusals", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "INSERT INTO parents VALUES (70, 'seventy')")
		fails(ctx, t, one, "0A000", "PREPARE TRANSACTION 'p'")
		run(ctx, t, one, "ROLLBACK")
		run(ctx, t, one, "CREATE TEMP TABLE beside (id int)")
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "INSERT INTO parents VALUES (70, 'seventy')")
		fails(ctx, t, one, "0A000", "INSERT INTO beside VALUES (1)")
		run(ctx, t, one, "ROLLBACK")
		run(ctx, t, one, "BEGIN")
		run(ctx, t, one, "INSERT INTO parents VALUES (70, 'seventy')")
		fails(ctx, t, one, "0A000", "NOTIFY somebody")
		run(ctx, t, one, "ROLLBACK")
		want(ctx, t, one, "SELECT name FROM parents WHERE id = 70")
		run(ctx, t, one, "SET chainify.writes = 'refuse'")
		fails(ctx, t, one, "CH003", "INSERT INTO parents VALUES (70, 'seventy')")
	}},
}
