package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// sysbenchCounts are the lines of sysbench's report that tell of transactions and retries.
var sysbenchCounts = regexp.MustCompile(`(?m)^ +(?:transactions|ignored errors|reconnects): +(\d+)`)

// sysbench's own scripts run unmodified at all organisations at once, with and without prepared
// statements. By itself sysbench runs an event again after 40001, on the same connection.
func TestSysbenchRunsUnmodified(t *testing.T) {
	applications(t, "sysbench")
	t.Parallel()
	ctx := underTest(t)
	const tables, rows, events, threads = 2, 1000, 40, 2
	sysbench := func(o *harness.Organisation, role, script, command string, options ...string) (string, error) {
		return runs(ctx, o, role, nil, "sysbench", append([]string{
			"--db-driver=pgsql", "--pgsql-host=" + o.Cluster.SocketDir, fmt.Sprintf("--pgsql-port=%d", o.Cluster.Port),
			"--pgsql-user=" + role, "--pgsql-db=" + database, "--pgsql-password=", fmt.Sprintf("--tables=%d", tables),
			fmt.Sprintf("--table-size=%d", rows), script, command,
		}, options...)...)
	}
	net := applicationNetwork(ctx, t, copied(ctx, t, func(o *harness.Organisation) error {
		_, err := sysbench(o, "postgres", "oltp_write_only", "prepare")
		return err
	}))
	want := 0
	for _, script := range []string{"oltp_write_only", "oltp_read_write", "oltp_insert"} {
		for _, mode := range []string{"auto", "disable"} {
			var work errgroup.Group
			for _, o := range net.Organisations {
				work.Go(func() error {
					out, err := sysbench(o, "app", script, "run", "--db-ps-mode="+mode, fmt.Sprintf("--threads=%d", threads), fmt.Sprintf("--events=%d", events), "--time=0")
					counts := sysbenchCounts.FindAllStringSubmatch(out, -1)
					if err == nil && (len(counts) != 3 || counts[0][1] != fmt.Sprint(events) || counts[2][1] != "0") {
						err = fmt.Errorf("%s at %s: want %d transactions and no reconnects in\n%s", script, o.Name, events, out)
					}
					t.Logf("%s, %s at %s: %s", script, mode, o.Name, strings.Join(sysbenchCounts.FindAllString(out, -1), ","))
					return err
				})
			}
			must(t, work.Wait())
			want += len(net.Organisations) * events
		}
	}
	checkTables(ctx, t, net)
	for _, o := range net.Organisations {
		var counted int
		must(t, o.Scan(ctx, "SELECT (SELECT count(*) FROM sbtest1) + (SELECT count(*) FROM sbtest2)", &counted))
		// A third of the transactions insert a row each; the others leave as many as there were.
		if got := ledgered(ctx, t, o); got != want || counted != tables*rows+want/3 {
			t.Errorf("%s: %d transactions on the ledger, want %d; %d rows, want %d", o.Name, got, want, counted, tables*rows+want/3)
		}
	}
}
