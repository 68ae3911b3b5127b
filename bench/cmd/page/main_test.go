package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/bench/report"
)

// Sections that are not of one state of the source and one machine, or of a run in full, are said
// to be.
func TestSectionsThatCannotBeComparedAreNamed(t *testing.T) {
	page := filepath.Join(t.TempDir(), "performance.md")
	put := func(name, commit, cpu, command string) string {
		t.Helper()
		in := t.TempDir()
		r := &report.Report{
			Name: name, About: name, Command: command, Versions: map[string]string{"chainify": commit, "cometbft": "v0.40.0", "go": "1.25"},
			Machine: map[string]any{"cores": 2, "cpu": cpu, "fsync_ms": 1}, Figures: []report.Figure{{ID: name + ".kept", How: "how", Value: 1}},
		}
		if _, err := r.Write(in); err != nil {
			t.Fatal(err)
		}
		if err := write(in, page); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, warned, _ := strings.Cut(string(text), "**Warning:** ")
		warned, _, _ = strings.Cut(warned, "\n")
		return warned
	}
	for _, c := range []struct{ name, commit, cpu, command, want string }{
		{"executor", "0123456789ab", "A B", "bench", ""},
		{"network", "0123456789ab", "A B", "bench", ""},
		{"verify", "0123456789ab-dirty", "A B", "bench", "the sections are of different commits (0123456789ab: executor, network; 0123456789ab-dirty: verify)."},
		{"verify", "0123456789ab", "C", "bench", "the sections are of different processors (A B: executor, network; C: verify)."},
		{"verify", "0123456789ab", "A B", "bench -short", "the sections are of runs with `-short` (verify)."},
		{"verify", "", "C", "bench -short -only x", "the sections are of different commits (0123456789ab: executor, network; unknown: verify), and of different processors (A B: executor, network; C: verify), and of runs with `-short` (verify)."},
		{"verify", "0123456789ab", "A B", "bench", ""},
	} {
		if got := put(c.name, c.commit, c.cpu, c.command); got != c.want {
			t.Errorf("after %+v: %q", c, got)
		}
	}
}

func TestPageSaysWhatHeldAndWhatWasMissed(t *testing.T) {
	in, docs := t.TempDir(), t.TempDir()
	page := filepath.Join(docs, "performance.md")
	if err := write(in, page); err == nil || !strings.Contains(err.Error(), "make bench") {
		t.Errorf("without a report: %v", err)
	}
	r := &report.Report{
		Name: "network", About: "four beside one", Command: "go run ./bench -bench network", Started: time.Unix(1_800_000_000, 0).UTC(), TookS: 61,
		Versions: map[string]string{"go": "1.25"}, Machine: map[string]any{"cores": 2}, Settings: map[string]any{"clusters": map[string]any{"fsync": "on"}},
		Notes: []string{"it rained"},
	}
	r.Add("ours", 32, "tx/s", report.Sample{Repetition: 1, Value: 1234, ServerCPUUS: 7})
	for id, target := range map[string]report.Target{"network.kept": report.AtLeast(2), "network.broken": report.AtMost(2), "network.open": {}} {
		if err := r.AddFigure(id, []float64{2.5, 3, 4}, "ratio", target, "a | b"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Write(in); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"network.svg", "network-clients.svg", "networks.svg"} {
		if err := os.WriteFile(filepath.Join(in, name), []byte("<svg/>"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(in, page); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| **kept** a \\| b | 3 ratio | 2.5 – 4 | ≥ 2 | holds |\n", "| **broken** a \\| b | 3 ratio | 2.5 – 4 | ≤ 2 | **missed** |\n",
		"| **open** a \\| b | 3 ratio | 2.5 – 4 |  |  |\n", "| ours | 32 | 1,234 tx/s |", "`go run ./bench -bench network` on 2027-01-15, for 61 s",
		"clusters (fsync on).", "It rained.", "![four beside one](performance/network.svg)\n\n![four beside one](performance/network-clients.svg)\n\n|", "[network.json](performance/network.json)",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for _, name := range []string{"network.svg", "network-clients.svg"} {
		if plot, err := os.ReadFile(filepath.Join(docs, "performance", name)); err != nil || string(plot) != "<svg/>" {
			t.Errorf("plot %q, %v", plot, err)
		}
	}
	if samples, err := os.ReadFile(filepath.Join(docs, "performance", "network.json")); err != nil || !strings.Contains(string(samples), "1234") {
		t.Errorf("samples %q, %v", samples, err)
	}
	for _, name := range sections { // whatever else was measured has its section, in this order
		r.Name, r.Figures = name, []report.Figure{{ID: name + ".kept", How: "how " + name, Value: 1}}
		if _, err := r.Write(in); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(in, page); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(page); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1) {
		found = append(found, heading[1])
	}
	if want := []string{"executor", "network", "plain", "distance", "papers", "engines", "fabric", "recovery", "joining", "verify", "snapshot", "analytics", "steady", "retention"}; !slices.Equal(found, want) {
		t.Errorf("sections %v, want %v", found, want)
	}
	// A new measurement takes the place of its section; the others stay.
	r.Name, r.Figures = "verify", []report.Figure{{ID: "verify.kept", How: "measured again", Value: 2}}
	again := t.TempDir()
	if _, err := r.Write(again); err != nil {
		t.Fatal(err)
	}
	if err := write(again, page); err != nil {
		t.Fatal(err)
	}
	whole := string(text)
	if text, err = os.ReadFile(page); err != nil {
		t.Fatal(err)
	}
	renewed := func(page string) (before, section, after string) {
		before, rest, _ := strings.Cut(page, "## verify\n")
		section, after, _ = strings.Cut(rest, "## steady\n")
		return before, section, after
	}
	wantBefore, old, wantAfter := renewed(whole)
	before, section, after := renewed(string(text))
	if before != wantBefore || after != wantAfter || section == old || !strings.Contains(section, "measured again") {
		t.Errorf("after verify was measured again the page is\n%s\nand was\n%s", text, whole)
	}
	if err := os.WriteFile(filepath.Join(in, "executor.json"), []byte(`{"name": "other"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(in, page); err == nil || !strings.Contains(err.Error(), "executor.json") {
		t.Errorf("with a report that is none: %v", err)
	}
}
