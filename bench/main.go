// Command bench measures Chainify beside PostgreSQL and writes what it saw:
// bench/out/<name>.json, .svg, .png and a table. See bench/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/chainify-db/chainify/bench/fabric"
	"github.com/chainify-db/chainify/bench/figures"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/network"
	"github.com/chainify-db/chainify/bench/plots"
	"github.com/chainify-db/chainify/bench/report"
)

type options struct {
	bench, pg, dir, out               string
	chainify, baseline, unsealed      string
	cometbft, former                  string
	reorderer, snapshot               string
	worker, generator                 string
	seed                              uint64
	repeat, seconds, customers, block int
	rate, minutes, fire, rows         int
	scale                             float64
	short, strict                     bool
	only                              string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if len(os.Args) == 2 && os.Args[1] == network.SendersCommand {
		err = network.Senders(ctx, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.bench, "bench", "all", "what to measure: "+known()+"; several separated by commas")
	f.StringVar(&o.pg, "pg", "", "PostgreSQL tree with the extension (make pgtree PROFILE=release); empty: where make puts it")
	f.StringVar(&o.chainify, "chainify", filepath.Join("build", "chainify"), "the node's binary (make build-node)")
	f.StringVar(&o.baseline, "baseline", filepath.Join("build", "baseline"), "binary of the baseline's node (make bench)")
	f.StringVar(&o.unsealed, "unsealed", "", "binary of a node without cryptography, for what that costs (make bench); empty: not measured")
	f.StringVar(&o.cometbft, "cometbft", "", "CometBFT's own binary, for the network's server variant (make build-cometbft); empty: not measured")
	f.StringVar(&o.former, "former", "", "network: source of release 0.1 as scripts/former-release makes it, to compare with (make bench FORMER=…); empty: not measured")
	f.StringVar(&o.reorderer, "reorderer", filepath.Join("target", "release", "examples", "fabric"), "program that measures the reordering alone (make bench BENCH=fabric)")
	f.StringVar(&o.snapshot, "snapshot", filepath.Join("target", "release", "examples", "cost"), "program that measures snapshots of columns (make bench BENCH=snapshot)")
	f.StringVar(&o.worker, "worker", filepath.Join("analytics", "target", "release", "chainify-analytics"), "the analytics worker (make build-analytics)")
	f.StringVar(&o.generator, "generator", filepath.Join("build", "tpch", "bin", "tpchgen-cli"), "program that makes the rows of TPC-H (scripts/setup-tpch)")
	f.Float64Var(&o.scale, "scale", 0.1, "analytics: size of TPC-H and TPC-C, 1 is the specification's")
	f.StringVar(&o.dir, "dir", "", "where databases are kept while it runs; empty: beside the tree")
	f.StringVar(&o.out, "out", filepath.Join("bench", "out"), "where results are written")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the workload")
	f.IntVar(&o.repeat, "repeat", 5, "repetitions of each measurement")
	f.IntVar(&o.seconds, "seconds", 1, "length of each measurement")
	f.IntVar(&o.customers, "customers", 100_000, "Smallbank customers")
	f.IntVar(&o.block, "block", 4096, "transactions of a block")
	f.IntVar(&o.rate, "rate", 100, "steady: transactions a second")
	f.IntVar(&o.minutes, "minutes", 60, "steady and retention: for how long")
	f.IntVar(&o.fire, "fire", fabric.Rate, "fabric: transactions a second that each of the four clients fires")
	f.IntVar(&o.rows, "rows", 0, "engines: rows of the table in which a row is tampered with; joining: rows of the ledger; 0: a million, or few with -short")
	f.StringVar(&o.only, "only", "", "network, plain, papers and fabric: of the systems only those whose names contain one of these, separated by commas; of plain \"alone\" is one database without a network. analytics: of bootstrap, anker, tpch, latest and load those named. engines: of throughput (executors: without networks), calls, tampering and failures")
	f.BoolVar(&o.short, "short", false, "for development: fewer clients and sizes")
	f.BoolVar(&o.strict, "strict", false, "fail when a target is missed")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	for name, v := range map[string]int{"repeat": o.repeat, "seconds": o.seconds, "block": o.block, "rate": o.rate, "minutes": o.minutes, "fire": o.fire} {
		if v < 1 {
			return o, fmt.Errorf("-%s is %d, want at least 1", name, v)
		}
	}
	if o.scale < 0.01 || o.scale > 10 {
		return o, fmt.Errorf("-scale is %g, want 0.01 to 10", o.scale)
	}
	if o.customers < 2 {
		return o, fmt.Errorf("-customers is %d, want at least 2", o.customers)
	}
	return o, o.places()
}

// stateOf is where a source of Chainify keeps its private PostgreSQL.
func stateOf(source string) (string, error) {
	script, err := filepath.Abs(filepath.Join(source, "scripts", "state-dir"))
	if err != nil {
		return "", err
	}
	out, err := exec.Command(script).Output()
	if err != nil {
		return "", fmt.Errorf("find the private PostgreSQL of %s: %w", source, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// places fills in the directories that were left open.
func (o *options) places() error {
	if o.pg != "" && o.dir != "" {
		return nil
	}
	state, err := stateOf(".")
	if err != nil {
		return fmt.Errorf("%w (run this from the root of the repository, or give -pg and -dir)", err)
	}
	if o.pg == "" {
		o.pg = filepath.Join(state, "pg")
	}
	if o.dir == "" {
		o.dir = filepath.Join(state, "bench")
	}
	return nil
}

func run(ctx context.Context, args []string, w io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	list, err := chosen(o.bench)
	if err != nil {
		return err
	}
	withoutDatabase := len(list) == 1 && list[0].name == "snapshot"
	if _, err := os.Stat(filepath.Join(o.pg, "lib", "postgresql", "15", "lib", "chainify.so")); err != nil && !withoutDatabase {
		return fmt.Errorf("no PostgreSQL with the extension in %s: run `make pgtree PROFILE=release` first", o.pg)
	}
	var missed []string
	for _, b := range list {
		r, err := measure(ctx, b, o, w)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		missed = append(missed, r.Missed()...)
	}
	return judge(w, missed, o.strict)
}

// judge tells which targets were missed, and fails for it if asked to.
func judge(w io.Writer, missed []string, strict bool) error {
	if len(missed) == 0 {
		return nil
	}
	what := "targets missed: " + strings.Join(missed, ", ")
	if strict {
		return errors.New(what)
	}
	_, err := fmt.Fprintln(w, what)
	return err
}

// measure runs one benchmark, prints its tables and writes its files.
func measure(ctx context.Context, b benchmark, o options, w io.Writer) (*report.Report, error) {
	started := time.Now()
	r := &report.Report{
		Name: b.name, About: b.about, Started: started.UTC(),
		Command:    fmt.Sprintf("go run ./bench -bench %s -seed %d -repeat %d -seconds %d -customers %d -block %d", b.name, o.seed, o.repeat, o.seconds, o.customers, o.block) + map[bool]string{true: " -short"}[o.short],
		Versions:   map[string]string{"chainify": machine.Commit(), "go": runtime.Version()},
		Parameters: map[string]any{"seed": o.seed, "repeat": o.repeat, "seconds": o.seconds, "customers": o.customers, "block": o.block},
		Settings:   map[string]any{},
	}
	machine.NoteLoad(r)
	fmt.Fprintf(w, "%s: %s\nseed %d, %d repetitions of %d s, %d customers, blocks of %d\n", b.name, b.about, o.seed, o.repeat, o.seconds, o.customers, o.block)
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return nil, err
	}
	if err := b.run(ctx, o, r, w); err != nil {
		return nil, err
	}
	r.TookS = time.Since(started).Seconds()
	if err := r.Print(w); err != nil {
		return nil, err
	}
	path, err := r.Write(o.out)
	if err != nil {
		return nil, err
	}
	if err := plots.Draw(o.out, figures.Of(r)); err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "\n%s and its plot, after %.0f s\n", path, r.TookS)
	return r, nil
}
