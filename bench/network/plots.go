package network

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/chainify-db/chainify/bench/chart"
	"github.com/chainify-db/chainify/bench/report"
)

// draw writes <name>: all systems, <name>-organisations: rates over the number of organisations, and <name>-clients: over that of clients that wait.
func draw(cfg Config, r *report.Report) error {
	bars := chart.Bars{Title: fmt.Sprintf("Transactions per second; Smallbank (%d customers) but for what says otherwise", cfg.Customers)}
	for _, s := range r.Series {
		name := s.System
		if s.Point > 0 {
			name = fmt.Sprintf("%s (%g)", name, s.Point)
		}
		bars.Bars = append(bars.Bars, chart.Level{Name: name, Spread: s.Spread})
	}
	name := filepath.Base(r.Name)
	return errors.Join(bars.Write(cfg.Out, name),
		drawLines(r, overOrganisations(), cfg.Out, name+"-organisations"), drawLines(r, overClients(), cfg.Out, name+"-clients"))
}

// over is a line of a plot: where on its axis which series stand.
type over struct {
	name   string
	places []place
}

type place struct {
	x     float64
	name  string
	point float64
}

// linesOver is a plot of rates over something.
type linesOver struct {
	title, x string
	lines    []over
}

func overOrganisations() linesOver {
	return linesOver{"Smallbank, nobody waits, all on one machine", "organisations", []over{
		{"chainify", []place{{1, chainifyOneWorker, 0}, {4, chainifyFour, 0}, {7, chainifySeven, 0}}},
		{"baseline", []place{{1, baselineOne, 0}, {4, baselineSingle, 0}}},
	}}
}

func overClients() linesOver {
	p := linesOver{title: "Smallbank, four organisations, every client waits", x: "clients"}
	for _, name := range []string{chainifySync, latencyMode, throughputMode, baselineSync, floorSync} {
		line := over{name: name}
		for _, clients := range []float64{1, 8, many, 64} {
			line.places = append(line.places, place{clients, name, clients})
		}
		p.lines = append(p.lines, line)
	}
	return p
}

// drawLines draws what was measured; nothing where none of it was.
func drawLines(r *report.Report, p linesOver, dir, name string) error {
	c := chart.Chart{Title: p.title, X: p.x, Y: "transactions per second"}
	for _, l := range p.lines {
		line := chart.Line{Name: l.name}
		for _, at := range l.places {
			if s := r.Find(at.name, at.point); s != nil {
				line.Points = append(line.Points, chart.Point{X: at.x, Spread: s.Spread})
			}
		}
		if len(line.Points) > 0 {
			c.Lines = append(c.Lines, line)
		}
	}
	if len(c.Lines) == 0 {
		return nil
	}
	return c.Write(dir, name)
}
