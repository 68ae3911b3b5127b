package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/bench/analytics"
	"github.com/chainify-db/chainify/bench/engines"
	"github.com/chainify-db/chainify/bench/executor"
	"github.com/chainify-db/chainify/bench/fabric"
	"github.com/chainify-db/chainify/bench/joining"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/network"
	"github.com/chainify-db/chainify/bench/recovery"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/snapshot"
	"github.com/chainify-db/chainify/bench/workload"
)

// benchmark is one of `make bench BENCH=…`.
type benchmark struct {
	name, about string
	byName      bool // takes long: not one of "all"
	// run measures into the report; it draws into the output directory and prints its progress.
	run func(ctx context.Context, o options, r *report.Report, progress io.Writer) error
}

var benchmarks = []benchmark{
	{"executor", "one organisation's block executor beside PostgreSQL alone: Smallbank and TPC-C, no network", false, runExecutor},
	{"network", "organisations that order, execute and agree beside a baseline, CometBFT alone and PostgreSQL alone: Smallbank and TPC-C", false, runNetwork},
	{"plain", "plain SQL through the ledger: beside calls of chainify.execute, beside PostgreSQL alone, and sessions that meet", false, runPlain},
	{"fabric", "the experiments of Fabric++: transactions that succeed with and without reordering and early abort, and executed everywhere", true, runFabric},
	{"recovery", "checkpoints, scrubber and repair on a table of a million rows, alone and in a network under load", true, runRecovery},
	{"verify", "checking a ledger of Smallbank blocks and its tables, in one session", false, runVerify},
	{"definitions", "a DEPLOY that makes a table with many partitions, beside the same statements in PostgreSQL alone", false, runDefinitions},
	{"snapshot", "snapshots of columns: what one costs, and the first write after it, by each strategy of crates/snapshot", true, runSnapshot},
	{"analytics", "the analytics worker: queries of AnKer and TPC-H beside PostgreSQL, transactions beside queries, starting and memory", true, runAnalytics},
	{"engines", "organisations with PostgreSQL and with MariaDB: Smallbank beside PostgreSQL alone, each engine's executor, calls of procedures, a tampered row in a MariaDB", true, runEngines},
	{"joining", "a further organisation: with an empty database that takes the ledger over, and by executing the chain", true, runJoining},
	{"papers", "experiments of the papers behind Chainify: ChainifyDB with two of three and all of three, and the relational blockchain of BTW 2023", true, runPapers},
	{"distance", "four organisations at 1, 10 and 50 ms from each other: what clients see, and what pipelined blocks could gain at most", true, ofNetwork("distance", network.Distance)},
	{"greedy", "five organisations, three of which have the others' nodes work in vain: what waiting clients of the two see, and what it costs", true, ofNetwork("greedy", network.Greedy)},
	{"steady", "four organisations at a constant rate: what grows in latency and in what the servers hold, and bytes on disk", true, runSteady},
	{"retention", "years in a short time: disks, throughput and archive of organisations that drop what is old", true, runRetention},
}

// chosen gives the benchmarks named, separated by commas; all for "all".
func chosen(names string) ([]benchmark, error) {
	var out []benchmark
	if names == "all" {
		for _, b := range benchmarks {
			if !b.byName {
				out = append(out, b)
			}
		}
		return out, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		found := false
		for _, b := range benchmarks {
			if b.name == name {
				out, found = append(out, b), true
			}
		}
		if !found {
			return nil, fmt.Errorf("no benchmark %q: there are %s", name, known())
		}
	}
	return out, nil
}

func known() string {
	names := make([]string, len(benchmarks))
	for i, b := range benchmarks {
		names[i] = b.name
	}
	return strings.Join(names, ", ") + ", all"
}

// settle is how long a benchmark waits for a quiet machine.
func (o options) settle() time.Duration {
	if o.short {
		return 0
	}
	return machine.SettleLimit
}

// chosenParts are those of -only, which the report's command names.
func (o options) chosenParts(r *report.Report) []string {
	if o.only == "" {
		return nil
	}
	r.Command += fmt.Sprintf(" -only %q", o.only)
	return strings.Split(o.only, ",")
}

// executor is what benchmarks of one database share.
func (o options) executor(dir string, progress io.Writer) executor.Config {
	return executor.Config{
		Dir: filepath.Join(o.dir, dir), PG: o.pg, Seed: o.seed, Repeat: o.repeat, Seconds: o.seconds,
		Customers: o.customers, Block: o.block, Settle: o.settle(), Progress: progress,
	}
}

// network is what benchmarks of whole networks share.
func (o options) network(dir string, progress io.Writer) network.Config {
	return network.Config{
		Dir: filepath.Join(o.dir, dir), PG: o.pg, Chainify: o.chainify, Seed: o.seed, Repeat: o.repeat, Seconds: o.seconds,
		Customers: o.customers, Settle: o.settle(), WarmUp: true, Progress: progress,
	}
}

