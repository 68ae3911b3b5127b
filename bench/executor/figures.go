package executor

import (
	"fmt"

	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// figures states what the run says about the executor.
func figures(r *report.Report) error {
	on, off := r.Best(pgbenchOn), r.Best(pgbenchOff)
	function, parameters, literal := r.Find(blockFunction, 0), r.Find(blockParameters, 0), r.Find(blockLiteral, 0)
	loop, subxact := r.Find(loopPlain, 0), r.Find(loopSubxact, 0)
	const perBlock = "execute_block in one session and a durable COMMIT for each block; digest, history and state hash on"
	for _, f := range []struct {
		id     string
		values []float64
		unit   string
		how    string
	}{
		{"executor.block_functions", function.Values(), "tx/s", perBlock + "; one function call with parameters each"},
		{"executor.block_parameters", parameters.Values(), "tx/s", perBlock + "; statements with parameters"},
		{"executor.block_literal", literal.Values(), "tx/s", perBlock + "; statements with values in the text"},
		{"executor.pgbench_on", on.Values(), "tx/s", fmt.Sprintf("pgbench -M prepared, synchronous_commit=on, best of the client counts: %g", on.Point)},
		{"executor.pgbench_off", off.Values(), "tx/s", fmt.Sprintf("pgbench -M prepared, synchronous_commit=off, best of the client counts: %g", off.Point)},
		{"executor.no_ledger", loop.Values(), "tx/s", "the same calls by a PL/pgSQL loop, one durable transaction for each block, tables of their own"},
		{"executor.block_cpu", function.CPUs(), "us/tx", "processor time of the whole cluster, functions"},
		{"executor.commit_ms", function.Details("commit_ms_per_block"), "ms", "COMMIT of a block with functions, fsync included"},
	} {
		if err := r.AddFigure(f.id, f.values, f.unit, targets.Of(f.id), f.how); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		id   string
		a, b []float64
		how  string
	}{
		{"executor.over_pgbench_on", function.Values(), on.Values(), "block_functions / pgbench_on: both durable"},
		{"executor.over_pgbench_off", function.Values(), off.Values(), "block_functions / pgbench_off: the block is durable, pgbench is not"},
		{"executor.no_ledger_over_pgbench_on", loop.Values(), on.Values(), "no_ledger / pgbench_on: what a ledger that costs nothing could reach in one session"},
		{"executor.no_ledger_over_pgbench_off", loop.Values(), off.Values(), "no_ledger / pgbench_off: the same"},
		{"executor.cpu_over_pgbench_on", function.CPUs(), on.CPUs(), "server processor time of a transaction: block_functions / pgbench_on"},
		{"executor.cpu_over_pgbench_off", function.CPUs(), off.CPUs(), "server processor time of a transaction: block_functions / pgbench_off"},
		{"executor.ledger_cost", loop.Values(), function.Values(), "no_ledger / block_functions: how much longer the ledger makes a block"},
		{"executor.ledger_cost_cpu", function.CPUs(), loop.CPUs(), "the same by processor time"},
		{"executor.ledger_cost_subtransactions", subxact.Values(), function.Values(), "the same, with a subtransaction for each call without the ledger too"},
		{"executor.literal_cost", parameters.Values(), literal.Values(), "block_parameters / block_literal, after warm-up: how much longer a block takes with the values in its text"},
	} {
		if err := r.AddRatio(f.id, f.a, f.b, targets.Of(f.id), f.how); err != nil {
			return err
		}
	}
	return nil
}
