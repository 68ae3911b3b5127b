package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

const (
	lockingSessions = 3
	lockedRounds    = 8
)

// Sessions of one organisation that order themselves with a lock of their transaction see each
// other's rows: the lock is held until the block is applied, or the transaction is refused.
func TestPlainSQLHoldsLocksUntilItsBlockIsApplied(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	letDefine(ctx, t, net)
	acme := net.Organisation("acme")
	must(t, acme.Exec(ctx, "dba", `SELECT chainify.deploy($$
		CREATE TABLE numbers (kind text, n int, PRIMARY KEY (kind, n));
		GRANT SELECT, INSERT, UPDATE, DELETE ON numbers TO bank$$)`))
	must(t, acme.Exec(ctx, "postgres", "CREATE TABLE local (id int PRIMARY KEY, n int); INSERT INTO local VALUES (1, 0); GRANT ALL ON local TO bank"))

	const next = "INSERT INTO numbers SELECT '%[1]s', coalesce(max(n), 0) + 1 FROM numbers WHERE kind = '%[1]s'"
	for _, c := range []struct{ kind, lock string }{
		{"before", "SELECT pg_advisory_xact_lock(7)"},
		{"two keys", "SELECT pg_advisory_xact_lock(7, 8)"},
		{"in a function", "DO $$BEGIN PERFORM pg_advisory_xact_lock(9); END$$"},
		{"beside a change", "UPDATE local SET n = n + 1 WHERE id = 1"},
		{"locked row", "SELECT n FROM local WHERE id = 1 FOR UPDATE"},
		{"local table", "LOCK TABLE local IN EXCLUSIVE MODE"},
		{"within", "SELECT FROM numbers WHERE false FOR UPDATE; SELECT pg_advisory_xact_lock(10)"},
		{"local table within", "SELECT FROM numbers WHERE false FOR UPDATE; LOCK TABLE local IN EXCLUSIVE MODE"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			numberRows(ctx, t, acme, c.lock, fmt.Sprintf(next, c.kind))
			appears(ctx, t, acme, fmt.Sprintf("SELECT FROM numbers WHERE kind = '%s' HAVING count(*) = %d", c.kind, lockingSessions*lockedRounds))
		})
	}

	t.Run("refused", func(t *testing.T) {
		conn, other := plainSession(ctx, t, acme), plainSession(ctx, t, acme)
		run(ctx, t, conn, "BEGIN")
		run(ctx, t, conn, "SELECT pg_advisory_xact_lock(7)")
		run(ctx, t, conn, "UPDATE numbers SET n = -n WHERE kind = 'before' AND n = 1")
		must(t, acme.Exec(ctx, "bank", "SELECT chainify.execute($$DELETE FROM numbers WHERE kind = 'before' AND n = 1$$)"))
		fails(ctx, t, conn, "40001", "COMMIT")
		run(ctx, t, other, "SELECT pg_advisory_xact_lock(7)")
	})
	t.Run("rows locked after a change", func(t *testing.T) {
		conn := plainSession(ctx, t, acme)
		run(ctx, t, conn, "BEGIN")
		run(ctx, t, conn, "UPDATE numbers SET n = -n WHERE kind = 'before' AND n = 2")
		fails(ctx, t, conn, "0A000", "SELECT FROM local WHERE id = 1 FOR UPDATE")
		run(ctx, t, conn, "ROLLBACK")
	})
	appears(ctx, t, acme, "SELECT FROM pg_locks WHERE (locktype = 'advisory' AND classid <= 10 AND objid <= 10 AND objsubid IN (1, 2)) OR relation = 'local'::regclass AND mode <> 'AccessShareLock' HAVING count(*) = 0")
}

// numberRows has several sessions insert the next number, each under the lock.
func numberRows(ctx context.Context, t *testing.T, o *harness.Organisation, lock, insert string) {
	t.Helper()
	var all sync.WaitGroup
	failed := make(chan error, lockingSessions)
	for range lockingSessions {
		conn := plainSession(ctx, t, o)
		all.Go(func() {
			for range lockedRounds {
				if _, err := conn.Exec(ctx, "BEGIN; "+lock+"; "+insert+"; COMMIT", pgx.QueryExecModeSimpleProtocol); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		})
	}
	all.Wait()
	for range lockingSessions {
		if err := <-failed; err != nil {
			t.Error(describe(err))
		}
	}
}
