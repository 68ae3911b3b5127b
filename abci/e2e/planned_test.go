package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

const oneMore = "UPDATE checking SET balance = balance + 1 WHERE custid = %d"

// Plans are on every organisation's ledger first. The planner's node has them executed when their
// time has come and their approvals are there; while it is down, any client does. Each runs once.
func TestPlannedTransactions(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	acme, delta := net.Organisation("acme"), net.Organisation("delta")
	before := balances(ctx, t, acme)

	timed := plan(ctx, t, acme, 1, "clock_timestamp() + interval '3 s'", "NULL")
	approved := plan(ctx, t, acme, 2, "NULL", "'2 OF (bolt, cargo, delta)'")
	cancelled := plan(ctx, t, acme, 3, "clock_timestamp() + interval '1 h'", "NULL")
	failing := planned(ctx, t, acme, "SELECT chainify.plan('INSERT INTO checking SELECT * FROM checking WHERE custid = 4')")

	hasState(ctx, t, net, timed, "executed")
	var waited bool
	must(t, acme.Scan(ctx, `SELECT b.block_time >= p.not_before AND b.number > p.planned_at FROM chainify.planned p JOIN chainify.ledger b ON b.number = p.block
		WHERE p.id = `+timed, &waited))
	if !waited {
		t.Error("a block before its time executed the plan")
	}
	hasState(ctx, t, net, failing, "failed")
	failsWith(t, executes(ctx, delta, approved), "CH009")
	must(t, net.Organisation("bolt").Exec(ctx, "dba", "SELECT chainify.approve_planned("+approved+")"))
	failsWith(t, net.Organisation("bolt").Exec(ctx, "dba", "SELECT chainify.approve_planned("+approved+")"), "42710")
	failsWith(t, executes(ctx, acme, approved), "CH009")
	id := strings.TrimSuffix(strings.TrimPrefix(approved, `'\x`), "'::bytea")
	_, err := net.Organisation("cargo").Run(ctx, "submit", "--role", "bank", "--kind", "approve", "--wait", id)
	if err == nil || !strings.Contains(err.Error(), "42501") {
		t.Errorf("one who is no admin approves: %v", err)
	}
	_, err = net.Organisation("cargo").Run(ctx, "submit", "--role", "dba", "--kind", "approve", "--wait", id)
	must(t, err)
	hasState(ctx, t, net, approved, "executed")
	failsWith(t, executes(ctx, delta, approved), "55000")
	failsWith(t, delta.Exec(ctx, "bank", "SELECT chainify.cancel_planned("+cancelled+")"), "42501")
	must(t, acme.Exec(ctx, "bank", "SELECT chainify.cancel_planned("+cancelled+")"))
	failsWith(t, executes(ctx, acme, cancelled), "55000")

	_, err = acme.Run(ctx, "submit", "--role", "bank", "--kind", "plan", "--approvals", "acme", "--param", "bigint:4", "--wait",
		"UPDATE checking SET balance = balance + 1 WHERE custid = $1")
	must(t, err)
	must(t, acme.Scan(ctx, "SELECT encode(id, 'hex') FROM chainify.planned WHERE approvals = 'acme'", &id))
	_, err = acme.Run(ctx, "submit", "--role", "bank", "--kind", "cancel", "--wait", id)
	must(t, err)
	hasState(ctx, t, net, `'\x`+id+"'::bytea", "cancelled")
	_, err = delta.Run(ctx, "submit", "--role", "bank", "--kind", "execute", "--wait", id)
	if err == nil || !strings.Contains(err.Error(), "55000") {
		t.Errorf("a plan that was cancelled is executed: %v", err)
	}

	// The node that would have it executed is down when it is due.
	missed := plan(ctx, t, acme, 5, "clock_timestamp() + interval '3 s'", "NULL")
	reached(ctx, t, net)
	acme.KillNode()
	must(t, harness.Poll(ctx, progressLimit, "execution by another client", func(ctx context.Context) (bool, string, error) {
		err := executes(ctx, delta, missed)
		return err == nil, fmt.Sprint(err), nil
	}))
	must(t, acme.StartNode())
	hasState(ctx, t, net, missed, "executed")

	reached(ctx, t, net)
	for _, o := range net.Organisations {
		after := balances(ctx, t, o)
		want := [5]int{before[0] + 1, before[1] + 1, before[2], before[3], before[4] + 1}
		if after != want {
			t.Errorf("%s: balances %v, want %v", o.Name, after, want)
		}
		checkVerified(ctx, t, o)
	}
}

// plan has the bank plan to add one to a customer's balance; returns the plan's id as SQL.
func plan(ctx context.Context, t *testing.T, o *harness.Organisation, customer int, notBefore, approvals string) string {
	t.Helper()
	return planned(ctx, t, o, fmt.Sprintf("SELECT chainify.plan('%s', %s, %s)", fmt.Sprintf(oneMore, customer), notBefore, approvals))
}

func planned(ctx context.Context, t *testing.T, o *harness.Organisation, sql string) string {
	t.Helper()
	conn, err := o.Cluster.Connect(ctx, database, "bank")
	must(t, err)
	defer conn.Close(ctx)
	var id []byte
	must(t, conn.QueryRow(ctx, sql).Scan(&id))
	return fmt.Sprintf(`'\x%x'::bytea`, id)
}

// executes has the bank of an organisation execute a plan; the error is that of its outcome.
func executes(ctx context.Context, o *harness.Organisation, id string) error {
	conn, err := o.Cluster.Connect(ctx, database, "bank")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var outcome bool
	var state, message *string
	err = conn.QueryRow(ctx, "SELECT outcome, sqlstate, error FROM chainify.execute_planned("+id+")").Scan(&outcome, &state, &message)
	if err != nil || outcome {
		return err
	}
	return &pgconn.PgError{Code: *state, Message: *message}
}

func failsWith(t *testing.T, err error, state string) {
	t.Helper()
	var of *pgconn.PgError
	if !errors.As(err, &of) || of.Code != state {
		t.Errorf("error %v, want SQLSTATE %s", err, state)
	}
}

// hasState waits until the plan has a state in every organisation.
func hasState(ctx context.Context, t *testing.T, net *harness.Network, id, state string) {
	t.Helper()
	for _, o := range net.Organisations {
		must(t, harness.Poll(ctx, catchUpLimit, "plan "+state+" at "+o.Name, func(ctx context.Context) (bool, string, error) {
			var got string
			if err := o.Scan(ctx, "SELECT state FROM chainify.planned WHERE id = "+id, &got); err != nil {
				return false, err.Error(), nil
			}
			return got == state, got, nil
		}))
	}
}

// reached waits until all organisations have the newest block.
func reached(ctx context.Context, t *testing.T, net *harness.Network) {
	t.Helper()
	waitSame(ctx, t, net.Organisations, 1)
}

// balances are those of the first customers.
func balances(ctx context.Context, t *testing.T, o *harness.Organisation) (found [5]int) {
	t.Helper()
	for i := range found {
		must(t, o.Scan(ctx, fmt.Sprintf("SELECT balance::int FROM checking WHERE custid = %d", i+1), &found[i]))
	}
	return found
}
