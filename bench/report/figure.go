package report

import (
	"fmt"
	"math"
)

// Figure is one number that the run answers for.
type Figure struct {
	ID     string  `json:"id"`
	Value  float64 `json:"value"`
	Min    float64 `json:"min"` // the range of the repetitions
	Max    float64 `json:"max"`
	Unit   string  `json:"unit"`
	Target string  `json:"target"` // such as ">= 1.5"; empty: measured, nothing promised
	Holds  *bool   `json:"holds"`  // null without a target
	How    string  `json:"how"`

	Each    []float64 `json:"each"`              // of each repetition
	Answers int       `json:"answers,omitempty"` // where the value is of what all repetitions saw together: of how many
	Command string    `json:"command,omitempty"` // measures this one again without the whole; empty: the report's
}

// Target is a bound on a figure; the zero value promises nothing.
type Target struct {
	AtMost bool // otherwise at least
	Value  float64
	set    bool
	always bool // in each repetition, otherwise their median
}

// AtLeast is a target from below.
func AtLeast(v float64) Target { return Target{Value: v, set: true} }

// AtMost is a target from above.
func AtMost(v float64) Target { return Target{AtMost: true, Value: v, set: true} }

// NeverBelow is a target from below that no repetition may miss.
func NeverBelow(v float64) Target { return Target{Value: v, set: true, always: true} }

// Holds says whether a value meets the target. NaN meets none.
func (t Target) Holds(v float64) bool {
	if t.AtMost {
		return v <= t.Value
	}
	return v >= t.Value
}

// Verdict judges a value by its range: "holds" or "missed" where all of it is on one side of the
// target, "undecided" where it spans the target, and nothing without a target.
func (t Target) Verdict(value, least, most float64) string {
	low, high := t.Holds(min(least, value)), t.Holds(max(most, value))
	switch {
	case !t.set:
		return ""
	case low && high:
		return "holds"
	case t.always, !low && !high:
		return "missed"
	}
	return "undecided"
}

func (t Target) String() string {
	switch {
	case !t.set:
		return ""
	case t.AtMost:
		return fmt.Sprintf("<= %g", t.Value)
	case t.always:
		return fmt.Sprintf(">= %g, always", t.Value)
	}
	return fmt.Sprintf(">= %g", t.Value)
}

// AddFigure judges the median of the values, or the worst of them, and keeps it. Values that are
// none (no repetition, not a number) are an error: such a figure must not look like a result.
func (r *Report) AddFigure(id string, values []float64, unit string, target Target, how string) error {
	return r.add(Figure{ID: id, Value: Median(values), Unit: unit, How: how, Each: values}, target)
}

// AddPooled keeps a value of what all repetitions saw together, of so many answers; the range is
// that of the repetitions by themselves.
func (r *Report) AddPooled(id string, value float64, answers int, each []float64, unit string, target Target, how string) error {
	return r.add(Figure{ID: id, Value: value, Unit: unit, How: how, Each: each, Answers: answers}, target)
}

func (r *Report) add(f Figure, target Target) error {
	s := SpreadOf(f.Each)
	if s.Count == 0 || math.IsNaN(f.Value) || math.IsInf(f.Value, 0) {
		return fmt.Errorf("figure %s has no value", f.ID)
	}
	f.Min, f.Max, f.Target = s.Min, s.Max, target.String()
	if target.set {
		holds := target.Holds(f.Value)
		if target.always {
			holds = target.Holds(s.Min)
		}
		f.Holds = &holds
	}
	r.Figures = append(r.Figures, f)
	return nil
}

// AddRatio keeps the ratio of two series, taken within each repetition.
func (r *Report) AddRatio(id string, a, b []float64, target Target, how string) error {
	ratios, err := Ratios(a, b)
	if err != nil {
		return fmt.Errorf("figure %s: %w", id, err)
	}
	return r.AddFigure(id, ratios, "ratio", target, how)
}

// Missed lists the figures whose target does not hold.
func (r *Report) Missed() []string {
	var out []string
	for _, f := range r.Figures {
		if f.Holds != nil && !*f.Holds {
			out = append(out, f.ID)
		}
	}
	return out
}
