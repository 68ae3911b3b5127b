package e2e

import (
	"context"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// A base backup taken under way is a ledger: restored, its node executes what is missing, by itself.
func TestARestoredBackupCatchesUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	net := newNetwork(ctx, t)
	good, odd := net.Organisations[0], net.Organisations[3]
	deposits(ctx, t, good, 3)
	caughtUp(ctx, t, net, odd)
	must(t, odd.Cluster.BackUp(ctx))
	backedUp, err := odd.Tip(ctx)
	must(t, err)
	deposits(ctx, t, good, 5)
	caughtUp(ctx, t, net, odd)
	must(t, odd.StopNode())
	must(t, odd.Cluster.Stop())
	deposits(ctx, t, good, 2)
	must(t, odd.Cluster.RestoreData(ctx))
	must(t, odd.Cluster.Start(ctx))
	restored, err := odd.Tip(ctx)
	must(t, err)
	if restored != backedUp {
		t.Errorf("restored at %+v, backed up at %+v", restored, backedUp)
	}
	checkVerified(ctx, t, odd)
	must(t, odd.StartNode())
	must(t, odd.WaitServing(ctx, readyLimit))
	caughtUp(ctx, t, net, odd)
	_, err = harness.WaitSame(ctx, net.Organisations, 1, catchUpLimit)
	must(t, err)
	checkVerified(ctx, t, odd)
	checkSameTransactions(ctx, t, net)
	dumpedIsRowsOnly(ctx, t, good)
}

// What pg_dump gives has the rows and their history, and is no ledger; without the extension its tables are like any others.
func dumpedIsRowsOnly(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	must(t, o.Cluster.Dump(ctx, database, "restored"))
	const digest = `SELECT md5(string_agg(x, ',' ORDER BY x)) FROM (
		SELECT t::text FROM savings t UNION ALL SELECT t::text FROM checking t UNION ALL SELECT t::text FROM chainify_history.checking t) AS all_rows (x)`
	var want, got string
	must(t, o.Scan(ctx, digest, &want))
	conn, err := o.Cluster.Connect(ctx, "restored", "postgres")
	must(t, err)
	defer conn.Close(ctx)
	must(t, conn.QueryRow(ctx, digest).Scan(&got))
	if got != want {
		t.Error("rows or history differ after pg_dump and pg_restore")
	}
	var tables int
	must(t, conn.QueryRow(ctx, "SELECT count(*) FROM chainify.tables").Scan(&tables))
	if tables != 0 {
		t.Errorf("%d tables are on a ledger that was not restored", tables)
	}
	_, err = conn.Exec(ctx, "SET chainify.guard = off; DROP EXTENSION chainify CASCADE; RESET chainify.guard")
	must(t, err)
	_, err = conn.Exec(ctx, "UPDATE checking SET balance = balance + 1 WHERE custid = 1")
	must(t, err)
}
