package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// applicationRoles are the roles of an application that knows nothing of the ledger, and of its
// administrator. The setting is all that makes its sessions go through the ledger.
const applicationRoles = `
	CREATE ROLE app LOGIN IN ROLE chainify_client;
	CREATE ROLE dba LOGIN IN ROLE chainify_admin;
	ALTER ROLE app SET chainify.writes = 'effects';
	GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA public TO app;
	GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO app`

// applicationNetwork makes four organisations, in whose databases fill makes the same tables, and
// puts all tables of schema public on the ledger.
func applicationNetwork(ctx context.Context, t *testing.T, fill func(*harness.Organisation) error) *harness.Network {
	t.Helper()
	net := emptyNetwork(ctx, t, harness.Config{Organisations: []string{"acme", "bolt", "cargo", "delta"}})
	must(t, net.StartDatabases(ctx))
	must(t, net.Each(fill))
	must(t, net.EnableChainify(ctx))
	must(t, net.Each(func(o *harness.Organisation) error { return o.Exec(ctx, "postgres", applicationRoles) }))
	must(t, net.InitNodes(ctx))
	must(t, net.StartNodes(ctx, readyLimit))
	must(t, net.Organisation("acme").Exec(ctx, "dba", `SELECT chainify.attach(VARIADIC array_agg(oid::regclass::text ORDER BY relname))
		FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`))
	return net
}

// program runs a program of the organisation's PostgreSQL against its database, and gives what it
// printed.
func program(ctx context.Context, o *harness.Organisation, role, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, o.Cluster.Bin(name), args...)
	cmd.Env = append(os.Environ(), "PGHOST="+o.Cluster.SocketDir, fmt.Sprintf("PGPORT=%d", o.Cluster.Port), "PGUSER="+role, "PGDATABASE="+database)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s at %s: %w\n%s", name, o.Name, err, out)
	}
	return string(out), nil
}

// pgbench's own scripts run unmodified at all organisations at once. A client that loses against a
// block tries again, as its option says, and no client loses its connection.
func TestPgbenchRunsUnmodified(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := applicationNetwork(ctx, t, func(o *harness.Organisation) error {
		_, err := program(ctx, o, "postgres", "pgbench", "-i", "-q")
		// A ledger table has a primary key.
		return errors.Join(err, o.Exec(ctx, "postgres", "ALTER TABLE pgbench_history ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"))
	})
	const clients = 2
	// All transactions of tpcb-like change the one row of pgbench_branches.
	scripts := map[string]int{"tpcb-like": 5, "simple-update": 50}
	all := 0
	for script, transactions := range scripts {
		all += len(net.Organisations) * clients * transactions
		var work errgroup.Group
		for _, o := range net.Organisations {
			work.Go(func() error {
				out, err := program(ctx, o, "app", "pgbench", "-n", "-b", script, "-c", fmt.Sprint(clients), "-t", fmt.Sprint(transactions), "--max-tries", "1000")
				if want := fmt.Sprintf("number of transactions actually processed: %d/%d", clients*transactions, clients*transactions); err == nil && !strings.Contains(out, want) {
					err = fmt.Errorf("%s at %s: want %q in\n%s", script, o.Name, want, out)
				}
				t.Logf("%s at %s: %s", script, o.Name, strings.Join(regexp.MustCompile(`(?m)^(?:number of transactions (?:retried|failed)|total number of retries|tps).*$`).FindAllString(out, -1), ", "))
				return err
			})
		}
		must(t, work.Wait())
	}
	waitSame(ctx, t, net.Organisations, 1)
	for _, o := range net.Organisations {
		var history int
		var same bool
		must(t, o.Scan(ctx, `SELECT count(*), sum(delta) = (SELECT sum(abalance) FROM pgbench_accounts)
			FROM pgbench_history`, &history, &same))
		if history != all || !same {
			t.Errorf("%s: %d rows of history, want %d; sums are equal: %t", o.Name, history, all, same)
		}
	}
	checkSame(ctx, t, net, "SELECT md5(string_agg(h::text, ',' ORDER BY id)) || (SELECT md5(string_agg(a::text, ',' ORDER BY aid)) FROM pgbench_accounts a) FROM pgbench_history h")
}

// checkSame compares the result of a query between all organisations.
func checkSame(ctx context.Context, t *testing.T, net *harness.Network, sql string) {
	t.Helper()
	var first string
	for i, o := range net.Organisations {
		var got string
		must(t, o.Scan(ctx, sql, &got))
		if i == 0 {
			first = got
		}
		if got != first {
			t.Errorf("%s has other rows than %s", o.Name, net.Organisations[0].Name)
		}
	}
}
