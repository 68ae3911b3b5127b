// Package targets holds the targets of the benchmarks' figures. Each target names its bound, which
// physics, PostgreSQL or CometBFT set. Targets beyond their bound were restated against it.
package targets

import (
	"strings"

	"github.com/chainify-db/chainify/bench/report"
)

// Target is what a figure is held to.
type Target struct {
	ID string
	report.Target
	// Bound is what the figure cannot pass, or its best case; `{id}` stands for a figure's value
	// and range. Empty: none is known.
	Bound string
}

// Restated is a target that the project's own data showed out of reach.
type Restated struct {
	Was string // the figure and its earlier target
	Why string // one sentence; `{id}` as in Bound
	Now string // the figure that is held to a target in its place; empty: none until its bound is measured
}

// All are the targets, by benchmark.
var All = []Target{
	{"executor.ledger_cost", report.AtMost(1.35), "1: the same calls in one session without a ledger"},
	{"executor.literal_cost", report.AtMost(1.3), "1: statements with parameters"},
	{"executor.flat_block_sizes", report.AtMost(1.3), "without a ledger: {executor.flat_sizes_no_ledger}"},
	{"executor.flat_rows", report.AtMost(1.3), ""},
	{"executor.small_blocks", report.AtMost(1.3), "without a ledger: {executor.flat_sizes_no_ledger}"},
	{"executor.block_of_one", report.AtMost(0.5), ""},
	{"executor.tpcc_two_workers", report.AtLeast(1.6), "no transaction leaves its warehouse: {executor.tpcc_two_workers_at_home}"},
	{"executor.tpcc_skew", report.NeverBelow(0.95), "1: no two transactions are independent"},

	{"network.four_over_baseline", report.AtLeast(4), ""},
	{"network.four_over_baseline_bundled", report.AtLeast(2.5), ""},
	{"network.one_over_baseline", report.AtLeast(5), ""},
	{"network.one_over_standalone", report.AtLeast(2), "one session without a ledger: {executor.no_ledger_over_pgbench_on}"},
	{"network.waiting_many_over_baseline", report.AtLeast(2.5), ""},
	{"network.waiting_one_over_floor", report.AtMost(1.25), "1: CometBFT alone"},
	{"network.waiting_one_tail", report.AtMost(3), "1"},
	{"network.signed_over_vouched", report.AtLeast(0.915), "1: no client signs"},
	{"network.signed_batch_over_vouched", report.AtLeast(0.915), "1: no client signs"},
	{"network.agreement_over_check", report.AtMost(2), "1: the round contains the check and a round trip"},
	{"network.latency_agreement_over_check", report.AtMost(2), "1: the round contains the check and a round trip"},
	{"network.bytes_ours_over_standalone", report.AtMost(3), ""},
	{"network.tpcc", report.AtLeast(0.8), "1: all processor time goes to the four databases"},
	{"network.reads_while_writing", report.AtLeast(0.95), "1: writes to a ledger cost what PostgreSQL's cost"},
	{"network.cryptography", report.AtMost(0.085), "0"},
	{"network.former_waiting_one_p50", report.AtMost(0.5), ""},
	{"network.former_latency_waiting_one_p50", report.AtMost(0.4), ""},
	{"network.former_waiting_one_cpu", report.AtMost(0.5), ""},
	{"network.former_waiting_one_bytes_ours", report.AtMost(0.5), ""},

	{"plain.tpcb_like_cost", report.AtMost(2), ""},
	{"plain.simple_update_cost", report.AtMost(2), ""},
	{"plain.oltp_write_only_cost", report.AtMost(2), ""},
	{"plain.tpcb_like_apply_over_execute", report.AtMost(0.6), ""},
	{"plain.simple_update_apply_over_execute", report.AtMost(0.6), ""},
	{"plain.oltp_write_only_apply_over_execute", report.AtMost(0.6), ""},
	{"plain.tpcb_like_over_execute", report.AtLeast(0.8), ""},
	{"plain.simple_update_over_execute", report.AtLeast(0.8), ""},
	{"plain.oltp_write_only_over_execute", report.AtLeast(0.8), ""},
	{"plain.hot_rows", report.AtLeast(0.5), ""},
	{"plain.hot_rows_lost", report.AtMost(0), "0"},
	{"plain.hot_rows_longest_wait", report.AtMost(20), "0"},
	{"plain.tpcc_effects", report.AtLeast(1.5), ""},

	{"engines.effects_over_executor", report.AtLeast(0.8), "1: nodes take no processor time"},
	{"engines.statements_over_executor", report.AtLeast(0.8), "1: nodes take no processor time"},
	{"engines.block_over_single_cpu", report.AtMost(1.35), "1: a statement without a ledger"},
	{"engines.back_s", report.AtMost(5), ""},

	{"fabric.custom", report.AtLeast(3), "published: about 3"},
	{"fabric.reorder", report.AtMost(2), "published: 1 to 2 ms"},
	{"fabric.reorder_valid", report.AtLeast(1024), "1,024: all of them"},

	{"recovery.checkpoint_ms", report.AtMost(5), ""},
	{"recovery.scrub_rate", report.AtLeast(300_000), ""},
	{"recovery.back_s", report.AtMost(3), ""},
	{"recovery.others_loss", report.AtMost(0.1), "0"},

	{"joining.empty_s", report.AtMost(120), ""},
	{"joining.others_loss", report.AtMost(0.1), "what the joining organisation computes on shared cores"},

	{"verify.ledger_rate", report.AtLeast(100_000), ""},
	{"verify.table_rate", report.AtLeast(300_000), ""},

	{"snapshot.fork_over_chunks_1", report.AtLeast(100), ""},
	{"snapshot.fork_over_chunks_50", report.AtLeast(100), ""},

	{"analytics.bootstrap_rate", report.AtLeast(300_000), ""},
	{"analytics.memory_over_columns", report.AtMost(1.3), "1: the values alone"},
	{"analytics.anker_admitted", report.AtLeast(8), "8: all of them"},
	{"analytics.anker_computing_over_mirror", report.AtLeast(15), ""},
	{"analytics.tpch_admitted", report.AtLeast(18), "22: all of them"},
	{"analytics.tpch_over_mirror", report.AtLeast(10), ""},
	{"analytics.latest_ms", report.AtMost(20), "without new blocks: {analytics.latest_still_ms}"},
	{"analytics.latest_p99_ms", report.AtMost(100), ""},
	{"analytics.load_with_queries", report.AtLeast(0.95), "1: queries cost nothing"},
	{"analytics.load_with_worker", report.AtLeast(0.95), "1: the worker costs nothing"},

	{"steady.latency_p50", report.AtMost(steadyGrowth), "1: nothing grows"},
	{"steady.node_memory", report.AtMost(steadyGrowth), "1: nothing grows"},
	{"steady.database_memory", report.AtMost(steadyGrowth), "1: nothing grows"},
	{"steady.node_files", report.AtMost(steadyGrowth), "1: nothing grows"},
	{"steady.database_files", report.AtMost(steadyGrowth), "1: nothing grows"},
	{"steady.wal", report.AtMost(steadyGrowth), "1: nothing grows"},
	{"steady.rate", report.AtLeast(0.83), "1: the rate that clients hold"},
	{"steady.bytes_ours_over_standalone", report.AtMost(3), ""},

	{"retention.archive_over_database", report.AtMost(0.5), ""},
	{"retention.verify_rate", report.AtLeast(170_000), "385,000: signatures alone, 2.6 µs of a change in blocks of 41 changes"},
	{"retention.disk_growth", report.AtMost(1.05), "headers of blocks stay, 286 bytes each; without them 1.01"},
	{"retention.throughput", report.AtLeast(0.95), "1: archiving costs nothing"},
}

