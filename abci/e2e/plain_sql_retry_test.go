package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

const (
	retrySessions = 8
	retryUpdates  = 15
)

// Statements that are alone in their transaction run again after a conflict. Sessions of two
// organisations count the same row up, and no client retries.
func TestPlainSQLRetriesLoneStatements(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	letDefine(ctx, t, net)
	acme, bolt := net.Organisation("acme"), net.Organisation("bolt")
	must(t, acme.Exec(ctx, "dba", `SELECT chainify.deploy($$
		CREATE TABLE counters (id int PRIMARY KEY, n bigint NOT NULL, note text);
		GRANT SELECT, INSERT, UPDATE, DELETE ON counters TO bank$$)`))
	must(t, acme.Exec(ctx, "bank", "SELECT chainify.execute('INSERT INTO counters VALUES (1, 0), (2, 0)')"))
	follows(ctx, t, bolt, acme)
	must(t, acme.Exec(ctx, "postgres", "CREATE FUNCTION said(text) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE '%', $1; RETURN true; END$$"))

	t.Run("a statement that gives up", func(t *testing.T) { retryLost(ctx, t, acme, bolt) })

	t.Run("the setting ledger", func(t *testing.T) { singleStatements(ctx, t, acme) })

	began := time.Now()
	var all sync.WaitGroup
	failed := make(chan error, 2*retrySessions)
	for i := range 2 * retrySessions {
		conn := plainSession(ctx, t, []*harness.Organisation{acme, bolt}[i%2])
		all.Go(func() { failed <- countUp(ctx, conn, i) })
	}
	all.Wait()
	t.Logf("%d updates of one row took %s", 2*retrySessions*retryUpdates, time.Since(began).Round(time.Millisecond))
	for range 2 * retrySessions {
		if err := <-failed; err != nil {
			t.Error(describe(err))
		}
	}
	total := strconv.Itoa(2 * retrySessions * retryUpdates)
	appears(ctx, t, acme, "SELECT FROM counters WHERE id = 1 AND n = "+total)
	appears(ctx, t, bolt, "SELECT FROM counters WHERE id = 1 AND n = "+total)
}

// countUp uses the simple protocol in half of the sessions, the extended one in the others.
func countUp(ctx context.Context, conn *pgx.Conn, session int) error {
	mode := pgx.QueryExecModeCacheStatement
	if session/2%2 == 0 {
		mode = pgx.QueryExecModeSimpleProtocol
	}
	for i := range retryUpdates {
		tag, err := conn.Exec(ctx, "UPDATE counters SET n = n + $1 WHERE id = $2", mode, 1, 1)
		switch {
		case err != nil:
			return fmt.Errorf("session %d, update %d: %w", session, i, err)
		case tag.RowsAffected() != 1:
			return fmt.Errorf("session %d, update %d: %s", session, i, tag)
		case conn.PgConn().TxStatus() != 'I':
			return errors.New("the session is not idle")
		}
	}
	return nil
}

// retrySlow changes a row, then sleeps.
const retrySlow = `WITH first AS (UPDATE counters SET n = n + 1 WHERE id = 1 RETURNING n)
	UPDATE counters SET n = n + (SELECT length(pg_sleep(1)::text) FROM first) WHERE id = 2`

// retryCases are requests that lose their row while they sleep.
var retryCases = []struct {
	name, setting, sqlstate string
	request                 func(ctx context.Context, conn *pgx.Conn) error
}{
	{"rows returned", "", "40001", retryRequest(retrySlow+" RETURNING n", pgx.QueryExecModeSimpleProtocol)},
	{"the setting", "SET chainify.statement_retries = 0", "40001", retryRequest(retrySlow, pgx.QueryExecModeSimpleProtocol)},
	{"two statements", "", "40001", retryRequest(retrySlow+"; SELECT 1", pgx.QueryExecModeSimpleProtocol)},
	{"a notice", "", "40001", retryRequest(retrySlow+" AND said('twice')", pgx.QueryExecModeSimpleProtocol)},
	{"first of a pipeline", "", "40001", func(ctx context.Context, conn *pgx.Conn) error {
		pipeline := conn.PgConn().StartPipeline(ctx)
		pipeline.SendQueryParams(retrySlow, nil, nil, nil, nil)
		pipeline.SendQueryParams("SELECT 1", nil, nil, nil, nil)
		if err := pipeline.Sync(); err != nil {
			return err
		}
		_, err := pipeline.GetResults()
		return errors.Join(err, pipeline.Close())
	}},
	{"simple protocol", "", "", retryRequest(retrySlow, pgx.QueryExecModeSimpleProtocol)},
	{"extended protocol", "", "", retryRequest(retrySlow, pgx.QueryExecModeExec)},
}

func retryRequest(sql string, mode pgx.QueryExecMode) func(context.Context, *pgx.Conn) error {
	return func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, sql, mode)
		if err == nil && tag.String() != "UPDATE 1" {
			return fmt.Errorf("the tag is %q", tag)
		}
		return err
	}
}

