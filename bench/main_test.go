package main

import (
	"strings"
	"testing"
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

func TestBenchmarksAreChosenByName(t *testing.T) {
	all, err := chosen("all")
	if err != nil || len(all) != 3 {
		t.Errorf("all are %d, %v: one that takes an hour is not among them", len(all), err)
	}
	if one, err := chosen("executor"); err != nil || len(one) != 1 || one[0].name != "executor" {
		t.Errorf("%+v, %v", one, err)
	}
	if _, err := chosen("executor,nothing"); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("an unknown benchmark gives %v", err)
	}
}
