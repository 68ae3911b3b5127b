// Package e2e tests whole networks: processes and real databases. Faults under load are in package
// faults.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/smallbank"
)

const (
	database      = "bank"
	customers     = 400
	readyLimit    = 5 * time.Minute
	progressLimit = 4 * time.Minute
	catchUpLimit  = 5 * time.Minute
	testLimit     = 20 * time.Minute

	indexedCustomers = 5000
)

// newNetwork makes four organisations with the bank on the ledger, all serving.
func newNetwork(ctx context.Context, t *testing.T) *harness.Network {
	t.Helper()
	return networkOf(ctx, t, harness.Config{Organisations: []string{"acme", "bolt", "cargo", "delta"}})
}

// networkOf is newNetwork with the organisations and the consent of cfg.
func networkOf(ctx context.Context, t *testing.T, cfg harness.Config) *harness.Network {
	t.Helper()
	return networkWith(ctx, t, cfg, customers)
}

// indexedNetwork is newNetwork with so many customers that PostgreSQL finds one by the primary key.
func indexedNetwork(ctx context.Context, t *testing.T) *harness.Network {
	t.Helper()
	net := networkWith(ctx, t, harness.Config{Organisations: []string{"acme", "bolt", "cargo", "delta"}}, indexedCustomers)
	for _, o := range net.Organisations {
		var plan string
		must(t, o.Scan(ctx, "EXPLAIN (COSTS off, FORMAT json) SELECT balance FROM checking WHERE custid = 1", &plan))
		if !strings.Contains(plan, "checking_pkey") {
			t.Fatalf("%s does not use the index: %s", o.Name, plan)
		}
	}
	return net
}

func networkWith(ctx context.Context, t *testing.T, cfg harness.Config, customers int) *harness.Network {
	t.Helper()
	net := emptyNetwork(ctx, t, cfg)
	bank := smallbank.Bank{Scripts: filepath.Join("..", "..", "scripts", "smallbank"), Customers: customers}
	must(t, bank.Open(ctx, net, readyLimit, func(o *harness.Organisation) error {
		return o.Exec(ctx, "postgres", "REVOKE DELETE ON accounts FROM bank")
	}))
	return net
}

// emptyNetwork makes the clusters and starts nothing; they end with the test.
func emptyNetwork(ctx context.Context, t *testing.T, cfg harness.Config) *harness.Network {
	t.Helper()
	pg, bin := os.Getenv("CHAINIFY_E2E_PG"), os.Getenv("CHAINIFY_E2E_BIN")
	if os.Getenv("CHAINIFY_E2E") == "" {
		t.Skip("a network of processes takes minutes: run by make e2e (CHAINIFY_E2E=1)")
	}
	if cfg.Clocks {
		bin = os.Getenv("CHAINIFY_E2E_CLOCK")
	}
	parent, err := os.MkdirTemp("", "chainify-e2e-")
	must(t, err)
	must(t, os.Chmod(parent, 0o755))
	cfg.Dir, cfg.PG, cfg.Chainify, cfg.Database = filepath.Join(parent, "net"), pg, bin, database
	cfg.OtherPG = filepath.SplitList(os.Getenv("CHAINIFY_E2E_OTHER_PG"))
	net, err := harness.New(ctx, cfg)
	must(t, err)
	t.Cleanup(func() {
		err := net.Close()
		if t.Failed() || err != nil {
			t.Logf("data and logs are in %s (end: %v); make keeps logs, and data with KEEP=1", parent, err)
			return
		}
		_ = os.RemoveAll(parent)
	})
	return net
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

// follows waits until o has the block that the other organisation has now.
func follows(ctx context.Context, t *testing.T, o, other *harness.Organisation) {
	t.Helper()
	want, err := other.Tip(ctx)
	must(t, err)
	reaches(ctx, t, o, want.Number, catchUpLimit)
}

// caughtUp waits until o has the block that another organisation has now.
func caughtUp(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation) {
	t.Helper()
	follows(ctx, t, o, others(net, o)[0])
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

// checkVerified has the organisation verify its ledger and tables; a finding fails the test.
func checkVerified(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	checks := map[string]string{"verify_ledger": "SELECT string_agg(v::text, '; ') FROM (SELECT * FROM chainify.verify_ledger() LIMIT 5) v"}
	for _, table := range smallbank.Tables {
		checks["verify_table "+table] = "SELECT string_agg(v::text, '; ') FROM (SELECT * FROM chainify.verify_table('" + table + "') LIMIT 5) v"
	}
	storesCertificates(ctx, t, o)
	for name, sql := range checks {
		var findings *string
		must(t, o.Scan(ctx, sql, &findings))
		if findings != nil {
			t.Errorf("%s: %s finds %s", o.Name, name, *findings)
		}
	}
}

// storesCertificates waits for the certificates of all blocks but the last one. A node that catches
// up executes blocks first.
func storesCertificates(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	appears(ctx, t, o, "SELECT WHERE NOT EXISTS (SELECT FROM chainify.verify_ledger() v WHERE v.what = 'certificate missing')")
}

// waitSame waits until all organisations have the same last block, of this number or a later one.
func waitSame(ctx context.Context, t *testing.T, all []*harness.Organisation, number uint64) {
	t.Helper()
	_, err := harness.WaitSame(ctx, all, number, catchUpLimit)
	must(t, err)
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

func must(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the test's limit of %s is over: %v", testLimit, err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
