// Package e2e tests whole networks: processes, real databases, faults.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/smallbank"
)

const (
	database         = "bank"
	clientsEach      = 3
	blocksPerFault   = 8
	readyLimit       = 60 * time.Second
	progressLimit    = 45 * time.Second
	catchUpLimit     = 60 * time.Second
	callLimit        = 60 * time.Second
	testLimit        = 4 * time.Minute
	deviationsExpect = "SELECT count(*) FROM chainify.deviations WHERE cured_by IS NOT NULL AND tbl = 'public.checking'"
)

// seed is CHAINIFY_E2E_SEED, else the clock; always printed.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if text := os.Getenv("CHAINIFY_E2E_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("CHAINIFY_E2E_SEED: %v", err)
		}
	}
	t.Logf("seed %d (repeat with CHAINIFY_E2E_SEED=%d)", s, s)
	return s
}

// newNetwork makes four organisations with the bank on the ledger, all serving.
func newNetwork(ctx context.Context, t *testing.T) *harness.Network {
	t.Helper()
	return networkOf(ctx, t, harness.Config{Organisations: []string{"acme", "bolt", "cargo", "delta"}})
}

// networkOf is newNetwork with the organisations and the consent of cfg.
func networkOf(ctx context.Context, t *testing.T, cfg harness.Config) *harness.Network {
	t.Helper()
	pg, bin := os.Getenv("CHAINIFY_E2E_PG"), os.Getenv("CHAINIFY_E2E_BIN")
	if os.Getenv("CHAINIFY_E2E") == "" {
		t.Skip("a network of processes takes minutes: run by make e2e (CHAINIFY_E2E=1)")
	}
	parent, err := os.MkdirTemp("/tmp", "chainify-e2e-")
	must(t, err)
	must(t, os.Chmod(parent, 0o755))
	cfg.Dir, cfg.PG, cfg.Chainify, cfg.Database = filepath.Join(parent, "net"), pg, bin, database
	net, err := harness.New(ctx, cfg)
	must(t, err)
	t.Cleanup(func() {
		err := net.Close()
		if t.Failed() || err != nil {
			t.Logf("data and logs are kept in %s (end: %v)", parent, err)
			return
		}
		_ = os.RemoveAll(parent)
	})
	bank := smallbank.Bank{Scripts: filepath.Join("..", "..", "scripts", "smallbank"), Customers: customers}
	must(t, net.StartDatabases(ctx))
	must(t, net.Each(func(o *harness.Organisation) error { return bank.Create(ctx, o) }))
	must(t, net.EnableChainify(ctx))
	must(t, net.Each(func(o *harness.Organisation) error { return bank.CreateRoles(ctx, o) }))
	must(t, net.Each(func(o *harness.Organisation) error {
		return o.Exec(ctx, "postgres", "REVOKE DELETE ON accounts FROM bank")
	}))
	must(t, net.InitNodes(ctx))
	for _, o := range net.Orderers {
		must(t, o.StartNode())
	}
	must(t, net.Each((*harness.Organisation).StartNode))
	must(t, net.Each(func(o *harness.Organisation) error { return o.WaitServing(ctx, readyLimit) }))
	for _, o := range net.Orderers {
		must(t, o.WaitServing(ctx, readyLimit))
	}
	must(t, smallbank.Attach(ctx, net.Organisations[0]))
	return net
}

