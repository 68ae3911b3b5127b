package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Report is one run of one benchmark, as written to <name>.json.
type Report struct {
	Name       string            `json:"name"`
	About      string            `json:"about"`
	Command    string            `json:"command"`
	Started    time.Time         `json:"started"`
	TookS      float64           `json:"took_s"`
	Versions   map[string]string `json:"versions"`
	Machine    map[string]any    `json:"machine"`
	Parameters map[string]any    `json:"parameters"`
	Settings   map[string]any    `json:"settings"` // of the servers, where they differ from PostgreSQL's default
	Series     []*Series         `json:"series"`
	Figures    []Figure          `json:"figures"`
	Table      *Table            `json:"table,omitempty"` // shown in place of the series
	Notes      []string          `json:"notes,omitempty"`
}

// Table sets measurements beside each other, and beside published ones. Each row has as many cells
// as the head.
type Table struct {
	Head []string   `json:"head"`
	Rows [][]string `json:"rows"`
}

// Series is what one system did, one sample for each repetition. Value is a rate unless Unit says
// otherwise.
type Series struct {
	System  string   `json:"system"`
	Point   float64  `json:"point,omitempty"` // of the axis, such as the number of clients
	Unit    string   `json:"unit"`
	Spread  Spread   `json:"spread"`
	CPU     Spread   `json:"server_cpu_us_per_tx"`
	Samples []Sample `json:"samples"`
}

// Sample is one measurement.
type Sample struct {
	Repetition   int                `json:"repetition"`
	Value        float64            `json:"value"`
	Transactions int                `json:"transactions"`
	Seconds      float64            `json:"seconds"`
	ServerCPUUS  float64            `json:"server_cpu_us_per_tx"` // of the whole cluster; its clients are not in it
	Load         float64            `json:"load"`                 // one-minute load of the machine when it began
	Detail       map[string]float64 `json:"detail,omitempty"`
	Latencies    []float64          `json:"latencies_ms,omitempty"` // ascending, where there are few: figures are of those of all repetitions
}

// Add appends a sample to the series of a system at a point, making it first when there is none.
// The series stay sorted: the order in which systems were measured is chance.
func (r *Report) Add(system string, point float64, unit string, s Sample) {
	series := r.Find(system, point)
	if series == nil {
		series = &Series{System: system, Point: point, Unit: unit}
		r.Series = append(r.Series, series)
		slices.SortStableFunc(r.Series, func(a, b *Series) int {
			return cmp.Or(strings.Compare(a.System, b.System), cmp.Compare(a.Point, b.Point))
		})
	}
	series.Samples = append(series.Samples, s)
	series.Spread = SpreadOf(series.Values())
	series.CPU = SpreadOf(series.CPUs())
}

// Find returns a series, nil when there is none.
func (r *Report) Find(system string, point float64) *Series {
	for _, s := range r.Series {
		if s.System == system && s.Point == point {
			return s
		}
	}
	return nil
}

// Best is the series of a system with the highest median, nil when it has none.
func (r *Report) Best(system string) *Series {
	var best *Series
	for _, s := range r.Series {
		if s.System == system && (best == nil || s.Spread.Median > best.Spread.Median) {
			best = s
		}
	}
	return best
}

// Values lists the samples in order of repetition; a series that is nil has none.
func (s *Series) Values() []float64 { return s.collect(func(x Sample) float64 { return x.Value }) }

// CPUs lists the server's processor time of each sample, microseconds per transaction.
func (s *Series) CPUs() []float64 { return s.collect(func(x Sample) float64 { return x.ServerCPUUS }) }

// Details lists a detail of each sample.
func (s *Series) Details(name string) []float64 {
	return s.collect(func(x Sample) float64 { return x.Detail[name] })
}

// Latencies are those of all samples, ascending.
func (s *Series) Latencies() (out []float64) {
	if s == nil {
		return nil
	}
	for _, x := range s.Samples {
		out = append(out, x.Latencies...)
	}
	slices.Sort(out)
	return out
}

func (s *Series) collect(of func(Sample) float64) []float64 {
	if s == nil {
		return nil
	}
	sorted := slices.Clone(s.Samples)
	slices.SortStableFunc(sorted, func(a, b Sample) int { return a.Repetition - b.Repetition })
	out := make([]float64, len(sorted))
	for i, x := range sorted {
		out[i] = of(x)
	}
	return out
}

// Write writes dir/<name>.json.
func (r *Report) Write(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write report: %w", err)
	}
	path := filepath.Join(dir, r.Name+".json")
	return path, os.WriteFile(path, append(raw, '\n'), 0o644)
}
