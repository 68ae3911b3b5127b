// Package executor measures one organisation's block executor beside PostgreSQL alone. Two clusters
// with the same settings hold the same tables: one without a trace of Chainify, one with the tables
// on the ledger. There is no network and no order: blocks are made here and run as the node runs
// them.
package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/workload"
)

// DefaultClients are the client counts of pgbench.
var DefaultClients = []int{1, 2, 4, 8, 16, 24}

// Config is one run.
type Config struct {
	Dir, PG          string
	Seed             uint64
	Repeat, Seconds  int
	Customers, Block int
	Clients          []int
	// BlockSizes and Sizes are the blocks, and the customers of Smallbank, over which the cost of
	// a transaction is to be flat. Every size is a cluster of its own.
	BlockSizes, Sizes []int
	TPCC              workload.TPCCSize
	Settle            time.Duration // how long the load of the set-up is waited for at most
	Progress          io.Writer
}

// The sizes over which the cost of a transaction is to be flat.
var (
	DefaultBlockSizes = []int{64, 256, 1024, 4096, 16384}
	DefaultSizes      = []int{10_000, 100_000, 1_000_000}
)

// system is one of what is compared. measure does it once and says what it saw.
type system struct {
	name    string
	point   float64
	on      *site
	measure func(ctx context.Context, repetition int) (report.Sample, error)
}

// Run measures all systems, interleaved, and adds series, figures and plots.
func Run(ctx context.Context, cfg Config, r *report.Report) (err error) {
	sites, err := open(ctx, cfg, r, workload.SmallbankSchema(cfg.Customers), cfg.TPCC.Schema())
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, sites.close()); err == nil {
			err = sites.network.Remove() // after a failure the servers' logs are worth keeping
		}
	}()
	systems := sites.systems(cfg)
	if err := machine.Settle(ctx, r, cfg.Settle, cfg.Progress); err != nil {
		return err
	}
	if err := warmUp(ctx, systems, cfg.Progress); err != nil {
		return err
	}
	for repetition := 1; repetition <= cfg.Repeat; repetition++ {
		if err := repeat(ctx, cfg, repetition, systems, r); err != nil {
			return err
		}
	}
	if err := machine.NoteDisk(r, sites.network.Dir); err != nil {
		return err
	}
	if err := figures(r); err != nil {
		return err
	}
	if err := scaleFigures(r); err != nil {
		return err
	}
	return workerFigures(r, sites.ledger.workers)
}

// warmUp runs every block system and one pgbench once, so that caches are filled and plans are
// made.
func warmUp(ctx context.Context, systems []system, progress io.Writer) error {
	for i, s := range systems {
		if i > 0 && (s.name == pgbenchOn || s.name == pgbenchOff) { // another client count of pgbench
			continue
		}
		if _, err := s.measure(ctx, 0); err != nil {
			return fmt.Errorf("warm up %s: %w", s.name, err)
		}
	}
	fmt.Fprintf(progress, "warm; %d measurements in each repetition\n", len(systems))
	return nil
}

// repeat measures every system once, in an order of this repetition.
func repeat(ctx context.Context, cfg Config, repetition int, systems []system, r *report.Report) error {
	random := rand.New(rand.NewPCG(cfg.Seed, uint64(repetition)))
	for done, i := range random.Perm(len(systems)) {
		s := systems[i]
		if err := s.on.vacuum(ctx); err != nil {
			return err
		}
		load := machine.Load()
		sample, err := s.measure(ctx, repetition)
		if err != nil {
			return fmt.Errorf("%s, repetition %d: %w", s.name, repetition, err)
		}
		sample.Repetition, sample.Load = repetition, load
		r.Add(s.name, s.point, "tx/s", sample)
		fmt.Fprintf(cfg.Progress, "repetition %d/%d, %2d/%d: %-24s %3.0f  %7.0f tx/s, %5.1f us of server CPU each, load %.1f\n",
			repetition, cfg.Repeat, done+1, len(systems), s.name, s.point, sample.Value, sample.ServerCPUUS, load)
	}
	return nil
}
