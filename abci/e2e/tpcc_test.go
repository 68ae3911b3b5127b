package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

var (
	// tpccSummary are the lines of go-tpc's report that count transactions, and those that failed.
	tpccSummary = regexp.MustCompile(`(?m)^\[Summary\] \w+ .*Count: \d+`)
	tpccPaid    = regexp.MustCompile(`(?m)^\[Summary\] PAYMENT .*Count: (\d+)`)
)

// tpccHistory is the number of payments in a new warehouse.
const tpccHistory = 30000

// go-tpc runs TPC-C unmodified at all organisations at once, on one warehouse. It has no retry, so
// it leaves out transactions that meet 40001 (--ignore-error). Each payment that succeeded is there
// once, and TPC-C's own conditions hold.
func TestTPCCRunsUnmodified(t *testing.T) {
	dir := applications(t, "tpcc")
	t.Parallel()
	ctx := underTest(t)
	const threads, transactions = 2, 40
	tpcc := func(o *harness.Organisation, role, command string, options ...string) (string, error) {
		return runs(ctx, o, role, nil, filepath.Join(dir, "go-tpc"), append([]string{
			"tpcc", command, "-d", "postgres", "-H", `""`, "-P", fmt.Sprint(o.Cluster.Port), "-U", role, "-D", database,
			"--conn-params", "sslmode=disable&host=" + o.Cluster.SocketDir, "--warehouses", "1",
		}, options...)...)
	}
	net := applicationNetwork(ctx, t, copied(ctx, t, func(o *harness.Organisation) error {
		if _, err := tpcc(o, "postgres", "prepare", "-T", "1", "--no-check"); err != nil {
			return err
		}
		// A ledger table has a primary key.
		return o.Exec(ctx, "postgres", "ALTER TABLE history ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
	}))
	var work errgroup.Group
	paid := make([]int, len(net.Organisations))
	for i, o := range net.Organisations {
		work.Go(func() error {
			out, err := tpcc(o, "app", "run", "-T", fmt.Sprint(threads), "--count", fmt.Sprint(threads*transactions), "--ignore-error", "--silence")
			if err != nil {
				return err
			}
			t.Logf("%s: %s", o.Name, strings.Join(tpccSummary.FindAllString(out, -1), "; "))
			found := tpccPaid.FindStringSubmatch(out)
			if found == nil {
				return fmt.Errorf("%s: no payment succeeded:\n%s", o.Name, out)
			}
			paid[i], err = strconv.Atoi(found[1])
			return err
		})
	}
	must(t, work.Wait())
	waitSame(ctx, t, net.Organisations, 1)
	want := tpccHistory
	for _, payments := range paid {
		want += payments
	}
	for _, o := range net.Organisations {
		storesCertificates(ctx, t, o)
	}
	must(t, net.Each(func(o *harness.Organisation) error {
		var payments, findings int
		err := o.Scan(ctx, "SELECT (SELECT count(*) FROM history), (SELECT count(*) FROM chainify.verify_ledger())", &payments, &findings)
		if err == nil && (payments != want || findings != 0) {
			err = fmt.Errorf("%s: %d payments, want %d; %d findings", o.Name, payments, want, findings)
		}
		return err
	}))
	// One check takes a minute, and the other organisations have the same rows.
	out, err := tpcc(net.Organisations[0], "app", "check")
	must(t, err)
	if strings.Contains(out, "failed") {
		t.Errorf("TPC-C's conditions do not hold:\n%s", out)
	}
	checkSame(ctx, t, net, `SELECT md5(string_agg(d::text, ',' ORDER BY d_id)) || (SELECT md5(string_agg(w::text, ',')) FROM warehouse w)
		|| (SELECT md5(string_agg(h::text, ',' ORDER BY id)) FROM history h) FROM district d`)
}
