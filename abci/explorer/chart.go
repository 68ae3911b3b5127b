package explorer

import (
	"slices"
)

const (
	chartWidth  = 600.0
	chartHeight = 120.0
	barGap      = 0.2  // of a bar's place
	scaleOf     = 0.95 // of the bars are drawn whole; the highest are cut, so that one pause does not flatten all others
)

// bar is one block of a chart: a column with a part of another colour at its foot.
type bar struct {
	Block               int64
	X, Y, Width, Height float64
	FootY, FootHeight   float64
	Cut                 bool // higher than the chart
	Label               string
}

// point is the data of a bar.
type point struct {
	block       int64
	value, foot float64
	label       string
}

// chart is a bar chart, oldest block first.
type chart struct {
	Bars []bar
	Top  float64 // the value at the chart's upper edge
}

// draw fits points into the chart's frame.
func draw(points []point) chart {
	var c chart
	if len(points) == 0 {
		return c
	}
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.value
	}
	slices.Sort(values)
	c.Top = values[int(float64(len(values)-1)*scaleOf)] * 1.1
	if c.Top <= 0 {
		c.Top = max(values[len(values)-1], 1)
	}
	place := chartWidth / float64(len(points))
	high := func(v float64) float64 { return min(v, c.Top) / c.Top * chartHeight }
	for i, p := range points {
		h, foot := high(p.value), high(p.foot)
		c.Bars = append(c.Bars, bar{
			Block: p.block, X: float64(i)*place + place*barGap/2, Width: place * (1 - barGap),
			Y: chartHeight - h, Height: h, FootY: chartHeight - foot, FootHeight: foot, Cut: p.value > c.Top, Label: p.label,
		})
	}
	return c
}

// median of the values, 0 without any.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}
