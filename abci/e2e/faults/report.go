package faults

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"time"
)

// Report is the result of one run. Times are in seconds.
type Report struct {
	Manifest      string         `json:"manifest"`
	Seed          uint64         `json:"seed"`
	Organisations int            `json:"organisations"`
	MariaDB       []string       `json:"mariadb,omitempty"` // organisations that keep one
	OrderingOnly  int            `json:"ordering_only"`
	Consent       int            `json:"consent"`
	Passed        bool           `json:"passed"`
	Error         string         `json:"error,omitempty"` // the run itself failed
	Took          float64        `json:"took"`
	LoadTook      float64        `json:"load_took"`
	Settled       float64        `json:"settled"` // after the last fault until everybody went on
	Blocks        uint64         `json:"blocks"`
	InParts       int            `json:"in_parts"` // of them, seen to be executed in parts, at all organisations
	Answered      int            `json:"answered"`
	Unanswered    int            `json:"unanswered"`
	Learned       int            `json:"learned"` // of them, by their id later
	Outcomes      map[string]int `json:"outcomes"`
	Longest       float64        `json:"longest_without_block"`
	LongestAnswer float64        `json:"longest_answer"`
	Deviations    int            `json:"deviations"` // found, and cured, at all organisations
	Lost          int            `json:"lost"`
	Duplicated    int            `json:"duplicated"`
	Diverged      int            `json:"diverged"`
	Stuck         int            `json:"stuck"`
	Unexpected    int            `json:"unexpected"`
	Violations    []Violation    `json:"violations"`
	Faults        []FaultReport  `json:"faults"`
	NotRun        []string       `json:"not_run"` // faults that this machine cannot do, and why
	Repeat        string         `json:"repeat,omitempty"`
}

// FaultReport describes the effects of one fault.
type FaultReport struct {
	Fault    string  `json:"fault"`
	Kind     string  `json:"kind"`
	At       float64 `json:"at"`
	Lasted   float64 `json:"lasted"`
	CaughtUp float64 `json:"caught_up"` // after its end
	Error    string  `json:"error,omitempty"`
}

func (r *Report) finish() {
	for kind, into := range map[string]*int{
		Lost: &r.Lost, Duplicated: &r.Duplicated, Diverged: &r.Diverged, Stuck: &r.Stuck, Unexpected: &r.Unexpected,
	} {
		*into = count(r.Violations, kind)
	}
	r.Passed = len(r.Violations) == 0
}

// seconds rounds to milliseconds.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// Header is the first line of a table of runs.
const Header = "run                 members  c  faults  blocks  parts  answered  effects  conflicts  no answer  gap s  settle s  lost  twice  diverged  stuck  other"

// Line is a run in that table.
func (r Report) Line() string {
	members := fmt.Sprint(r.Organisations)
	if r.OrderingOnly > 0 {
		members += fmt.Sprintf("+%d", r.OrderingOnly)
	}
	line := fmt.Sprintf("%-18.18s  %7s  %1d  %6d  %6d  %5d  %8d  %7d  %9d  %9d  %5.1f  %8.1f  %4d  %5d  %8d  %5d  %5d", r.Manifest, members, r.Consent, len(r.Faults),
		r.Blocks, r.InParts, r.Answered, r.Outcomes[ofEffects+succeeded], r.Outcomes[ofEffects+conflict], r.Unanswered, r.Longest, r.Settled, r.Lost, r.Duplicated, r.Diverged, r.Stuck, r.Unexpected)
	if r.Error != "" {
		line += "  the run failed: " + r.Error
	}
	return line
}

// Details are for the reader of a failed run.
func (r Report) Details() string {
	var b strings.Builder
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "  %s\n", v)
	}
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "  %6.1f s  %-40s lasted %5.1f s, caught up after %5.1f s\n", f.At, f.Fault, f.Lasted, f.CaughtUp)
	}
	for _, n := range r.NotRun {
		fmt.Fprintf(&b, "  not run: %s\n", n)
	}
	return b.String()
}

// Write writes the report as JSON.
func (r Report) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
