package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

// twoWorkers is blockFunction with two workers.
const twoWorkers = "block, two workers"

// Details of a sample with several workers: its blocks, and how many of them ran in parts.
const (
	allBlocks     = "blocks"
	blocksInParts = "blocks_in_parts"
)

// tpccBlock is the transactions of a block of TPC-C, each of which is twenty statements: an
// eighth of a second. Larger ones tie all warehouses of workload.DefaultTPCC together.
const tpccBlock = 256

func tpcc(spread workload.Spread) string { return "tpcc, " + string(spread) }

var spreads = []workload.Spread{workload.ByTheBook, workload.AtHome, workload.OneWarehouse}

// severalWorkers lists TPC-C, whose point is the number of workers, and Smallbank with two of them.
func (s *sites) severalWorkers(cfg Config) []system {
	var out []system
	workers := []int{1}
	if s.ledger.workers {
		workers = append(workers, 2)
		next := spelledBy(workload.NewSmallbank(cfg.Seed, 0, int64(cfg.Customers)), workload.Function)
		out = append(out, system{twoWorkers, 0, s.ledger, measureBlocks(s.ledger, cfg, run{next, cfg.Block, 2})})
	}
	for stream, spread := range spreads {
		for _, n := range workers {
			next := workload.NewTPCC(cfg.Seed, uint64(stream), cfg.TPCC, spread).Block
			measure := measureBlocks(s.ledger, cfg, run{next, min(cfg.Block, tpccBlock), n})
			if spread == workload.ByTheBook {
				measure = s.ledger.declared(measure)
			}
			out = append(out, system{tpcc(spread), float64(n), s.ledger, measure})
		}
	}
	return out
}

// declared measures while TPC-C's access is declared.
func (s *site) declared(measure func(context.Context, int) (report.Sample, error)) func(context.Context, int) (report.Sample, error) {
	return func(ctx context.Context, repetition int) (sample report.Sample, err error) {
		if _, err := s.chain(ctx); err != nil { // the tables are on the ledger from here on
			return sample, err
		}
		if _, err := s.conn.Exec(ctx, workload.TPCCDeclare); err != nil {
			return sample, fmt.Errorf("declare access: %w", err)
		}
		defer func() {
			_, undone := s.conn.Exec(ctx, workload.TPCCUndeclare)
			err = errors.Join(err, undone)
		}()
		return measure(ctx, repetition)
	}
}

// errInOneProcess is told where a machine had no time for a second worker.
var errInOneProcess = errors.New("no block of the repetitions ran in parts, so nothing was measured of a second worker")

// workerFigures states what a second worker brings; `several` is whether this executor takes a
// number of workers.
func workerFigures(r *report.Report, several bool) error {
	book := r.Find(tpcc(workload.ByTheBook), 1)
	problems := []error{r.AddFigure("executor.tpcc", book.Values(), "tx/s", report.Target{}, "TPC-C NewOrder and Payment as PL/pgSQL functions, one worker")}
	if !several {
		r.Notes = append(r.Notes, "the executor has no setting chainify.executor_workers: nothing is said of several workers")
		return errors.Join(problems...)
	}
	two := r.Find(twoWorkers, 0)
	if parts := two.Details(blocksInParts); slices.Max(parts) == 0 {
		return fmt.Errorf("%s: %w", twoWorkers, errInOneProcess)
	}
	ratio := func(id string, a, b []float64, how string) {
		problems = append(problems, r.AddRatio(id, a, b, targets.Of(id), how))
	}
	ratio("executor.two_workers_over_pgbench_off", two.Values(), r.Best(pgbenchOff).Values(), "block_functions with two workers / pgbench_off")
	ratio("executor.two_workers", two.Values(), r.Find(blockFunction, 0).Values(), "block_functions with two workers / with one")
	for _, f := range []struct {
		id     string
		spread workload.Spread
		how    string
	}{
		{"executor.tpcc_two_workers", workload.ByTheBook, "TPC-C by the book, which rows of other warehouses a transaction comes to is declared: two workers / one"},
		{"executor.tpcc_two_workers_at_home", workload.AtHome, "TPC-C, no transaction leaves its warehouse: two workers / one"},
		{"executor.tpcc_skew", workload.OneWarehouse, "TPC-C, all of one warehouse, nothing to be had: two workers / one"},
	} {
		ratio(f.id, r.Find(tpcc(f.spread), 2).Values(), r.Find(tpcc(f.spread), 1).Values(), f.how)
	}
	return errors.Join(problems...)
}
