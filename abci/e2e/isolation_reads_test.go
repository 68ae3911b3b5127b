package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// readTables are read in many ways. The sessions' role sees all rows of items, and its own rows of
// secrets.
const readTables = `
	CREATE TABLE items (id int PRIMARY KEY, kind int NOT NULL, name text COLLATE "C", amount numeric(10,2), made timestamptz, code uuid);
	CREATE INDEX ON items (kind, amount);
	CREATE INDEX ON items (name);
	CREATE INDEX ON items (made);
	CREATE TABLE others (id int PRIMARY KEY);
	CREATE TABLE logs (id int PRIMARY KEY, of bigint);
	CREATE TABLE secrets (id int PRIMARY KEY, owner text NOT NULL);
	ALTER TABLE secrets ENABLE ROW LEVEL SECURITY;
	CREATE POLICY own ON secrets USING (owner = CURRENT_USER);
	CREATE VIEW small AS SELECT id, kind FROM items WHERE id < 100;
	CREATE FUNCTION in_sql(k int) RETURNS SETOF items LANGUAGE sql STABLE AS 'SELECT * FROM items WHERE kind = k ORDER BY id';
	CREATE FUNCTION in_plpgsql(k int) RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM items WHERE kind = k); END';
	GRANT ALL ON items, others, logs, secrets, small TO bank`

// readRows are in the tables when a case begins.
const readRows = `TRUNCATE items, others, logs; DELETE FROM secrets; INSERT INTO secrets VALUES (1, 'bank');
	INSERT INTO items SELECT n, n / 10, chr(96 + n % 26), n, timestamptz '2026-01-01 00:00Z' + n * interval '1 day' FROM generate_series(1, 60) n`

// readCase is a read of a SERIALIZABLE transaction and what another one changes meanwhile.
type readCase struct {
	read, change string
	conflict     bool
}

var readCases = []readCase{
	{"SELECT FROM items WHERE id = 5", "UPDATE items SET amount = 0 WHERE id = 6", false},
	{"SELECT FROM items WHERE id = 5", "UPDATE items SET amount = 0 WHERE id = 5", true},
	{"SELECT FROM items WHERE id = 5", "DELETE FROM items WHERE id = 5", true},
	{"SELECT FROM items WHERE id = 5 AND kind = 7", "UPDATE items SET kind = 7 WHERE id = 5", true},
	{"SELECT FROM items WHERE id = 500", "INSERT INTO items VALUES (500, 1)", true},
	{"SELECT FROM items WHERE id = 500", "INSERT INTO items VALUES (501, 1)", false},
	{"SELECT FROM items WHERE id IN (1, 2, 500)", "DELETE FROM items WHERE id = 3", false},
	{"SELECT FROM items WHERE id IN (1, 2, 500)", "INSERT INTO items VALUES (500, 1)", true},
	{"SELECT FROM items WHERE id BETWEEN 30 AND 40", "UPDATE items SET amount = 0 WHERE id = 41", false},
	{"SELECT FROM items WHERE id BETWEEN 30 AND 40", "UPDATE items SET amount = 0 WHERE id = 40", true},
	{"SELECT FROM items WHERE id > 59", "INSERT INTO items VALUES (61, 1)", true},
	{"SELECT FROM items WHERE id > 60", "DELETE FROM items WHERE id = 60", false},
	{"SELECT count(*) FROM items WHERE kind = 2", "INSERT INTO items VALUES (70, 3)", false},
	{"SELECT count(*) FROM items WHERE kind = 2", "INSERT INTO items VALUES (70, 2)", true},
	{"SELECT count(*) FROM items WHERE kind = 2", "UPDATE items SET kind = 2 WHERE id = 1", true},
	{"SELECT count(*) FROM items WHERE kind = 2", "UPDATE items SET kind = 3 WHERE id = 25", true},
	{"SELECT count(*) FROM items WHERE kind = 2", "UPDATE items SET kind = 4 WHERE id = 35", false},
	{"SELECT count(*) FROM items WHERE kind = 2 AND amount >= 24.5", "INSERT INTO items VALUES (70, 2, '', 24.49)", false},
	{"SELECT count(*) FROM items WHERE kind = 2 AND amount >= 24.5", "INSERT INTO items VALUES (70, 2, '', 24.5)", true},
	{"SELECT FROM items WHERE name >= 'x'", "INSERT INTO items VALUES (70, 1, 'w')", false},
	{"SELECT FROM items WHERE name >= 'x'", "INSERT INTO items VALUES (70, 1, 'xa')", true},
	{"SELECT FROM items WHERE made < '2026-01-05 00:00Z'", "INSERT INTO items VALUES (70, 1, '', 0, '2026-01-05 00:00Z')", false},
	{"SELECT FROM items WHERE made < '2026-01-05 00:00Z'", "INSERT INTO items VALUES (70, 1, '', 0, '2026-01-04 23:59:59Z')", true},
	{"SELECT count(*) FROM items", "INSERT INTO items VALUES (70, 1)", true},
	{"SELECT count(*) FROM items", "INSERT INTO others VALUES (1)", false},
	{"SELECT FROM items WHERE amount % 7 = 3", "INSERT INTO items VALUES (70, 1, '', 1)", true},
	{"SELECT FROM in_sql(2)", "INSERT INTO items VALUES (70, 3)", false},
	{"SELECT FROM in_sql(2)", "INSERT INTO items VALUES (70, 2)", true},
	{"SELECT in_plpgsql(2)", "INSERT INTO items VALUES (70, 3)", false},
	{"SELECT in_plpgsql(2)", "INSERT INTO items VALUES (70, 2)", true},
	{"SELECT FROM small WHERE kind = 2", "INSERT INTO items VALUES (70, 2)", true},
	{"SELECT FROM small WHERE kind = 2", "INSERT INTO items VALUES (70, 3)", false},
	{"COPY others TO STDOUT", "INSERT INTO others VALUES (2)", true},
	{"COPY (SELECT FROM items WHERE kind = 2) TO STDOUT", "INSERT INTO items VALUES (70, 3)", false},
	{"DECLARE c CURSOR FOR SELECT FROM items WHERE kind = 2; FETCH c; CLOSE c", "INSERT INTO items VALUES (70, 2)", true},
	{"PREPARE p AS SELECT FROM items WHERE kind = $1; EXECUTE p(2); DEALLOCATE p", "INSERT INTO items VALUES (70, 2)", true},
	{"PREPARE p AS SELECT FROM items WHERE kind = $1; EXECUTE p(2); DEALLOCATE p", "INSERT INTO items VALUES (70, 3)", false},
	{"UPDATE items SET amount = 1 WHERE kind = 99", "INSERT INTO items VALUES (70, 99)", true},
	{"DELETE FROM items WHERE kind = 99", "INSERT INTO items VALUES (70, 98)", false},
	{"INSERT INTO items VALUES (5, 1) ON CONFLICT DO NOTHING", "DELETE FROM items WHERE id = 5", true},
	{"INSERT INTO items VALUES (5, 1) ON CONFLICT (id) DO NOTHING", "DELETE FROM items WHERE id = 6", false},
	{"INSERT INTO items VALUES (80, 2); SELECT FROM items WHERE kind = 2", "INSERT INTO items VALUES (70, 3)", false},
	{"INSERT INTO items VALUES (80, 2); SELECT FROM items WHERE kind = 2", "UPDATE items SET amount = 0 WHERE id = 22", true},
	{"UPDATE items SET kind = 9 WHERE id = 22; SELECT FROM items WHERE kind = 2", "UPDATE items SET amount = 0 WHERE id = 32", false},
	{"SELECT FROM items WHERE id = 5", "UPDATE items SET amount = 0 WHERE id = 5; UPDATE items SET amount = 5 WHERE id = 5", false},
	{"SAVEPOINT s; SELECT FROM items WHERE id = 5; ROLLBACK TO s", "DELETE FROM items WHERE id = 5", true},
	{"SELECT FROM secrets WHERE id = 1", "INSERT INTO secrets VALUES (3, 'bank')", true},
}

