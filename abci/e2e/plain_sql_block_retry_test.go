package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// blockModes are the protocols, and the ways in which a value reaches the server.
var blockModes = map[string]pgx.QueryExecMode{
	"simple":   pgx.QueryExecModeSimpleProtocol,
	"extended": pgx.QueryExecModeExec,
	"prepared": pgx.QueryExecModeCacheStatement,
}

const blockTables = `
	CREATE TABLE totals (id int PRIMARY KEY, n bigint NOT NULL, note text);
	GRANT SELECT, INSERT, UPDATE, DELETE ON totals TO bank`

// A transaction block runs again after a conflict when chainify.retry says so, and its client sees
// no more than the time that it takes. Where the client has seen something that came out
// differently, it gets the conflict.
func TestPlainSQLRetriesBlocks(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	letDefine(ctx, t, net)
	acme, bolt := net.Organisation("acme"), net.Organisation("bolt")
	must(t, acme.Exec(ctx, "dba", "SELECT chainify.deploy($$"+blockTables+"$$)"))
	must(t, acme.Exec(ctx, "bank", "SELECT chainify.execute('INSERT INTO totals SELECT i, 0 FROM generate_series(1, 9) i')"))
	follows(ctx, t, bolt, acme)
	r := blockRetry{acme: acme, bolt: bolt}
	for name, mode := range blockModes {
		t.Run(name, func(t *testing.T) {
			r.mode = mode
			for _, c := range blockCases {
				t.Run(c.name, func(t *testing.T) { c.run(ctx, t, r) })
			}
		})
	}
	t.Run("many sessions", func(t *testing.T) { r.many(ctx, t) })
	tip, err := acme.Tip(ctx)
	must(t, err)
	_, err = harness.WaitSame(ctx, net.Organisations, tip.Number, catchUpLimit)
	must(t, err)
	checkVerified(ctx, t, acme)
}

type blockRetry struct {
	acme, bolt *harness.Organisation
	mode       pgx.QueryExecMode
}

// session is one whose blocks run again.
func (r blockRetry) session(ctx context.Context, t *testing.T) *pgx.Conn {
	conn := plainSession(ctx, t, r.acme)
	run(ctx, t, conn, "SET chainify.retry = 5")
	return conn
}

// say runs a statement of a block and returns its only value.
func (r blockRetry) say(ctx context.Context, t *testing.T, conn *pgx.Conn, sql string, args ...any) (value string) {
	t.Helper()
	args = append([]any{r.mode}, args...)
	if err := conn.QueryRow(ctx, sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %s", sql, describe(err))
	}
	return value
}

// change changes rows in a block and returns how many.
func (r blockRetry) change(ctx context.Context, t *testing.T, conn *pgx.Conn, sql string, args ...any) int64 {
	t.Helper()
	args = append([]any{r.mode}, args...)
	return run(ctx, t, conn, sql, args...).RowsAffected()
}

// other has another organisation set a row's number, and waits until it is here.
func (r blockRetry) other(ctx context.Context, t *testing.T, set string, id int) {
	t.Helper()
	note := strconv.FormatInt(time.Now().UnixNano(), 10)
	conn := plainSession(ctx, t, r.bolt)
	run(ctx, t, conn, fmt.Sprintf("UPDATE totals SET %s, note = '%s' WHERE id = %d", set, note, id))
	appears(ctx, t, r.acme, fmt.Sprintf("SELECT FROM totals WHERE id = %d AND note = '%s'", id, note))
}