// withCometBFT has the server variant measured too, where its program is given.
func (o options) withCometBFT(cfg *network.Config, r *report.Report) {
	if cfg.CometBFT = o.cometbft; o.cometbft != "" {
		r.Command += " -cometbft " + filepath.Join("build", filepath.Base(o.cometbft))
	}
}

// ofNetwork is a benchmark that takes nothing but what all of networks take.
func ofNetwork(dir string, measure func(context.Context, network.Config, *report.Report) error) func(context.Context, options, *report.Report, io.Writer) error {
	return func(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
		cfg := o.network(dir, progress)
		cfg.Only = o.chosenParts(r)
		return measure(ctx, cfg, r)
	}
}

func runExecutor(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	cfg := o.executor("", progress)
	cfg.Clients, cfg.BlockSizes, cfg.Sizes, cfg.TPCC = executor.DefaultClients, executor.DefaultBlockSizes, executor.DefaultSizes, workload.DefaultTPCC
	if o.short {
		cfg.Clients, cfg.BlockSizes, cfg.Sizes = []int{8, 16}, []int{64, 4096}, []int{10_000, 100_000}
	}
	return executor.Run(ctx, cfg, r)
}

func runNetwork(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	for _, binary := range []string{o.chainify, o.baseline} {
		if _, err := os.Stat(binary); err != nil {
			return fmt.Errorf("no binary %s: `make bench BENCH=network` makes it", binary)
		}
	}
	cfg := o.network("", progress)
	cfg.Baseline, cfg.Unsealed, cfg.PgbenchClients, cfg.Sizes, cfg.Modes = o.baseline, o.unsealed, network.DefaultPgbenchClients, !o.short, !o.short
	if o.short {
		cfg.PgbenchClients = []int{16}
	}
	o.withCometBFT(&cfg, r)
	if o.former != "" {
		state, err := stateOf(o.former)
		if err != nil {
			return fmt.Errorf("%w (scripts/former-release makes it)", err)
		}
		cfg.Former, cfg.FormerPG = o.former, filepath.Join(state, "pg")
		r.Command += " -former " + filepath.Base(o.former)
	}
	if o.unsealed != "" {
		r.Command += " -unsealed " + filepath.Join("build", filepath.Base(o.unsealed))
	}
	cfg.Only = o.chosenParts(r)
	return network.Run(ctx, cfg, r)
}

func runPapers(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	cfg := o.network("papers", progress)
	cfg.Hasty = o.short
	o.withCometBFT(&cfg, r)
	cfg.Only = o.chosenParts(r)
	return network.Papers(ctx, cfg, r)
}

func runFabric(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	cfg := fabric.Config{
		Dir: o.dir, PG: o.pg, Chainify: o.chainify, Reorderer: o.reorderer, Seed: o.seed, Repeat: o.repeat, Seconds: o.seconds, Rate: o.fire,
		Settle: o.settle(), Progress: progress,
	}
	r.Command += fmt.Sprintf(" -fire %d", o.fire)
	cfg.Only = o.chosenParts(r)
	return fabric.Run(ctx, cfg, r)
}

// The parts of `plain`, by which -only names them: what is not of the first is of the second.
const plainAlone = "alone"

func runPlain(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	command := r.Command
	only := o.chosenParts(r)
	defer func() { repeatable(r, command) }()
	all := len(only) == 0
	if all || slices.Contains(only, plainAlone) {
		if err := executor.Plain(ctx, o.executor(plainAlone, progress), r); err != nil {
			return err
		}
	}
	only = slices.DeleteFunc(only, func(name string) bool { return name == plainAlone })
	if !all && len(only) == 0 {
		return nil
	}
	cfg := o.network("", progress)
	cfg.Only = only
	return network.Plain(ctx, cfg, r)
}

// repeatable gives each figure of plain SQL the command that measures it without all others.
func repeatable(r *report.Report, command string) {
	for i := range r.Figures {
		f := &r.Figures[i]
		part := plainAlone
		switch {
		case strings.HasPrefix(f.ID, "plain.hot_rows"):
			part = "hot rows"
		case strings.HasPrefix(f.ID, "plain.tpcc_effects"):
			part = "TPC-C"
		}
		for _, s := range workload.Scripts() {
			if strings.HasPrefix(f.ID, "plain."+s.ID()+"_over_execute") || strings.HasPrefix(f.ID, "plain."+s.ID()+"_serializable") {
				part = s.Name
			}
		}
		f.Command = fmt.Sprintf("%s -only %q", command, part)
	}
}

