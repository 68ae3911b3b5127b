// Package network measures whole ledgers: clients, order, execution in every organisation and
// agreement. It measures beside them the baseline (package baseline), CometBFT alone, and
// PostgreSQL alone. All run on this one machine and share its cores and its disk, so the ratios of
// one run count and not the rates.
package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
)

// DefaultPgbenchClients are the client counts of pgbench, around its best.
var DefaultPgbenchClients = []int{8, 16, 24}

// Config is one run.
type Config struct {
	Dir, PG, Chainify, Baseline string // Chainify and Baseline are the nodes' binaries
	CometBFT                    string // CometBFT's own binary, for the server variant; empty: not measured
	Former, FormerPG            string // source of release 0.1, with what it was made into, and its PostgreSQL tree; empty: not measured
	Unsealed                    string // that of a node without cryptography (cmd/unsealed); empty: not measured
	Seed                        uint64
	Repeat, Seconds, Customers  int
	PgbenchClients              []int
	Settle                      time.Duration // how long the load of the set-up is waited for at most
	WarmUp                      bool          // what was just started is loaded for a moment that does not count
	Sizes                       bool          // seven organisations too, and one client of one: what the model of scaling needs
	Modes                       bool          // four organisations in the modes latency and throughput too
	Hasty                       bool          // one client is measured no longer than several: for tests of the benchmark
	Only                        []string      // of the systems only those whose names contain one of these; empty: all
	Progress                    io.Writer

	consent int                          // of a network that is opened; 0: the default
	distant bool                         // its organisations are at a distance that can be set
	founded func(*harness.Network) error // done before the nodes' first start, where there is more to do
}

// The systems compared. The number in a series' point is that of its clients, where clients wait
// for each answer.
const (
	chainifyFour = "chainify, 4 organisations"
	chainifyOne  = "chainify, 1 organisation"
	// Where the model of scaling begins: with one worker, as each of four and of seven has.
	chainifyOneWorker = "chainify, 1 organisation, one worker"
	chainifySeven     = "chainify, 7 organisations"
	oneWorkerSync     = "chainify, 1 organisation, one worker, waiting"
	sevenSync         = "chainify, 7 organisations, waiting"
	baselineSingle    = "baseline, 4 organisations"
	baselineBundle    = "baseline, 4 organisations, 100 a bundle"
	baselineOne       = "baseline, 1 organisation"
	standalone        = "PostgreSQL, pgbench"
	chainifySync      = "chainify, 4 organisations, waiting"
	deadOne           = "chainify, 4 organisations, one dead"
	slowOne           = "chainify, 4 organisations, one slow"
	tpccFour          = "chainify, 4 organisations, TPC-C"
	tpccAlone         = "one executor, TPC-C"
	unsealed          = "chainify, 4 organisations, no cryptography"
	serverFour        = "chainify, 4 organisations, server"
	serverSync        = "chainify, 4 organisations, server, waiting"
	readsLedger       = "OrderStatus, while a ledger is written"
	readsPlain        = "OrderStatus, while PostgreSQL is written"
	zipfFour          = "chainify, 4 organisations, Zipf"
	zipfPlain         = "PostgreSQL, Zipf"
	mixFour           = "chainify, 4 organisations, custom mix"
	mixPlain          = "PostgreSQL, custom mix"
	tenACall          = "chainify, 4 organisations, 10 a call"
	baselineSync      = "baseline, 4 organisations, waiting"
	floorSync         = "CometBFT alone, 4 nodes, waiting"
	latencyMode       = "mode latency, 4 organisations"
	throughputMode    = "mode throughput, 4 organisations"
	vouched           = "chainify, 4 organisations, vouched for"
	pipelined         = "chainify, 4 organisations, vouched for, pipelined"
	signed            = "chainify, 4 organisations, signed by clients"
	vouchedBatch      = "chainify, 4 organisations, 64 vouched for"
	signedBatch       = "chainify, 4 organisations, 64 signed by clients"
	agreed            = "chainify, 2 organisations, the other agrees"
	unasked           = "chainify, 2 organisations, nobody is asked"
	agreedSoon        = "mode latency, 2 organisations, the other agrees"
	unaskedSoon       = "mode latency, 2 organisations, nobody is asked"
	checked           = "PostgreSQL, a rehearsal with its check"
	echoed            = "TCP, there and back"
)

// Details of a sample beside the latencies: processor time of all nodes, and of all databases
// with their clients' backends.
const (
	nodeCPU     = "node_cpu_us_per_tx"
	databaseCPU = "database_cpu_us_per_tx"
)

const bundle = 100 // transactions of a submission by clients that do not wait for each

// system is one of what is compared: what has to run, and how it is loaded.
type system struct {
	name  string
	point float64
	up    running
	load  func(ctx context.Context, repetition int) (load, error)
}

// running is a set of processes of which one set at a time runs: the idle ones of others would
// take from the cores.
type running interface {
	start(ctx context.Context) error
	stop() error
	// nodes and databases are the processes whose processor time counts, with that of their
	// children.
	nodes() []int
	databases() []int
}

// tidied has tables, which are vacuumed before each measurement, which is not counted: autovacuum
// is off.
type tidied interface {
	vacuum(ctx context.Context) error
}

// ownWarmUp are systems whose transactions are of another kind than those that warmed what they
// share: each is loaded once before it counts.
var ownWarmUp = []string{tpccFour, mixFour}