// A SERIALIZABLE transaction fails when, and only when, the rows that it read are others by its
// place in the order. Weaker levels do not look.
func checkReads(ctx context.Context, t *testing.T, net *isolationNet) {
	acme, bolt := net.Organisation("acme"), net.Organisation("bolt")
	must(t, acme.Exec(ctx, "dba", "SELECT chainify.deploy($$"+readTables+"$$)"))
	net.allReach(ctx, t, acme)
	for _, c := range readCases {
		t.Run(c.read+" beside "+c.change, func(t *testing.T) {
			err := commitsBeside(ctx, t, net, acme, bolt, c, "SERIALIZABLE")
			var failed *pgconn.PgError
			switch {
			case !c.conflict && err != nil:
				t.Errorf("the transaction failed: %s", describe(err))
			case c.conflict && (!errors.As(err, &failed) || failed.Code != "40001"):
				t.Errorf("the transaction ended with %s, want SQLSTATE 40001", describe(err))
			}
		})
	}
	t.Run("REPEATABLE READ does not look", func(t *testing.T) {
		must(t, commitsBeside(ctx, t, net, acme, bolt, readCases[1], "REPEATABLE READ"))
	})
	t.Run("a read before the setting", func(t *testing.T) {
		session := plainSession(ctx, t, acme)
		run(ctx, t, session, "SET chainify.writes = 'refuse'; BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT FROM others; SET LOCAL chainify.writes = 'effects'")
		run(ctx, t, plainSession(ctx, t, bolt), "INSERT INTO others VALUES (3)")
		run(ctx, t, session, "INSERT INTO logs VALUES (2)")
		fails(ctx, t, session, "40001", "COMMIT")
	})
	t.Run("only reads", func(t *testing.T) {
		session := plainSession(ctx, t, acme)
		run(ctx, t, session, "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM items")
		run(ctx, t, plainSession(ctx, t, bolt), "DELETE FROM items WHERE id = 50")
		net.allReach(ctx, t, bolt)
		run(ctx, t, session, "COMMIT")
	})
}

// commitsBeside runs the read and a change of another row in one transaction, the other change
// meanwhile in another organisation, and returns the error of COMMIT.
func commitsBeside(ctx context.Context, t *testing.T, net *isolationNet, at, other *harness.Organisation, c readCase, level string) error {
	t.Helper()
	net.allReach(ctx, t, at) // what the last case left is deleted
	changing := plainSession(ctx, t, other)
	defer changing.Close(context.WithoutCancel(ctx))
	run(ctx, t, changing, readRows)
	net.allReach(ctx, t, other)
	session := plainSession(ctx, t, at)
	defer session.Close(context.WithoutCancel(ctx))
	run(ctx, t, session, "BEGIN ISOLATION LEVEL "+level)
	for statement := range strings.SplitSeq(c.read, ";") {
		if strings.HasPrefix(statement, "COPY") {
			_, err := session.PgConn().CopyTo(ctx, new(strings.Builder), statement)
			must(t, err)
			continue
		}
		run(ctx, t, session, statement)
	}
	for statement := range strings.SplitSeq(c.change, ";") {
		run(ctx, t, changing, statement)
	}
	run(ctx, t, session, "INSERT INTO logs VALUES (1)")
	_, err := session.Exec(ctx, "COMMIT")
	return err
}
