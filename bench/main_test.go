package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/bench/report"
)

func TestOptions(t *testing.T) {
	o, err := parse([]string{"-pg", "/tree", "-dir", "/dir", "-repeat", "7", "-seed", "9"})
	if err != nil || o.repeat != 7 || o.seed != 9 || o.pg != "/tree" || o.block != 4096 || o.customers != 100_000 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-repeat", "0"}, {"-seconds", "-1"}, {"-block", "0"}, {"-customers", "1"}, {"-rate", "0"}, {"stray"}} {
		if _, err := parse(append([]string{"-pg", "/tree", "-dir", "/dir"}, bad...)); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}

func TestEachFigureOfPlainSQLHasItsCommand(t *testing.T) {
	r := &report.Report{Name: "plain", Command: "bench"}
	for _, id := range []string{"plain.tpcb_like_over_execute_cpu", "plain.tpcb_like_cost", "plain.hot_rows_lost", "plain.oltp_write_only_apply_over_execute"} {
		if err := r.AddFigure(id, []float64{1}, "ratio", report.Target{}, ""); err != nil {
			t.Fatal(err)
		}
	}
	repeatable(r, "bench")
	for i, want := range []string{"tpcb-like", "alone", "hot rows", "alone"} {
		if got := r.Figures[i].Command; got != "bench -only \""+want+"\"" {
			t.Errorf("%s is repeated by %s", r.Figures[i].ID, got)
		}
	}
	var out strings.Builder
	if err := r.Print(&out); err != nil || !strings.Contains(out.String(), "\ntpcb_like_cost, oltp_write_only_apply_over_execute: bench -only \"alone\"\n") || !strings.Contains(out.String(), "\nto repeat: bench\n") {
		t.Errorf("printed, %v:\n%s", err, out.String())
	}
}

func TestBenchmarksAreChosenByName(t *testing.T) {
	all, err := chosen("all")
	if err != nil || len(all) != 5 {
		t.Errorf("all are %d, %v: one that takes an hour is not among them", len(all), err)
	}
	if one, err := chosen("executor"); err != nil || len(one) != 1 || one[0].name != "executor" {
		t.Errorf("%+v, %v", one, err)
	}
	if _, err := chosen("executor,nothing"); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("an unknown benchmark gives %v", err)
	}
}

func TestAMissedTargetFailsOnlyAStrictRun(t *testing.T) {
	for _, strict := range []bool{false, true} {
		var out strings.Builder
		if err := judge(&out, nil, strict); err != nil || out.Len() > 0 {
			t.Errorf("strict %v: nothing missed gives %v, %q", strict, err, out.String())
		}
		err := judge(&out, []string{"a.b"}, strict)
		if (err != nil) != strict || !strings.Contains(fmt.Sprint(err)+out.String(), "targets missed: a.b") {
			t.Errorf("strict %v: %v, %q", strict, err, out.String())
		}
	}
	if o, err := parse([]string{"-pg", "/tree", "-dir", "/dir", "-strict"}); err != nil || !o.strict {
		t.Errorf("%+v, %v", o, err)
	}
}
