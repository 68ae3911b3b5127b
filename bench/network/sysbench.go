package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/workload"
)

const (
	sysbenchTables  = 4
	sysbenchRows    = 10_000
	sysbenchClients = 16
	sysbenchOurs    = "sysbench oltp_write_only, chainify, 4 organisations"
	sysbenchTheirs  = "sysbench oltp_write_only, Galera, 4 members"
)

// sysbenchSchema are the tables of sysbench's own script, the same in each database. Keys come from
// the script, so no sequence is drawn from.
func sysbenchSchema() workload.Schema {
	s := workload.Schema{Name: "sysbench", SQL: "CREATE SCHEMA sysbench;"}
	for i := 1; i <= sysbenchTables; i++ {
		table := fmt.Sprintf("sysbench.sbtest%d", i)
		s.SQL += fmt.Sprintf("CREATE TABLE %[1]s (id int PRIMARY KEY, k int NOT NULL DEFAULT 0, c char(120) NOT NULL DEFAULT '', pad char(60) NOT NULL DEFAULT ''); CREATE INDEX ON %[1]s (k);", table)
		s.Fill += fmt.Sprintf("INSERT INTO %s SELECT g, g, repeat(g::text || '-', 12), repeat(g::text || '-', 6) FROM generate_series(1, %d) g;", table, sysbenchRows)
		s.Tables = append(s.Tables, table)
	}
	return s
}

// connection is how sysbench reaches one server.
type connection struct{ options, environment []string }

func (c connection) sysbench(ctx context.Context, more ...string) (string, error) {
	args := append([]string{
		fmt.Sprintf("--tables=%d", sysbenchTables), fmt.Sprintf("--table-size=%d", sysbenchRows), "--rand-type=uniform", "--percentile=95",
	}, c.options...)
	cmd := exec.CommandContext(ctx, "sysbench", append(append(args, "oltp_write_only"), more...)...)
	cmd.Env = append(os.Environ(), c.environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("sysbench: %w\n%s", err, out)
	}
	return string(out), nil
}

func sysbenchPrepares(ctx context.Context, at connection) error {
	_, err := at.sysbench(ctx, "prepare")
	return err
}

var (
	sysbenchDone    = regexp.MustCompile(`(?m)^ +transactions: +(\d+) +\((\d+\.\d+) per sec\.\)`)
	sysbenchIgnored = regexp.MustCompile(`(?m)^ +ignored errors: +(\d+)`)
	sysbench95th    = regexp.MustCompile(`(?m)^ +95th percentile: +(\d+\.\d+)`)
)

// result of one run of sysbench.
type sysbenchResult struct {
	count, tries int
	rate, p95    float64
}

func readSysbench(out string) (r sysbenchResult, err error) {
	done, ignored, late := sysbenchDone.FindStringSubmatch(out), sysbenchIgnored.FindStringSubmatch(out), sysbench95th.FindStringSubmatch(out)
	if done == nil || ignored == nil || late == nil {
		return r, fmt.Errorf("a report of sysbench without transactions, errors or latencies:\n%s", out)
	}
	var errs [4]error
	r.count, errs[0] = strconv.Atoi(done[1])
	r.rate, errs[1] = strconv.ParseFloat(done[2], 64)
	r.tries, errs[2] = strconv.Atoi(ignored[1])
	r.p95, errs[3] = strconv.ParseFloat(late[1], 64)
	return r, errors.Join(errs[:]...)
}

