package chart

import (
	"bytes"
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
