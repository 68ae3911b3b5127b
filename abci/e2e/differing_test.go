package e2e

import (
	"context"
	"strings"
	"testing"
)

// Two of four organisations define a function in another way. Of a block the transaction that calls
// it is quarantined, in every organisation; the others of the block are committed, and so is what
// comes later. Nobody is excluded.
func TestATransactionThatDiffersIsQuarantinedAlone(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	for i, o := range net.Organisations {
		definition := "SELECT 1"
		if i >= 2 {
			definition = "SELECT 2"
		}
		must(t, o.Exec(ctx, "postgres", "CREATE FUNCTION fee() RETURNS int LANGUAGE sql IMMUTABLE AS '"+definition+"'"))
	}
	conn := patient(ctx, t, net.Organisations[0])
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	var ids [][]byte
	must(t, conn.QueryRow(ctx, `SELECT chainify.submit_batch(ARRAY[
		'UPDATE checking SET balance = balance + 1 WHERE custid = 1',
		'UPDATE checking SET balance = balance - fee() WHERE custid = 2',
		'UPDATE checking SET balance = balance + 1 WHERE custid = 3'])`).Scan(&ids))
	for i, want := range []string{"", "CH001", ""} {
		var block int64
		var state *string
		must(t, conn.QueryRow(ctx, "SELECT block, sqlstate FROM chainify.wait($1, '4min')", ids[i]).Scan(&block, &state))
		if got := pointed(state); got != want {
			t.Errorf("transaction %d of block %d: sqlstate %q, want %q", i, block, got, want)
		}
	}
	deposits(ctx, t, net.Organisations[3], 2)
	waitSame(ctx, t, net.Organisations, 1)
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

// One of four organisations defines a function in another way. It adopts each block that calls the
// function, goes on voting on all others, and is not excluded, over a restart too.
func TestAnOrganisationThatExecutesOtherwiseAdopts(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	good, odd := net.Organisations[0], net.Organisations[3]
	for _, o := range net.Organisations {
		definition := "SELECT 1"
		if o == odd {
			definition = "SELECT 2"
		}
		must(t, o.Exec(ctx, "postgres", "CREATE FUNCTION fee() RETURNS int LANGUAGE sql IMMUTABLE AS '"+definition+"'"))
	}
	statements := map[string]string{ // to their SQLSTATE at the odd one
		"UPDATE checking SET balance = balance - fee() WHERE custid = 2":         "",
		"DELETE FROM savings WHERE custid = fee() + 2":                           "",
		"INSERT INTO accounts SELECT max(custid) + fee(), ''new'' FROM accounts": "",
		"UPDATE checking SET balance = 1 / (fee() - 1) WHERE custid = 3":         "CH012",
	}
	calls := func() {
		conn := patient(ctx, t, good)
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		for sql, want := range statements {
			var succeeded bool
			must(t, conn.QueryRow(ctx, "SELECT outcome FROM chainify.execute('"+sql+"')").Scan(&succeeded))
			if succeeded != (want == "") {
				t.Errorf("%s: outcome %t", sql, succeeded)
			}
		}
	}
	calls()
	deposits(ctx, t, odd, 2)
	caughtUp(ctx, t, net, odd)
	cured(ctx, t, odd, "adopt")
	out, err := odd.Run(ctx, "status")
	if err != nil || !strings.Contains(out, "executes transactions otherwise") {
		t.Errorf("chainify status says %s (%v)", out, err)
	}
	must(t, odd.StopNode())
	must(t, odd.StartNode())
	must(t, odd.WaitServing(ctx, readyLimit))
	var adopted int
	must(t, odd.Scan(ctx, "SELECT count(*) FROM chainify.deviations WHERE cured_by = 'adopt'", &adopted))
	if adopted != len(statements) {
		t.Errorf("%d blocks were adopted, want %d", adopted, len(statements))
	}
	calls()
	deposits(ctx, t, good, 1)
	caughtUp(ctx, t, net, odd)
	waitSame(ctx, t, net.Organisations, 1)
	checkVerified(ctx, t, odd)
	var states *string
	must(t, odd.Scan(ctx, "SELECT string_agg(DISTINCT sqlstate, ' ') FROM chainify.transactions WHERE NOT outcome", &states))
	if pointed(states) != "CH012" {
		t.Errorf("transactions failed with %s", pointed(states))
	}
	state, err := odd.State(ctx)
	must(t, err)
	if state != "serving" {
		t.Errorf("it is %s", state)
	}
}

func pointed(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
