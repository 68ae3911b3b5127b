// Package plots draws what the figures of a run are easier seen in. It knows nothing but what
// docs/performance/figures.json keeps.
package plots

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/chainify-db/chainify/bench/chart"
	"github.com/chainify-db/chainify/bench/figures"
	"github.com/chainify-db/chainify/bench/report"
)

// plot is one file.
type plot struct {
	file, title, x, y string
	of                func(*figures.Run) ([]chart.Line, []chart.Level)
}

const rate = "transactions per second"

// of are the plots of each benchmark.
var of = map[string][]plot{
	"executor": {
		{"executor", "Smallbank, blocks and sessions", "pgbench clients", rate, func(r *figures.Run) ([]chart.Line, []chart.Level) {
			return []chart.Line{over(r, "pgbench, sync on"), over(r, "pgbench, sync off")},
				levels(r, "block, functions", "block, parameters", "block, literal", "no ledger, loop")
		}},
		{"executor-block-sizes", "Smallbank: cost of a transaction", "transactions of a block", "microseconds", cost("block of transactions")},
		{"executor-rows", "Smallbank: cost of a transaction", "customers", "microseconds", cost("block on customers")},
	},
	"network": {
		{"network-organisations", "Smallbank, nobody waits, all on one machine", "organisations", rate, func(r *figures.Run) ([]chart.Line, []chart.Level) {
			return []chart.Line{
				byOrganisations(r, "chainify", "chainify, 1 organisation, one worker", "chainify, 4 organisations", "chainify, 7 organisations"),
				byOrganisations(r, "baseline", "baseline, 1 organisation", "baseline, 4 organisations"),
			}, nil
		}},
		{"network-clients", "Smallbank, four organisations, every client waits", "clients", rate, func(r *figures.Run) ([]chart.Line, []chart.Level) {
			var lines []chart.Line
			for _, system := range []string{"chainify, 4 organisations, waiting", "mode latency, 4 organisations", "mode throughput, 4 organisations", "baseline, 4 organisations, waiting", "CometBFT alone, 4 nodes, waiting"} {
				lines = append(lines, over(r, system))
			}
			return lines, nil
		}},
	},
	"snapshot": {
		{"snapshot", "A snapshot of one column", "pages written before", "µs", func(r *figures.Run) (lines []chart.Line, _ []chart.Level) {
			for _, strategy := range []string{"chunks", "copy", "fork", "rewire", "vm_snapshot"} {
				lines = append(lines, over(r, strategy+", 1 column"))
			}
			return lines, nil
		}},
	},
	"steady": {
		{"steady", "What was measured / its second quarter", "minutes", "ratio", func(r *figures.Run) (lines []chart.Line, _ []chart.Level) {
			for _, s := range r.Series {
				if quarter := s.Curve[len(s.Curve)/4 : len(s.Curve)/2]; s.System != "latency, 99th percentile" {
					lines = append(lines, course(r, s, report.Median(quarter)))
				}
			}
			return lines, nil
		}},
	},
	"retention": {
		{"retention", "one organisation on disk, and its archive", "minutes", "MB", func(r *figures.Run) (lines []chart.Line, _ []chart.Level) {
			for _, s := range r.Series {
				if s.Unit == "MB" {
					lines = append(lines, course(r, s, 1))
				}
			}
			return lines, nil
		}},
	},
}

// Drawn are plots that a run itself draws, of what its report does not hold.
var Drawn = map[string][]string{"engines": {"engines-failing-mixed", "engines-failing-postgres"}}

// Of names the files of a benchmark's plots, without .svg.
func Of(benchmark string) []string {
	names := slices.Clone(Drawn[benchmark])
	for _, p := range of[benchmark] {
		names = append(names, p.file)
	}
	return names
}

// Draw draws a run's plots, dir/<name>.svg and .png. Systems that the run has not are left out.
func Draw(dir string, r *figures.Run) error {
	var errs []error
	for _, p := range of[r.Name] {
		lines, levels := p.of(r)
		errs = append(errs, chart.Chart{Title: p.title, X: p.x, Y: p.y, Lines: lines, Levels: levels}.Write(dir, p.file))
	}
	return errors.Join(errs...)
}

// over is the line of a system over its measured points. Point 0 is none of an axis.
func over(r *figures.Run, system string) chart.Line {
	line := chart.Line{Name: system}
	for _, s := range r.Series {
		if s.System == system && s.Point > 0 {
			line.Points = append(line.Points, chart.Point{X: s.Point, Spread: s.Spread()})
		}
	}
	return line
}

// cost is the processor time of a system's servers over its measured points.
func cost(system string) func(*figures.Run) ([]chart.Line, []chart.Level) {
	return func(r *figures.Run) ([]chart.Line, []chart.Level) {
		line := chart.Line{Name: "server processor time"}
		for _, s := range r.Series {
			if s.System == system {
				line.Points = append(line.Points, chart.Point{X: s.Point, Spread: s.Cost()})
			}
		}
		return []chart.Line{line}, nil
	}
}

func levels(r *figures.Run, systems ...string) (out []chart.Level) {
	for _, system := range systems {
		if s := r.Find(system, 0); s != nil {
			out = append(out, chart.Level{Name: system, Spread: s.Spread()})
		}
	}
	return out
}

// byOrganisations is the line of systems that differ in how many organisations they have, which
// stands in their names.
func byOrganisations(r *figures.Run, name string, systems ...string) chart.Line {
	line := chart.Line{Name: name}
	for _, system := range systems {
		var n float64
		if _, err := fmt.Sscanf(system, name+", %g", &n); err != nil {
			continue
		}
		if s := r.Find(system, 0); s != nil {
			line.Points = append(line.Points, chart.Point{X: n, Spread: s.Spread()})
		}
	}
	return line
}

// course is a series over the minutes of its run, as a share of a base.
func course(r *figures.Run, s *figures.Series, base float64) chart.Line {
	line := chart.Line{Name: s.System}
	for i, value := range s.Curve {
		value /= base
		at := minutes(r) * float64(i+1) / float64(len(s.Curve))
		line.Points = append(line.Points, chart.Point{X: at, Spread: report.Spread{Median: value, Min: value, Max: value, Count: 1}})
	}
	return line
}

// minutes is how long a run's load was held, by its command; otherwise how long the run took.
func minutes(r *figures.Run) float64 {
	_, length, _ := strings.Cut(r.Command, " -minutes ")
	length, _, _ = strings.Cut(length, " ")
	if n, err := strconv.ParseFloat(length, 64); err == nil {
		return n
	}
	return r.TookS / 60
}
