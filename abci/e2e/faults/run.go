package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/smallbank"
)

const (
	database       = "bank"
	readyLimit     = 90 * time.Second
	askLimit       = 5 * time.Second
	progressBlocks = 5 // that everybody has to make after the last fault
	// A change of a row that no block touches again has to be found within the run.
	scrubInterval = "5s"
)

// Options are where things are.
type Options struct {
	PG       string // prefix of a PostgreSQL tree with the extension
	Chainify string // the node's binary
	// ChainifyClock is the node's binary with a clock that can be set, for manifests that do;
	// empty: there is none.
	ChainifyClock string
	Scripts       string        // directory of the Smallbank scripts
	Dir           string        // of the network; emptied when an earlier run made it
	Settle        time.Duration // how long everybody may take to go on after the last fault
	Keep          bool          // data and logs also when all went well
	Log           func(format string, args ...any)
}

// run is one run under way.
type run struct {
	Options
	manifest Manifest
	net      *harness.Network
	members  map[string]*member
	money    string // in all accounts, before the first transaction
	load     Load
	inParts  map[string]int // blocks by organisation that were seen to have been executed in parts
	started  time.Time      // of the load
	report   Report

	mu    sync.Mutex             // guards report
	alone sync.RWMutex           // held for writing by a fault during which the others have to go on
	inUse map[string]*sync.Mutex // members, and kinds of which there is one fault at a time
}

// Run runs a manifest and says what happened. An error means that the run itself failed, before or
// after the faults; what the network did wrong is in the report. Logs and data stay in the
// directory when there is either.
func Run(ctx context.Context, opt Options, m Manifest) (report Report, err error) {
	if err := m.Check(); err != nil {
		return Report{}, err
	}
	r := &run{Options: opt, manifest: m, members: map[string]*member{}, inUse: map[string]*sync.Mutex{}}
	able, unable := m.possible(findCapabilities(opt))
	r.manifest.Faults = able
	r.report = Report{Manifest: m.Name, Seed: m.Seed, Organisations: m.Organisations, MariaDB: m.MariaDB, OrderingOnly: m.OrderingOnly, Consent: m.consent(), NotRun: unable}
	began := time.Now()
	if err := r.open(ctx); err != nil {
		return r.report, errors.Join(fmt.Errorf("set up the network: %w", err), r.close())
	}
	r.Log("the network serves after %.1f s", time.Since(began).Seconds())
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.disturb(ctx); err != nil {
		return r.report, err
	}
	if err := r.examine(ctx); err != nil {
		return r.report, err
	}
	r.report.Took = seconds(time.Since(began))
	r.report.finish()
	return r.report, nil
}

// open makes the network and has it serve.
func (r *run) open(ctx context.Context) error {
	m := r.manifest
	needsLan := slices.ContainsFunc(m.Faults, func(f Fault) bool { return f.Kind == kindPartition })
	binary, clocks := r.Chainify, len(m.hit(kindJumpClock)) > 0
	if clocks {
		binary = r.ChainifyClock
	}
	var err error
	r.net, err = harness.New(ctx, harness.Config{
		Dir: r.Dir, PG: r.PG, Chainify: binary, Clocks: clocks, Database: database, Organisations: m.organisations(), MariaDB: m.MariaDB,
		Settings: map[string]any{"scrub_interval": scrubInterval, "checkpoint_interval": 50}, OrderingOnly: m.members()[m.Organisations:], Consent: m.Consent, Lan: needsLan, SmallDatabases: m.hit(kindFullDatabase), SmallNodes: m.hit(kindFullNode),
	})
	if err != nil {
		return err
	}
	for _, o := range r.net.Organisations {
		r.members[o.Name] = &member{Node: &o.Node, organisation: o}
	}
	for _, o := range r.net.Orderers {
		r.members[o.Name] = &member{Node: &o.Node}
	}
	for name := range r.members {
		r.inUse[name] = &sync.Mutex{}
	}
	for name := range kinds {
		r.inUse[name] = &sync.Mutex{}
	}
	for _, o := range r.net.Organisations {
		if o.MariaDB != nil {
			continue
		}
		// Workers need not be the same everywhere.
		settings := map[string]string{"chainify.scrub_interval": "'" + scrubInterval + "'", "chainify.checkpoint_interval": "50"}
		if workers := m.workers(o.Name); workers > 1 {
			settings["chainify.executor_workers"] = fmt.Sprint(workers)
			settings["max_worker_processes"] = fmt.Sprint(8 + workers)
			settings["chainify.debug_parts"] = "-1" // the load's blocks are too small for parts to pay
		}
		if err := o.Cluster.Configure(settings); err != nil {
			return err
		}
	}
	return r.openBank(ctx)
}