var blockCases = []struct {
	name string
	run  func(ctx context.Context, t *testing.T, r blockRetry)
}{
	{"COMMIT conflicts with an idle session", func(ctx context.Context, t *testing.T, r blockRetry) {
		conn := r.session(ctx, t)
		run(ctx, t, conn, "UPDATE totals SET n = 10 WHERE id = 1")
		run(ctx, t, conn, "BEGIN")
		if got := r.say(ctx, t, conn, "SELECT count(*)::text FROM totals WHERE id < $1", 5); got != "4" {
			t.Errorf("count %s", got)
		}
		r.change(ctx, t, conn, "UPDATE totals SET n = n + $1 WHERE id = 1", 5)
		r.other(ctx, t, "n = 100", 1)
		run(ctx, t, conn, "COMMIT")
		idle(t, conn)
		want(ctx, t, conn, "SELECT n::text FROM totals WHERE id = 1", "105")
	}},
	{"a statement fails, the block goes on", func(ctx context.Context, t *testing.T, r blockRetry) {
		conn := r.session(ctx, t)
		run(ctx, t, conn, "UPDATE totals SET n = 10 WHERE id IN (2, 3)")
		run(ctx, t, conn, "BEGIN ISOLATION LEVEL REPEATABLE READ")
		r.change(ctx, t, conn, "UPDATE totals SET n = n + $1 WHERE id = 2", 5)
		r.other(ctx, t, "n = 200", 2)
		if got := r.say(ctx, t, conn, "SELECT n::text || $1 FROM totals WHERE id = 2", "!"); got != "205!" {
			t.Errorf("after a second run the row is %s", got)
		}
		if status := conn.PgConn().TxStatus(); status != 'T' {
			t.Errorf("the status is %c", status)
		}
		want(ctx, t, conn, "SELECT current_setting('transaction_isolation')", "repeatable read")
		r.other(ctx, t, "n = 300", 3)
		// The snapshot has the row as it was before.
		if got := r.change(ctx, t, conn, "UPDATE totals SET n = n + 1 WHERE id = $1", 3); got != 1 {
			t.Errorf("%d rows", got)
		}
		run(ctx, t, conn, "COMMIT")
		idle(t, conn)
		want(ctx, t, conn, "SELECT n::text FROM totals WHERE id IN (2, 3) ORDER BY id", "205", "301")
	}},
	{"rows that were seen differ", func(ctx context.Context, t *testing.T, r blockRetry) {
		conn := r.session(ctx, t)
		run(ctx, t, conn, "UPDATE totals SET n = 10 WHERE id = 4")
		for _, end := range []string{"COMMIT", "SELECT 1"} {
			run(ctx, t, conn, "BEGIN")
			r.say(ctx, t, conn, "SELECT n::text FROM totals WHERE id = 4")
			r.change(ctx, t, conn, "UPDATE totals SET n = $1 WHERE id = 4", 11)
			r.other(ctx, t, "n = n + 90", 4)
			_, err := conn.Exec(ctx, end, r.mode)
			if said := describe(err); !strings.HasPrefix(said, "40001") {
				t.Errorf("%s: %s", end, said)
			}
			if end == "COMMIT" {
				idle(t, conn)
				continue
			}
			fails(ctx, t, conn, "25P02", "SELECT 1")
			run(ctx, t, conn, "ROLLBACK")
		}
		want(ctx, t, conn, "SELECT n::text FROM totals WHERE id = 4", "190")
	}},
	{"numbers of rows differ", func(ctx context.Context, t *testing.T, r blockRetry) {
		conn := r.session(ctx, t)
		run(ctx, t, conn, "UPDATE totals SET n = 10 WHERE id = 5")
		run(ctx, t, conn, "BEGIN")
		r.change(ctx, t, conn, "UPDATE totals SET n = n - 5 WHERE id = 5 AND n >= $1", 5)
		r.other(ctx, t, "n = 1", 5)
		fails(ctx, t, conn, "40001", "COMMIT")
		idle(t, conn)
		want(ctx, t, conn, "SELECT n::text FROM totals WHERE id = 5", "1")
	}},
	{"what is not done again", func(ctx context.Context, t *testing.T, r blockRetry) {
		for _, no := range []string{"SAVEPOINT a", "SET LOCAL work_mem = '1MB'", "DECLARE c CURSOR FOR SELECT 1", "SELECT 1; SELECT 2", "LISTEN x", "PREPARE p AS SELECT 1"} {
			conn := r.session(ctx, t)
			run(ctx, t, conn, "BEGIN")
			run(ctx, t, conn, no)
			r.change(ctx, t, conn, "UPDATE totals SET n = $1 WHERE id = 6", 1)
			r.other(ctx, t, "n = 0", 6)
			fails(ctx, t, conn, "40001", "COMMIT")
			idle(t, conn)
		}
		conn := plainSession(ctx, t, r.acme)
		run(ctx, t, conn, "BEGIN")
		r.change(ctx, t, conn, "UPDATE totals SET n = $1 WHERE id = 6", 1)
		r.other(ctx, t, "n = 0", 6)
		fails(ctx, t, conn, "40001", "COMMIT")
	}},
	{"the order refuses", func(ctx context.Context, t *testing.T, r blockRetry) {
		conn := r.session(ctx, t)
		run(ctx, t, conn, "UPDATE totals SET n = 7 WHERE id = 7")
		run(ctx, t, conn, "BEGIN ISOLATION LEVEL SERIALIZABLE")
		r.change(ctx, t, conn, "INSERT INTO totals SELECT 100 + n, $1 FROM totals WHERE id = 7", 70)
		r.other(ctx, t, "n = n + 1", 7)
		run(ctx, t, conn, "COMMIT")
		idle(t, conn)
		want(ctx, t, conn, "SELECT id::text FROM totals WHERE n = 70", "108")
		run(ctx, t, conn, "DELETE FROM totals WHERE n = 70")
	}},
}

const (
	blockSessions = 4
	blocksEach    = 10
)

// many counts two rows up from two organisations at once, in blocks that no client retries.
func (r blockRetry) many(ctx context.Context, t *testing.T) {
	run(ctx, t, plainSession(ctx, t, r.acme), "UPDATE totals SET n = 0 WHERE id IN (8, 9)")
	var all sync.WaitGroup
	failed := make(chan error, 2*blockSessions)
	for i := range 2 * blockSessions {
		conn := plainSession(ctx, t, []*harness.Organisation{r.acme, r.bolt}[i%2])
		run(ctx, t, conn, "SET chainify.retry = 1000")
		mode := pgx.QueryExecModeSimpleProtocol
		if i%4 < 2 {
			mode = pgx.QueryExecModeCacheStatement
		}
		all.Go(func() { failed <- countTwice(ctx, conn, mode) })
	}
	all.Wait()
	for range 2 * blockSessions {
		if err := <-failed; err != nil {
			t.Error(describe(err))
		}
	}
	total := strconv.Itoa(2 * blockSessions * blocksEach)
	for _, o := range []*harness.Organisation{r.acme, r.bolt} {
		appears(ctx, t, o, "SELECT FROM totals WHERE id IN (8, 9) AND n = "+total+" HAVING count(*) = 2")
	}
}

func countTwice(ctx context.Context, conn *pgx.Conn, mode pgx.QueryExecMode) error {
	for range blocksEach {
		for _, sql := range []string{"BEGIN", "UPDATE totals SET n = n + 1 WHERE id = 8", "UPDATE totals SET n = n + 1 WHERE id = 9", "COMMIT"} {
			tag, err := conn.Exec(ctx, sql, mode)
			if err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
			if strings.HasPrefix(sql, "UPDATE") && tag.RowsAffected() != 1 {
				return fmt.Errorf("%s: %s", sql, tag)
			}
		}
		if conn.PgConn().TxStatus() != 'I' {
			return errors.New("the session is not idle")
		}
	}
	return nil
}
