// Package pages writes the pages of figures, and the copies of figures in all other documents, from
// docs/performance/figures.json.
package pages

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/chainify-db/chainify/bench/figures"
	"github.com/chainify-db/chainify/bench/plots"
)

// Folder is where pages, plots and figures.json are, from the root of the repository.
const Folder = "docs/performance"

// File is where the figures are kept, from the root of the repository.
const File = Folder + "/figures.json"

// documents are the files and folders whose Markdown may hold copies of figures.
var documents = []string{"README.md", "CONTRIBUTING.md", "bench/README.md", "crates", "docs", "spec"}

// Build returns the contents of every file with figures, by its path from the root: the pages of
// benchmarks, the page of targets, tables of experiments, and the documents with copies. The page
// of a benchmark has the figures and series that have a target or that a document copies.
func Build(root string, f *figures.File) (map[string]string, error) {
	out := map[string]string{Folder + "/targets.md": targetsPage(f)}
	for _, run := range f.Runs {
		out[Folder+"/"+run.Name+".md"] = ""
		if len(run.Rows) > 0 {
			out[Folder+"/"+run.Name+".csv"] = experiments(run)
		}
	}
	copies := copier{file: f, blocks: blocks(f), named: namedByPages()}
	for _, place := range documents {
		err := filepath.WalkDir(filepath.Join(root, place), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			name, err := filepath.Rel(root, path)
			if _, generated := out[name]; err != nil || generated {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text, err := copies.fill(string(raw))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			out[name] = text
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, run := range f.Runs {
		out[Folder+"/"+run.Name+".md"] = page(run, copies.named)
	}
	return out, nil
}

// Stale compares the files with what they have to be, and names each that differs, lacks, or that
// nothing made.
func Stale(root string, f *figures.File) (stale []string, err error) {
	want, err := Build(root, f)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{filepath.Base(File): true}
	for name, text := range want {
		known[filepath.Base(name)] = true
		if raw, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(raw) != text {
			stale = append(stale, name+": not what "+File+" gives")
		}
	}
	for _, run := range f.Runs {
		for _, name := range plots.Of(run.Name) {
			known[name+".svg"] = true
		}
		different, err := stalePlots(root, run)
		if err != nil {
			return nil, err
		}
		stale = append(stale, different...)
	}
	entries, err := os.ReadDir(filepath.Join(root, Folder))
	for _, entry := range entries {
		if !known[entry.Name()] {
			stale = append(stale, Folder+"/"+entry.Name()+": nothing makes it")
		}
	}
	return stale, err
}

// stalePlots draws a run's plots anew, and names those in the tree that differ or lack. A processor
// other than amd64 may round the last digit of a place otherwise, so there only missing ones count.
func stalePlots(root string, run *figures.Run) (stale []string, err error) {
	drawn, err := os.MkdirTemp("", "plots-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(drawn)) }()
	if err := plots.Draw(drawn, run); err != nil {
		return nil, err
	}
	for _, name := range plots.Of(run.Name) {
		file := name + ".svg"
		want, errDrawn := os.ReadFile(filepath.Join(drawn, file))
		raw, err := os.ReadFile(filepath.Join(root, Folder, file))
		switch {
		case err != nil:
			stale = append(stale, Folder+"/"+file+": there is no such plot")
		case errDrawn == nil && runtime.GOARCH == "amd64" && !bytes.Equal(raw, want):
			stale = append(stale, Folder+"/"+file+": not what "+File+" gives")
		}
	}
	return stale, nil
}

// Write brings pages, copies and plots up to date, and names the files that it changed.
func Write(root string, f *figures.File) (changed []string, err error) {
	want, err := Build(root, f)
	if err != nil {
		return nil, err
	}
	for name, text := range want {
		path := filepath.Join(root, name)
		if raw, err := os.ReadFile(path); err == nil && string(raw) == text {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return changed, err
		}
		changed = append(changed, name)
	}
	for _, run := range f.Runs {
		if err := plots.Draw(filepath.Join(root, Folder), run); err != nil {
			return changed, err
		}
	}
	pictures, err := filepath.Glob(filepath.Join(root, Folder, "*.png"))
	if err != nil {
		return changed, err
	}
	for _, picture := range pictures { // a page shows the SVG
		if err := os.Remove(picture); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// sentence begins with a capital and has no full stop.
func sentence(s string) string {
	s = strings.TrimSuffix(strings.TrimSpace(s), ".")
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// cell keeps a text within its cell of a table.
func cell(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }
