package chart

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chainify-db/chainify/bench/report"
)

func TestBothFilesAreDrawn(t *testing.T) {
	dir := t.TempDir()
	s := report.Spread{Median: 2, Min: 1, Max: 3}
	c := Chart{Title: "t", X: "clients", Y: "tx/s", Lines: []Line{{"a line", []Point{{1, s}, {8, s}}}}, Levels: []Level{{"a level", s}}}
	if err := c.Write(dir, "drawn"); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "drawn.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a line", "a level", "clients"} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("the SVG has no %q", want)
		}
	}
	raw, err := os.Open(filepath.Join(dir, "drawn.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := png.Decode(raw); err != nil {
		t.Error(err)
	}
}

// Of sixty places every fifth has its label: no label is written over another.
func TestLabelsOfManyPlacesAreApart(t *testing.T) {
	var all Line
	for x := 60.0; x > 0; x-- {
		all.Points = append(all.Points, Point{X: x}, Point{X: x})
	}
	few := Chart{Lines: []Line{{"few", all.Points[:2*labelsMax]}}}
	for i, tick := range few.places() {
		if want := fmt.Sprint(60 - labelsMax + 1 + i); tick.Label != want {
			t.Errorf("%+v, want %s", tick, want)
		}
	}
	places := Chart{Lines: []Line{all, all}}.places()
	if len(places) != labelsMax {
		t.Fatalf("%d places", len(places))
	}
	for i, tick := range places {
		if x := 5 * (i + 1); tick.Value != float64(x) || tick.Label != fmt.Sprint(x) {
			t.Errorf("%+v, want %d", tick, x)
		}
	}
}

// A course of time is a line of at most 200 points, without a mark for each.
func TestACourseIsThin(t *testing.T) {
	dir := t.TempDir()
	var course Line
	for i := range 1000 {
		x := float64(i)
		course.Points = append(course.Points, Point{X: x, Spread: report.Spread{Median: x, Min: x, Max: x}})
	}
	if err := (Chart{Lines: []Line{course}}).Write(dir, "course"); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "course.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(svg, []byte("\n")); lines > 100 || bytes.Count(svg, []byte("L")) > 2*courseMax {
		t.Errorf("%d lines:\n%s", lines, svg)
	}
}