// retryLost has a session give up for a block while its statement runs. It runs again unless its
// client has seen results, or wants the conflict.
func retryLost(ctx context.Context, t *testing.T, acme, bolt *harness.Organisation) {
	winner := plainSession(ctx, t, bolt)
	for _, c := range retryCases {
		t.Run(c.name, func(t *testing.T) {
			loser := plainSession(ctx, t, acme)
			run(ctx, t, loser, "SELECT 1;"+c.setting)
			done := make(chan error, 1)
			go func() { done <- c.request(ctx, loser) }()
			appears(ctx, t, acme, fmt.Sprintf("SELECT FROM pg_stat_activity WHERE pid = %d AND wait_event = 'PgSleep'", loser.PgConn().PID()))
			run(ctx, t, winner, "UPDATE counters SET note = $1, n = 0 WHERE id = 1", c.name)
			err := <-done
			var conflict *pgconn.PgError
			if c.sqlstate == "" && err != nil || c.sqlstate != "" && (!errors.As(err, &conflict) || conflict.Code != c.sqlstate) {
				t.Errorf("the statement ended with %s, want %q", describe(err), c.sqlstate)
			}
			idle(t, loser)
			counted := 1
			if c.sqlstate != "" {
				counted = 0
			}
			appears(ctx, t, acme, fmt.Sprintf("SELECT FROM counters WHERE id = 1 AND n = %d AND note = '%s'", counted, c.name))
			follows(ctx, t, bolt, acme)
		})
	}
	run(ctx, t, winner, "UPDATE counters SET n = 0 WHERE id = 1")
	follows(ctx, t, acme, bolt)
}

// singleStatements has deterministic statements ordered as SQL, and all others as effects.
func singleStatements(ctx context.Context, t *testing.T, acme *harness.Organisation) {
	session := plainSession(ctx, t, acme)
	run(ctx, t, session, "SET chainify.writes = 'ledger'; SET TimeZone = 'UTC'")
	for _, c := range []struct {
		name, before, sql, kind string
		args                    []any
		rows                    int64
	}{
		{"literals", "", "UPDATE counters SET n = n + 0, note = 'a' WHERE id IN (1, 2)", "sql", nil, 2},
		{"values", "", "UPDATE counters SET note = $1 WHERE id = $2", "sql", []any{"b", 1}, 1},
		{"no row", "", "DELETE FROM counters WHERE id = 99", "sql", nil, 0},
		{"values as they are", "", "UPDATE counters SET note = 'b' WHERE id = 1", "sql", nil, 1},
		{"random(), which a block seeds", "", "UPDATE counters SET note = random()::text WHERE id = 1", "sql", nil, 1},
		{"the time of the server", "", "UPDATE counters SET note = clock_timestamp()::text WHERE id = 1", "effects", nil, 1},
		{"RETURNING", "", "UPDATE counters SET note = 'c' WHERE id = 1 RETURNING n", "effects", nil, 1},
		{"a common table expression that writes", "", "WITH w AS (UPDATE counters SET note = 'd' WHERE id = 1) UPDATE counters SET note = 'd' WHERE id = 2", "effects", nil, 1},
		{"another table", "CREATE TEMP TABLE beside AS SELECT 2 AS id", "UPDATE counters SET note = 'e' WHERE id IN (SELECT id FROM beside)", "effects", nil, 1},
		{"names of another schema first", "", "UPDATE counters SET note = 'f' WHERE id = 1", "effects", nil, 1},
		{"another zone", "DROP TABLE beside; SET TimeZone = 'Europe/Berlin'", "UPDATE counters SET note = 'g' WHERE id = 1", "effects", nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(ctx, t, session, "SELECT 1;"+c.before)
			before, err := acme.Tip(ctx)
			must(t, err)
			if tag := run(ctx, t, session, c.sql, c.args...); tag.RowsAffected() != c.rows {
				t.Errorf("the tag is %s, want %d rows", tag, c.rows)
			}
			idle(t, session)
			var kind string
			must(t, acme.Scan(ctx, fmt.Sprintf("SELECT coalesce(string_agg(kind, ' '), 'none') FROM chainify.transactions WHERE block > %d", before.Number), &kind))
			if kind != c.kind {
				t.Errorf("it was ordered as %s, want %s", kind, c.kind)
			}
		})
	}
	run(ctx, t, session, "SET TimeZone = 'UTC'; SET chainify.writes = 'effects'")
	other := plainSession(ctx, t, acme)
	run(ctx, t, other, "SET chainify.writes = 'ledger'")
	fails(ctx, t, other, "23505", "INSERT INTO counters VALUES (1, 1)")
	run(ctx, t, other, "BEGIN")
	run(ctx, t, other, "UPDATE counters SET note = 'block' WHERE id = 1")
	run(ctx, t, other, "COMMIT")
	appears(ctx, t, acme, "SELECT FROM chainify.transactions WHERE kind = 'effects' AND block = (SELECT max(block) FROM chainify.transactions)")
}