func runVerify(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	blocks := executor.VerifiedBlocks
	if o.short {
		blocks = executor.ShortVerifiedBlocks
	}
	r.Parameters["blocks"] = blocks
	return executor.Verify(ctx, o.executor("", progress), blocks, r)
}

func runDefinitions(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	cfg := executor.Config{Dir: o.dir, PG: o.pg, Seed: o.seed, Repeat: o.repeat, Customers: o.customers, Block: o.block, Settle: machine.SettleLimit, Progress: progress}
	if o.short {
		cfg.Settle = 0
	}
	return executor.Definitions(ctx, cfg, r)
}

func runJoining(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	cfg := joining.Config{
		Dir: o.dir, PG: o.pg, Chainify: o.chainify, Rows: joining.DefaultRows, Blocks: joining.DefaultBlocks,
		Window: 10 * time.Second, Progress: progress,
	}
	if o.short {
		cfg.Rows, cfg.Blocks = joining.ShortRows, joining.ShortBlocks
	}
	if o.rows > 0 {
		cfg.Rows = o.rows
		r.Command += fmt.Sprintf(" -rows %d", o.rows)
	}
	r.Parameters["rows"], r.Parameters["blocks"] = cfg.Rows, cfg.Blocks
	return joining.Run(ctx, cfg, r)
}

func runEngines(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	cfg := engines.Config{
		Dir: o.dir, PG: o.pg, Chainify: o.chainify, Out: o.out, Seed: o.seed, Repeat: o.repeat, Seconds: o.seconds, Customers: o.customers, Block: o.block,
		Rows: engines.DefaultRows, Clients: engines.DefaultClients, Settle: o.settle(), Progress: progress,
	}
	if o.short {
		cfg.Rows = engines.ShortRows
	}
	if o.rows > 0 {
		cfg.Rows = o.rows
		r.Command += fmt.Sprintf(" -rows %d", o.rows)
	}
	cfg.Only = o.chosenParts(r)
	r.Parameters["rows"] = cfg.Rows
	return engines.Run(ctx, cfg, r)
}

func runSteady(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	r.Command += fmt.Sprintf(" -rate %d -minutes %d", o.rate, o.minutes)
	return network.Steady(ctx, o.steady(progress), r)
}

func runRetention(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	r.Command += fmt.Sprintf(" -minutes %d", o.minutes)
	return network.Retention(ctx, o.steady(progress), r)
}

func (o options) steady(progress io.Writer) network.SteadyConfig {
	return network.SteadyConfig{Config: o.network("", progress), Rate: o.rate, Length: time.Duration(o.minutes) * time.Minute}
}

func runSnapshot(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	program, err := filepath.Abs(o.snapshot)
	if err != nil {
		return err
	}
	if !isFile(program) {
		return fmt.Errorf("no program %s: `make bench BENCH=snapshot` makes it", program)
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	return snapshot.Run(ctx, snapshot.Config{Dir: o.dir, Program: program, Seed: o.seed, Repeat: o.repeat, Short: o.short, Progress: progress}, r)
}

func runAnalytics(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	tpch, errQueries := scripted(filepath.Join("..", "sql", "analytics", "tpch.sql"))
	worker, errWorker := filepath.Abs(o.worker)
	generator, errGenerator := filepath.Abs(o.generator)
	if err := errors.Join(errQueries, errWorker, errGenerator); err != nil {
		return err
	}
	if !isFile(worker) {
		return fmt.Errorf("no program %s: `make bench BENCH=analytics` makes it", worker)
	}
	if !isFile(generator) {
		generator = ""
	}
	r.Command += fmt.Sprintf(" -scale %g", o.scale)
	return analytics.Run(ctx, analytics.Config{
		Dir: o.dir, PG: o.pg, Out: o.out, Worker: worker, TPCH: tpch, Generator: generator,
		Seed: o.seed, Repeat: o.repeat, Seconds: o.seconds, Scale: o.scale, Short: o.short, Only: o.chosenParts(r), Progress: progress,
	}, r)
}

func runRecovery(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	script, err := scripted(filepath.Join("recovery", "run"))
	if err != nil {
		return err
	}
	cfg := recovery.Config{
		Dir: o.dir, PG: o.pg, Chainify: o.chainify, Out: o.out, Script: script, Seed: o.seed, Repeat: o.repeat, Rows: recovery.DefaultRows, Progress: progress,
	}
	if o.short {
		cfg.Rows = recovery.ShortRows
	}
	r.Parameters["rows"] = cfg.Rows
	return recovery.Run(ctx, cfg, r)
}

// scripted finds a file of this module, whether run from it or from the root of the repository.
func scripted(path string) (string, error) {
	for _, dir := range []string{".", "bench"} {
		if file := filepath.Join(dir, path); isFile(file) {
			return filepath.Abs(file)
		}
	}
	return "", fmt.Errorf("no %s here: run this from the root of the repository", path)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
