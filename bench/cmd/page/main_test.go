package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/bench/pages"
	"github.com/chainify-db/chainify/bench/report"
)

// Reports of a run become figures and pages, and the samples stay where they are.
func TestReportsAreTaken(t *testing.T) {
	in, root := t.TempDir(), t.TempDir()
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "bench/README.md", "crates/README.md", "docs/some.md", "spec/some.md", pages.File} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		text := "<!-- figure engines.back_s --><!-- / -->\n"
		if name == pages.File {
			text = "[]"
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &report.Report{Name: "engines", About: "engines", Command: "bench", Versions: map[string]string{"chainify": "0123456789ab"}}
	r.Add("ours", 0, "s", report.Sample{Repetition: 1, Value: 4})
	if err := r.AddFigure("engines.back_s", []float64{3, 4, 6}, "s", report.Target{}, "how"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write(in); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"engines-failing-mixed.svg", "engines-failing-postgres.svg", "engines-other.svg"} {
		if err := os.WriteFile(filepath.Join(in, name), []byte("<svg/>"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(in, root); err != nil {
		t.Fatal(err)
	}
	if err := current(root); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil || string(text) != "<!-- figure engines.back_s -->4<!-- / -->\n" {
		t.Errorf("%q, %v", text, err)
	}
	entries, err := os.ReadDir(filepath.Join(root, pages.Folder))
	if err != nil || len(entries) != 5 { // figures, page, targets, two plots
		t.Errorf("%v, %v", entries, err)
	}
	if err := os.WriteFile(filepath.Join(root, "README.md"), []byte("<!-- figure engines.back_s -->5<!-- / -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := current(root); err == nil || !strings.Contains(err.Error(), "README.md") {
		t.Errorf("with a stale copy: %v", err)
	}
	r.Command = "bench -short"
	if _, err := r.Write(in); err != nil {
		t.Fatal(err)
	}
	if err := write(in, root); err == nil || !strings.Contains(err.Error(), "-short") {
		t.Errorf("with a short run: %v", err)
	}
}
