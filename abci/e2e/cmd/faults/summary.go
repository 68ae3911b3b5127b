package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/chainify-db/chainify/abci/e2e/faults"
)

// summary adds up runs.
type summary struct {
	Runs       []faults.Report `json:"runs"`
	Passed     int             `json:"passed"`
	Failed     int             `json:"failed"` // the run itself failed
	Answered   int             `json:"answered"`
	Faults     int             `json:"faults"`
	Lost       int             `json:"lost"`
	Duplicated int             `json:"duplicated"`
	Diverged   int             `json:"diverged"`
	Stuck      int             `json:"stuck"`
	Unexpected int             `json:"unexpected"`
	NotRun     map[string]int  `json:"not_run"` // faults that this machine cannot do

	caughtUp map[string][]float64 // seconds after the end of each fault, by kind
}

func (s *summary) add(r faults.Report) {
	s.Runs = append(s.Runs, r)
	if r.Passed {
		s.Passed++
	}
	if r.Error != "" {
		s.Failed++
	}
	s.Answered += r.Answered
	s.Faults += len(r.Faults)
	s.Lost, s.Duplicated, s.Diverged = s.Lost+r.Lost, s.Duplicated+r.Duplicated, s.Diverged+r.Diverged
	s.Stuck, s.Unexpected = s.Stuck+r.Stuck, s.Unexpected+r.Unexpected
	for _, f := range r.Faults {
		if s.caughtUp == nil {
			s.caughtUp = map[string][]float64{}
		}
		s.caughtUp[f.Kind] = append(s.caughtUp[f.Kind], f.CaughtUp)
	}
	for _, n := range r.NotRun {
		if s.NotRun == nil {
			s.NotRun = map[string]int{}
		}
		s.NotRun[n]++
	}
}

func (s *summary) print() {
	fmt.Println("fault                 times  caught up after: median s  longest s")
	for _, kind := range slices.Sorted(maps.Keys(s.caughtUp)) {
		all := slices.Sorted(slices.Values(s.caughtUp[kind]))
		fmt.Printf("%-20s  %5d  %25.1f  %9.1f\n", kind, len(all), all[len(all)/2], all[len(all)-1])
	}
	fmt.Printf("%d of %d runs passed: %d faults, %d transactions answered, %d lost, %d duplicated, %d diverged, %d stuck, %d unexpected, %d runs failed\n",
		s.Passed, len(s.Runs), s.Faults, s.Answered, s.Lost, s.Duplicated, s.Diverged, s.Stuck, s.Unexpected, s.Failed)
	for _, what := range slices.Sorted(maps.Keys(s.NotRun)) {
		fmt.Printf("not run, %d times: %s\n", s.NotRun[what], what)
	}
}

func (s *summary) write(path string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
