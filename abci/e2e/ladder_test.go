package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// Changes behind the ledger's back, each time more of them: the rows, their history, the base
// of the checkpoints.
const (
	damageRow        = "UPDATE checking SET balance = balance + 1000000 WHERE custid <= 3;"
	damageMissing    = "DELETE FROM checking WHERE custid = 1;"
	damageHistory    = "UPDATE chainify_history.checking SET balance = balance + 1000000 WHERE custid = 1;"
	damageCheckpoint = "UPDATE chainify_checkpoint.checking SET balance = balance + 1000000 WHERE custid IN (1, 7);"
)

// One organisation climbs the ladder of recovery, each time to the step that helps, while the
// others go on.
func TestTheLadderOfRecovery(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
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
	excludeAndRejoin(ctx, t, net, good, odd)
	waitSame(ctx, t, net.Organisations, 1)
	for _, table := range []string{"accounts", "savings", "checking"} {
		var findings *string
		must(t, odd.Scan(ctx, "SELECT string_agg(v::text, '; ') FROM (SELECT * FROM chainify.verify_table('"+table+"') LIMIT 5) v", &findings))
		if findings != nil {
			t.Errorf("verify_table %s finds %s", table, *findings)
		}
	}
	historyIsBack(ctx, t, odd)
	checkSameTransactions(ctx, t, net)
}

// historyIsBack waits until the blocks that came out of recovery with a false history have been
// taken from another organisation.
func historyIsBack(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	started := time.Now()
	ledgerVerifies(ctx, t, o)
	var blocks int
	must(t, o.Scan(ctx, "SELECT count(*) FROM chainify.deviations WHERE cured_by = 'history'", &blocks))
	if blocks == 0 {
		t.Error("no block was taken over")
	}
	t.Logf("%d blocks are back after %s", blocks, time.Since(started).Round(time.Millisecond))
}

func ledgerVerifies(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	must(t, harness.Poll(ctx, catchUpLimit, "a ledger that verifies at "+o.Name, func(ctx context.Context) (bool, string, error) {
		var findings *string
		err := o.Scan(ctx, "SELECT string_agg(v::text, '; ') FROM (SELECT * FROM chainify.verify_ledger() LIMIT 5) v", &findings)
		if err != nil || findings == nil {
			return err == nil, "", err
		}
		return false, *findings, nil
	}))
}

// excludeAndRejoin changes also what the ledger says was agreed, and the rows that it began with.
// Then nothing helps, and a restart neither, until the operator has put the agreed state back and
// says so.
func excludeAndRejoin(ctx context.Context, t *testing.T, net *harness.Network, good, odd *harness.Organisation) {
	t.Helper()
	started := time.Now()
	damage(ctx, t, odd, damageRow+damageMissing+"CREATE TABLE saved AS SELECT * FROM chainify_ledger.block;"+
		"UPDATE chainify_ledger.initial_table SET rows = NULL;"+
		"UPDATE chainify_ledger.block SET state_root = set_byte(state_root, 0, get_byte(state_root, 0) # 1)")
	deposits(ctx, t, good, 2)
	state(ctx, t, odd, "excluded")
	must(t, odd.StopNode())
	must(t, odd.StartNode())
	state(ctx, t, odd, "excluded")
	deposits(ctx, t, good, 1) // the others go on
	damage(ctx, t, odd, "UPDATE chainify_ledger.block b SET state_root = s.state_root FROM saved s WHERE s.number = b.number; DROP TABLE saved")
	said, err := odd.Run(ctx, "rejoin")
	must(t, err)
	caughtUp(ctx, t, net, odd)
	cured(ctx, t, odd, "repair")
	state(ctx, t, odd, "serving")
	t.Logf("excluded and back after %s: %s", time.Since(started).Round(time.Millisecond), strings.TrimSpace(said))
}

// state waits until the node says how it stands.
func state(ctx context.Context, t *testing.T, o *harness.Organisation, want string) {
	t.Helper()
	must(t, harness.Poll(ctx, catchUpLimit, o.Name+" being "+want, func(ctx context.Context) (bool, string, error) {
		got, err := o.State(ctx)
		if err != nil {
			return false, err.Error(), nil
		}
		return got == want, "it is " + got, nil
	}))
}

// damage changes what it is told, all at once, as a superuser can.
func damage(ctx context.Context, t *testing.T, o *harness.Organisation, statements string) {
	t.Helper()
	must(t, o.Exec(ctx, "postgres", "SET chainify.guard = off; SET session_replication_role = replica;"+strings.TrimSuffix(statements, ";")))
}

// cured waits until the newest deviation of the tables is recorded as cured by this step. The
// scrubber may have come by first: then the block that was executed meanwhile is cured by a retry
// after it.
func cured(ctx context.Context, t *testing.T, o *harness.Organisation, by string) {
	t.Helper()
	deviations := "chainify.deviations"
	if o.MariaDB != nil {
		deviations = "bank_ledger.deviation"
	}
	must(t, harness.Poll(ctx, catchUpLimit, "recovery of "+o.Name+" by "+by, func(ctx context.Context) (bool, string, error) {
		var got string
		err := o.Scan(ctx, "SELECT coalesce((SELECT coalesce(cured_by, 'open') FROM "+deviations+" WHERE coalesce(cured_by, '') NOT IN ('history', 'retry') ORDER BY id DESC LIMIT 1), 'none')", &got)
		return got == by, "newest deviation: " + got, err
	}))
}
