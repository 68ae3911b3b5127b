package network

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/chainify-db/chainify/bench/chart"
	"github.com/chainify-db/chainify/bench/report"
)

// draw writes <name>: all systems, <name>-organisations: rates over the number of organisations,
// and <name>-clients: over that of clients that wait.
func draw(cfg Config, r *report.Report) error {
	bars := chart.Bars{Title: fmt.Sprintf("Transactions per second; Smallbank (%d customers) but for what says otherwise", cfg.Customers)}
	for _, s := range r.Series {
		name := s.System
		if s.Point > 0 {
			name = fmt.Sprintf("%s (%g)", name, s.Point)
		}
		bars.Bars = append(bars.Bars, chart.Level{Name: name, Spread: s.Spread})
	}
	organisations := chart.Chart{Title: "Smallbank, nobody waits, all on one machine", X: "organisations", Y: rate, Lines: []chart.Line{
		overOrganisations(r, "chainify", map[float64]string{1: chainifyOneWorker, 4: chainifyFour, 7: chainifySeven}),
		overOrganisations(r, "baseline", map[float64]string{1: baselineOne, 4: baselineSingle}),
	}}
	clients := chart.Chart{Title: "Smallbank, four organisations, every client waits", X: "clients", Y: rate}
	for _, system := range []string{chainifySync, latencyMode, throughputMode, baselineSync, floorSync} {
		clients.Lines = append(clients.Lines, chart.Over(r, system))
	}
	name := filepath.Base(r.Name)
	return errors.Join(bars.Write(cfg.Out, name), organisations.Write(cfg.Out, name+"-organisations"), clients.Write(cfg.Out, name+"-clients"))
}

const rate = "transactions per second"

// overOrganisations is the line of systems that differ in how many organisations they have.
func overOrganisations(r *report.Report, name string, systems map[float64]string) chart.Line {
	line := chart.Line{Name: name}
	for _, n := range slices.Sorted(maps.Keys(systems)) {
		if s := r.Find(systems[n], 0); s != nil {
			line.Points = append(line.Points, chart.Point{X: n, Spread: s.Spread})
		}
	}
	return line
}