// pooled are systems whose one client is answered so seldom that its percentiles are of all
// repetitions together.
var pooled = []string{chainifySync, formerSync, deadOne, slowOne}

// follower is what is measured with something that another set showed, after that in each
// repetition.
type follower interface{ after() running }

// Run measures all systems, interleaved, and adds series, figures and plots.
func Run(ctx context.Context, cfg Config, r *report.Report) (err error) {
	s, err := openSites(ctx, cfg, r)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, s.close()); err == nil {
			err = s.remove() // after a failure the logs are worth keeping
		}
	}()
	systems := slices.DeleteFunc(s.systems(cfg), func(s system) bool { return !cfg.wants(s.name) })
	if len(systems) == 0 {
		return fmt.Errorf("no system is named like one of %q", cfg.Only)
	}
	if err := machine.Settle(ctx, r, cfg.Settle, cfg.Progress); err != nil {
		return err
	}
	for repetition := 1; repetition <= cfg.Repeat; repetition++ {
		if err := repeat(ctx, cfg, repetition, systems, r); err != nil {
			return err
		}
	}
	if err := machine.NoteDisk(r, s.four.Dir); err != nil {
		return err
	}
	return figures(r, cfg)
}

// patient is for how many seconds one client at a time is measured: few are answered in each.
func (c Config) patient(clients int) int {
	if clients > 1 || c.Hasty {
		return c.Seconds
	}
	return patientTimes * c.Seconds
}

const patientTimes = 5

// wants reports whether any of some systems is to be measured.
func (c Config) wants(systems ...string) bool {
	return len(c.Only) == 0 || slices.ContainsFunc(systems, func(name string) bool {
		return slices.ContainsFunc(c.Only, func(part string) bool { return strings.Contains(name, part) })
	})
}

// repeat measures every system once, in an order of this repetition; those that share their
// processes one after the other.
func repeat(ctx context.Context, cfg Config, repetition int, systems []system, r *report.Report) error {
	random := rand.New(rand.NewPCG(cfg.Seed, uint64(repetition)))
	done := map[running]bool{}
	once := func(up running) error {
		if done[up] || !slices.ContainsFunc(systems, func(s system) bool { return s.up == up }) {
			return nil
		}
		done[up] = true
		return together(ctx, cfg, repetition, systems, up, r)
	}
	for _, i := range random.Perm(len(systems)) {
		up := systems[i].up
		if f, is := up.(follower); is {
			if err := once(f.after()); err != nil {
				return err
			}
		}
		if err := once(up); err != nil {
			return err
		}
	}
	return nil
}

func together(ctx context.Context, cfg Config, repetition int, systems []system, up running, r *report.Report) (err error) {
	if err := up.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.stop()) }()
	warm := !cfg.WarmUp
	for _, s := range systems {
		if s.up != up {
			continue
		}
		if !warm || cfg.WarmUp && slices.Contains(ownWarmUp, s.name) {
			// With other transactions than any repetition has, or shows to who agrees before it
			// (deal).
			if _, err := s.load(ctx, cfg.Repeat+1+repetition); err != nil {
				return fmt.Errorf("%s, before repetition %d: %w", s.name, repetition, err)
			}
			warm = true
		}
		if tables, has := up.(tidied); has {
			if err := tables.vacuum(ctx); err != nil {
				return err
			}
		}
		if err := measure(ctx, cfg, repetition, s, r); err != nil {
			return fmt.Errorf("%s, repetition %d: %w", s.name, repetition, err)
		}
	}
	return nil
}

// cpu is processor time.
type cpu struct{ nodes, databases time.Duration }

func cpuOf(up running) (c cpu, err error) {
	var errNodes, errDatabases error
	c.nodes, errNodes = machine.TreesCPU(up.nodes())
	c.databases, errDatabases = machine.TreesCPU(up.databases())
	return c, errors.Join(errNodes, errDatabases)
}

func (c cpu) less(other cpu) cpu { return cpu{c.nodes - other.nodes, c.databases - other.databases} }

func measure(ctx context.Context, cfg Config, repetition int, s system, r *report.Report) error {
	busy := machine.Load()
	before, err := cpuOf(s.up)
	if err != nil {
		return err
	}
	l, err := s.load(ctx, repetition)
	if err != nil {
		return err
	}
	if l.count == 0 {
		return errors.New("no transaction was answered")
	}
	after, err := cpuOf(s.up)
	if err != nil {
		return err
	}
	used := after.less(before).less(l.led.used)
	sample := report.Sample{
		Repetition: repetition, Value: l.rate(), Transactions: l.count, Seconds: l.took.Seconds(), Load: busy, Detail: l.detail(),
	}
	if s.point == 1 && slices.Contains(pooled, s.name) {
		sample.Latencies = l.milliseconds()
	}
	sample.Detail[nodeCPU] = l.each(used.nodes)
	sample.Detail[databaseCPU] = l.each(used.databases)
	sample.ServerCPUUS = sample.Detail[nodeCPU] + sample.Detail[databaseCPU]
	fmt.Fprintf(cfg.Progress, "repetition %d/%d: %-40s %3.0f  %7.0f tx/s, us of CPU each %6.1f of nodes, %6.1f of databases, p50 %6.1f ms, load %.1f\n",
		repetition, cfg.Repeat, s.name, s.point, sample.Value, sample.Detail[nodeCPU], sample.Detail[databaseCPU], sample.Detail["p50_ms"], busy)
	r.Add(s.name, s.point, "tx/s", sample)
	return nil
}
