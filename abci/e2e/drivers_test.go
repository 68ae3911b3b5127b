package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// Each program here moves money between ten accounts, at all organisations at once. A transfer has
// two entries. A transfer that lost with 40001 is made again. Other statements are on notes.
const (
	transfersEach = 20
	notesEach     = 105
	accountTables = `
		CREATE TABLE accounts (id bigint PRIMARY KEY, owner text NOT NULL UNIQUE, balance numeric(12,2) NOT NULL CHECK (balance >= 0), version int NOT NULL DEFAULT 1);
		CREATE TABLE entries (id bigserial PRIMARY KEY, account bigint NOT NULL REFERENCES accounts, amount numeric(12,2) NOT NULL, at timestamptz NOT NULL DEFAULT now());
		CREATE TABLE notes (id bigserial PRIMARY KEY, writer int NOT NULL, text varchar(200) NOT NULL, facts jsonb, tags text[], at timestamptz, code uuid UNIQUE)`
	accountRows = `
		INSERT INTO accounts (id, owner, balance, version) SELECT i, 'owner ' || i, 1000, 1 FROM generate_series(1, 10) i`
)

// withAccounts makes the tables by SQL.
func withAccounts(ctx context.Context) func(*harness.Organisation) error {
	return func(o *harness.Organisation) error { return o.Exec(ctx, "postgres", accountTables+";"+accountRows) }
}

// checkAccounts checks that no transfer and no note was lost or made twice.
func checkAccounts(ctx context.Context, t *testing.T, net *harness.Network) {
	t.Helper()
	checkTables(ctx, t, net)
	for _, o := range net.Organisations {
		var entries, notes, wrong int
		must(t, o.Scan(ctx, `SELECT (SELECT count(*) FROM entries), (SELECT count(*) FROM notes), (SELECT count(*) FROM accounts a
			WHERE a.balance <> 1000 + (SELECT coalesce(sum(amount), 0) FROM entries e WHERE e.account = a.id))`, &entries, &notes, &wrong))
		if n := len(net.Organisations); entries != 2*n*transfersEach || notes != n*notesEach || wrong != 0 {
			t.Errorf("%s: %d entries, want %d; %d notes, want %d; %d balances differ from their entries", o.Name, entries, 2*n*transfersEach, notes, n*notesEach, wrong)
		}
	}
}

// A SQLAlchemy program works at all organisations at once: sessions, version columns, savepoints,
// rows in bulk. SQLAlchemy makes the tables.
func TestSQLAlchemyRunsUnmodified(t *testing.T) {
	dir := applications(t, "sqlalchemy")
	t.Parallel()
	ctx := underTest(t)
	python, script := filepath.Join(dir, "python", "bin", "python"), filepath.Join("applications", "sqlalchemy", "transfers.py")
	net := applicationNetwork(ctx, t, copied(ctx, t, func(o *harness.Organisation) error {
		_, err := runs(ctx, o, "postgres", nil, python, script, "make")
		return err
	}))
	everywhere(ctx, t, net, python, script)
	checkAccounts(ctx, t, net)
}

// A GORM program works at all organisations at once, with GORM's own migrations of its tables.
func TestGORMRunsUnmodified(t *testing.T) {
	dir := applications(t, "gorm")
	t.Parallel()
	ctx := underTest(t)
	path := filepath.Join(dir, "gorm")
	net := applicationNetwork(ctx, t, copied(ctx, t, func(o *harness.Organisation) error {
		_, err := runs(ctx, o, "postgres", nil, path, "make")
		return err
	}))
	everywhere(ctx, t, net, path)
	checkAccounts(ctx, t, net)
}

// A Java program with PostgreSQL's JDBC driver works at all organisations at once.
func TestJDBCRunsUnmodified(t *testing.T) {
	dir := applications(t, "jdbc")
	t.Parallel()
	ctx := underTest(t)
	net := applicationNetwork(ctx, t, withAccounts(ctx))
	everywhere(ctx, t, net, "java", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(dir, "jdbc")+"/*:"+filepath.Join(dir, "jdbc", "classes"), "Transfers")
	checkAccounts(ctx, t, net)
}

