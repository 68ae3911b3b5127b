package snapshot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/bench/report"
)

// standIn is a program that answers as crates/snapshot/examples/cost.rs does, with the times of the
// strategies that script names.
func standIn(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cost")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nstrategy=$1 columns=$2\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

const answer = `
echo '{"strategy":"'$strategy'","columns":'$columns',"stages":[
  {"written":500,"create_us":[1,'$us',1000000],"release_us":[1],"sparse_write_us":'$us',"dense_write_us":0.5},
  {"written":5120,"create_us":['$us'],"release_us":[1],"sparse_write_us":4,"dense_write_us":0.25}]}'
`

func measuredBy(t *testing.T, script string) (*report.Report, error) {
	t.Helper()
	r := &report.Report{Name: "snapshot", Parameters: map[string]any{}}
	out := t.TempDir()
	err := Run(t.Context(), Config{Dir: out, Program: standIn(t, script), Seed: 1, Repeat: 3, Short: true, Progress: &strings.Builder{}}, r)
	return r, err
}

func TestFiguresAreRatiosToChunks(t *testing.T) {
	r, err := measuredBy(t, `
case $strategy in
    vm_snapshot) echo 'cost: no such call' >&2; exit 3 ;;
    copy) [ "$columns" = 1 ] || { echo 'cost: needs more memory' >&2; exit 3; }; us=3000 ;;
    chunks) us=2 ;;
    fork) us=500 ;;
    *) us=7 ;;
esac`+answer)
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]float64{}
	for _, f := range r.Figures {
		figures[f.ID] = f.Value
	}
	for id, want := range map[string]float64{
		"snapshot.fork_over_chunks_1": 250, "snapshot.fork_over_chunks_5": 250, "snapshot.copy_over_chunks_1": 1500,
		"snapshot.rewire_over_chunks_5": 3.5, "snapshot.sparse_write_us": 4, "snapshot.dense_write_fork_us": 0.25,
	} {
		if figures[id] != want {
			t.Errorf("%s is %g, want %g", id, figures[id], want)
		}
	}
	if _, is := figures["snapshot.copy_over_chunks_5"]; is || len(r.Notes) != 3 {
		t.Errorf("figures %v and notes %q of a machine without some of them", figures, r.Notes)
	}
	if s := r.Find("chunks, 1 column", 500); s == nil || len(s.Samples) != 3 || s.Spread.Median != 2 {
		t.Errorf("a series of %+v", s)
	}
}

func TestAnAnswerThatIsNoneFails(t *testing.T) {
	for want, script := range map[string]string{
		"exit status 1: cost: out of order": "echo 'cost: out of order' >&2; exit 1",
		"read the program's answer":         "echo nothing",
		"in 0 stages":                       `echo '{"strategy":"'$strategy'","columns":'$columns'}'`,
		"measured other of":                 `us=1; strategy=other` + answer,
		"were not measured":                 `[ $strategy = copy ] || exit 3; us=1` + answer,
	} {
		if _, err := measuredBy(t, script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", script, err, want)
		}
	}
}