// openBank fills the databases, starts the nodes and puts the tables on the ledger.
func (r *run) openBank(ctx context.Context) error {
	m := r.manifest
	several := len(m.MariaDB) > 0
	bank := smallbank.Bank{Scripts: r.Scripts, Customers: m.Customers, Engines: several}
	if err := bank.Open(ctx, r.net, readyLimit, func(o *harness.Organisation) error {
		return o.Administer(ctx, countersOf(o, m.Clients*m.Organisations, several))
	}); err != nil {
		return err
	}
	first := r.net.Organisations[0]
	r.load.mix, r.load.customers, r.load.effects = postgresMix, m.Customers, m.Effects
	if several {
		r.load.mix = enginesMix
		if err := attachPortable(ctx, r.net); err != nil {
			return err
		}
	} else if err := first.Exec(ctx, "dba", "SELECT chainify.attach('counters')"); err != nil {
		return err
	}
	return first.Scan(ctx, "SELECT "+moneySQL, &r.money)
}

// close ends the network; what it leaves is removed when all went well.
func (r *run) close() error {
	if r.net == nil {
		return nil
	}
	err := r.net.Close()
	if err == nil && r.report.Passed && !r.Keep {
		return r.net.Remove()
	}
	return err
}

// disturb runs load and faults to their end, then waits until everybody goes on, and ends the load.
func (r *run) disturb(ctx context.Context) error {
	var clients, watching, faults sync.WaitGroup
	loadCtx, stopLoad := context.WithCancel(ctx)
	watchCtx, stopWatch := context.WithCancel(ctx)
	defer func() { stopLoad(); clients.Wait(); stopWatch(); watching.Wait() }()
	number := 0
	for _, o := range r.net.Organisations {
		for range r.manifest.Clients {
			number++
			c := &client{Organisation: o, number: number, rng: rand.New(rand.NewPCG(r.manifest.Seed, uint64(number)))}
			clients.Go(func() { c.run(loadCtx, &r.load) })
		}
	}
	r.started = time.Now()
	watching.Go(func() {
		w := watch(watchCtx, r.net.Organisations)
		r.note(w.broken...)
		r.report.Longest = seconds(w.longest)
		r.inParts = w.inParts
	})
	for _, f := range r.manifest.Faults {
		faults.Go(func() { r.fault(ctx, f) })
	}
	until(ctx, r.started.Add(time.Duration(r.manifest.Duration)))
	faults.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	r.settle(ctx)
	r.report.LoadTook = seconds(time.Since(r.started))
	return ctx.Err()
}

// settle waits, with the load still on, until every organisation has made some blocks after the
// last fault.
func (r *run) settle(ctx context.Context) {
	r.Log("%6.1f  the last fault is over", time.Since(r.started).Seconds())
	began := time.Now()
	want := r.highest(ctx) + progressBlocks
	for _, o := range r.net.Organisations {
		if err := r.reach(ctx, o, want, r.Settle-time.Since(began)); err != nil && ctx.Err() == nil {
			r.note(Violation{Stuck, err.Error() + r.condition(ctx, o)})
		}
	}
	for _, o := range r.net.Orderers {
		if err := o.WaitServing(ctx, max(time.Second, r.Settle-time.Since(began))); err != nil && ctx.Err() == nil {
			r.note(Violation{Stuck, err.Error()})
		}
	}
	r.report.Settled = seconds(time.Since(began))
}

