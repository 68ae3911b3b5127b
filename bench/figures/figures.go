// Package figures keeps what pages are made of: of each run of a benchmark its figures and series,
// as medians with their ranges, its commit and its machine. Samples stay where the run left them.
package figures

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/chainify-db/chainify/bench/report"
)

// File is docs/performance/figures.json.
type File struct {
	Runs []*Run
}

// Run is one run of a benchmark.
type Run struct {
	Name  string `json:"name"`
	About string `json:"about"`
	Origin
	TookS      float64           `json:"took_s"`
	Versions   map[string]string `json:"versions"`
	Machine    map[string]any    `json:"machine"`
	Parameters map[string]any    `json:"parameters"`
	Settings   map[string]any    `json:"settings,omitempty"`
	Notes      []string          `json:"notes,omitempty"`
	Head       []string          `json:"head,omitempty"` // of the table

	Figures []*Figure  `json:"-"`
	Series  []*Series  `json:"-"`
	Rows    [][]string `json:"-"` // of the table, which stands in place of the series
}

// Origin says what made a figure. In a figure only what differs from its run is there: a part of a
// benchmark can be measured again by itself.
type Origin struct {
	Command string `json:"command,omitempty"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"`
}

// Figure is one number that a run answers for.
type Figure struct {
	ID      string  `json:"id"`
	Value   float64 `json:"value"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Unit    string  `json:"unit,omitempty"`
	Count   int     `json:"count"`             // repetitions
	Answers int     `json:"answers,omitempty"` // where the value is of what all repetitions saw together: of how many
	How     string  `json:"how"`
	Origin
}

// Series is what one system did.
type Series struct {
	System string             `json:"system"`
	Point  float64            `json:"point,omitempty"` // of the axis, such as the number of clients
	Value  float64            `json:"value"`
	Min    float64            `json:"min"`
	Max    float64            `json:"max"`
	Unit   string             `json:"unit"`
	Count  int                `json:"count"`
	CPU    float64            `json:"cpu_us,omitempty"` // processor time of the servers for one, median
	CPUMin float64            `json:"cpu_min_us,omitempty"`
	CPUMax float64            `json:"cpu_max_us,omitempty"`
	Detail map[string]float64 `json:"detail,omitempty"` // medians
	Curve  []float64          `json:"curve,omitempty"`  // values in the order of time, where there are many
}

const (
	curveMin = 20  // samples that make a course of time; fewer are repetitions
	curveMax = 200 // points of a course that are kept
	digits   = 6   // significant ones that are kept
)

// Of is what is kept of a report.
func Of(r *report.Report) *Run {
	run := &Run{
		Name: r.Name, About: r.About, Origin: Origin{r.Command, r.Versions["chainify"], r.Started.Format("2006-01-02")}, TookS: round(r.TookS),
		Versions: r.Versions, Machine: r.Machine, Parameters: r.Parameters, Settings: r.Settings, Notes: r.Notes,
	}
	for _, f := range r.Figures {
		run.Figures = append(run.Figures, &Figure{
			ID: f.ID, Value: round(f.Value), Min: round(f.Min), Max: round(f.Max), Unit: f.Unit, Count: len(f.Each), Answers: f.Answers, How: f.How,
			Origin: Origin{Command: f.Command},
		})
	}
	if r.Table != nil {
		run.Head, run.Rows = r.Table.Head, r.Table.Rows
		return run
	}
	for _, s := range r.Series {
		run.Series = append(run.Series, &Series{
			System: s.System, Point: s.Point, Value: round(s.Spread.Median), Min: round(s.Spread.Min), Max: round(s.Spread.Max), Unit: s.Unit, Count: s.Spread.Count,
			CPU: round(s.CPU.Median), CPUMin: round(s.CPU.Min), CPUMax: round(s.CPU.Max), Detail: details(s), Curve: curve(s.Values()),
		})
	}
	return run
}

// details are the medians of those that every sample has.
func details(s *report.Series) map[string]float64 {
	if len(s.Samples[0].Detail) == 0 {
		return nil
	}
	out := map[string]float64{}
	for name := range s.Samples[0].Detail {
		out[name] = round(report.Median(s.Details(name)))
	}
	return out
}

// curve thins a course of time; none of repetitions.
func curve(values []float64) (out []float64) {
	if len(values) <= curveMin {
		return nil
	}
	points := min(len(values), curveMax)
	for i := range points {
		out = append(out, round(values[i*len(values)/points]))
	}
	return out
}

func round(v float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil || math.IsNaN(v) {
		return v
	}
	return rounded
}

// Take puts a run in the place of the one of its name. Of a run with -only, the figures and series
// that it has take the place of the former ones, and name their command, commit and date. A run
// with -short is refused.
func (f *File) Take(run *Run) error {
	words := strings.Fields(run.Command)
	if slices.Contains(words, "-short") {
		return fmt.Errorf("%s is of a run with -short, which measures too little for a page", run.Name)
	}
	i := slices.IndexFunc(f.Runs, func(r *Run) bool { return r.Name == run.Name })
	switch {
	case i < 0:
		f.Runs = append(f.Runs, run)
	case !slices.Contains(words, "-only"):
		f.Runs[i] = run
	default:
		f.Runs[i].takePart(run)
	}
	return nil
}

func (r *Run) takePart(part *Run) {
	for _, f := range part.Figures {
		f.Origin = part.Origin
		if i := slices.IndexFunc(r.Figures, func(old *Figure) bool { return old.ID == f.ID }); i >= 0 {
			r.Figures[i] = f
		} else {
			r.Figures = append(r.Figures, f)
		}
	}
	for _, s := range part.Series {
		if i := slices.IndexFunc(r.Series, func(old *Series) bool { return old.System == s.System && old.Point == s.Point }); i >= 0 {
			r.Series[i] = s
		} else {
			r.Series = append(r.Series, s)
		}
	}
}

// Run is the run of a benchmark, nil when there is none.
func (f *File) Run(name string) *Run {
	for _, r := range f.Runs {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Figure finds a figure and its run, nil when there is none.
func (f *File) Figure(id string) (*Figure, *Run) {
	for _, r := range f.Runs {
		for _, one := range r.Figures {
			if one.ID == id {
				return one, r
			}
		}
	}
	return nil, nil
}

// Find is a series, nil when there is none.
func (r *Run) Find(system string, point float64) *Series {
	for _, s := range r.Series {
		if s.System == system && s.Point == point {
			return s
		}
	}
	return nil
}

// Spread is the series' rate with its range.
func (s *Series) Spread() report.Spread {
	return report.Spread{Median: s.Value, Min: s.Min, Max: s.Max, Count: s.Count}
}

// Cost is the series' processor time with its range.
func (s *Series) Cost() report.Spread {
	return report.Spread{Median: s.CPU, Min: s.CPUMin, Max: s.CPUMax, Count: s.Count}
}

// Of is the origin of a figure of this run.
func (r *Run) Of(f *Figure) Origin {
	o := f.Origin
	if o.Commit == "" {
		o.Commit, o.Date = r.Commit, r.Date
	}
	if o.Command == "" {
		o.Command = r.Command
	}
	return o
}

// Dirty says whether a commit had changes that nobody committed.
func (o Origin) Dirty() bool { return strings.HasSuffix(o.Commit, "-dirty") }
