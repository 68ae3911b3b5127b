// Command page writes docs/performance.md from the reports that the benchmarks left, and puts
// their plots beside it. Sections without a report stay as they were.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/scaling"
)

// sections are the benchmarks in the order of the page.
var sections = []string{"executor", "network", "plain", "distance", "papers", "engines", "fabric", "recovery", "joining", "verify", "snapshot", "analytics", "steady", "retention"}

const head = `# Performance
<!-- Written by go run ./bench/cmd/page from the reports of the benchmarks; what is changed here is lost. -->

This page holds the last measurements of the benchmarks in [bench/](../bench/README.md). Each benchmark is one run of all compared systems, interleaved and repeated. Figures are medians of
the repetitions; ratios are computed within a repetition. All systems share one small machine. Four organisations do four times the work on its cores, so read the ratios, and repeat
them on your machines. The tables mark missed promises. For planning, read [sizing](sizing.md).

`

func main() {
	in := flag.String("in", filepath.Join("bench", "out"), "where the benchmarks left their reports")
	out := flag.String("out", filepath.Join("docs", "performance.md"), "the page; plots go into a directory of its name")
	flag.Parse()
	if err := write(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

func write(in, out string) error {
	before, err := sectionsOf(out)
	if err != nil {
		return err
	}
	body := &bytes.Buffer{}
	plots := filepath.Join(filepath.Dir(out), "performance")
	found := 0
	var network *report.Report
	var origins []origin
	for _, name := range sections {
		section := bytes.NewBufferString(before[name])
		r, err := report.Read(in, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		default:
			section.Reset()
			found++
			drawn, err := takePlots(in, plots, name)
			if err != nil {
				return err
			}
			if err := r.Markdown(section, drawn); err != nil {
				return err
			}
			samples, err := take(in, plots, name+".json")
			if err != nil {
				return err
			}
			fmt.Fprintf(section, "Every sample, with machine, versions and settings: [%s.json](%s).\n\n", name, samples)
			if name == "network" {
				network = r
			}
		}
		if section.Len() > 0 {
			origins = append(origins, originOf(name, section.String()))
		}
		body.Write(section.Bytes())
	}
	if found == 0 {
		return fmt.Errorf("no report in %s: run make bench first", in)
	}
	if network == nil {
		body.WriteString(before["scaling"])
	} else if _, err := scaling.Markdown(body, network); err != nil {
		return err
	}
	return os.WriteFile(out, []byte(head+warning(origins)+body.String()), 0o644)
}

// sectionsOf gives the sections of a page by their headings, none where there is no page.
func sectionsOf(page string) (map[string]string, error) {
	raw, err := os.ReadFile(page)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	found := map[string]string{}
	for _, section := range strings.Split("\n"+string(raw), "\n## ")[1:] {
		name, _, _ := strings.Cut(section, "\n")
		found[name] = "## " + strings.TrimRight(section, "\n") + "\n\n"
	}
	return found, nil
}

// takePlots takes the plots of a benchmark, <name>.svg and then <name>-*.svg, and returns their
// addresses.
func takePlots(in, plots, name string) (drawn []string, err error) {
	more, err := filepath.Glob(filepath.Join(in, name+"-*.svg"))
	if err != nil {
		return nil, err
	}
	for _, path := range append([]string{name + ".svg"}, more...) {
		address, err := take(in, plots, filepath.Base(path))
		if err != nil {
			return nil, err
		}
		if address != "" {
			drawn = append(drawn, address)
		}
	}
	return drawn, nil
}

// take copies a benchmark's file beside the page and returns its address there; empty when there
// is none.
func take(in, plots, file string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(in, file))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return "", err
	}
	return filepath.Base(plots) + "/" + file, os.WriteFile(filepath.Join(plots, file), raw, 0o644)
}
