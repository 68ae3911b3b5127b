package pages

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/bench/figures"
	"github.com/chainify-db/chainify/bench/plots"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

const generated = "<!-- Written by `make performance` from figures.json; what is changed here is lost. -->\n\n"

// page is the page of a benchmark: its figures, what every system did, and what it takes to run it
// again.
func page(r *figures.Run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Performance: %s\n%s%s. [Performance](../performance.md) has the figures that users ask for, [targets](targets.md) what is held to what. Values are medians of the repetitions, with their range.\n\n",
		r.Name, generated, sentence(r.About))
	if r.Dirty() {
		fmt.Fprintf(&b, "**Dirty:** commit %s had changes that were not committed, so this run cannot be repeated exactly.\n\n", commitOf(r.Origin))
	}
	for _, plot := range plots.Of(r.Name) {
		fmt.Fprintf(&b, "![%s](%s.svg)\n\n", r.About, plot)
	}
	figureTable(&b, r)
	seriesTable(&b, r)
	fmt.Fprintf(&b, "\n## The run\n`%s` on %s, for %.0f s.\n\n", r.Command, r.Date, r.TookS)
	if commands := commandsOf(r); len(commands) > 0 {
		b.WriteString("| these figures alone | command |\n|---|---|\n")
		for _, of := range commands {
			fmt.Fprintf(&b, "| %s | `%s` |\n", strings.Join(of.ids, ", "), of.command)
		}
		b.WriteString("\n")
	}
	for _, facts := range []map[string]any{r.Machine, versions(r), r.Settings} {
		if line := list(facts); line != "" {
			fmt.Fprintf(&b, "* %s.\n", sentence(line))
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "* %s.\n", sentence(note))
	}
	return b.String()
}

func figureTable(b *strings.Builder, r *figures.Run) {
	b.WriteString("| figure | median | range | target | |\n|---|---|---|---|---|\n")
	for _, f := range r.Figures {
		target := targets.Of(f.ID)
		value, spread := shown(f, target)
		how := cell(f.How)
		if f.Commit != "" {
			how += fmt.Sprintf(" (commit %s, %s)", commitOf(f.Origin), f.Date)
		}
		fmt.Fprintf(b, "| **%s** %s | %s | %s | %s | %s |\n", strings.TrimPrefix(f.ID, r.Name+"."), how, unit(value, f.Unit), spread, promise(target), verdict(f, target))
	}
}

func seriesTable(b *strings.Builder, r *figures.Run) {
	if len(r.Rows) > 0 {
		b.WriteString("\n| " + strings.Join(r.Head, " | ") + " |\n" + strings.Repeat("|---", len(r.Head)) + "|\n")
		for _, row := range r.Rows {
			cells := make([]string, len(row))
			for i, text := range row {
				cells[i] = cell(text)
			}
			b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		}
	}
	if len(r.Series) == 0 {
		return
	}
	b.WriteString("\n| system | at | median | range | processor time of servers |\n|---|---|---|---|---|\n")
	for _, s := range r.Series {
		point, cost := "", ""
		if s.Point != 0 {
			point = report.Number(s.Point)
		}
		if s.CPU != 0 {
			cost = report.Number(s.CPU) + " µs"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", cell(s.System), point, unit(report.Number(s.Value), s.Unit), spreadOf(s.Min, s.Max, s.Count), cost)
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

// again are the figures that one command measures.
type again struct {
	command string
	ids     []string
}

// commandsOf are those that measure some of the figures without the others, in the figures' order.
func commandsOf(r *figures.Run) (out []again) {
	for _, f := range r.Figures {
		if f.Command == "" {
			continue
		}
		i := slices.IndexFunc(out, func(a again) bool { return a.command == f.Command })
		if i < 0 {
			i, out = len(out), append(out, again{command: f.Command})
		}
		out[i].ids = append(out[i].ids, strings.TrimPrefix(f.ID, r.Name+"."))
	}
	return out
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
