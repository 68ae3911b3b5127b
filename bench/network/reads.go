package network

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/pgbench"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

const (
	readers     = 4 // clients that read
	writesEvery = 100 * time.Millisecond
	writesEach  = 20 // transactions of TPC-C at a time
	writesRate  = writesEach * int(time.Second/writesEvery)
	writesLead  = 500 * time.Millisecond // by which writing begins before reading: blocks are under way then

	// writtenRate is a sample's detail: how many transactions a second were committed while the
	// clients read.
	writtenRate = "written_per_s"
)

// reading lets clients read OrderStatus as fast as they can from one database while TPC-C is
// written to it on schedule.
type reading struct {
	at      *harness.Organisation
	cfg     Config
	scripts []string
	up      running
}

// readWorkloads are the workloads beside Smallbank in both databases of the one.
func (c Config) readWorkloads() []workload.Schema {
	if !c.wants(readsLedger, readsPlain) {
		return nil
	}
	return []workload.Schema{tpccSize.Ordered()}
}

// writer applies some transactions to the database that is read whenever it is told to submit.
type writer interface {
	submitter
	// committed counts, from any beginning, what the database holds of them.
	committed(ctx context.Context) (int64, error)
}

// load reads a database that a writer on a connection of its own writes to.
func (r reading) load(database string, by func(conn *pgx.Conn, next func() string) writer) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (l load, err error) {
		var sessions sessions
		defer func() { err = errors.Join(err, sessions.close(ctx)) }()
		conn, err := sessions.open(ctx, r.at, database)
		if err != nil {
			return l, err
		}
		calls := r.cfg.tpcc(repetition, 0)
		w := by(conn, func() string { return calls.Block(1)[0].Text() })
		group, groupCtx := errgroup.WithContext(ctx)
		done := make(chan struct{})
		group.Go(func() error { return onSchedule(groupCtx, w, done) })
		group.Go(func() (err error) {
			defer close(done)
			l, err = r.read(groupCtx, database, repetition, w)
			return err
		})
		if err := group.Wait(); err != nil {
			return l, err
		}
		return l, w.finish(ctx)
	}
}

// onSchedule lets a submitter submit what is due until done.
func onSchedule(ctx context.Context, s submitter, done <-chan struct{}) error {
	for due := time.Now(); ; due = due.Add(writesEvery) {
		select {
		case <-done:
			return nil
		case <-time.After(time.Until(due)):
		}
		if _, err := s.submit(ctx); err != nil {
			return err
		}
	}
}

// read lets the clients read, and counts what is written meanwhile.
func (r reading) read(ctx context.Context, database string, repetition int, w writer) (load, error) {
	if err := until(ctx, time.Now().Add(writesLead)); err != nil {
		return load{}, err
	}
	before, err := w.committed(ctx)
	if err != nil {
		return load{}, err
	}
	began := time.Now()
	l, err := runPgbench(ctx, r.up, pgbench.Run{
		Cluster: r.at.Cluster, Database: database, Role: role, Scripts: r.scripts, Clients: readers, Seconds: r.cfg.Seconds,
		Customers: r.cfg.Customers, Seed: r.cfg.Seed + uint64(repetition), SynchronousCommit: "on",
	})
	if err != nil {
		return load{}, err
	}
	took := time.Since(began)
	after, err := w.committed(ctx)
	l.more = map[string]float64{writtenRate: float64(after-before) / took.Seconds()}
	return l, err
}

// readFigures compares reads of an organisation with those of PostgreSQL alone, where both were
// measured.
func readFigures(r *report.Report) error {
	ledger, alone := r.Find(readsLedger, readers), r.Find(readsPlain, readers)
	if ledger == nil || alone == nil {
		return nil
	}
	return errors.Join(
		r.AddRatio("network.reads_while_writing", ledger.Values(), alone.Values(), targets.Of("network.reads_while_writing"),
			fmt.Sprintf("OrderStatus, %d clients of one organisation's database / of PostgreSQL alone, while both are given %d transactions of TPC-C a second", readers, writesRate)),
		r.AddFigure("network.reads_writes", ledger.Details(writtenRate), "tx/s", report.Target{}, "of those, what the organisation executed and committed meanwhile"),
		r.AddFigure("network.reads_writes_standalone", alone.Details(writtenRate), "tx/s", report.Target{}, "of those, what PostgreSQL alone committed meanwhile, one by one"))
}

// oneByOne is an ordinary session: it commits each transaction by itself.
type oneByOne struct {
	conn *pgx.Conn
	next func() string
	done atomic.Int64
}

func newOneByOne(conn *pgx.Conn, next func() string) writer { return &oneByOne{conn: conn, next: next} }

func (o *oneByOne) submit(ctx context.Context) (int, error) {
	for range writesEach {
		if _, err := o.conn.Exec(ctx, o.next()); err != nil {
			return 0, err
		}
		o.done.Add(1)
	}
	return writesEach, nil
}

func (o *oneByOne) committed(context.Context) (int64, error) { return o.done.Load(), nil }
func (o *oneByOne) finish(context.Context) error             { return nil }

// toLedger hands them to the ledger, however many have no outcome yet.
type toLedger struct {
	session
	members
}

func (r reading) toLedger(conn *pgx.Conn, next func() string) writer {
	return &toLedger{session{conn: conn, next: next, pace: pace{writesEach, math.MaxInt}}, members{r.at}}
}

func (l *toLedger) committed(ctx context.Context) (int64, error) {
	counts, err := l.members.committed(ctx)
	if err != nil {
		return 0, err
	}
	return counts[0], nil
}
