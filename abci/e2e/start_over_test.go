package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// damageHeaders leaves nothing that says what was agreed.
const damageHeaders = "UPDATE chainify_ledger.block SET state_root = set_byte(state_root, 0, get_byte(state_root, 0) # 1);" +
	"DELETE FROM chainify_ledger.transaction WHERE block < 4;"

// Rows, history, checkpoints and headers are changed, and nobody tells: the organisation executes
// all blocks of its node's block store again, what was deployed included, and stands where the
// others do. Its own data stay.
func TestAllBlocksAreExecutedAgainWhenNothingElseHelps(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	good, odd := net.Organisations[0], net.Organisations[3]
	nobodyTells(ctx, t, net, odd)
	must(t, net.Each(func(o *harness.Organisation) error {
		return o.Exec(ctx, "postgres", "GRANT CREATE ON SCHEMA public TO dba")
	}))
	must(t, good.Exec(ctx, "dba", `SELECT chainify.deploy('CREATE TABLE loans (id bigint PRIMARY KEY, amount numeric); GRANT ALL ON loans TO bank')`))
	must(t, good.Exec(ctx, "bank", "SELECT chainify.execute('INSERT INTO loans SELECT i, i FROM generate_series(1, 50) i')"))
	must(t, good.Exec(ctx, "dba", "SELECT chainify.deploy('ALTER TABLE loans ADD COLUMN note text DEFAULT ''x''')"))
	must(t, odd.Exec(ctx, "postgres", "CREATE TABLE ours AS SELECT 'private' AS v; CREATE VIEW our_sum AS SELECT sum(balance) FROM checking"))
	plain := plainSession(ctx, t, good)
	run(ctx, t, plain, "BEGIN")
	run(ctx, t, plain, "UPDATE loans SET note = 'plain' WHERE id <= 10")
	run(ctx, t, plain, "DELETE FROM loans WHERE id = 50")
	run(ctx, t, plain, "UPDATE checking SET balance = balance + 7 WHERE custid = 2")
	run(ctx, t, plain, "COMMIT")
	deposits(ctx, t, good, 10)
	caughtUp(ctx, t, net, odd)

	started := time.Now()
	damage(ctx, t, odd, damageRow+damageHistory+damageCheckpoint+damageHeaders)
	deposits(ctx, t, good, 2)
	cured(ctx, t, odd, "full")
	caughtUp(ctx, t, net, odd)
	state(ctx, t, odd, "serving")
	noneOpen(ctx, t, odd)
	t.Logf("all blocks again after %s", time.Since(started).Round(time.Millisecond))
	agreesAgain(ctx, t, net, odd)
	var ours, sums, loans int
	must(t, odd.Scan(ctx, "SELECT count(*) FILTER (WHERE note = 'plain') * 100 + count(*) FROM loans", &loans))
	if loans != 10*100+49 {
		t.Errorf("what plain SQL left of the loans: %d", loans)
	}
	must(t, odd.Scan(ctx, "SELECT count(*) FROM ours WHERE v = 'private'", &ours))
	must(t, odd.Scan(ctx, "SELECT count(*) FROM our_sum", &sums))
	if ours != 1 || sums != 1 {
		t.Error("what is the organisation's own did not stay")
	}

	// The first rows are changed, too: then nothing helps.
	damage(ctx, t, odd, damageRow+damageHistory+damageCheckpoint+damageHeaders+
		"UPDATE chainify_ledger.initial_table SET table_state = set_byte(table_state, 0, get_byte(table_state, 0) # 1)")
	deposits(ctx, t, good, 2)
	state(ctx, t, odd, "excluded")
	must(t, odd.Exec(ctx, "postgres", "SET chainify.guard = off;"+
		"UPDATE chainify_ledger.initial_table SET table_state = set_byte(table_state, 0, get_byte(table_state, 0) # 1)"))
	// Its server crashes after each block that is executed again, and its node is killed on the
	// way.
	must(t, odd.SetSystem(ctx, catchUpLimit, "chainify.crash_point", "after_block_commit"))
	_, err := odd.Run(ctx, "rejoin")
	must(t, err)
	amidBlocksAgain(ctx, t, odd)
	odd.KillNode()
	must(t, odd.SetSystem(ctx, catchUpLimit, "chainify.crash_point", ""))
	must(t, odd.StartNode())
	must(t, odd.WaitServing(ctx, catchUpLimit))
	cured(ctx, t, odd, "full")
	agreesAgain(ctx, t, net, odd)
}

// amidBlocksAgain waits until some blocks were executed again, and others were not.
func amidBlocksAgain(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	must(t, harness.Poll(ctx, catchUpLimit, "blocks being executed again at "+o.Name, func(ctx context.Context) (bool, string, error) {
		var until, done *int64
		err := o.Scan(ctx, "SELECT (SELECT until_block FROM chainify_ledger.started_over), (SELECT max(number) FROM chainify_ledger.block)", &until, &done)
		if err != nil { // the server is crashing
			return false, err.Error(), nil
		}
		return until != nil && done != nil && *done < *until, "", nil
	}))
}

// A database that is dropped under a running node, and made anew as it was at first, is filled
// again with nobody's help.
func TestADatabaseMadeAnewIsFilledByItsNode(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	good, odd := net.Organisations[0], net.Organisations[3]
	deposits(ctx, t, good, 5)
	caughtUp(ctx, t, net, odd)
	recreate(ctx, t, odd)
	deposits(ctx, t, good, 2)
	caughtUp(ctx, t, net, odd)
	state(ctx, t, odd, "serving")
	agreesAgain(ctx, t, net, odd)
}

func noneOpen(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	must(t, harness.Poll(ctx, catchUpLimit, "no open deviation at "+o.Name, func(ctx context.Context) (bool, string, error) {
		var stale bool
		err := o.Scan(ctx, "SELECT stale FROM chainify.status", &stale)
		return !stale, "rows are stale", err
	}))
}

func agreesAgain(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation) {
	t.Helper()
	waitSame(ctx, t, net.Organisations, 1)
	ledgerVerifies(ctx, t, o)
	checkVerified(ctx, t, o)
	checkSameTransactions(ctx, t, net)
}

// nobodyTells starts the nodes again so that no organisation tells another rows, and the odd one
// soon executes all blocks again.
func nobodyTells(ctx context.Context, t *testing.T, net *harness.Network, odd *harness.Organisation) {
	t.Helper()
	for _, o := range net.Organisations {
		settings := map[string]any{"tell_rate": 0}
		if o == odd {
			settings = map[string]any{"help_attempts": 2, "full_blocks_max": -1, "full_notice": "1s"}
		}
		must(t, o.StopNode())
		must(t, o.Configure(settings))
		must(t, o.StartNode())
	}
	must(t, net.Each(func(o *harness.Organisation) error { return o.WaitServing(ctx, readyLimit) }))
}
