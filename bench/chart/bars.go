package chart

import (
	"fmt"
	"image/color"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// Bars is a chart of systems that have one value each, lying, so that their names can be read.
type Bars struct {
	Title string
	Bars  []Level // from the bottom upwards
}

// Write draws dir/<name>.svg and dir/<name>.png.
func (b Bars) Write(dir, name string) error {
	p := plot.New()
	p.Title.Text, p.X.Min, p.BackgroundColor = b.Title, 0, color.White
	p.Title.Padding = vg.Points(6)
	values, names := make(plotter.Values, len(b.Bars)), make([]string, len(b.Bars))
	for i, bar := range b.Bars {
		values[i], names[i] = bar.Spread.Median, bar.Name
	}
	drawn, err := plotter.NewBarChart(values, vg.Points(14))
	if err != nil {
		return fmt.Errorf("draw %s: %w", name, err)
	}
	drawn.Horizontal, drawn.Color = true, plotutil.Color(2)
	ranges, err := plotter.NewXErrorBars(lying(b.Bars))
	if err != nil {
		return fmt.Errorf("draw %s: %w", name, err)
	}
	p.Add(plotter.NewGrid(), drawn, ranges)
	p.NominalY(names...)
	for _, kind := range []string{".svg", ".png"} {
		if err := p.Save(24*vg.Centimeter, vg.Length(4+len(b.Bars))*vg.Centimeter, filepath.Join(dir, name+kind)); err != nil {
			return fmt.Errorf("draw %s%s: %w", name, kind, err)
		}
	}
	return nil
}

// lying draws the range of each bar.
type lying []Level

func (l lying) Len() int                    { return len(l) }
func (l lying) XY(i int) (float64, float64) { return l[i].Spread.Median, float64(i) }
func (l lying) XError(i int) (float64, float64) {
	s := l[i].Spread
	return s.Median - s.Min, s.Max - s.Median
}
