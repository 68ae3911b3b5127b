package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

// Systems: the transactions of one script, in one of these ways.
const (
	aloneOn       = ", PostgreSQL alone"
	aloneOff      = ", PostgreSQL alone, sync off"
	aloneUndone   = ", PostgreSQL alone, ROLLBACK"
	captured      = ", captured and undone"
	rolledBack    = ", captured, ROLLBACK"
	applied       = ", applied in a block"
	appliedByTwo  = ", applied by two processes"
	executed      = ", executed in a block"
	plainSessions = 8

	// setSize is a detail of what was captured.
	setSize = "write_set_bytes_per_tx"

	recorderLimit = 30 * time.Second
)

// plainSizes give each transaction of a block a branch of its own, so that no two write sets of a
// block meet.
func plainSizes(block int) workload.TPCB {
	return workload.TPCB{Branches: block, Tellers: 1, Accounts: 25}
}

// plain is the measurement of one database without a network.
type plain struct {
	cfg      Config
	sites    *sites
	tables   workload.TPCB
	recorder *recorder
	chain    *chain
	sessions map[*site][]*pgx.Conn
	report   *report.Report
}

// Plain measures the cost of plain SQL through the ledger in one database. Sessions capture and
// undo their changes, and blocks apply the write sets. Beside them run PostgreSQL alone, and blocks
// of the same transactions as SQL. There is no network: the sessions' node is a recorder. The
// caller may add other parts to the report.
func Plain(ctx context.Context, cfg Config, r *report.Report) (err error) {
	p, err := openPlain(ctx, cfg, r)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, p.close(ctx)); err == nil {
			err = p.sites.network.Remove()
		}
	}()
	if err := machine.Settle(ctx, r, cfg.Settle, cfg.Progress); err != nil {
		return err
	}
	return p.run(ctx)
}

// openPlain makes the clusters and opens the sessions. The caller ends it with close.
func openPlain(ctx context.Context, cfg Config, r *report.Report) (*plain, error) {
	p := &plain{cfg: cfg, tables: plainSizes(cfg.Block), sessions: map[*site][]*pgx.Conn{}, report: r}
	var err error
	if p.sites, err = open(ctx, cfg, r, p.tables.Schema()); err != nil {
		return nil, err
	}
	if err := p.begin(ctx); err != nil {
		return nil, errors.Join(err, p.close(ctx))
	}
	// A row of it changes with each transaction that draws from a sequence.
	p.sites.ledger.tables = append(p.sites.ledger.tables, workload.SequenceTable)
	return p, nil
}

// run measures all repetitions and states the figures.
func (p *plain) run(ctx context.Context) error {
	for repetition := 0; repetition <= p.cfg.Repeat; repetition++ { // nothing of the first counts
		if err := p.repeat(ctx, repetition); err != nil {
			return err
		}
	}
	return plainFigures(p.report, p.cfg.Block)
}

// begin opens the sessions and lets those of the ledger meet the recorder.
func (p *plain) begin(ctx context.Context) (err error) {
	if p.chain, err = p.sites.ledger.chain(ctx); err != nil {
		return err
	}
	socket := filepath.Join(p.sites.network.Dir, "run", "recorder")
	if p.recorder, err = newRecorder(socket); err != nil {
		return err
	}
	if err := p.sites.ledger.organisation.SetSystem(ctx, recorderLimit, "chainify.node_socket", socket); err != nil {
		return err
	}
	// Blocks of a script that comes apart follow those of others that do not, and teach otherwise.
	if err := p.sites.ledger.organisation.SetSystem(ctx, recorderLimit, "chainify.debug_parts", "-2"); err != nil {
		return err
	}
	for _, s := range []*site{p.sites.plain, p.sites.ledger} {
		for range plainSessions {
			conn, err := s.organisation.Cluster.Connect(ctx, database, role)
			if err != nil {
				return err
			}
			p.sessions[s] = append(p.sessions[s], conn)
		}
	}
	return p.set(ctx, p.sites.ledger, "SET chainify.writes = 'effects'")
}

