// Package smallbank sets up the Smallbank tables in a network of organisations. It loads them with
// pgbench, by SQL that every organisation executes or by plain SQL.
package smallbank

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// Tables are the ledger tables, in the order in which they are attached.
var Tables = []string{"accounts", "savings", "checking"}

// transactions are the pgbench scripts; each is drawn equally often.
var transactions = []string{"balance", "deposit_checking", "transact_savings", "amalgamate", "write_check", "send_payment"}

// Bank is the workload: its scripts and its size.
type Bank struct {
	Scripts   string // directory of the pgbench scripts, with setup/ below it
	Customers int
	// Engines is for networks of several engines: the tables are those that all of them can have,
	// without CHECK, and pgbench's scripts do not run there.
	Engines bool
}

// Create makes and fills the tables of one organisation, with plain SQL, in a physical order of its
// own.
func (b Bank) Create(ctx context.Context, o *harness.Organisation) error {
	if b.Engines {
		return b.createEngines(ctx, o)
	}
	schema, err := os.ReadFile(filepath.Join(b.Scripts, "setup", "schema.sql"))
	if err != nil {
		return err
	}
	fill, err := os.ReadFile(filepath.Join(b.Scripts, "setup", "fill.sql"))
	if err != nil {
		return err
	}
	call := fmt.Sprintf("SELECT pg_temp.fill(%d, '%s')", b.Customers, o.Name)
	if err := o.Exec(ctx, "postgres", string(schema)+string(fill)+call); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return o.Exec(ctx, "postgres", "VACUUM ANALYZE")
}

// CreateRoles makes the client and administrator roles in one organisation; the extension, or the
// ledger of a MariaDB, must be there.
func (b Bank) CreateRoles(ctx context.Context, o *harness.Organisation) error {
	roles, err := b.rolesOf(ctx, o)
	if err != nil {
		return err
	}
	if err := o.Administer(ctx, roles); err != nil {
		return fmt.Errorf("create roles: %w", err)
	}
	return nil
}

// Attach puts the tables on the ledger, through one organisation for all.
func Attach(ctx context.Context, o *harness.Organisation) error {
	quoted := make([]string, len(Tables))
	for i, t := range Tables {
		quoted[i] = "'" + t + "'"
	}
	return o.Exec(ctx, "dba", "SELECT chainify.attach("+strings.Join(quoted, ", ")+")")
}

// Run is one pgbench run against one organisation.
type Run struct {
	Clients      int
	Transactions int // per client; ignored when Seconds is set
	Seconds      int
	Seed         int64
	LogPrefix    string // pgbench's per-transaction logs are written beside it
}

// Load runs pgbench to its end. A transaction that the ledger reports as failed is an answer, not
// an error; an error is a statement that was not answered.
func (b Bank) Load(ctx context.Context, o *harness.Organisation, database string, run Run) error {
	scripts := make([]string, len(transactions))
	for i, t := range transactions {
		scripts[i] = t + ".sql"
	}
	_, err := b.pgbench(ctx, o, database, run, nil, scripts)
	return err
}

func (b Bank) pgbench(ctx context.Context, o *harness.Organisation, database string, run Run, options, scripts []string) (string, error) {
	args := append([]string{
		"-h", o.Cluster.SocketDir, "-p", fmt.Sprint(o.Cluster.Port), "-U", "bank", "-n",
		"-c", fmt.Sprint(run.Clients), "-j", "1", "-D", fmt.Sprintf("customers=%d", b.Customers),
		"--random-seed", fmt.Sprint(run.Seed), "--log", "--log-prefix", run.LogPrefix,
	}, options...)
	if run.Seconds > 0 {
		args = append(args, "-T", fmt.Sprint(run.Seconds))
	} else {
		args = append(args, "-t", fmt.Sprint(run.Transactions))
	}
	for _, script := range scripts {
		args = append(args, "-f", filepath.Join(b.Scripts, script))
	}
	cmd := exec.CommandContext(ctx, o.Cluster.Bin("pgbench"), append(args, database)...)
	if options != nil {
		cmd.Env = append(os.Environ(), "PGOPTIONS="+PlainOptions)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pgbench at %s: %w\n%s", o.Name, err, lastLines(string(out), 10))
	}
	return string(out), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Latencies are the times of answered transactions, ascending.
type Latencies []time.Duration

// ReadLatencies collects the logs of runs with the given prefix.
func ReadLatencies(prefix string) (Latencies, error) {
	files, err := filepath.Glob(prefix + ".*")
	if err != nil {
		return nil, err
	}
	var all Latencies
	for _, name := range files {
		if all, err = appendLatencies(all, name); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	slices.Sort(all)
	return all, nil
}

// appendLatencies reads lines of: client, transaction, latency in µs, script, seconds,
// microseconds.
func appendLatencies(all Latencies, name string) (Latencies, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 {
			return nil, fmt.Errorf("line of %d fields, want 6: %q", len(fields), lines.Text())
		}
		us, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			continue // "failed" or "skipped" in place of a time
		}
		all = append(all, time.Duration(us)*time.Microsecond)
	}
	return all, lines.Err()
}

// Quantile gives the latency that a share q (0 to 1) of the transactions does not exceed; 0 when
// there are none.
func (l Latencies) Quantile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[min(len(l)-1, int(q*float64(len(l))))]
}
