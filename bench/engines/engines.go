// Package engines measures consortia whose organisations keep different databases. Smallbank runs
// with two PostgreSQL and two MariaDB beside four PostgreSQL, in each engine's block executor
// alone, and by procedures beside the same statements. An organisation with a MariaDB puts a row
// right. Clients speak to the nodes' sockets.
package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// DefaultRows are those of the table in which a row is tampered with; ShortRows are for
// development.
const (
	DefaultRows = 1_000_000
	ShortRows   = 20_000
)

// DefaultClients are the numbers of sessions that commit single statements.
var DefaultClients = []int{1, 4, 8, 16, 32, 64}

// Config is one run.
type Config struct {
	Dir, PG, Chainify, Out            string
	Seed                              uint64
	Repeat, Seconds, Customers, Block int
	Rows                              int           // of the table in which a row is tampered with
	Clients                           []int         // that commit single statements
	Only                              []string      // of the parts; none: all, the executors beside the networks
	Settle                            time.Duration // how long the load of the set-up is waited for at most
	Progress                          io.Writer
}

// The systems of the series.
const (
	postgresEffects    = "effects, 4 PostgreSQL"
	mixedEffects       = "effects, 2 PostgreSQL and 2 MariaDB"
	postgresStatements = "order-execute, 4 PostgreSQL"
	mixedStatements    = "order-execute, 2 PostgreSQL and 2 MariaDB"
	mariaStatements    = "order-execute, 4 MariaDB"
	postgresWaited     = "order-execute, 4 PostgreSQL, a client that waits"
	mariaWaited        = "order-execute, 4 MariaDB, a client that waits"
	postgresBlock      = "block executor, PostgreSQL"
	mariaBlock         = "block executor, MariaDB"
	mariaSingle        = "single statements, MariaDB" // point: sessions
	tamperedRow        = "tampered row in a MariaDB: from its touch until its organisation is back"
)

// publishedBack is how long the heterogeneous network of the ChainifyDB paper took, in seconds.
const publishedBack = 17

// system is one of what is compared. measure does it once.
type system struct {
	name    string
	point   float64
	measure func(ctx context.Context, repetition int) (report.Sample, error)
}

// part is a set of measurements on servers of their own.
type part struct {
	name    string
	measure func(context.Context, Config, *report.Report) error
	figures func(*report.Report, Config) error
}

// executorsAlone names the part that only -only asks for: another part has it too.
const executorsAlone = "executors"

var parts = []part{
	{"throughput", throughput, func(r *report.Report, cfg Config) error {
		return errors.Join(throughputFigures(r), executorFigures(r, cfg))
	}},
	{executorsAlone, justExecutors, executorFigures},
	{"calls", calling, func(r *report.Report, _ Config) error { return callFigures(r) }},
	{"tampering", tampering, tamperingFigures},
	{"failures", failures, func(r *report.Report, _ Config) error { return failureFigures(r) }},
}

func names() (out []string) {
	for _, p := range parts {
		out = append(out, p.name)
	}
	return out
}

// chosen are the parts of a run.
func chosen(only []string) ([]part, error) {
	if len(only) == 0 {
		return slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return p.name == executorsAlone }), nil
	}
	var out []part
	for _, name := range only {
		i := slices.Index(names(), name)
		if i < 0 {
			return nil, fmt.Errorf("engines have no part %q: it is one of %s", name, strings.Join(names(), ", "))
		}
		out = append(out, parts[i])
	}
	return out, nil
}

// Run measures all parts, or those of Only, and adds series and figures.
func Run(ctx context.Context, cfg Config, r *report.Report) error {
	list, err := chosen(cfg.Only)
	if err != nil {
		return err
	}
	for _, p := range list {
		if err := p.measure(ctx, cfg, r); err != nil {
			return err
		}
		if err := p.figures(r, cfg); err != nil {
			return err
		}
	}
	return nil
}

// throughput measures networks and executors.
func throughput(ctx context.Context, cfg Config, r *report.Report) (err error) {
	var opened []interface{ end(error) error }
	defer func() {
		for _, o := range opened {
			err = errors.Join(err, o.end(err))
		}
	}()
	var systems []system
	for _, c := range []struct {
		dir, effects, statements, waited string // empty: not measured
		mariaDB                          []string
	}{
		{"postgres", postgresEffects, postgresStatements, postgresWaited, nil},
		{"mixed", mixedEffects, mixedStatements, "", organisations[2:]},
		{"mariadb", "", mariaStatements, mariaWaited, organisations},
	} {
		bank, err := openBank(ctx, cfg, c.dir, c.mariaDB)
		if bank != nil {
			opened = append(opened, bank)
		}
		if err != nil {
			return err
		}
		for _, s := range []system{{c.effects, 0, bank.effects}, {c.statements, 0, bank.statements}, {c.waited, 0, bank.waited}} {
			if s.name != "" {
				systems = append(systems, s)
			}
		}
	}
	return besideExecutors(ctx, cfg, r, systems)
}

// justExecutors measures executors without networks.
func justExecutors(ctx context.Context, cfg Config, r *report.Report) error {
	return besideExecutors(ctx, cfg, r, nil)
}

