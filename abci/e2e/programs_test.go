package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// programLimit bounds one run of a program.
const programLimit = 10 * time.Minute

// applications gives the directory in which scripts/setup-applications put the programs. The test
// is skipped when the script was not run, or could not get the program. It says which and why.
func applications(t *testing.T, program string) string {
	t.Helper()
	dir := os.Getenv("CHAINIFY_E2E_APPLICATIONS")
	if dir == "" {
		t.Skipf("%s is not set up: run by make applications (CHAINIFY_E2E_APPLICATIONS)", program)
	}
	missing, err := os.ReadFile(filepath.Join(dir, "missing", program))
	if err == nil {
		t.Skipf("%s is missing: %s", program, missing)
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return dir
}

// underTest is a context that ends with the test, by a signal, or when its time is over.
func underTest(t *testing.T) context.Context {
	t.Helper()
	return underTestFor(t, testLimit)
}

// underTestFor is underTest with a limit of its own.
func underTestFor(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(ctx, limit)
	t.Cleanup(cancel)
	return ctx
}

// letDefine lets the role that deploys own tables of the schema public, in every organisation.
func letDefine(ctx context.Context, t *testing.T, net *harness.Network) {
	t.Helper()
	must(t, net.Each(func(o *harness.Organisation) error {
		return o.Exec(ctx, "postgres", "GRANT CREATE ON SCHEMA public TO dba")
	}))
}

// runs runs a program against the organisation's database. It is told the database by libpq's
// variables alone, and it gives what the program printed. Further variables are NAME=value.
func runs(ctx context.Context, o *harness.Organisation, role string, variables []string, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, programLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "PGHOST="+o.Cluster.SocketDir, fmt.Sprintf("PGPORT=%d", o.Cluster.Port), "PGUSER="+role, "PGDATABASE="+database)
	cmd.Env = append(cmd.Env, variables...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s at %s: %w\n%s", filepath.Base(path), o.Name, err, out)
	}
	return string(out), err
}

// everywhere runs a program at all organisations at once, each with its number as last argument.
func everywhere(ctx context.Context, t *testing.T, net *harness.Network, path string, args ...string) []string {
	t.Helper()
	printed := make([]string, len(net.Organisations))
	var work errgroup.Group
	for i, o := range net.Organisations {
		work.Go(func() (err error) {
			printed[i], err = runs(ctx, o, "app", nil, path, append(args[:len(args):len(args)], strconv.Itoa(i))...)
			return err
		})
	}
	must(t, work.Wait())
	for i, o := range net.Organisations {
		t.Logf("%s: %s", o.Name, strings.TrimSpace(printed[i]))
	}
	return printed
}

// copied has the first organisation make its tables, and gives the others a dump of them: rows that
// hold the time of their making are then the same everywhere.
func copied(ctx context.Context, t *testing.T, first func(*harness.Organisation) error) func(*harness.Organisation) error {
	file := filepath.Join(t.TempDir(), "tables.sql")
	var make sync.Once
	var failed error
	return func(o *harness.Organisation) error {
		made := false
		make.Do(func() {
			made = true
			if failed = first(o); failed == nil {
				_, failed = program(ctx, o, "postgres", "pg_dump", "-f", file)
			}
		})
		if made || failed != nil {
			return failed
		}
		_, err := program(ctx, o, "postgres", "psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", file)
		return err
	}
}

// checkTables waits for the same block everywhere. It compares all tables of schema public, and
// has every organisation verify its ledger and these tables.
func checkTables(ctx context.Context, t *testing.T, net *harness.Network) {
	t.Helper()
	waitSame(ctx, t, net.Organisations, 1)
	conn, err := net.Organisations[0].Connect(ctx)
	must(t, err)
	defer conn.Close(context.WithoutCancel(ctx))
	found, err := conn.Query(ctx, "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1")
	must(t, err)
	tables, err := pgx.CollectRows(found, pgx.RowTo[string])
	must(t, err)
	var rows strings.Builder
	for _, table := range tables {
		fmt.Fprintf(&rows, " || coalesce((SELECT md5(string_agg(x::text, ',' ORDER BY x::text)) FROM %s x), '-')", table)
	}
	checkSame(ctx, t, net, "SELECT ''"+rows.String())
	for _, o := range net.Organisations {
		storesCertificates(ctx, t, o)
	}
	must(t, net.Each(func(o *harness.Organisation) error {
		var findings *string
		err := o.Scan(ctx, `SELECT string_agg(v, '; ') FROM (SELECT v::text FROM chainify.verify_ledger() v
			UNION ALL SELECT v::text FROM unnest(string_to_array('`+strings.Join(tables, ",")+`', ',')) t, chainify.verify_table(t) v LIMIT 5) all_findings (v)`, &findings)
		if findings != nil {
			t.Errorf("%s: verification finds %s", o.Name, *findings)
		}
		return err
	}))
}

// ledgered counts the transactions of plain SQL on the ledger that took effect.
func ledgered(ctx context.Context, t *testing.T, o *harness.Organisation) (count int) {
	t.Helper()
	must(t, o.Scan(ctx, "SELECT count(*) FROM chainify.transactions WHERE outcome AND kind = 'effects'", &count))
	return count
}