// condition says what an organisation that is stuck looks like.
func (r *run) condition(ctx context.Context, o *harness.Organisation) string {
	state, err := o.State(ctx)
	if err != nil {
		state = err.Error()
	}
	return fmt.Sprintf(" (state: %s)\n%s", state, o.NodeTail(4))
}

// highest is the last block that any organisation has.
func (r *run) highest(ctx context.Context) uint64 {
	var highest uint64
	for _, o := range r.net.Organisations {
		tip, err := within(ctx, o.Tip)
		if err == nil {
			highest = max(highest, tip.Number)
		}
	}
	return highest
}

// within bounds a question to a server that may be paused.
func within[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return ask(ctx)
}

// reach waits until an organisation has a block.
func (r *run) reach(ctx context.Context, o *harness.Organisation, block uint64, limit time.Duration) error {
	return harness.Poll(ctx, max(limit, time.Second), fmt.Sprintf("block %d at %s", block, o.Name), func(ctx context.Context) (bool, string, error) {
		tip, err := within(ctx, o.Tip)
		if err != nil {
			return false, err.Error(), nil
		}
		return tip.Number >= block, fmt.Sprintf("at %d", tip.Number), nil
	})
}

// fault does one fault at its time and measures how long whom it hit takes to catch up.
func (r *run) fault(ctx context.Context, f Fault) {
	until(ctx, r.started.Add(f.begin()))
	if ctx.Err() != nil {
		return
	}
	if f.OthersGoOn {
		r.alone.Lock()
		defer r.alone.Unlock()
	} else {
		r.alone.RLock()
		defer r.alone.RUnlock()
	}
	needs := slices.Clone(f.Members)
	if kinds[f.Kind].alone {
		needs = append(needs, f.Kind)
	}
	slices.Sort(needs) // always in the same order, so that no two faults wait for each other
	for _, name := range needs {
		r.inUse[name].Lock()
		defer r.inUse[name].Unlock()
	}
	done := FaultReport{Fault: f.String(), Kind: f.Kind, At: seconds(time.Since(r.started))}
	r.Log("%6.1f  %s, for %s", done.At, f, time.Duration(f.For))
	err := r.running(f) // what ended before ended by itself: the fault must not hide it
	var before uint64
	if f.OthersGoOn {
		before = r.highest(ctx)
	}
	err = errors.Join(err, r.change(ctx, f, kinds[f.Kind].begin))
	until(ctx, time.Now().Add(time.Duration(f.For)))
	if f.MustCrash {
		err = errors.Join(err, r.crashed(ctx, f))
	}
	if f.OthersGoOn {
		r.othersGoOn(ctx, f, before)
	}
	if ctx.Err() != nil {
		return
	}
	if !kinds[f.Kind].ends {
		err = errors.Join(err, r.running(f))
	}
	err = errors.Join(err, r.restore(ctx, f))
	ended := time.Now()
	done.Lasted = seconds(ended.Sub(r.started)) - done.At
	if err != nil && ctx.Err() == nil {
		done.Error = err.Error()
		r.note(Violation{Unexpected, f.String() + ": " + err.Error()})
	}
	r.caughtUp(ctx, f)
	done.CaughtUp = seconds(time.Since(ended))
	r.Log("%6.1f  %s is over, caught up after %.1f s", time.Since(r.started).Seconds(), f, done.CaughtUp)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Faults = append(r.report.Faults, done)
}

// change begins a fault for everybody whom it hits, at once.
func (r *run) change(ctx context.Context, f Fault, do step) error {
	if f.Kind == kindPartition {
		return r.net.Divide(f.Members)
	}
	return r.forEach(ctx, f, do)
}

// restore undoes a fault.
func (r *run) restore(ctx context.Context, f Fault) error {
	if f.Kind == kindPartition {
		return r.net.Divide()
	}
	return r.forEach(ctx, f, kinds[f.Kind].end)
}