// Under load from all sides: every fault below hits another organisation, the others go on, and in the end every
// answered transaction is in every ledger exactly once, with the outcome that was answered.
func TestNetworkSurvivesFaults(t *testing.T) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(ctx, testLimit)
	t.Cleanup(cancel)
	net := newNetwork(ctx, t)
	seed := seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))

	var load sync.WaitGroup
	record := &recorder{}
	loadCtx, stopLoad := context.WithCancel(ctx)
	t.Cleanup(func() { stopLoad(); load.Wait() })
	for i := range clientsEach * len(net.Organisations) {
		load.Add(1)
		go func() {
			defer load.Done()
			client(loadCtx, net.Organisations[i%len(net.Organisations)], rand.New(rand.NewPCG(seed, uint64(i+1))), record)
		}()
	}

	faults := []struct {
		name string
		do   func(context.Context, *testing.T, *harness.Network, *harness.Organisation)
	}{
		{"node killed", killNode},
		{"postgres killed", killPostgres},
		{"row tampered with", tamper},
		{"organisation stopped", stopOrganisation},
		{"node and postgres killed together", killBoth},
	}
	order := rng.Perm(len(net.Organisations))
	for i, fault := range faults {
		o := net.Organisations[order[i%len(order)]]
		started := time.Now()
		progress(ctx, t, net.Organisations, blocksPerFault)
		t.Logf("%s: %s", fault.name, o.Name)
		fault.do(ctx, t, net, o)
		t.Logf("%s: %s over it after %s", fault.name, o.Name, time.Since(started).Round(time.Millisecond))
	}
	progress(ctx, t, net.Organisations, blocksPerFault)
	stopLoad()
	load.Wait()

	tip, err := harness.WaitSame(ctx, net.Organisations, 1, catchUpLimit)
	must(t, err)
	t.Logf("all at block %d, %d answered, %d unanswered", tip.Number, len(record.answers), record.unanswered)
	for _, err := range record.unexpected[:min(5, len(record.unexpected))] {
		t.Errorf("error that no fault explains: %v", err)
	}
	for _, o := range net.Organisations {
		checkVerified(ctx, t, o)
		checkAnswers(ctx, t, o, record.answers)
	}
	checkSameTransactions(ctx, t, net)
	checkFailureKinds(t, record.answers)
	checkNoQuorum(ctx, t, net)
}

// progress waits until each of the organisations has committed so many more blocks.
func progress(ctx context.Context, t *testing.T, organisations []*harness.Organisation, blocks uint64) {
	t.Helper()
	want := make([]uint64, len(organisations))
	for i, o := range organisations {
		from, err := o.Tip(ctx)
		must(t, err)
		want[i] = from.Number + blocks
	}
	for i, o := range organisations {
		reaches(ctx, t, o, want[i], progressLimit)
	}
}

// reaches waits until the organisation has committed a block.
func reaches(ctx context.Context, t *testing.T, o *harness.Organisation, block uint64, limit time.Duration) {
	t.Helper()
	must(t, harness.Poll(ctx, limit, fmt.Sprintf("block %d at %s", block, o.Name), func(ctx context.Context) (bool, string, error) {
		tip, err := o.Tip(ctx)
		if err != nil {
			return false, err.Error(), nil
		}
		return tip.Number >= block, fmt.Sprintf("at %d", tip.Number), nil
	}))
}

// caughtUp waits until o has the block that another organisation has now.
func caughtUp(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation) {
	t.Helper()
	want, err := others(net, o)[0].Tip(ctx)
	must(t, err)
	reaches(ctx, t, o, want.Number, catchUpLimit)
}

func others(net *harness.Network, o *harness.Organisation) []*harness.Organisation {
	var out []*harness.Organisation
	for _, other := range net.Organisations {
		if other != o {
			out = append(out, other)
		}
	}
	return out
}

func killNode(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation) {
	o.KillNode()
	progress(ctx, t, others(net, o), blocksPerFault)
	must(t, o.StartNode())
	caughtUp(ctx, t, net, o)
}

func killPostgres(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation) {
	o.Cluster.Kill()
	progress(ctx, t, others(net, o), blocksPerFault)
	must(t, o.Cluster.Start(ctx))
	caughtUp(ctx, t, net, o)
}

func killBoth(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation) {
	o.KillNode()
	o.Cluster.Kill()
	progress(ctx, t, others(net, o), blocksPerFault)
	must(t, o.Cluster.Start(ctx))
	must(t, o.StartNode())
	caughtUp(ctx, t, net, o)
}

func stopOrganisation(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation) {
	must(t, o.StopNode())
	must(t, o.Cluster.Stop())
	progress(ctx, t, others(net, o), blocksPerFault)
	must(t, o.StartNode()) // before its database: it has to wait for it
	must(t, o.Cluster.Start(ctx))
	caughtUp(ctx, t, net, o)
}

