package e2e

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// A base backup taken under way is a ledger: restored, its node executes what is missing, by
// itself.
func TestARestoredBackupCatchesUp(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
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
	waitSame(ctx, t, net.Organisations, 1)
	checkVerified(ctx, t, odd)
	checkSameTransactions(ctx, t, net)
	dumpedIsALedger(ctx, t, net, odd)
	joinsWithADump(ctx, t, net, good)
}

// A dump of a ledger at work is a ledger again once it was restored and adopted, in another
// database than before.
func dumpedIsALedger(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation) {
	t.Helper()
	must(t, o.Cluster.Dump(ctx, database, o.Cluster, "restored"))
	deposits(ctx, t, net.Organisations[0], 2)
	must(t, o.StopNode())
	restored, err := o.Cluster.Connect(ctx, "restored", "postgres")
	must(t, err)
	defer restored.Close(ctx)
	for _, closed := range []string{"SELECT * FROM chainify.verify_ledger()", "UPDATE checking SET balance = balance + 1 WHERE custid = 1"} {
		var refused *pgconn.PgError
		if _, err = restored.Exec(ctx, closed); !errors.As(err, &refused) || refused.Code != "55000" {
			t.Errorf("%s on a ledger that is not adopted: %v, want 55000", closed, err)
		}
	}
	_, err = restored.Exec(ctx, "SELECT chainify.adopt_restored()")
	must(t, err)
	must(t, restored.Close(ctx))
	must(t, o.Cluster.ReplaceDatabase(ctx, database, "restored"))
	checkVerified(ctx, t, o)
	var receipt string
	must(t, o.Scan(ctx, "SELECT chainify.receipt(id)::text FROM chainify.transactions ORDER BY block, index LIMIT 1", &receipt))
	must(t, o.StartNode())
	must(t, o.WaitServing(ctx, readyLimit))
	deposits(ctx, t, o, 2)
	waitSame(ctx, t, net.Organisations, 1)
	checkVerified(ctx, t, o)
	checkSameTransactions(ctx, t, net)
}

// An organisation need not execute the chain from its first block: it takes another one's dump. Its
// node begins with an empty home, checks by the certificates that this is the ledger agreed, and
// goes on after it.
func joinsWithADump(ctx context.Context, t *testing.T, net *harness.Network, donor *harness.Organisation) {
	t.Helper()
	must(t, donor.Exec(ctx, "postgres", `CREATE SCHEMA own;
		CREATE FUNCTION own.agree(text, checking, checking) RETURNS boolean LANGUAGE sql AS 'SELECT true';
		SELECT chainify.set_agreement_check('checking', 'own.agree')`))
	echo, _, err := net.Outsider(ctx, "echo", func(*harness.Organisation) error { return nil }, func(o *harness.Organisation) error {
		return o.Exec(ctx, "postgres", "CREATE ROLE bank LOGIN IN ROLE chainify_client; CREATE ROLE dba LOGIN IN ROLE chainify_admin, chainify_reader")
	})
	must(t, err)
	must(t, donor.Cluster.Dump(ctx, database, echo.Cluster, "joining", "-N", "own", "--exclude-table-data=chainify_ledger.agreement_check"))
	must(t, echo.Cluster.ReplaceDatabase(ctx, database, "joining"))
	must(t, echo.Exec(ctx, "postgres", "SELECT chainify.adopt_restored('echo')"))
	begins, err := echo.Tip(ctx)
	must(t, err)
	if was, err := donor.Tip(ctx); err != nil || begins != was {
		t.Errorf("%s begins at %+v, %s dumped at %+v, %v", echo.Name, begins, donor.Name, was, err)
	}
	deposits(ctx, t, donor, 3)
	must(t, echo.StartNode())
	caughtUp(ctx, t, net, echo)
	checkVerified(ctx, t, echo)
	checkSameTransactions(ctx, t, net)
}
