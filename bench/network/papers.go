package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/workload"
)

// The systems of the papers' experiments, which docs/papers.md lists.
const (
	anyZipf    = "any-2 of 3, Zipf"
	anyUniform = "any-2 of 3, uniform"
	allZipf    = "all-3, Zipf"
	allUniform = "all-3, uniform"
	threePlain = "PostgreSQL, each committed by itself, Zipf"
	anyBlocks  = "any-2 of 3, Zipf, so many transactions a block"
	allBlocks  = "all-3, Zipf, so many transactions a block"

	batched      = "4 organisations, so many transactions a call"
	batchedPlain = "PostgreSQL, so many transactions a commit"
	byClients    = "4 organisations, clients that wait"
	byTwoPhase   = "4 PostgreSQL, two-phase commit, clients that wait"
	byFlood      = "4 organisations, clients that do not wait"
	besideWaits  = "4 organisations, server, clients that wait"
	besideFlood  = "4 organisations, server, clients that do not wait"

	batchedTPCC      = "TPC-C, 4 organisations, so many transactions a call"
	batchedTPCCPlain = "TPC-C, PostgreSQL, so many transactions a commit"
	floodTPCC        = "TPC-C, 4 organisations, clients that do not wait"
	besideFloodTPCC  = "TPC-C, 4 organisations, server, clients that do not wait"
)

var (
	// chained are the transactions of ChainifyDB (dissertation, section 4.8.1), writing those of
	// Schuhknecht and Jörz (section 4.1).
	chained = []string{"transact_savings", "deposit_checking", "send_payment", "write_check"}
	writing = append([]string{"amalgamate"}, chained...)
	// Their numbers of clients, and of transactions in one of the framework's.
	threesClients = []int{3, 6, 12, 24}
	foursClients  = []int{1, 2, 4, 8, 16, 32}
	batches       = []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048}
	tpccBatches   = []int{1, 8, 64, 512}
	blockSizes    = []int{256, 512, 1024, 2048, 4096} // section 4.8.5
)

// The dissertation's table 4.2, in transactions a second by clients.
var (
	publishedZipf    = map[int]int{3: 2757, 6: 3676, 12: 4709, 24: 4812}
	publishedUniform = map[int]int{3: 2279, 6: 3840, 12: 5774, 24: 6144}
)

// papers are the networks of the experiments, and PostgreSQL alone.
type papers struct {
	cfg  Config
	nets []*harness.Network
	// nil: not measured. Of three organisations two, or all, have to agree.
	two, three, four, server *ours
	alone                    *alone
	twoPhase                 *twoPhase // in the databases of four
	clients, sessions        []int
	batches, tpccBatches     []int
	blockSizes               []int
}

// Papers repeats experiments of ChainifyDB and of Schuhknecht and Jörz, and adds series and
// figures.
func Papers(ctx context.Context, cfg Config, r *report.Report) (err error) {
	p := &papers{cfg: cfg, clients: threesClients, sessions: foursClients, batches: batches, tpccBatches: tpccBatches, blockSizes: blockSizes}
	if cfg.Hasty {
		p.clients, p.sessions, p.batches, p.tpccBatches, p.blockSizes = []int{3}, []int{1, 4}, []int{1, 64}, []int{1, 64}, []int{256, 512}
	}
	defer func() { err = errors.Join(err, p.close(err == nil)) }()
	if err := p.open(ctx); err != nil {
		return err
	}
	if len(p.nets) == 0 {
		return fmt.Errorf("no system is named like one of %q", cfg.Only)
	}
	if err := errors.Join(machine.Facts(r, p.nets[0].Dir), describeServer(ctx, r, "clusters", p.nets[0].Organisations[0])); err != nil {
		return err
	}
	if err := machine.Settle(ctx, r, cfg.Settle, cfg.Progress); err != nil {
		return err
	}
	systems := slices.DeleteFunc(p.systems(), func(s system) bool { return !cfg.wants(s.name) })
	for repetition := 1; repetition <= cfg.Repeat; repetition++ {
		if err := repeat(ctx, cfg, repetition, systems, r); err != nil {
			return err
		}
	}
	return errors.Join(machine.NoteDisk(r, p.nets[0].Dir), p.figures(r))
}

