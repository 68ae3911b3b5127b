package e2e

import (
	"context"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// Two of four organisations define a function in another way. Of a block the transaction that calls
// it is quarantined, in every organisation; the others of the block are committed, and so is what
// comes later. Nobody is excluded.
func TestATransactionThatDiffersIsQuarantinedAlone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	net := newNetwork(ctx, t)
	for i, o := range net.Organisations {
		definition := "SELECT 1"
		if i >= 2 {
			definition = "SELECT 2"
		}
		must(t, o.Exec(ctx, "postgres", "CREATE FUNCTION fee() RETURNS int LANGUAGE sql IMMUTABLE AS '"+definition+"'"))
	}
	conn, err := net.Organisations[0].Cluster.Connect(ctx, database, "bank")
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	var ids [][]byte
	must(t, conn.QueryRow(ctx, `SELECT chainify.submit_batch(ARRAY[
		'UPDATE checking SET balance = balance + 1 WHERE custid = 1',
		'UPDATE checking SET balance = balance - fee() WHERE custid = 2',
		'UPDATE checking SET balance = balance + 1 WHERE custid = 3'])`).Scan(&ids))
	for i, want := range []string{"", "CH001", ""} {
		var block int64
		var state *string
		must(t, conn.QueryRow(ctx, "SELECT block, sqlstate FROM chainify.wait($1, '60s')", ids[i]).Scan(&block, &state))
		if got := pointed(state); got != want {
			t.Errorf("transaction %d of block %d: sqlstate %q, want %q", i, block, got, want)
		}
	}
	deposits(ctx, t, net.Organisations[3], 2)
	_, err = harness.WaitSame(ctx, net.Organisations, 1, catchUpLimit)
	must(t, err)
	for _, o := range net.Organisations {
		checkVerified(ctx, t, o)
		state, err := o.State(ctx)
		must(t, err)
		if state != "serving" {
			t.Errorf("%s is %s", o.Name, state)
		}
	}
	checkSameTransactions(ctx, t, net)
}

func pointed(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
