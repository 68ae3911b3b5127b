package scaling

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/bench/figures"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6*math.Max(1, math.Abs(b)) }

// Costs that lie on lines come back from what they make.
func TestFitGivesBackTheLines(t *testing.T) {
	want := Costs{Database: Line{40, 1}, Node: Line{10, 3}, Height: Line{2000, 500}, HeightMS: Line{3, 5}, Bytes: Line{300, 20}, AloneBytes: Line{2000, 1500}}
	var run []Measured
	for _, n := range []int{1, 7, 4} {
		all := float64(n)
		run = append(run, Measured{
			Organisations: n, NodeUS: want.Node.Of(n) * all, DatabaseUS: want.Database.Of(n) * all, HeightUS: want.Height.Of(n) * all, HeightMS: want.HeightMS.Of(n),
			Rate: want.Rate(n, 2/all, 20), Bytes: want.Bytes.Of(n), AloneBytes: want.AloneBytes.Of(n),
		})
	}
	for _, points := range [][]Measured{run, run[:2]} {
		got, err := FitCosts(points)
		if err != nil {
			t.Fatal(err)
		}
		for i, pair := range [][2]Line{{got.Database, want.Database}, {got.Node, want.Node}, {got.Height, want.Height}, {got.HeightMS, want.HeightMS}, {got.Bytes, want.Bytes}, {got.AloneBytes, want.AloneBytes}} {
			if !near(pair[0].At, pair[1].At) || !near(pair[0].By, pair[1].By) {
				t.Errorf("line %d is %+v, want %+v", i, pair[0], pair[1])
			}
		}
		f, m := got.Foretell(4, 2, 20), run[2]
		for i, pair := range [][2]float64{
			{f.NodeUS, m.NodeUS}, {f.DatabaseUS, m.DatabaseUS}, {f.HeightUS, m.HeightUS}, {f.HeightMS, m.HeightMS}, {f.Rate, m.Rate}, {f.Bytes, m.Bytes}, {f.AloneBytes, m.AloneBytes},
		} {
			if !near(pair[0], pair[1]) {
				t.Errorf("four organisations: %d is %v, want %v", i, pair[0], pair[1])
			}
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

// With equal delays and no jitter a transaction takes its work and three messages one after the
// other, a fourth when its proposer is another.
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

// sized adds what a run says of a number of organisations.
func sized(r *figures.Run, name string, rate, nodeUS, databaseUS, heightUS, bytes float64) {
	r.Series = append(r.Series,
		&figures.Series{System: name, Value: rate, Unit: "tx/s", Detail: map[string]float64{"node_cpu_us_per_tx": nodeUS, "database_cpu_us_per_tx": databaseUS, "database_bytes_per_tx": bytes, "blocks_bytes_per_tx": 100, "wal_bytes_per_tx": 700}},
		&figures.Series{System: name + ", waiting", Point: 1, Value: 30, Unit: "tx/s", Detail: map[string]float64{"node_cpu_us_per_tx": heightUS, "p50_ms": 30, "database_bytes_per_tx": bytes, "blocks_bytes_per_tx": 8000}})
}

func TestRunsAreRead(t *testing.T) {
	r := &figures.Run{Machine: map[string]any{"cores": 2.0}}
	if _, ok := Of(r, 4); ok {
		t.Error("an empty run measured four")
	}
	sized(r, "chainify, 4 organisations", 7000, 100, 190, 36000, 350)
	if got, ok := Of(r, 4); !ok || got != (Measured{4, 100, 190, 36000, 30, 7000, 450, 8350}) {
		t.Errorf("%+v, %v", got, ok)
	}
	sized(r, "chainify, 1 organisation", 30000, 1, 1, 1, 1) // with two workers: costs of another kind
	if _, err := Fit(r); err == nil {
		t.Error("four organisations alone make a model")
	}
	sized(r, "chainify, 1 organisation, one worker", 20000, 25, 45, 9000, 400)
	sized(r, "chainify, 7 organisations", 4000, 175, 315, 63000, 400)
	m, err := Fit(r)
	if err != nil {
		t.Fatal(err)
	}
	page := m.Compared() + m.Lines() + m.Rates() + m.Waits()
	for _, want := range []string{
		// 4 · (25 + 45) of 290; (half a core - 5 · 9 ms) / 70 µs of 7000
		"| 4 organisations | 280 / 290 µs = 0.97 | 6500 / 7000 = 0.93 | 30.0 / 30.0 ms = 1.00 | 500 / 450 = 1.11 | 8400 / 8350 = 1.01 |\n",
		"| 1 organisation (fitted to) | 70 / 70 µs = 1.00 | 27929 / 20000 = 1.40 |", "| 7 organisations (fitted to) | 490 / 490 µs = 1.00 |",
		"| processor time of a transaction, database | 45 + 0.0·n µs |", "| 4 | 27,929 | 56,500 | 113,643 |", // (2 s - 5 · 9 ms) / 70 µs
		"| kept on disk of a transaction, many together | 500 + 0.0·n bytes |",
		"| everywhere, 80 ms | 3",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
	if Name(1) != "1 organisation" || Name(7) != "7 organisations" {
		t.Error(Name(1), Name(7))
	}
}