// steadyGrowth is what the last quarter of a steady hour may be of the second.
const steadyGrowth = 1.2

// Restatements are the targets that were taken back, with what took their place.
var Restatements = []Restated{
	{"executor.over_pgbench_on ≥ 4", "A ledger that costs nothing would have {executor.no_ledger_over_pgbench_on} in one session.", "executor.ledger_cost"},
	{"executor.over_pgbench_off ≥ 1.6", "A ledger that costs nothing would have {executor.no_ledger_over_pgbench_off} in one session.", "executor.ledger_cost"},
	{"executor.ledger_cost ≤ 1.6", "It is the cost of the ledger over the same calls, so it takes the place of both ratios to pgbench, at 1.35.", "executor.ledger_cost"},
	{"executor.two_workers_over_pgbench_off ≥ 2.6", "Two sessions without a ledger are the bound, and nobody measured them.", ""},
	{"network.agreement_over_check, network.latency_agreement_over_check ≤ 1", "The round contains the check and a round trip, so no system is below 1.", "network.agreement_over_check"},
	{"network.bytes_over_standalone, steady.bytes_over_standalone ≤ 3", "CometBFT alone keeps {steady.bytes_blocks} bytes of a transaction, and PostgreSQL alone writes {steady.bytes_standalone}: ours are the database and the order's state.", "steady.bytes_ours_over_standalone"},
	{"network.former_waiting_one_bytes ≤ 0.5", "CometBFT's block store alone has {network.waiting_one_bytes_blocks} of the {network.waiting_one_bytes} bytes, in both releases.", "network.former_waiting_one_bytes_ours"},
	{"network.floor_over_reference ≤ 0.5", "The floor is CometBFT's own latency, which Chainify does not make.", "network.waiting_one_over_floor"},
	{"engines.block_over_single ≥ 1", "A block runs in one session on one core, and single statements on two: at equal cost the ratio is 0.5.", "engines.block_over_single_cpu"},
	{"engines.effects_over_executor, engines.statements_over_executor ≥ 1", "The share of the executor leaves nodes and clients no processor time: a fifth is theirs, as in network.tpcc.", "engines.effects_over_executor"},
	{"fabric.smallbank ≥ 12", "One transaction of a block that changes a hot row succeeds, in any order; how many that allows was not measured.", ""},
	{"analytics.anker_over_mirror ≥ 15", "Two of the eight queries hand out whole tables: mirrors that took no time for the others would have 4.7, and 6.9 if these two were as quick as in PostgreSQL.", "analytics.anker_computing_over_mirror"},
	{"retention.verify_rate ≥ 300,000", "Signatures are 2.6 of the 3.3 µs that this leaves a change: 3.3 µs beside the signatures are 170,000 changes a second.", "retention.verify_rate"},
}

var byID = func() map[string]Target {
	out := make(map[string]Target, len(All))
	for _, t := range All {
		out[t.ID] = t
	}
	return out
}()

// Of is what a figure is held to; the zero value where it is held to nothing.
func Of(id string) report.Target { return byID[id].Target }

// Under lists the figures of a benchmark that have a target, whose ids begin with its name.
func Under(benchmark string) (ids []string) {
	for _, t := range All {
		if strings.HasPrefix(t.ID, benchmark+".") {
			ids = append(ids, t.ID)
		}
	}
	return ids
}
