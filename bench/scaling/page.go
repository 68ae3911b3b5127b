package scaling

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/chainify-db/chainify/bench/report"
)

// fitted are the sizes that the costs are fitted to; checked is the one that tells whether they are right.
var (
	fitted  = []int{1, 7}
	checked = 4
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

// Markdown writes what the model makes of a run of the network benchmark; false when the run has not the sizes it needs.
func Markdown(w io.Writer, r *report.Report) (bool, error) {
	var run []Measured
	for _, n := range fitted {
		m, ok := Of(r, n)
		if !ok {
			return false, nil
		}
		run = append(run, m)
	}
	known, ok := Of(r, checked)
	if !ok {
		return false, nil
	}
	c, err := FitCosts(run)
	if err != nil {
		return false, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## scaling\nThe model of [scaling.md](scaling.md), fitted to one and seven organisations of the network benchmark above. For four it foretells %.2f of the processor time that was measured.\n\n",
		c.Check(known))
	b.WriteString("| processor time of one organisation | with n organisations |\n|---|---|\n")
	for _, l := range []struct {
		what string
		line Line
	}{{"a transaction, database", c.Database}, {"a transaction, node, many together", c.Node}, {"an order block, node", c.Height}} {
		fmt.Fprintf(&b, "| %s | %.0f %+.1f n µs |\n", l.what, l.line.At, l.line.By)
	}
	fmt.Fprintf(&b, "\nTransactions a second that fit the cores of each organisation, at %d order blocks a second:\n\n| organisations | 2 cores | 4 cores | 8 cores |\n|---|---|---|---|\n", heightsAtLoad)
	for _, n := range []int{1, 4, 7, 16} {
		fmt.Fprintf(&b, "| %d | %.0f | %.0f | %.0f |\n", n, c.Rate(n, 2, heightsAtLoad), c.Rate(n, 4, heightsAtLoad), c.Rate(n, 8, heightsAtLoad))
	}
	b.WriteString("\nWhat one client that waits for each answer sees, simulated: median, 99th percentile. The delay is of one message, one way.\n\n| | 4 organisations | 7 | 16 |\n|---|---|---|---|\n")
	for _, p := range Places {
		fmt.Fprintf(&b, "| %s |", p.Name)
		for _, n := range []int{4, 7, 16} {
			// On machines of its own an organisation does its share of the work beside the others, not after them.
			work := time.Duration(c.HeightMS.Of(n) / float64(n) * float64(time.Millisecond))
			o := Simulate(n, p, work, simulated, 1)
			fmt.Fprintf(&b, " %d ms, %d ms |", o.P50.Milliseconds(), o.P99.Milliseconds())
		}
		b.WriteString("\n")
	}
	_, err = io.WriteString(w, b.String()+"\n")
	return true, err
}
