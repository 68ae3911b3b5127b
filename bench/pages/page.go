package pages

import (
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/chainify-db/chainify/bench/figures"
	"github.com/chainify-db/chainify/bench/plots"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

const generated = "<!-- Written by `make performance` from figures.json; what is changed here is lost. -->\n\n"

// namedByPages are the figures and series that the pages of this package name: those that users ask
// for, those of targets, and those of their bounds.
func namedByPages() map[string]bool {
	named := map[string]bool{}
	for _, a := range asked {
		named[a.mark] = true
	}
	texts := []string{}
	for _, t := range targets.All {
		named[t.ID] = true
		texts = append(texts, t.Bound)
	}
	for _, r := range targets.Restatements {
		texts = append(texts, r.Why)
	}
	for _, id := range reference.FindAllString(strings.Join(texts, " "), -1) {
		named[strings.Trim(id, "{}")] = true
	}
	return named
}

// experiments is the table of a run's experiments, as CSV.
func experiments(r *figures.Run) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(r.Head) // a strings.Builder takes everything
	_ = w.WriteAll(r.Rows)
	return b.String()
}

// page is the page of a benchmark: its named figures and series, and how it was run.
func page(r *figures.Run, named map[string]bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Performance: %s\n%s%s. [Performance](../performance.md) has the figures that users ask for, [targets](targets.md) what is held to what. Values are medians of the repetitions, with their range.\n\n",
		r.Name, generated, sentence(r.About))
	if r.Dirty() {
		fmt.Fprintf(&b, "**Dirty:** commit %s had changes that were not committed, so this run cannot be repeated exactly.\n\n", commitOf(r.Origin))
	}
	for _, plot := range plots.Of(r.Name) {
		fmt.Fprintf(&b, "![%s](%s.svg)\n\n", r.About, plot)
	}
	figureTable(&b, r, named)
	seriesTable(&b, r, named)
	if len(r.Rows) > 0 {
		fmt.Fprintf(&b, "\n[%s.csv](%s.csv) has all %d experiments.\n", r.Name, r.Name, len(r.Rows))
	}
	fmt.Fprintf(&b, "\n## The run\n`%s` on %s, for %.0f s. [figures.json](figures.json) has all of its figures and series, the settings of its servers, and the commands that measure some figures alone.\n\n", r.Command, r.Date, r.TookS)
	for _, facts := range []map[string]any{r.Machine, versions(r)} {
		if line := list(facts); line != "" {
			fmt.Fprintf(&b, "* %s.\n", sentence(line))
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "* %s.\n", sentence(note))
	}
	return b.String()
}

func figureTable(b *strings.Builder, r *figures.Run, named map[string]bool) {
	b.WriteString("| figure | median | range | target | |\n|---|---|---|---|---|\n")
	for _, f := range r.Figures {
		if !named[f.ID] {
			continue
		}
		target := targets.Of(f.ID)
		value, spread := shown(f, target)
		how := cell(f.How)
		if f.Commit != "" {
			how += fmt.Sprintf(" (commit %s, %s)", commitOf(f.Origin), f.Date)
		}
		fmt.Fprintf(b, "| **%s** %s | %s | %s | %s | %s |\n", strings.TrimPrefix(f.ID, r.Name+"."), how, unit(value, f.Unit), spread, promise(target), verdict(f, target))
	}
}

func seriesTable(b *strings.Builder, r *figures.Run, named map[string]bool) {
	head := "\n| system | at | median | range | processor time of servers |\n|---|---|---|---|---|\n"
	for _, s := range r.Series {
		point, mark, cost := "", r.Name+"/"+s.System, ""
		if s.Point != 0 {
			point = report.Number(s.Point)
			mark += "@" + strconv.FormatFloat(s.Point, 'f', -1, 64)
		}
		if !named[mark] {
			continue
		}
		if s.CPU != 0 {
			cost = report.Number(s.CPU) + " µs"
		}
		fmt.Fprintf(b, "%s| %s | %s | %s | %s | %s |\n", head, cell(s.System), point, unit(report.Number(s.Value), s.Unit), spreadOf(s.Min, s.Max, s.Count), cost)
		head = ""
	}
}

// shown is a figure's value and range.
func shown(f *figures.Figure, target report.Target) (value, spread string) {
	value, least, most := report.Shown(f.Value, f.Min, f.Max, target.String())
	if f.Count == 1 {
		return value, "one run"
	}
	return value, least + " – " + most
}

func spreadOf(least, most float64, count int) string {
	if count == 1 {
		return "one run"
	}
	return report.Number(least) + " – " + report.Number(most)
}

func verdict(f *figures.Figure, target report.Target) string {
	v := target.Verdict(f.Value, f.Min, f.Max)
	if v == "missed" || v == "undecided" {
		return "**" + v + "**"
	}
	return v
}

func promise(target report.Target) string {
	return strings.NewReplacer("<=", "≤", ">=", "≥", "e+06", ",000,000").Replace(target.String())
}

// unit puts a unit behind a value.
func unit(value, unit string) string {
	switch unit {
	case "":
		return value
	case "ratio", "x":
		return value + " ×"
	}
	return value + " " + strings.NewReplacer("us/tx", "µs/tx").Replace(unit)
}

func commitOf(o figures.Origin) string {
	if o.Commit == "" {
		return "unknown"
	}
	return "`" + o.Commit + "`"
}

func versions(r *figures.Run) map[string]any {
	out := map[string]any{}
	for name, version := range r.Versions {
		out[name] = version
	}
	return out
}

// list writes facts by name; a group of them in brackets.
func list(facts map[string]any) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		value := facts[name]
		if group, is := value.(map[string]any); is {
			value = "(" + list(group) + ")"
		}
		parts = append(parts, fmt.Sprintf("%s %v", strings.ReplaceAll(name, "_", " "), value))
	}
	return strings.Join(parts, ", ")
}
