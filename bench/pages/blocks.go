package pages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/bench/figures"
	"github.com/chainify-db/chainify/bench/scaling"
)

// asked are the figures that users ask for. A mark is as in a document, with the unit behind it.
var asked = []struct{ what, mark, forms, unit string }{
	{"32 clients of four organisations that wait for each answer", "network.waiting_many", "", "tx/s"},
	{"one such client alone: time until its answer, median", "network.waiting_one_p50", "", "ms"},
	{"the same, 99th percentile", "network.waiting_one_p99", "", "ms"},
	{"four organisations, transactions submitted 100 at a time", "network.four", "", "tx/s"},
	{"plain SQL of 32 `pgbench` clients, tpcb-like", "plain/tpcb-like, plain SQL@32", "", "tx/s"},
	{"processor time that each of four organisations spends for a transaction, submitted 100 at a time", "network.four_cpu", "/4", "µs"},
	{"the same, of 32 clients that wait", "network/chainify, 4 organisations, waiting@32", "cpu /4", "µs"},
	{"the same, PostgreSQL alone with a durable commit each", "network/PostgreSQL, pgbench@24", "cpu", "µs"},
	{"one organisation's executor alone, blocks of 4,096", "executor.block_functions", "", "tx/s"},
	{"cost of the ledger: the executor's time over that of the same calls without it", "executor.ledger_cost", "", "×"},
	{"bytes that each organisation keeps of a transaction, at 100 tx/s", "steady.bytes_per_transaction", "", "bytes"},
	{"the same, PostgreSQL alone: its log and growth of the tables", "steady.bytes_standalone", "", "bytes"},
	{"from the touch of a tampered row until its organisation serves again", "recovery.back_s", "", "s"},
	{"a further organisation joins a ledger of 1,000,000 rows and 100,000 blocks", "joining.empty_s", "", "s"},
	{"TPC-H's queries: PostgreSQL's time over that of the analytics worker", "analytics.tpch_over_mirror", "", "×"},
	{"two PostgreSQL and two MariaDB over four PostgreSQL, by transactions a second", "engines.effects", "", "×"},
	{"four organisations 50 ms from each other: time until an answer, median", "distance.median_50", "", "ms"},
}

// blocks are the texts of the blocks that documents hold.
func blocks(f *figures.File) map[string]string {
	out := map[string]string{"asked": askedTable(f), "machines": machineList(f), "benchmarks": benchmarkTable(f)}
	if run := f.Run("network"); run != nil {
		if m, err := scaling.Fit(run); err == nil {
			out["scaling-compared"], out["scaling-lines"], out["scaling-rates"], out["scaling-waits"] = m.Compared(), m.Lines(), m.Rates(), m.Waits()
		}
	}
	return out
}

func askedTable(f *figures.File) string {
	c := copier{file: f}
	var b strings.Builder
	b.WriteString("| | median | range | commit | machine |\n|---|---|---|---|---|\n")
	for _, a := range asked {
		n, err := c.find(a.mark)
		if err != nil {
			continue // of a file that has other runs
		}
		value, err := n.form(strings.Fields(a.forms))
		if err != nil {
			panic(err) // the list above is wrong
		}
		spread, _ := n.form(strings.Fields(a.forms + " range"))
		benchmark, _, _ := strings.Cut(strings.ReplaceAll(a.mark, "/", "."), ".")
		fmt.Fprintf(&b, "| [%s](performance/%s.md) | %s | %s | %s | %s |\n", a.what, benchmark, strings.TrimSpace(value+" "+a.unit), spread, commitOf(n.origin), n.machine)
	}
	return b.String()
}

func benchmarkTable(f *figures.File) string {
	var b strings.Builder
	b.WriteString("| benchmark | | commit | date | machine |\n|---|---|---|---|---|\n")
	for _, r := range f.Runs {
		fmt.Fprintf(&b, "| [%s](performance/%s.md) | %s | %s | %s | %s |\n", r.Name, r.Name, r.About, commitOf(r.Origin), r.Date, machineOf(f, r))
	}
	return b.String()
}

// machineList describes each machine, by its letter.
func machineList(f *figures.File) string {
	var b strings.Builder
	for i, name := range machines(f) {
		fmt.Fprintf(&b, "* Machine %c: %s.\n", 'A'+i, name)
	}
	return b.String()
}

// machines are the machines of all runs, in the order of their first run.
func machines(f *figures.File) (names []string) {
	for _, r := range f.Runs {
		if name := machineName(r); !slices.Contains(names, name) && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// machineOf is the letter of a run's machine.
func machineOf(f *figures.File, r *figures.Run) string {
	i := slices.Index(machines(f), machineName(r))
	if i < 0 {
		return "not told"
	}
	return string(rune('A' + i))
}

func machineName(r *figures.Run) string {
	cpu, _ := r.Machine["cpu"].(string)
	if cpu == "" {
		return ""
	}
	var kb float64
	if memory, is := r.Machine["memory"].(string); is {
		_, _ = fmt.Sscanf(memory, "%g", &kb) // not told where it is none
	}
	return fmt.Sprintf("%v cores, %s, %.0f GB of memory", r.Machine["cores"], cpu, kb/(1<<20))
}