// A program with node-postgres works at all organisations at once.
func TestNodePostgresRunsUnmodified(t *testing.T) {
	dir := applications(t, "node")
	t.Parallel()
	ctx := underTest(t)
	net := applicationNetwork(ctx, t, withAccounts(ctx))
	everywhere(ctx, t, net, "node", filepath.Join(dir, "node", "transfers.js"))
	checkAccounts(ctx, t, net)
}

// pgx works with a pool of connections at all organisations at once: transactions, batches, COPY.
func TestPgxPoolRunsUnmodified(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := applicationNetwork(ctx, t, withAccounts(ctx))
	var work errgroup.Group
	for i, o := range net.Organisations {
		work.Go(func() error { return usePool(ctx, o, i) })
	}
	must(t, work.Wait())
	checkAccounts(ctx, t, net)
}

func usePool(ctx context.Context, o *harness.Organisation, me int) error {
	pool, err := pgxpool.New(ctx, fmt.Sprintf("host=%s port=%d user=app dbname=%s pool_max_conns=3", o.Cluster.SocketDir, o.Cluster.Port, database))
	if err != nil {
		return err
	}
	defer pool.Close()
	var work errgroup.Group
	work.SetLimit(3)
	for i := range transfersEach {
		work.Go(func() error {
			return again(func() error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return transfer(ctx, tx, 1+i%10, 1+(i+me+1)%10) })
			})
		})
	}
	return errors.Join(work.Wait(), writeNotes(ctx, pool, me))
}

// transfer moves a unit from one account to another one.
func transfer(ctx context.Context, tx pgx.Tx, from, to int) error {
	for account, amount := range map[int]int{from: -1, to: 1} {
		if _, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance + $2, version = version + 1 WHERE id = $1", account, amount); err != nil {
			return err
		}
	}
	batch := &pgx.Batch{}
	batch.Queue("INSERT INTO entries (account, amount) VALUES ($1, $2) RETURNING id", from, -1)
	batch.Queue("INSERT INTO entries (account, amount) VALUES ($1, $2) RETURNING id", to, 1)
	return tx.SendBatch(ctx, batch).Close()
}

// writeNotes writes notesEach notes: by COPY, one by one, and after a savepoint.
func writeNotes(ctx context.Context, pool *pgxpool.Pool, me int) error {
	err := again(func() error {
		_, err := pool.CopyFrom(ctx, pgx.Identifier{"notes"}, []string{"writer", "text", "tags"}, pgx.CopyFromSlice(100, func(i int) ([]any, error) {
			return []any{me, fmt.Sprintf("note %d", i), []string{"a", "b"}}, nil
		}))
		return err
	})
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	for i := range 4 {
		var id int64
		if err := again(func() error {
			return pool.QueryRow(ctx, "INSERT INTO notes (writer, text, facts, at, code) VALUES ($1, $2, $3, now(), gen_random_uuid()) RETURNING id", me, "one", map[string]int{"i": i}).Scan(&id)
		}); err != nil {
			return err
		}
	}
	return again(func() error { return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return nested(ctx, tx, me) }) })
}

// nested writes a note after a savepoint to which it rolled back.
func nested(ctx context.Context, tx pgx.Tx, me int) error {
	failed := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO notes (id, writer, text) SELECT min(id), $1, 'double' FROM notes", me)
		return err
	})
	var duplicate *pgconn.PgError
	if !errors.As(failed, &duplicate) || duplicate.Code != "23505" {
		return fmt.Errorf("a duplicate after a savepoint: %w", failed)
	}
	_, err := tx.Exec(ctx, "INSERT INTO notes (writer, text) VALUES ($1, 'after the savepoint')", me)
	return err
}

// again does the work until it does not lose against another transaction, at most 1000 times.
func again(work func() error) (err error) {
	for range 1000 {
		err = work()
		var lost *pgconn.PgError
		if !errors.As(err, &lost) || lost.Code != "40001" {
			return err
		}
	}
	return err
}
