package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// unknownCase is a wait in COMMIT that ends before there is an outcome.
type unknownCase struct {
	name, begin, timeout, sqlstate string
	// ends ends the wait of a session of acme; nil: the wait ends by itself.
	ends func(ctx context.Context, acme *harness.Organisation, pid uint32) error
}

var unknownCases = []unknownCase{
	{"in time", "BEGIN", "6s", "57P03", nil},
	{"a cancel", "BEGIN ISOLATION LEVEL SERIALIZABLE", "60s", "57014", func(ctx context.Context, acme *harness.Organisation, pid uint32) error {
		return acme.Exec(ctx, "postgres", fmt.Sprintf("SELECT pg_cancel_backend(%d)", pid))
	}},
	{"the node ends", "BEGIN ISOLATION LEVEL REPEATABLE READ", "60s", "08006", func(_ context.Context, acme *harness.Organisation, _ uint32) error {
		acme.KillNode()
		return nil
	}},
}

// A session waits in COMMIT while no block can be made, because two of four nodes stand still. It
// holds nothing meanwhile. A wait that ends early says that the outcome is unknown, and how to
// learn it. The session then learns it.
func TestUnknownOutcomesOfPlainSQL(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	for i, c := range unknownCases {
		if !t.Run(c.name, func(t *testing.T) { c.run(ctx, t, net, 21+i) }) {
			return // a transaction may still wait, and then the node takes no other
		}
	}
	agreeAndVerify(ctx, t, net)
}

func (c unknownCase) run(ctx context.Context, t *testing.T, net *harness.Network, customer int) {
	acme, still := net.Organisation("acme"), net.Organisations[2:]
	one := plainSession(ctx, t, acme)
	row := fmt.Sprintf("SELECT balance::text FROM checking WHERE custid = %d", customer)
	var before, after string
	must(t, one.QueryRow(ctx, row).Scan(&before))
	run(ctx, t, one, "SET chainify.wait_timeout = '"+c.timeout+"'")
	run(ctx, t, one, c.begin)
	run(ctx, t, one, fmt.Sprintf("UPDATE checking SET balance = balance + 1 WHERE custid = %d", customer))
	must(t, one.QueryRow(ctx, row).Scan(&after))
	for _, o := range still {
		must(t, o.PauseNode())
	}
	resume := func() {
		for _, o := range still {
			must(t, o.ResumeNode())
		}
	}
	defer resume()
	ended := make(chan error, 1)
	pid := one.PgConn().PID()
	go func() {
		_, err := one.Exec(ctx, "COMMIT")
		ended <- err
	}()
	waitsInCommit(ctx, t, acme, pid)
	if c.ends != nil {
		must(t, c.ends(ctx, acme, pid))
	}
	id := c.saysUnknown(t, <-ended)
	idle(t, one)
	want(ctx, t, one, row, before)
	if acme.NodeRunning() {
		want(ctx, t, one, "SELECT outcome::text FROM chainify.wait('"+id+"', '10ms')")
	}

	resume()
	if !acme.NodeRunning() {
		must(t, acme.StartNode())
		must(t, acme.WaitServing(ctx, readyLimit))
	}
	must(t, harness.Poll(ctx, catchUpLimit, "the outcome of "+id, func(ctx context.Context) (ok bool, why string, err error) {
		err = one.QueryRow(ctx, "SELECT outcome FROM chainify.wait('"+id+"', '5s')").Scan(&ok)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, "none", nil
		}
		return ok, "it failed", err
	}))
	want(ctx, t, one, row, after)
}

// waitsInCommit waits until the session has waited so long that the node has its transaction. It
// fails when the session holds a lock, has a transaction, or keeps rows from vacuum. Meanwhile the
// block under way may hold the row.
func waitsInCommit(ctx context.Context, t *testing.T, o *harness.Organisation, pid uint32) {
	t.Helper()
	var held string
	must(t, harness.Poll(ctx, progressLimit, "the wait in COMMIT", func(ctx context.Context) (ok bool, why string, err error) {
		err = o.Scan(ctx, fmt.Sprintf(`SELECT query = 'COMMIT' AND state = 'active' AND wait_event_type = 'Extension' AND clock_timestamp() - query_start > '1s',
			format('%%s: %%s, waits for %%s', state, query, wait_event_type),
			concat_ws(', ', 'xid ' || backend_xid, 'xmin ' || backend_xmin, (SELECT string_agg(concat_ws(' ', mode, locktype, relation::regclass), ', ') FROM pg_locks l WHERE l.pid = a.pid))
			FROM pg_stat_activity a WHERE pid = %d`, pid), &ok, &why, &held)
		return ok, why, err
	}))
	if held != "" {
		t.Errorf("a session that waits in COMMIT holds %s", held)
	}
}

// saysUnknown checks the error of COMMIT, and gives the transaction's id.
func (c unknownCase) saysUnknown(t *testing.T, err error) string {
	t.Helper()
	var failed *pgconn.PgError
	if !errors.As(err, &failed) || failed.Code != c.sqlstate {
		t.Fatalf("COMMIT: %s, want SQLSTATE %s", describe(err), c.sqlstate)
	}
	t.Log(describe(err))
	id := regexp.MustCompile(`\\x[0-9a-f]{64}`).FindString(failed.Detail)
	if id == "" || !strings.Contains(failed.Hint, "chainify.wait('"+id+"')") {
		t.Errorf("COMMIT says %s", describe(err))
	}
	return id
}
