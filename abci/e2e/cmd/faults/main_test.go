package main

import (
	"context"
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/faults"
	"github.com/chainify-db/chainify/abci/must"
)

// The overlay fits the Go that tests are run with: another one may read its clock otherwise.
func TestOverlayFitsThisGo(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, writeOverlay(dir))
	text, err := os.ReadFile(filepath.Join(dir, "overlay.json"))
	must.Do(t, err)
	var overlay struct{ Replace map[string]string }
	must.Do(t, json.Unmarshal(text, &overlay))
	if len(overlay.Replace) != 2 {
		t.Errorf("%d files are replaced, want 2", len(overlay.Replace))
	}
	for _, path := range overlay.Replace {
		if _, err := parser.ParseFile(token.NewFileSet(), path, nil, 0); err != nil {
			t.Error(err)
		}
	}
	now, err := os.ReadFile(filepath.Join(dir, "time.go"))
	must.Do(t, err)
	_, after, _ := strings.Cut(string(now), "\nfunc Now() Time {\n")
	if body, _, _ := strings.Cut(after, "\n}\n"); !strings.Contains(body, "sec += *wallJump") {
		t.Errorf("Now is\n%s", body)
	}
}

// A run that cannot even begin is a failed run with the command that repeats it, not a passed one.
func TestRunThatFailsIsReported(t *testing.T) {
	dir := t.TempDir()
	m := faults.Random(1, 1e9)
	text, err := m.Format()
	must.Do(t, err)
	manifest := filepath.Join(dir, "m.toml")
	must.Do(t, os.WriteFile(manifest, text, 0o600))
	report := filepath.Join(dir, "report.json")
	// the child of a test would be the test again: call what the child calls, without namespaces
	if err := command(context.Background(), []string{
		childCommand, "-pg", "/nowhere", "-chainify", "/nowhere", "-scripts", "/nowhere", "-dir", dir, "-child-report", report, manifest,
	}); err != nil {
		t.Fatal(err)
	}
	var got faults.Report
	if text, err = os.ReadFile(report); err != nil {
		t.Fatal(err)
	}
	must.Do(t, json.Unmarshal(text, &got))
	if got.Passed || got.Error == "" {
		t.Errorf("passed %t, error %q", got.Passed, got.Error)
	}
	var s summary
	s.add(got)
	if s.Passed != 0 || s.Failed != 1 {
		t.Errorf("summary %+v", s)
	}
}