// bySysbench runs clients at the servers, spread over all of them; a lone one at the first.
// sysbench itself repeats a transaction that loses.
func bySysbench(at []connection, clients, seconds int, seed uint64, after func(context.Context) error) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (load, error) {
		each, used := clients/len(at), at
		if clients < len(at) {
			each, used = clients, at[:1]
		}
		results := make([]sysbenchResult, len(used))
		group, groupCtx := errgroup.WithContext(ctx)
		for i, c := range used {
			group.Go(func() error {
				out, err := c.sysbench(groupCtx, "run", fmt.Sprintf("--threads=%d", each), fmt.Sprintf("--time=%d", seconds), fmt.Sprintf("--rand-seed=%d", 1+seed+uint64(repetition*len(at)+i)))
				if err != nil {
					return err
				}
				results[i], err = readSysbench(out)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return load{}, err
		}
		var l load
		rate, tries, p95 := 0.0, 0, 0.0
		for _, r := range results {
			l.count, rate, tries, p95 = l.count+r.count, rate+r.rate, tries+r.tries, max(p95, r.p95)
		}
		if l.count == 0 {
			return l, errors.New("sysbench committed nothing")
		}
		l.took = time.Duration(float64(l.count) / rate * float64(time.Second))
		l.more = map[string]float64{retriesOfEach: float64(tries) / float64(l.count), "p95_ms": p95}
		return l, after(ctx)
	}
}

func (c Config) galeraDirectory() string { return filepath.Join(c.Dir, "galera") }

// sysbenchSystems measure sysbench's own program through plain SQL, and beside it on Galera, when
// this machine has it.
func sysbenchSystems(ctx context.Context, o *ours, cfg Config, r *report.Report) ([]system, error) {
	if !cfg.wants(sysbenchOurs, sysbenchTheirs) {
		return nil, nil
	}
	if missing := missingForGalera(); missing != "" {
		r.Notes = append(r.Notes, fmt.Sprintf("Galera is not measured: this machine lacks %s (scripts/setup-galera).", missing))
		return nil, nil
	}
	cluster, err := newGalera(ctx, cfg.galeraDirectory(), len(plainMembers))
	if err != nil {
		return nil, fmt.Errorf("galera: %w", err)
	}
	var own, others []connection
	for i, member := range o.members() {
		own = append(own, connection{
			options: []string{
				"--db-driver=pgsql", "--pgsql-host=" + member.Cluster.SocketDir, fmt.Sprintf("--pgsql-port=%d", member.Cluster.Port),
				"--pgsql-user=" + role, "--pgsql-db=" + database, "--pgsql-password=",
			},
			environment: []string{"PGOPTIONS=-c search_path=sysbench -c chainify.writes=effects"},
		})
		others = append(others, cluster.connection(i))
	}
	var out []system
	for _, clients := range []int{1, sysbenchClients} {
		out = append(out,
			system{sysbenchOurs, float64(clients), o, bySysbench(own, clients, cfg.Seconds, cfg.Seed, o.same)},
			system{sysbenchTheirs, float64(clients), cluster, bySysbench(others, clients, cfg.Seconds, cfg.Seed, func(context.Context) error { return nil })})
	}
	return out, nil
}

// galeraFigures set plain SQL through the ledger in proportion to Galera. Neither is a target: they
// promise different things.
func galeraFigures(r *report.Report) error {
	var errs []error
	for _, clients := range []float64{1, sysbenchClients} {
		own, others := r.Find(sysbenchOurs, clients), r.Find(sysbenchTheirs, clients)
		if own == nil || others == nil {
			continue
		}
		id := fmt.Sprintf("plain.over_galera_%g", clients)
		how := fmt.Sprintf("sysbench oltp_write_only, %g clients, rows drawn evenly: plain SQL through the ledger of four organisations / Galera with four members, which trust each other and may lose an update, ", clients)
		errs = append(errs,
			r.AddRatio(id, own.Values(), others.Values(), report.Target{}, how+"by transactions a second"),
			r.AddRatio(id+"_p95", own.Details("p95_ms"), others.Details("p95_ms"), report.Target{}, how+"by the latency that 95 % do not exceed"),
			r.AddRatio(id+"_cpu", own.CPUs(), others.CPUs(), report.Target{}, how+"by processor time of all servers"))
	}
	return errors.Join(errs...)
}
