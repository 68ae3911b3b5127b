package network

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/pgbench"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// SteadyConfig is a constant rate for a time.
type SteadyConfig struct {
	Config
	Rate   int           // transactions a second, of all organisations together; 0: each client submits when it is answered
	Length time.Duration // how long it is held
}

const (
	steadyClients = 32
	steadyLooks   = 60 // over the length
	quarters      = 4
)

// The measures of a steady load.
const (
	latency50  = "latency, median"
	latency99  = "latency, 99th percentile"
	nodeMemory = "memory of nodes"
	dbMemory   = "memory of databases"
	nodeFiles  = "open files of nodes"
	dbFiles    = "open files of databases"
	walFiles   = "write-ahead log of databases"
	orderLog   = "log of the order's messages"
	rateDone   = "transactions answered"
)

// measures names what is looked at, with its unit and its id among the figures.
var measures = []struct{ name, unit, id string }{
	{latency50, "ms", "latency_p50"},
	{latency99, "ms", "latency_p99"},
	{nodeMemory, "MB", "node_memory"},
	{dbMemory, "MB", "database_memory"},
	{nodeFiles, "files", "node_files"},
	{dbFiles, "files", "database_files"},
	{walFiles, "MB", "wal"},
	{orderLog, "MB", "order_log"},
	{rateDone, "tx/s", "rate"},
}

// Steady holds a rate on four organisations and looks, over and over, at latency and at what the
// servers hold. Growth in the second half is told from filling up in the first: each
// figure is the last quarter over the second.
func Steady(ctx context.Context, cfg SteadyConfig, r *report.Report) (err error) {
	net, err := openNetwork(ctx, cfg.Config, "steady", keptUp, []string{"acme", "bolt", "cargo", "delta"})
	defer func() {
		if net == nil {
			return
		}
		if err = errors.Join(err, net.Close()); err == nil {
			err = net.Remove()
		}
	}()
	if err != nil {
		return err
	}
	if err := errors.Join(machine.Facts(r, net.Dir), describeServer(ctx, r, "clusters", net.Organisations[0]), describeNodes(r, cfg.Chainify, net, config.Balanced)); err != nil {
		return err
	}
	alone, err := diskAlone(ctx, cfg, net)
	if err != nil {
		return err
	}
	o := &ours{net, cfg.Config, config.Balanced, bankTables()}
	if err := o.start(ctx); err != nil {
		return err
	}
	before, err := diskOf(ctx, net.Organisations)
	if err != nil {
		return err
	}
	s := &steady{cfg: cfg, ours: o, report: r}
	s.look = s.held
	if err := s.run(ctx); err != nil {
		return err
	}
	after, err := diskOf(ctx, net.Organisations)
	if err != nil {
		return err
	}
	return errors.Join(s.figures(),
		machine.NoteDisk(r, net.Dir),
		diskFigures(r, "steady", []map[string]float64{after.each(before, s.total, len(net.Organisations))}, []map[string]float64{alone}))
}

type steady struct {
	cfg    SteadyConfig
	ours   *ours
	report *report.Report
	// look measures at the end of the i-th of even times, from 1 on; answered is what clients saw
	// in it.
	look func(ctx context.Context, i int, answered load) error

	mu    sync.Mutex
	times []time.Duration // answered since the last look
	total int
}

// run lets clients submit, on schedule where there is a rate, and looks meanwhile.
func (s *steady) run(ctx context.Context) (err error) {
	var open sessions
	defer func() { err = errors.Join(err, open.close(ctx)) }()
	group, groupCtx := errgroup.WithContext(ctx)
	began := time.Now()
	every := s.interval()
	for i := range steadyClients {
		conn, err := open.open(ctx, s.ours.net.Organisations[i%len(s.ours.net.Organisations)], database)
		if err != nil {
			return err
		}
		calls := s.cfg.stream(1, i)
		group.Go(func() error {
			// Latency counts from when a transaction was due: a client that was held up does not
			// hide it.
			for due := began.Add(every * time.Duration(i) / steadyClients); due.Before(began.Add(s.cfg.Length)); due = after(due, every) {
				if err := until(groupCtx, due); err != nil {
					return err
				}
				var outcome bool
				var text *string
				if err := conn.QueryRow(groupCtx, "SELECT outcome, error FROM chainify.execute($1)", calls.Block(1)[0].FunctionText()).Scan(&outcome, &text); err != nil {
					return err
				}
				if !outcome {
					return fmt.Errorf("a transaction failed: %s", *text)
				}
				s.answered(time.Since(due))
			}
			return nil
		})
	}
	group.Go(func() error { return s.looks(groupCtx, began) })
	return group.Wait()
}

// interval is the time from one transaction of a client to its next; 0: no schedule.
func (s *steady) interval() time.Duration {
	if s.cfg.Rate == 0 {
		return 0
	}
	return time.Duration(steadyClients) * time.Second / time.Duration(s.cfg.Rate)
}