// open makes the networks.
func (p *papers) open(ctx context.Context) error {
	threes, fours := []string{"acme", "bolt", "cargo"}, []string{"acme", "bolt", "cargo", "delta"}
	for _, n := range []struct {
		name          string
		consent       int
		organisations []string
		into          **ours
		systems, tpcc []string
	}{
		{"any2", 2, threes, &p.two, []string{anyZipf, anyUniform, anyBlocks}, nil},
		{"all3", 3, threes, &p.three, []string{allZipf, allUniform, allBlocks}, nil},
		{"papers", 0, fours, &p.four, []string{batched, byClients, byFlood, byTwoPhase, phasesOf}, []string{batchedTPCC, floodTPCC}},
		{serverNet, 0, fours, &p.server, []string{besideWaits, besideFlood}, []string{besideFloodTPCC}},
	} {
		if n.name == serverNet && p.cfg.CometBFT == "" || !p.cfg.wants(slices.Concat(n.systems, n.tpcc)...) {
			continue
		}
		cfg, more := p.cfg, p.tpccFor(n.tpcc...)
		cfg.consent = n.consent
		net, err := openNetwork(ctx, cfg, n.name, withTwoPhase(), n.organisations, more...)
		if net != nil {
			p.nets = append(p.nets, net)
		}
		if err != nil {
			return err
		}
		*n.into = &ours{net, p.cfg, config.Balanced, bankTables(more...)}
	}
	if p.four != nil {
		p.twoPhase = &twoPhase{net: p.four.net, cfg: p.cfg, tables: bankTables()}
	}
	if !p.cfg.wants(threePlain, batchedPlain, batchedTPCCPlain) {
		return nil
	}
	net, alone, err := openAlone(ctx, p.cfg, p.tpccFor(batchedTPCCPlain)...)
	if net != nil {
		p.nets = append(p.nets, net)
	}
	p.alone = alone
	return err
}

// tpccFor are the tables beside Smallbank's that some systems need, where one is measured.
func (p *papers) tpccFor(systems ...string) []workload.Schema {
	if len(systems) == 0 || !p.cfg.wants(systems...) {
		return nil
	}
	return []workload.Schema{tpccSize.Ordered()}
}

// close ends all, and removes what a run left that went well.
func (p *papers) close(well bool) error {
	var errs []error
	for _, net := range p.nets {
		errs = append(errs, net.Close())
		if well {
			errs = append(errs, net.Remove())
		}
	}
	if p.alone != nil {
		for _, script := range p.alone.scripts {
			script, _, _ = strings.Cut(script, "@")
			errs = append(errs, os.Remove(script))
		}
	}
	return errors.Join(errs...)
}

// systems are those whose network is there.
func (p *papers) systems() []system {
	zipfs, uniform := p.cfg.only(chained, zipf), p.cfg.only(chained, 0)
	writes := p.cfg.only(writing, 0)
	var out []system
	usual := pace{bundle, inFlight}
	flooded := func(name string, up *ours, clients int, at pace, of stream) {
		if up != nil {
			out = append(out, system{name, float64(clients), up, up.members().floodedBy(clients, p.cfg, at, of)})
		}
	}
	blocks := func(name string, up *ours, size int) {
		if up != nil {
			out = append(out, system{name, float64(size), up, up.members().inBlocks(size, p.cfg, zipfs)})
		}
	}
	waited := func(name string, up *ours, point, clients, size int, of stream) {
		if up != nil {
			out = append(out, system{name, float64(point), up, up.members().inBatchesBy(clients, size, p.cfg, of)})
		}
	}
	atOnce := func(name string, size int, of stream) {
		if p.alone != nil {
			out = append(out, system{name, float64(size), p.alone, p.alone.inBatches(size, of)})
		}
	}
	for _, n := range p.clients {
		flooded(anyZipf, p.two, n, usual, zipfs)
		flooded(anyUniform, p.two, n, usual, uniform)
		flooded(allZipf, p.three, n, usual, zipfs)
		flooded(allUniform, p.three, n, usual, uniform)
		if p.alone != nil {
			out = append(out, system{threePlain, float64(n), p.alone, p.alone.oneByOneOf(n, zipfs)})
		}
	}
	for _, n := range p.blockSizes {
		blocks(anyBlocks, p.two, n)
		blocks(allBlocks, p.three, n)
	}
	for _, n := range p.batches {
		waited(batched, p.four, n, 1, n, writes)
		atOnce(batchedPlain, n, writes)
	}
	for _, n := range p.tpccBatches {
		waited(batchedTPCC, p.four, n, 1, n, p.cfg.tpccStream)
		atOnce(batchedTPCCPlain, n, p.cfg.tpccStream)
	}
	flooded(floodTPCC, p.four, 1, tpccPace, p.cfg.tpccStream)
	flooded(besideFloodTPCC, p.server, 1, tpccPace, p.cfg.tpccStream)
	if p.four != nil {
		m := p.four.members()
		for _, n := range phaseSizes {
			out = append(out, system{phasesOf, float64(n), p.four, phased(m[0], m.inBatchesBy(1, n, p.cfg, writes))})
		}
	}
	for _, n := range p.sessions {
		waited(byClients, p.four, n, n, 1, writes)
		waited(besideWaits, p.server, n, n, 1, writes)
		if p.twoPhase != nil {
			out = append(out, system{byTwoPhase, float64(n), p.twoPhase, p.twoPhase.load(n, writes)})
		}
		flooded(byFlood, p.four, n, usual, writes)
		flooded(besideFlood, p.server, n, usual, writes)
	}
	return out
}

