package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// Print writes series and figures as tables for a terminal.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if r.Table != nil {
		fmt.Fprintf(t, "\n%s\n", strings.Join(r.Table.Head, "\t"))
		for _, row := range r.Table.Rows {
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
	} else {
		fmt.Fprintf(t, "\nsystem\tat\tmedian\trange\tunit\tserver CPU\n")
	}
	for _, s := range r.shown() {
		point := ""
		if s.Point != 0 {
			point = Number(s.Point)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s to %s\t%s\t%.1f us/tx\n", s.System, point, Number(s.Spread.Median),
			Number(s.Spread.Min), Number(s.Spread.Max), s.Unit, s.CPU.Median)
	}
	fmt.Fprintf(t, "\nfigure\tmedian\trange\tunit\ttarget\tholds\n")
	for _, f := range r.Figures {
		value, least, most := f.shown()
		fmt.Fprintf(t, "%s\t%s\t%s to %s\t%s\t%s\t%s\n", f.ID, value, least, most, f.Unit, f.Target, verdict(f.Holds))
	}
	fmt.Fprintf(t, "\nto repeat: %s\n", r.Command)
	for _, of := range r.commands() {
		fmt.Fprintf(t, "%s: %s\n", strings.Join(of.ids, ", "), of.command)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(t, "note: %s\n", note)
	}
	return t.Flush()
}

// shown are the series that are printed: none where a table stands for them.
func (r *Report) shown() []*Series {
	if r.Table != nil {
		return nil
	}
	return r.Series
}

// again are the figures that one command measures.
type again struct {
	command string
	ids     []string
}

// commands are those that measure some of the figures without the others, in the figures' order.
func (r *Report) commands() (out []again) {
	places := map[string]int{}
	for _, f := range r.Figures {
		if f.Command == "" {
			continue
		}
		i, known := places[f.Command]
		if !known {
			i, places[f.Command] = len(out), len(out)
			out = append(out, again{command: f.Command})
		}
		out[i].ids = append(out[i].ids, strings.TrimPrefix(f.ID, r.Name+"."))
	}
	return out
}

func verdict(holds *bool) string {
	switch {
	case holds == nil:
		return ""
	case *holds:
		return "yes"
	}
	return "NO"
}

// shown prints a figure's value and range.
func (f Figure) shown() (value, least, most string) {
	return Shown(f.Value, f.Min, f.Max, f.Target)
}

// Shown prints a value and its range, with as many digits as tell them from the target.
func Shown(v, low, high float64, target string) (value, least, most string) {
	print := Number
	var sign string
	var bound float64
	if _, err := fmt.Sscanf(target, "%s %g", &sign, &bound); err == nil && math.Abs(v) < 1000 {
		hidden := func(v float64) bool { return v != bound && print(v) == print(bound) }
		for digits := 4; digits < 10 && (hidden(v) || hidden(low) || hidden(high)); digits++ {
			print = func(v float64) string { return fmt.Sprintf("%.*g", digits, v) }
		}
	}
	return print(v), print(low), print(high)
}

// Number prints three significant digits below a thousand, and thousands separated above.
func Number(v float64) string {
	if math.Abs(v) < 1000 {
		return fmt.Sprintf("%.3g", v)
	}
	digits := fmt.Sprintf("%.0f", math.Abs(v))
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	text := strings.Join(append([]string{digits}, groups...), ",")
	if v < 0 {
		return "-" + text
	}
	return text
}