// after is when a client's next transaction is due.
func after(due time.Time, every time.Duration) time.Time {
	if every == 0 {
		return time.Now()
	}
	return due.Add(every)
}

func until(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (s *steady) answered(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, after)
	s.total++
}

// looks has all measured at even times.
func (s *steady) looks(ctx context.Context, began time.Time) error {
	every := s.cfg.Length / steadyLooks
	for i := 1; i <= steadyLooks; i++ {
		if err := until(ctx, began.Add(every*time.Duration(i))); err != nil {
			return err
		}
		s.mu.Lock()
		l := load{count: len(s.times), took: every, latencies: s.times}
		s.times = nil
		s.mu.Unlock()
		slices.Sort(l.latencies)
		if err := s.look(ctx, i, l); err != nil {
			return err
		}
	}
	return nil
}

// held measures latency, and what the servers hold.
func (s *steady) held(ctx context.Context, i int, l load) error {
	nodes, errNodes := machine.TreesHeld(s.ours.nodes())
	databases, errDatabases := machine.TreesHeld(s.ours.databases())
	wal, errWAL := sum(ctx, s.ours.net, "SELECT sum(size) FROM pg_ls_waldir()")
	messages, errMessages := orderLogs(s.ours.net)
	if err := errors.Join(errNodes, errDatabases, errWAL, errMessages); err != nil {
		return err
	}
	const mb = 1 << 20
	for name, value := range map[string]float64{
		latency50: l.quantile(0.5), latency99: l.quantile(0.99), rateDone: l.rate(), nodeMemory: float64(nodes.Memory) / mb,
		dbMemory: float64(databases.Memory) / mb, nodeFiles: float64(nodes.Files), dbFiles: float64(databases.Files), walFiles: float64(wal) / mb,
		orderLog: float64(messages) / mb,
	} {
		if l.count == 0 && (name == latency50 || name == latency99) {
			continue // nobody was answered, so nobody waited for a known time
		}
		s.report.Add(name, 0, unitOf(name), report.Sample{
			Repetition: i, Value: value, Transactions: l.count, Seconds: l.took.Seconds(), Load: machine.Load(),
		})
	}
	fmt.Fprintf(s.cfg.Progress, "%s of %s: %4.0f tx/s, p50 %6.1f ms, p99 %6.1f ms, nodes %4d MB, databases %4d MB, WAL %4d MB, the order's %4d MB\n",
		(l.took * time.Duration(i)).Round(time.Second), s.cfg.Length, l.rate(), l.quantile(0.5), l.quantile(0.99), nodes.Memory/mb, databases.Memory/mb, wal/mb, messages/mb)
	return nil
}

func unitOf(name string) string {
	for _, m := range measures {
		if m.name == name {
			return m.unit
		}
	}
	return ""
}

// figures compares the last quarter with the second. One slow moment of the machine decides the
// 99th percentile, and the log of messages grows up to 1 GB a node: both have no target.
func (s *steady) figures() error {
	for _, m := range measures {
		second, last := quarter(s.report, m.name, 2), quarter(s.report, m.name, quarters)
		id, how := "steady."+m.id, fmt.Sprintf("%s: median of the last quarter of the time / of the second, at %d tx/s", m.name, s.cfg.Rate)
		if err := s.report.AddFigure(id, []float64{report.Median(last) / report.Median(second)}, "ratio", targets.Of(id), how); err != nil {
			return err
		}
	}
	return nil
}

// quarter gives the values of a measure in a quarter of the time, from 1 on.
func quarter(r *report.Report, name string, q int) (values []float64) {
	if series := r.Find(name, 0); series != nil {
		for _, x := range series.Samples {
			if (x.Repetition-1)*quarters/steadyLooks == q-1 {
				values = append(values, x.Value)
			}
		}
	}
	return values
}

// sum adds up what a query gives in all databases.
func sum(ctx context.Context, net *harness.Network, query string) (all int64, err error) {
	for _, o := range net.Organisations {
		var one int64
		if err := o.Scan(ctx, query, &one); err != nil {
			return 0, err
		}
		all += one
	}
	return all, nil
}

// orderLogs is how large CometBFT's logs of its messages are, of all nodes together.
func orderLogs(net *harness.Network) (all int64, err error) {
	for _, o := range net.Organisations {
		for _, file := range nodeParts[orderLogBytes] {
			size, err := machine.Size(filepath.Join(o.Home(), "data", file))
			if err != nil {
				return 0, err
			}
			all += size
		}
	}
	return all, nil
}

// diskAlone is what PostgreSQL alone writes for one such transaction. The first run is not
// counted: it writes every page into the log once.
func diskAlone(ctx context.Context, cfg SteadyConfig, net *harness.Network) (each map[string]float64, err error) {
	scripts, err := pgbench.Scripts(cfg.Dir)
	if err != nil {
		return nil, err
	}
	database := &alone{net.Organisations[0], cfg.Config, scripts, bankTables()}
	if _, err := database.load(8)(ctx, 0); err != nil {
		return nil, err
	}
	l, err := database.load(8)(ctx, 1)
	return l.more, err
}
