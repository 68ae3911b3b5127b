package analytics

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/bench/benchtest"
	"github.com/chainify-db/chainify/bench/report"
)

// Everything but TPC-H, tiny, beside a real database and the worker that the environment names.
func TestEveryPartMeasures(t *testing.T) {
	tree, dir := benchtest.Places(t)
	worker := os.Getenv("CHAINIFY_TEST_ANALYTICS")
	if worker == "" {
		t.Skip("CHAINIFY_TEST_ANALYTICS names no analytics worker (bench/README.md)")
	}
	r := &report.Report{Name: "analytics", Versions: map[string]string{}, Parameters: map[string]any{}, Settings: map[string]any{}}
	var told strings.Builder
	err := Run(t.Context(), Config{Dir: filepath.Join(dir, "bench"), PG: tree, Worker: worker, Seed: 1, Repeat: 1, Seconds: 1, Short: true, Progress: &told}, r)
	if err != nil {
		t.Fatalf("%v\n%s", err, told.String())
	}
	figures := map[string]float64{}
	for _, f := range r.Figures {
		figures[f.ID] = f.Value
		if f.Value <= 0 || f.Target != "" {
			t.Errorf("%s is %g, with the target %q in a short run", f.ID, f.Value, f.Target)
		}
	}
	if figures["analytics.anker_admitted"] != float64(len(ankerQueries)) || figures["analytics.load_with_queries"] == 0 || len(r.Notes) != 2 {
		t.Errorf("figures %v, notes %q", figures, r.Notes)
	}
	if err := r.Print(&told); err != nil {
		t.Error(err)
	}
}

func TestStatementsAreWithoutPsqlsOwnLines(t *testing.T) {
	if got := statements("-- a\n\\set ECHO none\nSELECT 1;\n  -- kept\n\\i x"); got != "SELECT 1;\n  -- kept" {
		t.Errorf("%q", got)
	}
}

func TestAQuestionThatFailsEndsTheQuestions(t *testing.T) {
	asked, failed := 0, errors.New("no")
	done := make(chan struct{})
	stop := every(t.Context(), time.Millisecond, func(context.Context) (time.Duration, error) {
		if asked++; asked == 3 {
			close(done)
			return 0, failed
		}
		return time.Duration(5-asked) * time.Millisecond, nil
	})
	<-done
	if times, err := stop(); !errors.Is(err, failed) || len(times) != 2 || times[0] != 3 || times[1] != 4 {
		t.Errorf("times %v and %v", times, err)
	}
	if times, err := every(t.Context(), time.Millisecond, nil)(); err != nil || len(times) != 0 {
		t.Errorf("without questions: %v, %v", times, err)
	}
}

func TestSumsAreByRepetition(t *testing.T) {
	b := &bench{report: &report.Report{}}
	s := set{"set", []query{{1, ""}, {5, ""}}, nil}
	for _, sample := range []struct{ number, repetition, ms float64 }{{1, 1, 10}, {5, 2, 7}, {5, 1, 1}, {1, 2, 20}} {
		b.report.Add("set, us", sample.number, "ms", report.Sample{Repetition: int(sample.repetition), Value: sample.ms})
	}
	if got := b.sums(s, "us"); len(got) != 2 || got[0] != 11 || got[1] != 27 {
		t.Errorf("sums %v", got)
	}
}
