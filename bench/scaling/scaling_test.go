package scaling

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/bench/report"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6*math.Max(1, math.Abs(b)) }

// Costs that lie on lines come back from what they make.
func TestFitGivesBackTheLines(t *testing.T) {
	want := Costs{Database: Line{40, 1}, Node: Line{10, 3}, Height: Line{2000, 500}, HeightMS: Line{3, 5}}
	var run []Measured
	for _, n := range []int{1, 7, 4} {
		all := float64(n)
		run = append(run, Measured{n, want.Node.Of(n) * all, want.Database.Of(n) * all, want.Height.Of(n) * all, want.HeightMS.Of(n)})
	}
	for _, points := range [][]Measured{run, run[:2]} {
		got, err := FitCosts(points)
		if err != nil {
			t.Fatal(err)
		}
		for i, pair := range [][2]Line{{got.Database, want.Database}, {got.Node, want.Node}, {got.Height, want.Height}, {got.HeightMS, want.HeightMS}} {
			if !near(pair[0].At, pair[1].At) || !near(pair[0].By, pair[1].By) {
				t.Errorf("line %d is %+v, want %+v", i, pair[0], pair[1])
			}
		}
		if check := got.Check(run[2]); !near(check, 1) {
			t.Errorf("four organisations: model / measured is %v", check)
		}
	}
	if _, err := FitCosts(run[:1]); err == nil {
		t.Error("a line through one point")
	}
	if _, err := FitCosts([]Measured{run[0], run[0]}); err == nil {
		t.Error("a line through one place")
	}
}

func TestRateFillsTheCores(t *testing.T) {
	c := Costs{Database: Line{40, 1}, Node: Line{10, 3}, Height: Line{2000, 500}}
	if rate := c.Rate(4, 2, 20); !near(c.Cores(4, rate, 20), 2) {
		t.Errorf("%v tx/s need %v cores, want 2", rate, c.Cores(4, rate, 20))
	}
	if rate := c.Rate(4, 0.01, 20); rate != 0 {
		t.Errorf("order blocks alone fill the cores, and %v tx/s fit", rate)
	}
}

// With equal delays and no jitter a transaction takes its work and three messages one after the other, a fourth when its proposer is another.
func TestSimulationCountsMessages(t *testing.T) {
	const delay, work = 10 * time.Millisecond, 9 * time.Millisecond
	place := Place{Delay: func(int, int) time.Duration { return delay }}
	for n, want := range map[int]Outcome{
		1: {work, work}, // nobody to wait for
		4: {4*delay + work, 4*delay + work},
		7: {4*delay + work, 4*delay + work},
	} {
		if got := Simulate(n, place, work, 100, 1); got != want {
			t.Errorf("%d organisations: %v, want %v", n, got, want)
		}
	}
	place.Jitter = 0.5
	a, b := Simulate(4, place, work, 1000, 1), Simulate(4, place, work, 1000, 1)
	if a != b || a.P50 <= 4*delay+work || a.P99 <= a.P50 || a.P99 > 6*delay+work {
		t.Errorf("with jitter %v, then %v", a, b)
	}
}

// One that is far away is not waited for: of four, three suffice.
func TestSimulationDoesNotWaitForTheLast(t *testing.T) {
	far := Place{Delay: func(from, to int) time.Duration {
		if from == 3 || to == 3 {
			return time.Second
		}
		return time.Millisecond
	}}
	if got := Simulate(4, far, 0, 100, 1); got.P50 > 10*time.Millisecond {
		t.Errorf("the median waits for the one that is far: %v", got.P50)
	}
}

func TestReportsAreRead(t *testing.T) {
	r := &report.Report{}
	if _, ok := Of(r, 4); ok {
		t.Error("an empty report measured four")
	}
	detail := func(name string, v float64) report.Sample {
		return report.Sample{Repetition: 1, Detail: map[string]float64{name: v, "p50_ms": 30}}
	}
	load := detail("node_cpu_us_per_tx", 100)
	load.Detail["database_cpu_us_per_tx"] = 190
	r.Add("chainify, 4 organisations", 0, "tx/s", load)
	r.Add("chainify, 4 organisations, waiting", 1, "tx/s", detail("node_cpu_us_per_tx", 36000))
	if got, ok := Of(r, 4); !ok || got != (Measured{4, 100, 190, 36000, 30}) {
		t.Errorf("%+v, %v", got, ok)
	}
	var page strings.Builder
	if done, err := Markdown(&page, r); done || err != nil || page.Len() > 0 {
		t.Errorf("four organisations alone make a page: %v, %q", err, page.String())
	}
	for _, n := range []int{1, 7} {
		all := float64(n)
		load := detail("node_cpu_us_per_tx", 25*all)
		load.Detail["database_cpu_us_per_tx"] = 45 * all
		r.Add("chainify, "+Name(n), 0, "tx/s", load)
		r.Add("chainify, "+Name(n)+", waiting", 1, "tx/s", detail("node_cpu_us_per_tx", 9000*all))
	}
	if done, err := Markdown(&page, r); !done || err != nil {
		t.Fatal(done, err)
	}
	for _, want := range []string{
		"For four it foretells 0.97 of",                                                // 4 · (25 + 45) of 290
		"| a transaction, database | 45 +0.0 n µs |", "| 4 | 27929 | 56500 | 113643 |", // (2 s - 5 · 9 ms) / 70 µs
		"| everywhere, 80 ms | 3",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is not in\n%s", want, page.String())
		}
	}
	if Name(1) != "1 organisation" || Name(7) != "7 organisations" {
		t.Error(Name(1), Name(7))
	}
}
