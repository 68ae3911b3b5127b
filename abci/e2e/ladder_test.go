package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// What is changed behind the ledger's back, each time more of it: the rows, their history, the base of the checkpoints.
const (
	damageRow        = "UPDATE checking SET balance = balance + 1000000 WHERE custid <= 3;"
	damageHistory    = "UPDATE chainify_history.checking SET balance = balance + 1000000 WHERE custid = 1;"
	damageCheckpoint = "UPDATE chainify_checkpoint.checking SET balance = balance + 1000000 WHERE custid IN (1, 7);"
)

// One organisation climbs the ladder of recovery, each time to the step that helps, while the others go on.
func TestTheLadderOfRecovery(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	net := newNetwork(ctx, t)
	good, odd := net.Organisations[0], net.Organisations[3]
	deposits(ctx, t, good, 3)
	caughtUp(ctx, t, net, odd)
	for _, step := range []struct{ damage, curedBy string }{
		{damageRow, "repair"},
		{damageRow + damageHistory, "replay"},
		{damageRow + damageHistory + damageCheckpoint, "state"},
	} {
		started := time.Now()
		damage(ctx, t, odd, step.damage)
		deposits(ctx, t, good, 2)
		caughtUp(ctx, t, net, odd)
		cured(ctx, t, odd, step.curedBy)
		t.Logf("%s after %s", step.curedBy, time.Since(started).Round(time.Millisecond))
	}
	_, err := harness.WaitSame(ctx, net.Organisations, 1, catchUpLimit)
	must(t, err)
	for _, table := range []string{"accounts", "savings", "checking"} {
		var findings *string
		must(t, odd.Scan(ctx, "SELECT string_agg(v::text, '; ') FROM (SELECT * FROM chainify.verify_table('"+table+"') LIMIT 5) v", &findings))
		if findings != nil {
			t.Errorf("verify_table %s finds %s", table, *findings)
		}
	}
	checkSameTransactions(ctx, t, net)
}

// damage changes what it is told, all at once, as a superuser can.
func damage(ctx context.Context, t *testing.T, o *harness.Organisation, statements string) {
	t.Helper()
	must(t, o.Exec(ctx, "postgres", "SET chainify.guard = off; SET session_replication_role = replica;"+strings.TrimSuffix(statements, ";")))
}

// cured waits until the newest deviation is recorded as cured by this step.
func cured(ctx context.Context, t *testing.T, o *harness.Organisation, by string) {
	t.Helper()
	must(t, harness.Poll(ctx, catchUpLimit, "recovery of "+o.Name+" by "+by, func(ctx context.Context) (bool, string, error) {
		var got string
		err := o.Scan(ctx, "SELECT coalesce((SELECT coalesce(cured_by, 'open') FROM chainify.deviations ORDER BY id DESC LIMIT 1), 'none')", &got)
		return got == by, "newest deviation: " + got, err
	}))
}
