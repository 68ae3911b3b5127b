package pages

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/chainify-db/chainify/bench/figures"
	"github.com/chainify-db/chainify/bench/targets"
)

const targetsHead = `# Targets
` + generated + `Each figure that is held to a target, with its bound: what it cannot pass, or its best case. A target *holds* or is *missed* when the whole range of the repetitions is on one side of it. It is *undecided* when the range spans it. The page behind a figure's name describes the figure.
A figure of one run has no range, and is judged by its value. [Misses and reasons](../../bench/README.md#what-is-missed-and-why) tells what was tried.

`

// targetsPage is the page of targets.
func targetsPage(f *figures.File) string {
	var table strings.Builder
	counts := map[string]int{}
	for _, t := range targets.All {
		figure, run := f.Figure(t.ID)
		if figure == nil {
			counts["not measured"]++
			fmt.Fprintf(&table, "| %s | %s | | | %s | not measured |\n", t.ID, promise(t.Target), refer(f, t.Bound))
			continue
		}
		counts[t.Verdict(figure.Value, figure.Min, figure.Max)]++
		value, spread := shown(figure, t.Target)
		fmt.Fprintf(&table, "| [%s](%s.md) | %s | %s | %s | %s | %s |\n",
			t.ID, run.Name, promise(t.Target), unit(value, figure.Unit), spread, refer(f, t.Bound), verdict(figure, t.Target))
	}
	var b strings.Builder
	b.WriteString(targetsHead)
	fmt.Fprintf(&b, "Of %d targets %d hold, %d are missed, %d are undecided.", len(targets.All), counts["holds"], counts["missed"], counts["undecided"])
	if n := counts["not measured"]; n > 0 {
		fmt.Fprintf(&b, " %d were not measured.", n)
	}
	b.WriteString("\n\n| figure | target | value | range | bound | |\n|---|---|---|---|---|---|\n" + table.String())
	b.WriteString("\n## Restated\nThe project's own figures showed these targets out of reach. Each is restated against its bound.\n\n| earlier target | why it is out of reach | in its place |\n|---|---|---|\n")
	for _, r := range targets.Restatements {
		now := "none, until the bound is measured"
		if r.Now != "" {
			now = r.Now + " " + promise(targets.Of(r.Now))
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.Was, refer(f, r.Why), now)
	}
	return b.String()
}

var reference = regexp.MustCompile(`\{([a-z0-9_.]+)\}`)

// refer puts the value and range of a figure in the place of its id in braces.
func refer(f *figures.File, text string) string {
	return reference.ReplaceAllStringFunc(text, func(id string) string {
		figure, _ := f.Figure(strings.Trim(id, "{}"))
		if figure == nil {
			return "(" + strings.Trim(id, "{}") + ", not measured)"
		}
		value, spread := shown(figure, targets.Of(figure.ID))
		if figure.Count == 1 {
			return value
		}
		return fmt.Sprintf("%s (%s)", value, spread)
	})
}
