// Package chart draws the measurements of a report, as SVG and PNG.
package chart

import (
	"errors"
	"fmt"
	"image/color"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/chainify-db/chainify/bench/report"
)

// Chart is a line chart: lines over an axis, and levels that do not depend on it.
type Chart struct {
	Title, X, Y string
	Lines       []Line
	Levels      []Level
}

// Line is one system over the axis.
type Line struct {
	Name   string
	Points []Point
}

// Point is a median with its range at a place of the axis.
type Point struct {
	X      float64
	Spread report.Spread
}

// Level is a system with one value, drawn across.
type Level struct {
	Name   string
	Spread report.Spread
}

// errorBars draws the range of each point.
type errorBars struct{ points []Point }

func (b errorBars) Len() int                    { return len(b.points) }
func (b errorBars) XY(i int) (float64, float64) { return b.points[i].X, b.points[i].Spread.Median }
func (b errorBars) YError(i int) (float64, float64) {
	s := b.points[i].Spread
	return s.Median - s.Min, s.Max - s.Median
}

// Write draws dir/<name>.svg and dir/<name>.png, without lines that have no points. It removes the
// files of an earlier run when there is nothing to draw.
func (c Chart) Write(dir, name string) error {
	files := []string{filepath.Join(dir, name+".svg"), filepath.Join(dir, name+".png")}
	c.Lines = slices.DeleteFunc(slices.Clone(c.Lines), func(l Line) bool { return len(l.Points) == 0 })
	if len(c.Lines)+len(c.Levels) == 0 {
		return removed(files)
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.Y.Min = 0
	p.X.Min = 0
	p.BackgroundColor = color.White
	p.Legend.Top = true
	p.Legend.Padding = vg.Points(2)
	p.Legend.XOffs = -vg.Points(6)
	p.Title.Padding = vg.Points(6)
	p.Add(plotter.NewGrid())
	for i, line := range c.Lines {
		if err := addLine(p, i, line); err != nil {
			return fmt.Errorf("draw %s: %w", line.Name, err)
		}
	}
	for i, level := range c.Levels {
		addLevel(p, len(c.Lines)+i, level)
	}
	p.Y.Max *= 1.1 + 0.07*float64(len(c.Lines)+len(c.Levels)) // room for the legend
	p.X.Max *= 1.02
	if places := c.places(); len(places) > 0 {
		p.X.Tick.Marker = plot.ConstantTicks(places)
	}
	p.Y.Tick.Marker = wholeTicks{}
	for _, file := range files {
		if err := p.Save(22*vg.Centimeter, 14*vg.Centimeter, file); err != nil {
			return fmt.Errorf("draw %s: %w", file, err)
		}
	}
	return nil
}

func removed(files []string) error {
	for _, file := range files {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

const (
	// labelsMax is how many labels of an axis can be read beside each other.
	labelsMax = 12
	// pointsMax is how many points of a line are drawn with their ranges. A line of more is a
	// course of time.
	pointsMax = 40
	// courseMax is how many points of a course are drawn.
	courseMax = 200
)

// places labels the axis where points are; of many, every second, third, ….
func (c Chart) places() []plot.Tick {
	var places []float64
	for _, line := range c.Lines {
		for _, point := range line.Points {
			places = append(places, point.X)
		}
	}
	slices.Sort(places)
	places = slices.Compact(places)
	var out []plot.Tick
	apart := (len(places)-1)/labelsMax + 1
	for i, x := range places {
		if (i+1)%apart == 0 {
			out = append(out, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'g', -1, 64)})
		}
	}
	return out
}

// wholeTicks labels rates without decimals.
type wholeTicks struct{}

func (wholeTicks) Ticks(lowest, highest float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(lowest, highest)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = strconv.FormatFloat(t.Value, 'f', -1, 64)
		}
	}
	return ticks
}

func addLine(p *plot.Plot, i int, line Line) error {
	if len(line.Points) > pointsMax {
		return addCourse(p, i, line)
	}
	bars := errorBars{line.Points}
	drawn, points, err := plotter.NewLinePoints(bars)
	if err != nil {
		return err
	}
	ranges, err := plotter.NewYErrorBars(bars)
	if err != nil {
		return err
	}
	drawn.Color, points.Color, ranges.Color = plotutil.Color(i), plotutil.Color(i), plotutil.Color(i)
	points.Shape = plotutil.Shape(i)
	p.Add(drawn, points, ranges)
	p.Legend.Add(line.Name, drawn, points)
	return nil
}

// addCourse draws a line alone, of at most courseMax of its points.
func addCourse(p *plot.Plot, i int, line Line) error {
	n := min(len(line.Points), courseMax)
	points := make([]Point, n)
	for k := range points {
		points[k] = line.Points[k*len(line.Points)/n]
	}
	drawn, err := plotter.NewLine(errorBars{points})
	if err != nil {
		return err
	}
	drawn.Color = plotutil.Color(i)
	p.Add(drawn)
	p.Legend.Add(line.Name, drawn)
	return nil
}

func addLevel(p *plot.Plot, i int, level Level) {
	drawn := plotter.NewFunction(func(float64) float64 { return level.Spread.Median })
	drawn.Color, drawn.Dashes, drawn.Width = plotutil.Color(i), plotutil.Dashes(1), vg.Points(1.5)
	p.Add(drawn)
	p.Y.Max = max(p.Y.Max, level.Spread.Median)
	p.Legend.Add(level.Name, drawn)
}