// only are streams of some of Smallbank's transactions; skew 0: uniformly drawn customers.
func (c Config) only(names []string, skew float64) stream {
	return func(repetition, client int) func() transaction {
		number := uint64(repetition)<<32 | uint64(client)
		bank := workload.NewSmallbank(c.Seed, number, int64(c.Customers))
		if skew > 0 {
			bank = workload.NewSkewedSmallbank(c.Seed, number, int64(c.Customers), skew)
		}
		return spelled(bank.Of(names...))
	}
}

// tpccStream is TPC-C by the book as a stream.
func (c Config) tpccStream(repetition, client int) func() transaction {
	calls := c.tpcc(repetition, client)
	return func() transaction {
		call := calls.Block(1)[0]
		return transaction{text: call.Text(), statement: call}
	}
}

// inBatchesBy has clients submit so many transactions at once each, and wait for all of them.
func (m members) inBatchesBy(clients, size int, cfg Config, of stream) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (l load, err error) {
		var sessions sessions
		defer func() { err = errors.Join(err, sessions.close(ctx)) }()
		l, err = waiting(ctx, clients, cfg.patient(clients), func(i int) (func(context.Context) error, error) {
			conn, err := sessions.open(ctx, m[i%len(m)], database)
			if err != nil {
				return nil, err
			}
			next := of(repetition, i)
			client := &session{conn: conn, next: func() string { return next().text }, pace: pace{size, 1}}
			return func(ctx context.Context) error {
				if _, err := client.submit(ctx); err != nil {
					return err
				}
				return client.finish(ctx)
			}, nil
		})
		l.count *= size
		return l, err
	}
}

// sizeOfBlocks is a detail of a sample: how many transactions its blocks had, on average.
const sizeOfBlocks = "block_transactions"

// inBlocks has one client submit so many transactions at once, and the next so many while these
// are executed, so that each submission becomes a block.
func (m members) inBlocks(size int, cfg Config, of stream) func(context.Context, int) (load, error) {
	submit := m.floodedBy(1, cfg, pace{size, 2}, of)
	return func(ctx context.Context, repetition int) (load, error) {
		before, err := ledgerBlocks(ctx, m[0])
		if err != nil {
			return load{}, err
		}
		l, err := submit(ctx, repetition)
		if err != nil {
			return l, err
		}
		after, err := ledgerBlocks(ctx, m[0])
		l.more = map[string]float64{sizeOfBlocks: float64(l.count) / float64(max(1, after-before))}
		return l, err
	}
}

// inBatches has one session of PostgreSQL alone commit so many transactions at once, durably.
func (a *alone) inBatches(size int, of stream) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (l load, err error) {
		var sessions sessions
		defer func() { err = errors.Join(err, sessions.close(ctx)) }()
		conn, err := sessions.open(ctx, a.organisation, plain)
		if err != nil {
			return l, err
		}
		next := of(repetition, 0)
		l, err = afterLead(ctx, a, clients{func(ctx context.Context) error {
			tx, err := conn.Begin(ctx)
			if err != nil {
				return err
			}
			for range size {
				statement := next().statement
				if _, err := tx.Exec(ctx, statement.SQL, statement.Arguments()...); err != nil {
					return errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
				}
			}
			return tx.Commit(ctx)
		}}, a.cfg.Seconds)
		l.count *= size
		l.led.count *= size
		return l, err
	}
}

// figures states ours beside what the papers print. Curves that they only draw stay series.
func (p *papers) figures(r *report.Report) error {
	return errors.Join(p.chainedFigures(r), p.blockchainFigures(r))
}

// chainedFigures are of ChainifyDB.
func (p *papers) chainedFigures(r *report.Report) error {
	var errs []error
	for _, n := range p.clients {
		for _, of := range []struct {
			id, system string
			published  int
		}{{"zipf", anyZipf, publishedZipf[n]}, {"uniform", anyUniform, publishedUniform[n]}} {
			if values := r.Find(of.system, float64(n)).Values(); len(values) > 0 {
				errs = append(errs, r.AddFigure(fmt.Sprintf("papers.any2_%s_%d", of.id, n), values, "tx/s", report.Target{},
					fmt.Sprintf("ChainifyDB, table 4.2: two of three organisations agree, %d clients; published %d tx/s", n, of.published)))
			}
		}
		at := float64(n)
		errs = append(errs,
			ratio(r, fmt.Sprintf("any2_over_all3_%d", n), anyZipf, at, allZipf, at, "ChainifyDB, figure 4.11a, which draws it: two of three PostgreSQL have to agree / all three; its third organisation kept a MySQL"),
			ratio(r, fmt.Sprintf("any2_over_all3_uniform_%d", n), anyUniform, at, allUniform, at, "the same, customers drawn uniformly"),
			ratio(r, fmt.Sprintf("any2_over_standalone_%d", n), anyZipf, at, threePlain, at, "ChainifyDB, figure 4.11: two of three / PostgreSQL with as many sessions; published: slightly more than 1 with 3, 6 and 12 clients"))
	}
	return errors.Join(append(errs, p.blockFigures(r))...)
}