// set sets something in all sessions of a site.
func (p *plain) set(ctx context.Context, s *site, sql string) error {
	for _, conn := range p.sessions[s] {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func (p *plain) close(ctx context.Context) error {
	var errs []error
	for _, conns := range p.sessions {
		for _, conn := range conns {
			errs = append(errs, conn.Close(context.WithoutCancel(ctx)))
		}
	}
	if p.recorder != nil {
		errs = append(errs, p.recorder.close())
	}
	return errors.Join(append(errs, p.sites.close())...)
}

// repeat does everything once, in an order drawn for it. Every step does a whole block's number of
// transactions, at different branches each.
func (p *plain) repeat(ctx context.Context, repetition int) error {
	random := rand.New(rand.NewPCG(p.cfg.Seed, uint64(repetition)))
	var steps []func() error
	for _, script := range workload.Scripts() {
		draw := func() []workload.Drawn {
			out := make([]workload.Drawn, p.tables.Branches)
			for i, branch := range random.Perm(p.tables.Branches) {
				out[i] = p.tables.Draw(script, branch+1, random)
			}
			return out
		}
		var add adds = func(system string, size float64, sample report.Sample) {
			p.add(script.Name+system, size, repetition, sample)
		}
		alone := func(system, set, end string) func() error {
			return func() error {
				if err := p.set(ctx, p.sites.plain, "SET synchronous_commit = "+set); err != nil {
					return err
				}
				return p.rounds(func(sum *tally) error { return p.inSessions(ctx, p.sites.plain, draw(), end, sum) }, system, 0, add)
			}
		}
		steps = append(steps, alone(aloneOn, "on", "COMMIT"), alone(aloneOff, "off", "COMMIT"), alone(aloneUndone, "on", "ROLLBACK"),
			func() error {
				return p.rounds(func(sum *tally) error {
					return errors.Join(p.inSessions(ctx, p.sites.ledger, draw(), "ROLLBACK", sum), p.drawAgain(ctx))
				}, rolledBack, 0, add)
			})
		steps = append(steps, func() error { return p.captureAndApply(ctx, draw, applying{appliedByTwo, p.cfg.Block, 2}, add) })
		for _, size := range []int{p.cfg.Block, p.small()} {
			steps = append(steps,
				func() error { return p.captureAndApply(ctx, draw, applying{applied, size, 1}, add) },
				func() error {
					return p.rounds(func(sum *tally) error { return p.execute(ctx, draw(), size, sum) }, executed, float64(size), add)
				})
		}
	}
	for _, i := range random.Perm(len(steps)) {
		for _, s := range []*site{p.sites.plain, p.sites.ledger} {
			if err := s.vacuum(ctx); err != nil {
				return err
			}
		}
		if err := steps[i](); err != nil {
			return fmt.Errorf("plain SQL, repetition %d: %w", repetition, err)
		}
	}
	return nil
}

// add keeps a sample, unless it was to warm up.
func (p *plain) add(system string, size float64, repetition int, sample report.Sample) {
	if repetition == 0 {
		return
	}
	sample.Repetition, sample.Load = repetition, machine.Load()
	p.report.Add(system, size, "tx/s", sample)
	fmt.Fprintf(p.cfg.Progress, "repetition %d/%d: %-44s %4.0f  %7.0f tx/s, %6.1f us of server CPU each, load %.1f\n",
		repetition, p.cfg.Repeat, system, size, sample.Value, sample.ServerCPUUS, sample.Load)
}

// adds keeps a sample of a system; the size is that of its blocks, 0 where there are none.
type adds func(system string, size float64, sample report.Sample)

// small is the other size of blocks.
func (p *plain) small() int { return smallOf(p.cfg.Block) }

func smallOf(block int) int { return max(1, block/8) }

// tally sums up rounds, of which each has a block's number of transactions.
type tally struct {
	transactions int
	took, cpu    time.Duration
}

func (t *tally) add(transactions int, took, cpu time.Duration) {
	t.transactions, t.took, t.cpu = t.transactions+transactions, t.took+took, t.cpu+cpu
}

func (t *tally) sample() report.Sample {
	return report.Sample{
		Value: float64(t.transactions) / t.took.Seconds(), Transactions: t.transactions, Seconds: t.took.Seconds(),
		ServerCPUUS: perTransaction(t.cpu, t.transactions),
	}
}

// rounds does one round after the other until they took the seconds of a measurement.
func (p *plain) rounds(round func(sum *tally) error, system string, size float64, add adds) error {
	var sum tally
	for sum.took == 0 || sum.took < time.Duration(p.cfg.Seconds)*time.Second {
		if err := round(&sum); err != nil {
			return err
		}
	}
	add(system, size, sum.sample())
	return nil
}

// applying is how write sets are applied.
type applying struct {
	system  string
	size    int // of blocks
	workers int
}

// captureAndApply records write sets and applies them in blocks of a size, over and over.
func (p *plain) captureAndApply(ctx context.Context, draw func() []workload.Drawn, how applying, add adds) error {
	if _, err := p.chain.conn.Exec(ctx, fmt.Sprintf("SET chainify.executor_workers = %d", how.workers)); err != nil {
		return err
	}
	var capturing, blocks tally
	bytes, count, inParts := 0, 0, 0
	for blocks.took == 0 || capturing.took+blocks.took < 2*time.Duration(p.cfg.Seconds)*time.Second {
		transactions := draw()
		if err := p.inSessions(ctx, p.sites.ledger, transactions, "COMMIT", &capturing); err != nil {
			return err
		}
		sets, err := p.recorder.take()
		if err != nil {
			return err
		}
		if len(sets) != len(transactions) {
			return fmt.Errorf("%d write sets of %d transactions were recorded", len(sets), len(transactions))
		}
		for part := range slices.Chunk(sets, how.size) {
			for _, set := range part {
				bytes += len(set)
			}
			raw, err := p.chain.author.WriteSets(p.chain.nonce, part)
			if err != nil {
				return err
			}
			p.chain.nonce += uint64(len(part))
			if err := p.block(ctx, raw, len(part), &blocks); err != nil {
				return err
			}
			count++
			if how.workers > 1 {
				if inParts, err = p.sites.ledger.countParts(ctx, p.chain.number, inParts); err != nil {
					return err
				}
			}
		}
	}
	sample := blocks.sample()
	if how.workers > 1 {
		sample.Detail = map[string]float64{allBlocks: float64(count), blocksInParts: float64(inParts)}
	}
	add(how.system, float64(how.size), sample)
	if how.system == applied && how.size == p.cfg.Block {
		sample := capturing.sample()
		sample.Detail = map[string]float64{setSize: float64(bytes) / float64(capturing.transactions)}
		add(captured, 0, sample)
	}
	return nil
}

// drawAgain puts the database's own sequence back to where the ledger's stands. Numbers that were
// drawn and rolled back would otherwise leave the ledger's behind, which follows over 10,000
// numbers only.
func (p *plain) drawAgain(ctx context.Context) error {
	_, err := p.sites.ledger.conn.Exec(ctx, "SELECT setval('tpcb.history_id_seq', greatest(last_value, 1)) FROM chainify.sequences WHERE name = 'tpcb.history_id_seq'")
	return err
}

// execute runs transactions in blocks of a size, each as one call of its function.
func (p *plain) execute(ctx context.Context, transactions []workload.Drawn, size int, sum *tally) error {
	for part := range slices.Chunk(transactions, size) {
		calls := make([]workload.Statement, len(part))
		for i, d := range part {
			calls[i] = d.Call()
		}
		raw, err := p.chain.encode(wire.Kind_KIND_SQL, calls)
		if err != nil {
			return err
		}
		if err := p.block(ctx, raw, len(calls), sum); err != nil {
			return err
		}
	}
	return nil
}

// block runs one block on the ledger.
func (p *plain) block(ctx context.Context, raw []byte, transactions int, sum *tally) error {
	var execute, commit time.Duration
	cpu, err := p.sites.ledger.cpu(func() (err error) {
		execute, commit, err = p.chain.run(ctx, raw)
		return err
	})
	sum.add(transactions, execute+commit, cpu)
	return err
}

// inSessions runs transactions in the sessions of a site, each from BEGIN to its end, a message of
// the client for each statement.
func (p *plain) inSessions(ctx context.Context, s *site, transactions []workload.Drawn, end string, sum *tally) error {
	started := time.Now()
	conns := p.sessions[s]
	cpu, err := s.cpu(func() error {
		group, ctx := errgroup.WithContext(ctx)
		for i, conn := range conns {
			group.Go(func() error {
				for n := i; n < len(transactions); n += len(conns) {
					if err := interactive(ctx, conn, transactions[n], end); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return group.Wait()
	})
	sum.add(len(transactions), time.Since(started), cpu)
	return err
}

// interactive runs one transaction.
func interactive(ctx context.Context, conn *pgx.Conn, transaction workload.Drawn, end string) error {
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	for _, s := range transaction.Statements() {
		if _, err := conn.Exec(ctx, s.SQL, s.Arguments()...); err != nil {
			return err
		}
	}
	tag, err := conn.Exec(ctx, end)
	if err == nil && tag.String() != end {
		err = fmt.Errorf("%s gave %s", end, tag)
	}
	return err
}

// plainFigures states what capturing and applying cost.
func plainFigures(r *report.Report, block int) error {
	for _, script := range workload.Scripts() {
		cpu := func(system string, size int) []float64 { return r.Find(script.Name+system, float64(size)).CPUs() }
		id := "plain." + script.ID()
		const alone = "processor time of the server: captured in the client's session, undone, submitted, and applied / the same transactions in PostgreSQL alone"
		for _, of := range []struct {
			id   string
			size int
		}{{"", block}, {"_small", smallOf(block)}} {
			both, err := sums(cpu(captured, 0), cpu(applied, of.size))
			if err != nil {
				return err
			}
			cost, apply := id+"_cost"+of.id, id+"_apply_over_execute"+of.id
			if err := errors.Join(
				r.AddRatio(cost, both, cpu(aloneOn, 0), targets.Of(cost), fmt.Sprintf("%s, one database without a network, %d sessions, blocks of %d; %s", script.Name, plainSessions, of.size, alone)),
				r.AddRatio(apply, cpu(applied, of.size), cpu(executed, of.size), targets.Of(apply), fmt.Sprintf("%s, blocks of %d: write sets applied / the same as one call of a function each, by processor time", script.Name, of.size)),
			); err != nil {
				return err
			}
		}
		both, err := sums(cpu(captured, 0), cpu(applied, block))
		if err != nil {
			return err
		}
		if err := errors.Join(
			r.AddRatio(id+"_two_processes", r.Find(script.Name+appliedByTwo, float64(block)).Values(), r.Find(script.Name+applied, float64(block)).Values(), report.Target{}, fmt.Sprintf("%s, blocks of %d: write sets applied by two processes / by one", script.Name, block)),
			r.AddRatio(id+"_two_processes_cpu", cpu(appliedByTwo, block), cpu(applied, block), report.Target{}, "the same by processor time"),
			r.AddRatio(id+"_cost_sync_off", both, cpu(aloneOff, 0), report.Target{}, fmt.Sprintf("%s, blocks of %d, beside PostgreSQL with synchronous_commit=off", script.Name, block)),
			r.AddRatio(id+"_capture_cost", cpu(captured, 0), cpu(aloneOn, 0), report.Target{}, "of the cost the sessions alone: captured, undone, submitted"),
			r.AddRatio(id+"_capture_rollback_cost", cpu(rolledBack, 0), cpu(aloneUndone, 0), report.Target{}, "transactions that end in ROLLBACK, which submit nothing: captured / in PostgreSQL alone"),
			r.AddFigure(id+"_write_set", r.Find(script.Name+captured, 0).Details(setSize), "bytes", report.Target{}, "write set of a transaction"),
		); err != nil {
			return err
		}
	}
	return nil
}

// sums adds two series, repetition by repetition.
func sums(a, b []float64) ([]float64, error) {
	if len(a) != len(b) {
		return nil, fmt.Errorf("%d repetitions of one and %d of the other", len(a), len(b))
	}
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] + b[i]
	}
	return out, nil
}
