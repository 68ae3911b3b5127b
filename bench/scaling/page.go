package scaling

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/bench/report"
)

// fitted are the sizes that the costs are fitted to; of those shown, the others tell whether they
// are right.
var (
	fitted = []int{1, 7}
	shown  = []int{1, 4, 7}
)

// heightsAtLoad is how many order blocks a second are assumed where every one is full.
const heightsAtLoad = 5

// simulated is how many transactions a client of a simulation submits.
const simulated = 10_000

// Places are the consortia that are simulated.
var Places = []Place{
	{"one hall, 0.2 ms", func(_, _ int) time.Duration { return 200 * time.Microsecond }, 0.5},
	{"one region, 2 ms", func(_, _ int) time.Duration { return 2 * time.Millisecond }, 0.2},
	{"one continent, 15 ms", func(_, _ int) time.Duration { return 15 * time.Millisecond }, 0.1},
	{"one of them on another continent, 80 ms", func(from, to int) time.Duration {
		if from == 1 || to == 1 {
			return 80 * time.Millisecond
		}
		return 2 * time.Millisecond
	}, 0.1},
	{"everywhere, 80 ms", func(_, _ int) time.Duration { return 80 * time.Millisecond }, 0.1},
}

// coresOf is how many cores a report's machine has; it is a number of another type once it was
// written and read.
func coresOf(r *report.Report) int {
	switch n := r.Machine["cores"].(type) {
	case int:
		return n
	case float64:
		return int(n)
	}
	return 0
}

// compare writes what the model says of each size beside what was measured. Costs of the sizes
// fitted to are met by construction, but not their rates.
func compare(b *strings.Builder, c Costs, known []Measured, cores int) {
	b.WriteString("| model / measured | processor time of a transaction | transactions a second | one client, median | bytes kept of a transaction | bytes kept of one alone |\n|---|---|---|---|---|---|\n")
	for _, m := range known {
		f := c.Foretell(m.Organisations, cores, heightsAtLoad)
		name := Name(m.Organisations)
		if slices.Contains(fitted, m.Organisations) {
			name += " (fitted to)"
		}
		fmt.Fprintf(b, "| %s |", name)
		for _, v := range []struct {
			model, measured float64
			format          string
		}{
			{f.DatabaseUS + f.NodeUS, m.DatabaseUS + m.NodeUS, "%.0f / %.0f µs"},
			{f.Rate, m.Rate, "%.0f / %.0f"},
			{f.HeightMS, m.HeightMS, "%.1f / %.1f ms"},
			{f.Bytes, m.Bytes, "%.0f / %.0f"},
			{f.AloneBytes, m.AloneBytes, "%.0f / %.0f"},
		} {
			fmt.Fprintf(b, " "+v.format+" = %.2f |", v.model, v.measured, v.model/v.measured)
		}
		b.WriteString("\n")
	}
}

// Markdown writes what the model makes of a run of the network benchmark; false when the run has
// not the sizes it needs.
func Markdown(w io.Writer, r *report.Report) (bool, error) {
	var run, known []Measured
	for _, n := range shown {
		m, ok := Of(r, n)
		if !ok {
			return false, nil
		}
		known = append(known, m)
		if slices.Contains(fitted, n) {
			run = append(run, m)
		}
	}
	cores := coresOf(r)
	if cores == 0 {
		return false, nil
	}
	c, err := FitCosts(run)
	if err != nil {
		return false, err
	}
	var b strings.Builder
	b.WriteString("## scaling\nThe model of [scaling.md](scaling.md), fitted to one organisation with one worker and to seven of the network benchmark above; four are foretold. What it says of the machine that all of them share, and what was measured:\n\n")
	compare(&b, c, known, cores)
	b.WriteString("\n| of one organisation | with n organisations |\n|---|---|\n")
	for _, l := range []struct {
		what string
		line Line
		unit string
	}{
		{"processor time of a transaction, database", c.Database, "µs"},
		{"processor time of a transaction, node, many together", c.Node, "µs"},
		{"processor time of an order block, node", c.Height, "µs"},
		{"kept on disk of a transaction, many together", c.Bytes, "bytes"},
		{"kept on disk of a transaction alone in its order block", c.AloneBytes, "bytes"},
	} {
		fmt.Fprintf(&b, "| %s | %.0f %+.1f n %s |\n", l.what, l.line.At, l.line.By, l.unit)
	}
	fmt.Fprintf(&b, "\nTransactions a second that fit the cores of each organisation, at %d order blocks a second:\n\n| organisations | 2 cores | 4 cores | 8 cores |\n|---|---|---|---|\n", heightsAtLoad)
	for _, n := range []int{1, 4, 7, 16} {
		fmt.Fprintf(&b, "| %d | %.0f | %.0f | %.0f |\n", n, c.Rate(n, 2, heightsAtLoad), c.Rate(n, 4, heightsAtLoad), c.Rate(n, 8, heightsAtLoad))
	}
	b.WriteString("\nWhat one client that waits for each answer sees, simulated: median, 99th percentile. The delay is of one message, one way.\n\n| | 4 organisations | 7 | 16 |\n|---|---|---|---|\n")
	for _, p := range Places {
		fmt.Fprintf(&b, "| %s |", p.Name)
		for _, n := range []int{4, 7, 16} {
			// On machines of its own an organisation does its share of the work beside the
			// others, not after them.
			work := time.Duration(c.HeightMS.Of(n) / float64(n) * float64(time.Millisecond))
			o := Simulate(n, p, work, simulated, 1)
			fmt.Fprintf(&b, " %d ms, %d ms |", o.P50.Milliseconds(), o.P99.Milliseconds())
		}
		b.WriteString("\n")
	}
	_, err = io.WriteString(w, b.String()+"\n")
	return true, err
}