// besideExecutors measures systems and executors, interleaved.
func besideExecutors(ctx context.Context, cfg Config, r *report.Report, systems []system) (err error) {
	alone, err := openExecutors(ctx, cfg, "executors")
	if alone != nil {
		defer func() { err = errors.Join(err, alone.end(err)) }()
	}
	if err != nil {
		return err
	}
	systems = append(systems, alone.systems(cfg)...)
	if err := errors.Join(machine.Facts(r, alone.net.Dir), describe(ctx, cfg, r, alone), machine.Settle(ctx, r, cfg.Settle, cfg.Progress)); err != nil {
		return err
	}
	if err := repetitions(ctx, cfg, systems, r); err != nil {
		return err
	}
	return machine.NoteDisk(r, alone.net.Dir)
}

// repetitions measures systems, interleaved. The first repetition fills caches and makes plans, and
// does not count.
func repetitions(ctx context.Context, cfg Config, systems []system, r *report.Report) error {
	for repetition := range cfg.Repeat + 1 {
		if err := repeat(ctx, cfg, repetition, systems, r); err != nil {
			return err
		}
	}
	return nil
}

// repeat measures every system once, in an order of this repetition.
func repeat(ctx context.Context, cfg Config, repetition int, systems []system, r *report.Report) error {
	random := rand.New(rand.NewPCG(cfg.Seed, uint64(repetition)))
	for _, i := range random.Perm(len(systems)) {
		s := systems[i]
		load := machine.Load()
		sample, err := s.measure(ctx, repetition)
		if err != nil {
			return fmt.Errorf("%s, repetition %d: %w", s.name, repetition, err)
		}
		if repetition == 0 {
			continue
		}
		sample.Repetition, sample.Load = repetition, load
		r.Add(s.name, s.point, "tx/s", sample)
		fmt.Fprintf(cfg.Progress, "repetition %d/%d: %-42s %3.0f  %7.0f tx/s, %6.1f us of server CPU each, load %.1f\n",
			repetition, cfg.Repeat, s.name, s.point, sample.Value, sample.ServerCPUUS, load)
	}
	return nil
}

// ratio is a figure to be.
type ratio struct {
	id   string
	a, b []float64
	how  string
}

func addRatios(r *report.Report, ratios []ratio) error {
	for _, f := range ratios {
		if err := r.AddRatio(f.id, f.a, f.b, targets.Of(f.id), f.how); err != nil {
			return err
		}
	}
	return nil
}

// throughputFigures compares the networks.
func throughputFigures(r *report.Report) error {
	values := func(name string) []float64 { return r.Find(name, 0).Values() }
	slower := mariaBlock
	if r.Find(postgresBlock, 0).Spread.Median < r.Find(mariaBlock, 0).Spread.Median {
		slower = postgresBlock
	}
	share := min(float64(runtime.NumCPU())/float64(len(organisations)), 1)
	executor := values(slower)
	for i := range executor {
		executor[i] *= share
	}
	const mixed = "two PostgreSQL and two MariaDB / four PostgreSQL"
	return addRatios(r, []ratio{
		{"engines.effects", values(mixedEffects), values(postgresEffects), "Smallbank as write sets; " + mixed},
		{"engines.statements", values(mixedStatements), values(postgresStatements), "Smallbank's transactions of one statement, executed everywhere; " + mixed},
		{"engines.effects_cpu", r.Find(mixedEffects, 0).CPUs(), r.Find(postgresEffects, 0).CPUs(), "processor time of nodes and databases for a write set; " + mixed},
		{"engines.statements_cpu", r.Find(mixedStatements, 0).CPUs(), r.Find(postgresStatements, 0).CPUs(), "processor time of nodes and databases for a statement; " + mixed},
		{
			"engines.postgres_over_mariadb", values(postgresStatements), values(mariaStatements),
			"BTW 2023, figure 10, clients that do not wait: PostgreSQL behind all four nodes / MariaDB; published: 1.2 × (MySQL)",
		},
		{
			"engines.postgres_over_mariadb_waited", values(postgresWaited), values(mariaWaited),
			"the same with a client that waits; published: no difference",
		},
		{
			"engines.effects_over_executor", values(mixedEffects), executor,
			fmt.Sprintf("write sets of the mixed network / %s, of whose rate each of four has %g on these cores", slower, share),
		},
		{
			"engines.statements_over_executor", values(mixedStatements), executor,
			fmt.Sprintf("statements of the mixed network / %s, of whose rate each of four has %g on these cores", slower, share),
		},
	})
}

// executorFigures compares the block executor of a MariaDB with sessions of its own.
func executorFigures(r *report.Report, cfg Config) error {
	single := r.Best(mariaSingle)
	if single == nil {
		return errors.New("no single statements were measured")
	}
	block, how := r.Find(mariaBlock, 0), fmt.Sprintf("blocks of %d statements in a MariaDB with a ledger, each COMMIT durable / the same statements one by one and durable, %g sessions, the best number", cfg.Block, single.Point)
	return addRatios(r, []ratio{
		{"engines.block_over_single", block.Values(), single.Values(), how},
		{"engines.block_over_single_cpu", block.CPUs(), single.CPUs(), "block_over_single by processor time of a statement"},
	})
}

func tamperingFigures(r *report.Report, cfg Config) error {
	return r.AddFigure("engines.back_s", r.Find(tamperedRow, 0).Values(), "s", targets.Of("engines.back_s"),
		fmt.Sprintf("from the submission of a transaction that changes a tampered row of a MariaDB with %d rows until its organisation has the block and the row, recorded the cure and serves; two and two under load; published: %d s", cfg.Rows, publishedBack))
}
