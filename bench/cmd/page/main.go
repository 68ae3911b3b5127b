// Command page takes the reports that the benchmarks left into docs/performance/figures.json, and
// writes the pages and all copies of figures from it. With -check it writes nothing, and fails when
// a page or a copy is stale.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/chainify-db/chainify/bench/figures"
	"github.com/chainify-db/chainify/bench/pages"
	"github.com/chainify-db/chainify/bench/plots"
	"github.com/chainify-db/chainify/bench/report"
)

func main() {
	in := flag.String("in", filepath.Join("bench", "out"), "where the benchmarks left their reports")
	root := flag.String("root", ".", "the root of the repository")
	check := flag.Bool("check", false, "write nothing: fail when a page or a copy is stale")
	flag.Parse()
	do := func() error { return write(*in, *root) }
	if *check {
		do = func() error { return current(*root) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

func current(root string) error {
	f, err := figures.Read(filepath.Join(root, pages.File))
	if err != nil {
		return err
	}
	stale, err := pages.Stale(root, f)
	if err == nil && len(stale) > 0 {
		err = fmt.Errorf("`make performance` makes these anew:\n%s", strings.Join(stale, "\n"))
	}
	return err
}

func write(in, root string) error {
	f, err := figures.Read(filepath.Join(root, pages.File))
	if err != nil {
		return err
	}
	reports, err := filepath.Glob(filepath.Join(in, "*.json"))
	if err != nil {
		return err
	}
	for _, path := range reports {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if strings.Contains(name, "-") { // a part of another report
			continue
		}
		r, err := report.Read(in, name)
		if err != nil {
			return err
		}
		if err := f.Take(figures.Of(r)); err != nil {
			return err
		}
		if err := take(in, filepath.Join(root, pages.Folder), plots.Drawn[name]); err != nil {
			return err
		}
		fmt.Printf("%s: figures of %s\n", path, r.Started.Format("2006-01-02"))
	}
	text, err := f.Text()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, pages.File), text, 0o644); err != nil {
		return err
	}
	changed, err := pages.Write(root, f)
	for _, name := range changed {
		fmt.Println("written:", name)
	}
	return err
}

// take copies the plots that a run itself drew.
func take(in, folder string, names []string) error {
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join(in, name+".svg"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // of a run of other parts
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name+".svg"), raw, 0o644); err != nil {
			return err
		}
	}
	return nil
}
