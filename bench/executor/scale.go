package executor

import (
	"errors"
	"fmt"
	"slices"

	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

// Systems whose point is a size.
const (
	byBlockSize = "block of transactions" // Smallbank functions; the point is the number of transactions of a block
	byRows      = "block on customers"    // the same; the point is the number of customers
	loopBySize  = "no ledger, loop of"    // the same calls as in byBlockSize, in transactions as large
	byItself    = "transactions, each a block"
)

// scale lists what the cost of a transaction is to be flat over.
func (s *sites) scale(cfg Config) []system {
	var out []system
	add := func(name string, point, customers, block int) {
		next := spelledBy(workload.NewSmallbank(cfg.Seed, uint64(point), int64(customers)), workload.Function)
		on := s.sized[customers]
		out = append(out, system{name, float64(point), on, measureBlocks(on, cfg, run{next, block, 1})})
	}
	for _, block := range cfg.BlockSizes {
		add(byBlockSize, block, cfg.Customers, block)
		bank := workload.NewSmallbank(cfg.Seed, uint64(block), int64(cfg.Customers))
		out = append(out, system{loopBySize, float64(block), s.plain, s.loop(cfg.Seconds, bank, block, "run_block")})
	}
	add(byItself, 1, cfg.Customers, 1)
	for _, customers := range cfg.Sizes {
		add(byRows, customers, customers, cfg.Block)
	}
	return out
}

// scaleFigures states how far the dearest size is from the cheapest one.
func scaleFigures(r *report.Report) error {
	var problems []error
	add := func(id, name, how string, of func(*report.Series) []float64) {
		ratios := dearestOverCheapest(r, name, of)
		problems = append(problems, r.AddFigure(id, ratios, "ratio", targets.Of(id), how))
	}
	cpu := (*report.Series).CPUs
	wall := func(s *report.Series) []float64 {
		out := s.Values()
		for i, rate := range out {
			out[i] = 1 / rate
		}
		return out
	}
	add("executor.flat_block_sizes", byBlockSize, "server processor time of a transaction, Smallbank functions: dearest size of a block / cheapest", cpu)
	add("executor.flat_sizes_no_ledger", loopBySize, "the same calls without a ledger, in transactions of PostgreSQL as large", cpu)
	add("executor.flat_rows", byRows, "as flat_block_sizes, over numbers of customers", cpu)
	add("executor.flat_block_sizes_wall", byBlockSize, "the same as flat_block_sizes by elapsed time, with an fdatasync for each block", wall)
	add("executor.flat_rows_wall", byRows, "the same as flat_rows by elapsed time", wall)
	lone := r.Find(byItself, 1).CPUs()
	for i := range lone {
		lone[i] /= 1000
	}
	problems = append(problems, r.AddFigure("executor.block_of_one", lone, "ms", targets.Of("executor.block_of_one"), "server processor time of a block of one transaction, Smallbank functions"))
	if small, large := r.Find(byBlockSize, smallBlock), r.Find(byBlockSize, largeBlock); small != nil && large != nil {
		problems = append(problems, r.AddRatio("executor.small_blocks", small.CPUs(), large.CPUs(), targets.Of("executor.small_blocks"),
			fmt.Sprintf("server processor time of a transaction, Smallbank functions: in blocks of %d / of %d", smallBlock, largeBlock)))
	}
	return errors.Join(problems...)
}

// The blocks of which a transaction may not cost much more in the smaller than in the larger.
const smallBlock, largeBlock = 64, 4096

// dearestOverCheapest takes the ratio within each repetition.
func dearestOverCheapest(r *report.Report, name string, of func(*report.Series) []float64) []float64 {
	var costs [][]float64 // by point, then repetition
	for _, s := range r.Series {
		if s.System == name {
			costs = append(costs, of(s))
		}
	}
	var ratios []float64
	for repetition := 0; len(costs) > 0 && repetition < len(costs[0]); repetition++ {
		at := make([]float64, len(costs))
		for i, c := range costs {
			at[i] = c[repetition]
		}
		ratios = append(ratios, slices.Max(at)/slices.Min(at))
	}
	return ratios
}