// tamper changes rows that the load touches again soon; the organisation has to notice and repair by itself.
func tamper(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation) {
	must(t, o.Exec(ctx, "postgres", "SET chainify.guard = off; ALTER TABLE checking DISABLE TRIGGER ALL;"+
		"UPDATE checking SET balance = balance + 1000000 WHERE custid % 10 = 3; ALTER TABLE checking ENABLE TRIGGER ALL"))
	must(t, harness.Poll(ctx, progressLimit, "repair at "+o.Name, func(ctx context.Context) (bool, string, error) {
		var n int
		err := o.Scan(ctx, deviationsExpect, &n)
		return n > 0, "no cured deviation", err
	}))
	progress(ctx, t, others(net, o), 1)
	caughtUp(ctx, t, net, o)
}

// checkVerified has the organisation verify its ledger and tables; a finding fails the test.
func checkVerified(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	checks := map[string]string{"verify_ledger": "SELECT string_agg(v::text, '; ') FROM (SELECT * FROM chainify.verify_ledger() LIMIT 5) v"}
	for _, table := range smallbank.Tables {
		checks["verify_table "+table] = "SELECT string_agg(v::text, '; ') FROM (SELECT * FROM chainify.verify_table('" + table + "') LIMIT 5) v"
	}
	for name, sql := range checks {
		var findings *string
		must(t, o.Scan(ctx, sql, &findings))
		if findings != nil {
			t.Errorf("%s: %s finds %s", o.Name, name, *findings)
		}
	}
}

// checkAnswers looks every answered transaction up in one organisation's ledger.
func checkAnswers(ctx context.Context, t *testing.T, o *harness.Organisation, answers []answer) {
	t.Helper()
	conn, err := o.Connect(ctx)
	must(t, err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT id, block, index, outcome, sqlstate FROM chainify.transactions")
	must(t, err)
	ledger := map[string][]answer{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var a answer
		err := row.Scan(&a.ID, &a.Block, &a.Index, &a.Succeeded, &a.SQLState)
		ledger[string(a.ID)] = append(ledger[string(a.ID)], a)
		return struct{}{}, err
	})
	must(t, err)
	wrong := 0
	for _, want := range answers {
		got := ledger[string(want.ID)]
		if len(got) == 1 && sameAnswer(got[0], want) {
			continue
		}
		if wrong++; wrong <= 5 {
			t.Errorf("%s: transaction %x answered by %s as %+v is in the ledger %d times: %+v", o.Name, want.ID, want.Organisation, want, len(got), got)
		}
	}
	for id, entries := range ledger {
		if len(entries) != 1 {
			t.Errorf("%s: transaction %x is in the ledger %d times", o.Name, id, len(entries))
		}
	}
}

func sameAnswer(a, b answer) bool {
	state := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	return bytes.Equal(a.ID, b.ID) && a.Block == b.Block && a.Index == b.Index && a.Succeeded == b.Succeeded && state(a.SQLState) == state(b.SQLState)
}

// checkSameTransactions compares all databases: blocks, outcomes and rows.
func checkSameTransactions(ctx context.Context, t *testing.T, net *harness.Network) {
	t.Helper()
	const digest = `SELECT md5(string_agg(x, ',' ORDER BY x)) FROM (
		SELECT encode(hash, 'hex') FROM chainify.ledger
		UNION ALL SELECT concat_ws(' ', encode(id, 'hex'), block, index, outcome, sqlstate) FROM chainify.transactions
		UNION ALL SELECT concat_ws(' ', 's', custid, balance) FROM savings
		UNION ALL SELECT concat_ws(' ', 'c', custid, balance) FROM checking) AS all_rows (x)`
	var first string
	for i, o := range net.Organisations {
		var got string
		must(t, o.Scan(ctx, digest, &got))
		if i == 0 {
			first = got
		}
		if got != first {
			t.Errorf("ledger, outcomes or rows of %s differ from those of %s", o.Name, net.Organisations[0].Name)
		}
	}
}

// checkFailureKinds expects that the load did fail in the ways it is meant to, each reported with its SQLSTATE.
func checkFailureKinds(t *testing.T, answers []answer) {
	t.Helper()
	kinds := map[string]int{}
	for _, a := range answers {
		switch {
		case a.Succeeded:
			kinds["succeeded"]++
		case a.SQLState != nil:
			kinds[*a.SQLState]++
		}
	}
	t.Logf("outcomes: %v", kinds)
	for _, want := range []string{"succeeded", "23514", "42601", "42501"} {
		if kinds[want] == 0 {
			t.Errorf("no transaction with outcome %s among %d", want, len(answers))
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the test's limit of %s is over: %v", testLimit, err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
