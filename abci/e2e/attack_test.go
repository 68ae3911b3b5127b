package e2e

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/smallbank"
)

// Databases that were restored from an older copy, or made anew, get the blocks that they miss from
// the order. Transactions meant to stop every block are recorded as failed. A flooded socket serves
// again when the flood is over.
func TestNetworkSurvivesAttacksAndRestores(t *testing.T) {
	t.Parallel()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(ctx, testLimit)
	t.Cleanup(cancel)
	// Long enough for a statement that fails at the bound of what one may change, on a machine that
	// is busy.
	network := networkOf(ctx, t, harness.Config{Organisations: []string{"acme", "bolt", "cargo", "delta"}, BlockTime: time.Minute})
	attacked, restored, remade := network.Organisations[0], network.Organisations[1], network.Organisations[2]
	copied := filepath.Join(network.Dir, "older")

	deposits(ctx, t, attacked, 3)
	caughtUp(ctx, t, network, restored)
	must(t, restored.StopNode())
	must(t, restored.Cluster.Stop())
	command(t, "cp", "-a", filepath.Join(network.Dir, restored.Name, "data"), copied)
	must(t, restored.Cluster.Start(ctx))
	must(t, restored.StartNode())

	poison(ctx, t, attacked)
	flood(ctx, t, attacked)
	deposits(ctx, t, attacked, 3)
	caughtUp(ctx, t, network, restored)

	// as after a power cut with an older disk image: the node is ahead of its database
	restored.KillNode()
	restored.Cluster.Kill()
	command(t, "rm", "-rf", filepath.Join(network.Dir, restored.Name, "data"))
	command(t, "mv", copied, filepath.Join(network.Dir, restored.Name, "data"))
	must(t, restored.StartNode())
	must(t, restored.Cluster.Start(ctx))
	deposits(ctx, t, attacked, 2)
	caughtUp(ctx, t, network, restored)

	// dropped and made anew with the rows that the ledger began with
	makeAnew(ctx, t, remade)
	deposits(ctx, t, attacked, 2)
	caughtUp(ctx, t, network, remade)

	tip, err := harness.WaitSame(ctx, network.Organisations, 1, catchUpLimit)
	must(t, err)
	t.Logf("all at block %d", tip.Number)
	for _, o := range network.Organisations {
		checkVerified(ctx, t, o)
	}
	checkSameTransactions(ctx, t, network)
}

// deposits runs transactions that succeed, one after the other.
func deposits(ctx context.Context, t *testing.T, o *harness.Organisation, n int) {
	t.Helper()
	conn := patient(ctx, t, o)
	defer conn.Close(ctx)
	for range n {
		var succeeded bool
		must(t, conn.QueryRow(ctx, "SELECT outcome FROM chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = 1')").Scan(&succeeded))
		if !succeeded {
			t.Fatalf("a deposit at %s failed", o.Name)
		}
	}
}

// patient connects the bank. Its session waits for outcomes as long as a busy machine may take.
func patient(ctx context.Context, t *testing.T, o *harness.Organisation) *pgx.Conn {
	t.Helper()
	conn, err := o.Cluster.Connect(ctx, database, "bank")
	must(t, err)
	_, err = conn.Exec(ctx, fmt.Sprintf("SET chainify.wait_timeout = %d", progressLimit.Milliseconds()))
	must(t, err)
	return conn
}

// poison submits what once failed the block itself, or would if it were let through.
func poison(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	conn := patient(ctx, t, o)
	defer conn.Close(ctx)
	for _, attack := range []struct{ sql, state string }{
		{"SELECT * FROM chainify.execute('SELECT 1')", ""},
		{"SELECT " + fmt.Sprintf("%01000d", 1) + "/0", ""},
		{"UPDATE checking SET balance = balance FROM generate_series(1, 3)", "CH006"},
		{"INSERT INTO accounts SELECT i + 1000000, i FROM generate_series(1, 1048577) i", "54000"},
		{"SELECT set_config('statement_timeout', '1', false), set_config('chainify.guard', 'off', false)", "CH006"},
		{"SELECT pg_terminate_backend(pg_backend_pid())", ""},
		{"LOCK TABLE checking", "CH004"},
	} {
		var outcome bool
		var state string
		must(t, conn.QueryRow(ctx, "SELECT outcome, coalesce(sqlstate, '') FROM chainify.execute($1)", attack.sql).Scan(&outcome, &state))
		if outcome || attack.state != "" && state != attack.state {
			t.Errorf("%.60s: outcome %t, SQLSTATE %q, want a failure with %q", attack.sql, outcome, state, attack.state)
		}
	}
}

// flood opens more connections than the node takes, each with the beginning of a frame that never
// ends.
func flood(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	const connections = 1500
	var open []net.Conn
	for range connections {
		conn, err := net.DialTimeout("unix", o.Socket(), time.Second)
		if err != nil {
			break // the listener's backlog is full: as good
		}
		_, _ = conn.Write([]byte{0, 1, 0})
		open = append(open, conn)
	}
	t.Logf("%d connections opened", len(open))
	for _, conn := range open {
		conn.Close()
	}
	must(t, o.WaitServing(ctx, readyLimit))
	must(t, harness.Poll(ctx, progressLimit, "a submission after the flood", func(ctx context.Context) (bool, string, error) {
		conn, err := o.Cluster.Connect(ctx, database, "bank")
		if err != nil {
			return false, err.Error(), nil
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, "SELECT chainify.execute('SELECT 1')"); err != nil {
			return false, err.Error(), nil
		}
		return true, "", nil
	}))
}

// makeAnew drops the organisation's database and makes it again as it was before the first block.
func makeAnew(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	must(t, o.StopNode())
	recreate(ctx, t, o)
	must(t, o.StartNode())
}

// recreate drops the database and makes it as it was before the ledger.
func recreate(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	conn, err := o.Cluster.Connect(ctx, "postgres", "postgres")
	must(t, err)
	defer conn.Close(ctx)
	for _, sql := range []string{"DROP DATABASE %s WITH (FORCE)", "CREATE DATABASE %s"} {
		_, err := conn.Exec(ctx, fmt.Sprintf(sql, pgx.Identifier{database}.Sanitize()))
		must(t, err)
	}
	bank := smallbank.Bank{Scripts: filepath.Join("..", "..", "scripts", "smallbank"), Customers: customers}
	must(t, bank.Create(ctx, o))
	must(t, o.Exec(ctx, "postgres", "CREATE EXTENSION chainify;"+
		"GRANT SELECT, INSERT, UPDATE, DELETE ON accounts, savings, checking TO bank, dba; REVOKE DELETE ON accounts FROM bank"))
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}