// blockFigures are of ChainifyDB's figure 4.14.
func (p *papers) blockFigures(r *report.Report) error {
	var errs []error
	smallest, largest := float64(p.blockSizes[0]), float64(p.blockSizes[len(p.blockSizes)-1])
	for _, of := range []struct{ id, system, agree string }{{"any2", anyBlocks, "two"}, {"all3", allBlocks, "all"}} {
		for _, n := range p.blockSizes {
			found := r.Find(of.system, float64(n))
			if len(found.Values()) == 0 {
				continue
			}
			errs = append(errs, r.AddFigure(fmt.Sprintf("papers.%s_block_%d", of.id, n), found.Values(), "tx/s", report.Target{},
				fmt.Sprintf("ChainifyDB, figure 4.14, which draws it: %s of three organisations agree, blocks of %d transactions (%.0f on average)", of.agree, n, report.Median(found.Details(sizeOfBlocks)))))
		}
		errs = append(errs, ratio(r, of.id+"_blocks", of.system, largest, of.system, smallest,
			fmt.Sprintf("the same: blocks of %g / of %g", largest, smallest)))
	}
	return errors.Join(errs...)
}

// blockchainFigures are of Schuhknecht and Jörz.
func (p *papers) blockchainFigures(r *report.Report) error {
	var errs []error
	largest, most := p.batches[len(p.batches)-1], float64(p.sessions[len(p.sessions)-1])
	for _, n := range p.batches {
		published := "drawn"
		switch n {
		case 1:
			published = "218 × in latency, 208 × in time"
		case largest:
			published = "32 × and 25 × at best"
		}
		errs = append(errs, ratio(r, fmt.Sprintf("slowdown_batch_%d", n), batchedPlain, float64(n), batched, float64(n),
			fmt.Sprintf("BTW 2023, figure 4: PostgreSQL / four organisations, one client, %d Smallbank transactions at a time; published %s", n, published)))
	}
	for _, n := range p.tpccBatches {
		published := "drawn"
		if n == 1 {
			published = "133 × in latency, 129 × in time"
		}
		errs = append(errs, ratio(r, fmt.Sprintf("tpcc_slowdown_batch_%d", n), batchedTPCCPlain, float64(n), batchedTPCC, float64(n),
			fmt.Sprintf("BTW 2023, figure 5: PostgreSQL / four organisations, one client, %d TPC-C transactions at a time; published %s, 2.5 × and 2.4 × at best", n, published)))
	}
	const drawn = "BTW 2023, figure 9, which draws it: %g clients / one"
	return errors.Join(append(errs,
		twoPhaseFigures(r, p.sessions),
		phaseFigures(r),
		ratio(r, "slowdown_async", batchedPlain, float64(largest), byFlood, 1,
			fmt.Sprintf("BTW 2023, figure 6: PostgreSQL with commits of %d / four organisations, one client that does not wait; published 21 ×", largest)),
		ratio(r, "clients_sync", byClients, most, byClients, 1, fmt.Sprintf(drawn, most)),
		ratio(r, "clients_async", byFlood, most, byFlood, 1, fmt.Sprintf(drawn, most)),
		ratio(r, "builtin_over_server_sync", byClients, 1, besideWaits, 1, "BTW 2023, figure 3, Smallbank: CometBFT in the node's process / its own; published: hardly a difference"),
		ratio(r, "builtin_over_server_async", byFlood, 1, besideFlood, 1, "the same with a client that does not wait; published 1.53 ×"),
		ratio(r, "tpcc_builtin_over_server_async", floodTPCC, 1, besideFloodTPCC, 1, "the same with TPC-C; published 1.23 ×"),
	)...)
}

// ratio is that of two systems at a point of each, where both were measured.
func ratio(r *report.Report, id, a string, at float64, b string, of float64, how string) error {
	over, under := r.Find(a, at).Values(), r.Find(b, of).Values()
	if len(over) == 0 || len(under) == 0 {
		return nil
	}
	return r.AddRatio("papers."+id, over, under, report.Target{}, how)
}
