package scaling

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/bench/figures"
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

// Model is the model fitted to a run of the network benchmark, beside what was measured.
type Model struct {
	Costs
	known []Measured
	cores int
}

// Fit fits the model to a run, which has to have the sizes that it needs.
func Fit(r *figures.Run) (*Model, error) {
	m := &Model{}
	var run []Measured
	for _, n := range shown {
		one, ok := Of(r, n)
		if !ok {
			return nil, fmt.Errorf("no network of %s was measured with one worker", Name(n))
		}
		m.known = append(m.known, one)
		if slices.Contains(fitted, n) {
			run = append(run, one)
		}
	}
	cores, _ := r.Machine["cores"].(float64)
	if m.cores = int(cores); m.cores == 0 {
		return nil, errors.New("the run does not tell how many cores its machine has")
	}
	var err error
	m.Costs, err = FitCosts(run)
	return m, err
}

// Compared is a table of what the model says of each size beside what was measured. Costs of the
// sizes fitted to are met by construction, but not their rates.
func (m *Model) Compared() string {
	var b strings.Builder
	b.WriteString("| model / measured | processor time of a transaction | transactions a second | one client, median | bytes kept of a transaction | bytes kept of one alone |\n|---|---|---|---|---|---|\n")
	for _, one := range m.known {
		f := m.Foretell(one.Organisations, m.cores, heightsAtLoad)
		name := Name(one.Organisations)
		if slices.Contains(fitted, one.Organisations) {
			name += " (fitted to)"
		}
		fmt.Fprintf(&b, "| %s |", name)
		for _, v := range []struct {
			model, measured float64
			format          string
		}{
			{f.DatabaseUS + f.NodeUS, one.DatabaseUS + one.NodeUS, "%.0f / %.0f µs"},
			{f.Rate, one.Rate, "%.0f / %.0f"},
			{f.HeightMS, one.HeightMS, "%.1f / %.1f ms"},
			{f.Bytes, one.Bytes, "%.0f / %.0f"},
			{f.AloneBytes, one.AloneBytes, "%.0f / %.0f"},
		} {
			fmt.Fprintf(&b, " "+v.format+" = %.2f |", v.model, v.measured, v.model/v.measured)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Lines is a table of what each organisation spends.
func (m *Model) Lines() string {
	var b strings.Builder
	b.WriteString("| of each organisation | with n organisations |\n|---|---|\n")
	for _, l := range []struct {
		what string
		line Line
		unit string
	}{
		{"processor time of a transaction, database", m.Database, "µs"},
		{"processor time of a transaction, node, many together", m.Node, "µs"},
		{"processor time of an order block, node", m.Height, "µs"},
		{"kept on disk of a transaction, many together", m.Bytes, "bytes"},
		{"kept on disk of a transaction alone in its order block", m.AloneBytes, "bytes"},
	} {
		fmt.Fprintf(&b, "| %s | %s %s |\n", l.what, l.line, l.unit)
	}
	return b.String()
}

// String is the line as a formula of n.
func (l Line) String() string {
	sign, by := "+", math.Abs(l.By)
	if l.By < 0 {
		sign = "-"
	}
	if by < 1000 {
		return fmt.Sprintf("%s %s %.1f·n", whole(l.At), sign, by)
	}
	return fmt.Sprintf("%s %s %s·n", whole(l.At), sign, whole(by))
}

func whole(v float64) string {
	if v < 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return report.Number(v)
}

// Rates is a table of what fits the cores of each organisation.
func (m *Model) Rates() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| organisations, transactions a second at %d order blocks a second | 2 cores | 4 cores | 8 cores |\n|---|---|---|---|\n", heightsAtLoad)
	for _, n := range []int{1, 4, 7, 16} {
		fmt.Fprintf(&b, "| %d |", n)
		for _, cores := range []float64{2, 4, 8} {
			fmt.Fprintf(&b, " %s |", whole(m.Rate(n, cores, heightsAtLoad)))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Waits is a table of what one client that waits for each answer sees, simulated.
func (m *Model) Waits() string {
	var b strings.Builder
	b.WriteString("| simulated median, 99th percentile of one client that waits; delay of one message, one way | 4 organisations | 7 | 16 |\n|---|---|---|---|\n")
	for _, p := range Places {
		fmt.Fprintf(&b, "| %s |", p.Name)
		for _, n := range []int{4, 7, 16} {
			// On machines of its own an organisation does its share of the work beside the
			// others, not after them.
			work := time.Duration(m.HeightMS.Of(n) / float64(n) * float64(time.Millisecond))
			o := Simulate(n, p, work, simulated, 1)
			fmt.Fprintf(&b, " %d ms, %d ms |", o.P50.Milliseconds(), o.P99.Milliseconds())
		}
		b.WriteString("\n")
	}
	return b.String()
}
