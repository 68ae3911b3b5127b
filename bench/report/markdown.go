package report

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Read reads dir/<name>.json.
func Read(dir, name string) (*Report, error) {
	path := filepath.Join(dir, name+".json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("%s is no report: %w", path, err)
	}
	if r.Name != name || len(r.Figures) == 0 {
		return nil, fmt.Errorf("%s is no report of %q with figures", path, name)
	}
	return r, nil
}

// Markdown writes a section: what was promised and what came out, what every system did, and what
// it takes to run it again. plots are the addresses of its plots.
func (r *Report) Markdown(w io.Writer, plots []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n%s.\n\n", r.Name, sentence(r.About))
	for _, plot := range plots {
		fmt.Fprintf(&b, "![%s](%s)\n\n", r.About, plot)
	}
	b.WriteString("| figure | median | range | promised | |\n|---|---|---|---|---|\n")
	for _, f := range r.Figures {
		value, least, most := f.shown()
		fmt.Fprintf(&b, "| **%s** %s | %s %s | %s – %s | %s | %s |\n", strings.TrimPrefix(f.ID, r.Name+"."), cell(f.How), value, f.Unit,
			least, most, promise(f.Target), map[string]string{"yes": "holds", "NO": "**missed**"}[verdict(f.Holds)])
	}
	if r.Table != nil {
		b.WriteString("\n| " + strings.Join(r.Table.Head, " | ") + " |\n" + strings.Repeat("|---", len(r.Table.Head)) + "|\n")
		for _, row := range r.Table.Rows {
			cells := make([]string, len(row))
			for i, text := range row {
				cells[i] = cell(text)
			}
			b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		}
	}
	if len(r.shown()) > 0 {
		b.WriteString("\n| system | at | median | range | processor time of servers |\n|---|---|---|---|---|\n")
	}
	for _, s := range r.shown() {
		point := ""
		if s.Point != 0 {
			point = number(s.Point)
		}
		fmt.Fprintf(&b, "| %s | %s | %s %s | %s – %s | %.1f µs |\n", cell(s.System), point, number(s.Spread.Median), s.Unit,
			number(s.Spread.Min), number(s.Spread.Max), s.CPU.Median)
	}
	fmt.Fprintf(&b, "\nRun with `%s` on %s, for %.0f s.\n", r.Command, r.Started.Format("2006-01-02"), r.TookS)
	if commands := r.commands(); len(commands) > 0 {
		b.WriteString("\n| these figures alone | command |\n|---|---|\n")
		for _, of := range commands {
			fmt.Fprintf(&b, "| %s | `%s` |\n", strings.Join(of.ids, ", "), of.command)
		}
		b.WriteString("\n")
	}
	for _, facts := range []map[string]any{r.Machine, anyOf(r.Versions), r.Settings} {
		if line := list(facts); line != "" {
			fmt.Fprintf(&b, "%s.  \n", line)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "%s.  \n", sentence(note))
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

func sentence(s string) string {
	s = strings.TrimSuffix(strings.TrimSpace(s), ".")
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// cell keeps a text within its cell of a table.
func cell(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }

func promise(target string) string {
	return strings.NewReplacer("<=", "≤", ">=", "≥").Replace(target)
}

func anyOf(m map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
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
