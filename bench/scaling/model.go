// Package scaling is a model of a consortium of which each organisation has a machine of its own.
// It gives the cost of a transaction for each of them, the number that fit, and the wait of a
// client. Its constants are fitted to one run of the benchmarks; docs/scaling.md says what it
// leaves out.
package scaling

import (
	"errors"
	"fmt"
	"math"

	"github.com/chainify-db/chainify/bench/figures"
)

// Line is a cost that grows with the number of organisations: At + By·n.
type Line struct{ At, By float64 }

// Of is the cost with n organisations.
func (l Line) Of(n int) float64 { return l.At + l.By*float64(n) }

// fit puts a line through the values; two or more places.
func fit(at []int, values []float64) (Line, error) {
	if len(at) != len(values) || len(at) < 2 {
		return Line{}, fmt.Errorf("a line through %d points", len(at))
	}
	var x, y, xx, xy float64
	for i, n := range at {
		x, y = x+float64(n), y+values[i]
		xx, xy = xx+float64(n*n), xy+float64(n)*values[i]
	}
	count := float64(len(at))
	d := count*xx - x*x
	if d == 0 {
		return Line{}, errors.New("a line through one place")
	}
	by := (count*xy - x*y) / d
	return Line{(y - by*x) / count, by}, nil
}

// Costs are what the model knows of one organisation: processor time in microseconds, and bytes
// that it keeps.
type Costs struct {
	Database   Line // of a transaction
	Node       Line // of a transaction that comes with many others
	Height     Line // of an order block, whatever is in it
	HeightMS   Line // how long an order block takes on one machine for all, with nothing to wait for
	Bytes      Line // of a transaction that comes with many others
	AloneBytes Line // of a transaction alone in its order block
}

// Measured is one size of network in a run: medians, of all organisations together.
type Measured struct {
	Organisations      int
	NodeUS, DatabaseUS float64 // processor time of a transaction when nobody waits
	HeightUS, HeightMS float64 // processor time of nodes, and time, of the transaction of one client that waits
	Rate               float64 // transactions a second when nobody waits
	Bytes, AloneBytes  float64 // what each organisation keeps of a transaction when nobody waits, and of one that is waited for
}

// FitCosts fits the lines to two or more sizes.
func FitCosts(run []Measured) (c Costs, err error) {
	var at []int
	var node, database, height, ms, bytes, alone []float64
	for _, m := range run {
		n := float64(m.Organisations)
		at = append(at, m.Organisations)
		node, database = append(node, m.NodeUS/n), append(database, m.DatabaseUS/n)
		height, ms = append(height, m.HeightUS/n), append(ms, m.HeightMS)
		bytes, alone = append(bytes, m.Bytes), append(alone, m.AloneBytes)
	}
	for _, f := range []struct {
		into   *Line
		values []float64
	}{{&c.Node, node}, {&c.Database, database}, {&c.Height, height}, {&c.HeightMS, ms}, {&c.Bytes, bytes}, {&c.AloneBytes, alone}} {
		if *f.into, err = fit(at, f.values); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Cores is what one organisation needs for a rate of transactions at so many order blocks a second.
func (c Costs) Cores(n int, rate, heights float64) float64 {
	return (rate*(c.Database.Of(n)+c.Node.Of(n)) + heights*c.Height.Of(n)) / 1e6
}

// Rate is the most transactions a second that fit the cores of each organisation at so many order
// blocks a second.
func (c Costs) Rate(n int, cores, heights float64) float64 {
	return math.Max(0, (cores*1e6-heights*c.Height.Of(n))/(c.Database.Of(n)+c.Node.Of(n)))
}

// Foretell is what the costs make of a size on one machine that all organisations share.
func (c Costs) Foretell(n, cores int, heights float64) Measured {
	all := float64(n)
	return Measured{
		Organisations: n, NodeUS: c.Node.Of(n) * all, DatabaseUS: c.Database.Of(n) * all, HeightUS: c.Height.Of(n) * all, HeightMS: c.HeightMS.Of(n),
		Rate: c.Rate(n, float64(cores)/all, heights), Bytes: c.Bytes.Of(n), AloneBytes: c.AloneBytes.Of(n),
	}
}

// The details of a sample that are the bytes kept.
var keptDetails = []string{"database_bytes_per_tx", "blocks_bytes_per_tx", "state_bytes_per_tx"}

// Of reads what a run of the network benchmark says of one size, with one worker in each database;
// false when it did not measure it.
func Of(r *figures.Run, organisations int) (Measured, bool) {
	name := "chainify, " + Name(organisations)
	if organisations == 1 {
		name += ", one worker"
	}
	load, wait := r.Find(name, 0), r.Find(name+", waiting", 1)
	if load == nil || wait == nil {
		return Measured{}, false
	}
	return Measured{
		Organisations: organisations,
		NodeUS:        load.Detail["node_cpu_us_per_tx"], DatabaseUS: load.Detail["database_cpu_us_per_tx"],
		HeightUS: wait.Detail["node_cpu_us_per_tx"], HeightMS: wait.Detail["p50_ms"],
		Rate: load.Value, Bytes: bytesKept(load), AloneBytes: bytesKept(wait),
	}, true
}

func bytesKept(s *figures.Series) (sum float64) {
	for _, detail := range keptDetails {
		sum += s.Detail[detail]
	}
	return sum
}

// Name is how a report calls a number of organisations.
func Name(n int) string {
	if n == 1 {
		return "1 organisation"
	}
	return fmt.Sprintf("%d organisations", n)
}