func (r *run) forEach(ctx context.Context, f Fault, do step) error {
	errs := make([]error, len(f.Members))
	var all sync.WaitGroup
	for i, name := range f.Members {
		all.Go(func() {
			if err := do(ctx, r, r.members[name], f); err != nil {
				errs[i] = fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// running says which processes do not run of those whom a fault hits.
func (r *run) running(f Fault) error {
	var errs []error
	for _, name := range f.Members {
		m := r.members[name]
		if !m.NodeRunning() {
			errs = append(errs, fmt.Errorf("the node of %s ended:\n%s", name, m.NodeTail(8)))
		}
		if m.organisation != nil && !m.organisation.Server().Running() {
			errs = append(errs, fmt.Errorf("the database of %s ended:\n%s", name, m.organisation.Server().Tail(8)))
		}
	}
	return errors.Join(errs...)
}

// crashed waits until whom the fault hits has ended at its crash point.
func (r *run) crashed(ctx context.Context, f Fault) error {
	return r.forEach(ctx, f, func(ctx context.Context, r *run, m *member, f Fault) error {
		return harness.Poll(ctx, r.Settle, "crash", func(ctx context.Context) (bool, string, error) {
			is, err := kinds[f.Kind].crashed(ctx, m)
			if err != nil {
				return false, err.Error(), nil
			}
			return is, "it was not at " + f.Point, nil
		})
	})
}

// othersGoOn waits until whom the fault does not hit has made some blocks since it began.
func (r *run) othersGoOn(ctx context.Context, f Fault, before uint64) {
	for _, o := range r.net.Organisations {
		if slices.Contains(f.Members, o.Name) {
			continue
		}
		if err := r.reach(ctx, o, before+progressBlocks, r.Settle); err != nil && ctx.Err() == nil {
			r.note(Violation{Stuck, f.String() + ": " + err.Error() + r.condition(ctx, o)})
		}
	}
}

// caughtUp waits until those whom the fault hit have the next block after the highest one now. That
// they may not, since another fault goes on, is for settle to judge.
func (r *run) caughtUp(ctx context.Context, f Fault) {
	want := r.highest(ctx) + 1
	ctx, cancel := context.WithTimeout(ctx, operateLimit)
	defer cancel()
	for _, name := range f.Members {
		if o := r.members[name].organisation; o != nil {
			_ = r.reach(ctx, o, want, operateLimit)
		}
	}
}

// examine compares what all databases hold with each other and with the answers.
func (r *run) examine(ctx context.Context) error {
	if tip, err := harness.WaitSame(ctx, r.net.Organisations, 1, r.Settle); err != nil {
		r.note(Violation{Stuck, err.Error()})
	} else {
		r.report.Blocks = tip.Number
	}
	r.Log("%6.1f  every database is verified and compared", time.Since(r.started).Seconds())
	all := make([]Evidence, len(r.net.Organisations))
	for i, o := range r.net.Organisations {
		e, err := settled(ctx, o, r.money, r.Settle)
		if err != nil {
			return err
		}
		all[i] = e
		r.report.Deviations += e.Deviations
	}
	r.note(Check(r.load.Answers, all)...)
	r.note(checkKinds(r.load.mix, r.load.Answers)...)
	r.note(checkParts(r.manifest, r.report.Blocks, r.inParts)...)
	for _, blocks := range r.inParts {
		r.report.InParts += blocks
	}
	for _, err := range r.load.Unexpected[:min(5, len(r.load.Unexpected))] {
		r.note(Violation{Unexpected, err.Error()})
	}
	r.report.Answered, r.report.Unanswered, r.report.Learned = len(r.load.Answers), r.load.Unanswered, r.load.Learned
	r.report.LongestAnswer, r.report.Outcomes = seconds(r.load.Longest), outcomes(r.load.Answers)
	return nil
}

func (r *run) note(v ...Violation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range v {
		r.Log("        %s", one)
	}
	r.report.Violations = append(r.report.Violations, v...)
}

// until waits for a moment, or for the end of ctx.
func until(ctx context.Context, moment time.Time) {
	t := time.NewTimer(time.Until(moment))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// Save writes the manifest as it was run beside the logs.
func (m Manifest) Save(dir string) (string, error) {
	text, err := m.Format()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, m.Name+".toml")
	return path, os.WriteFile(path, text, 0o644)
}
