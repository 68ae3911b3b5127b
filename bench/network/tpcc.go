package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"time"

	"github.com/chainify-db/chainify/bench/executor"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

// tpccSize is small enough to be loaded into all databases of a network at once.
var tpccSize = workload.TPCCSize{Warehouses: 10, Items: 2_000, Customers: 30}

// tpccPace leaves as much work without an outcome as there is with Smallbank: a transaction takes
// five to ten times as long.
var tpccPace = pace{40, 4}

// blockSize is a sample's detail: how many transactions a block had.
const blockSize = "transactions_per_block"

// tpcc is a stream of TPC-C by the book of its own for each client and repetition.
func (c Config) tpcc(repetition, client int) *workload.TPCC {
	return workload.NewTPCC(c.Seed, uint64(repetition)<<32|uint64(client), tpccSize, workload.ByTheBook)
}

// tpccs compares organisations that run TPC-C with one executor that is given blocks as large as
// theirs.
type tpccs struct {
	four  *ours
	alone *executor.Alone
	block int // transactions of the organisations' blocks when they ran last, on average; 0: they did not yet
}

// tpccWorkloads are the workloads beside Smallbank on the ledger of the four.
func (c Config) tpccWorkloads() []workload.Schema {
	if !c.wants(tpccFour) {
		return nil
	}
	return []workload.Schema{tpccSize.Ordered()}
}

func openTPCC(ctx context.Context, cfg Config, four *ours) (t *tpccs, err error) {
	t = &tpccs{four: four}
	if cfg.wants(tpccAlone) {
		t.alone, err = executor.OpenAlone(ctx, filepath.Join(cfg.Dir, "alone"), cfg.PG, settings, tpccSize.Ordered())
	}
	return t, err
}

// organisations runs TPC-C in all of them.
func (t *tpccs) organisations(ctx context.Context, repetition int) (load, error) {
	first := t.four.members()[0]
	before, err := first.Tip(ctx)
	if err != nil {
		return load{}, err
	}
	l, err := t.four.members().flood(ctx, submitters, t.four.cfg, tpccPace, func(client int) func() string {
		calls := t.four.cfg.tpcc(repetition, client)
		return func() string { return calls.Block(1)[0].Text() }
	})
	if err != nil {
		return l, err
	}
	var mean float64
	err = first.Scan(ctx, fmt.Sprintf("SELECT avg(tx_count)::float8 FROM chainify.ledger WHERE number > %d", before.Number), &mean)
	t.block, l.more = int(math.Round(mean)), map[string]float64{blockSize: mean}
	return l, err
}

// single is the executor alone.
type single struct{ *tpccs }

// start has a new session, as the organisations' nodes have, and vacuum the tables that their
// clusters get: plans are for what these hold.
func (s single) start(ctx context.Context) error  { return s.alone.Renew(ctx) }
func (s single) vacuum(ctx context.Context) error { return s.alone.Vacuum(ctx) }
func (s single) stop() error                      { return nil }
func (s single) nodes() []int                     { return nil }
func (s single) databases() []int                 { return []int{s.alone.PID()} }

// after the organisations, whose blocks' size it takes.
func (s single) after() running { return s.four }

// load gives the executor the texts that the organisations' clients submit.
func (s single) load(ctx context.Context, repetition int) (load, error) {
	block := cmp.Or(s.block, tpccPace.size*tpccPace.most)
	calls := s.four.cfg.tpcc(repetition, 0)
	sample, err := s.alone.Measure(ctx, s.four.cfg.Seconds, block, func(n int) []workload.Statement {
		texts := calls.Block(n)
		for i, call := range texts {
			texts[i] = workload.Statement{SQL: call.Text()}
		}
		return texts
	})
	return load{
		count: sample.Transactions, took: time.Duration(sample.Seconds * float64(time.Second)), more: map[string]float64{blockSize: float64(block)},
	}, err
}

// tpccFigures compares them, where both were measured.
func tpccFigures(r *report.Report) error {
	four, alone := r.Find(tpccFour, 0), r.Find(tpccAlone, 0)
	if four == nil || alone == nil {
		return nil
	}
	if err := errors.Join(
		r.AddFigure("network.tpcc_block", four.Details(blockSize), "transactions", report.Target{}, "a block of TPC-C in the four organisations, on average"),
		r.AddFigure("network.tpcc_block_alone", alone.Details(blockSize), "transactions", report.Target{}, "a block of TPC-C of the one executor alone"),
		r.AddRatio("network.tpcc_cpu", four.CPUs(), alone.CPUs(), report.Target{}, "processor time of a transaction, four databases and nodes / that one executor"),
	); err != nil {
		return err
	}
	return r.AddRatio("network.tpcc", four.Values(), shared(alone.Values(), 4, runtime.NumCPU()), targets.Of("network.tpcc"),
		"TPC-C NewOrder and Payment, four organisations that agree on all / one executor alone with the same texts in blocks as large, times the part of a core that each of four has")
}

// shared is what one of several executors does at most when they share some cores: one alone has
// a core to itself.
func shared(alone []float64, executors, cores int) []float64 {
	out := make([]float64, len(alone))
	for i, rate := range alone {
		out[i] = rate * min(1, float64(cores)/float64(executors))
	}
	return out
}
