package network

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/bench/benchtest"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
)

// A constant rate, for seconds, against real databases and nodes.
func TestASteadyLoadIsMeasured(t *testing.T) {
	benchtest.Long(t)
	tree, dir := benchtest.Places(t)
	var progress strings.Builder
	cfg := SteadyConfig{
		Config: Config{
			Dir: dir, PG: tree, Chainify: filepath.Join(dir, "chainify"), Seed: 1, Seconds: 1, Customers: 1000, Progress: &progress,
		},
		Rate: 20, Length: 20 * time.Second,
	}
	build(t, filepath.Join("..", "..", "abci"), "./cmd/chainify", cfg.Chainify)
	r := &report.Report{Name: "steady", Versions: map[string]string{}, Settings: map[string]any{}}
	if err := Steady(t.Context(), cfg, r); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	for _, m := range measures {
		s := r.Find(m.name, 0)
		if s == nil || len(s.Samples) < steadyLooks/2 || len(s.Samples) > steadyLooks {
			t.Errorf("%s: %+v", m.name, s)
		}
	}
	if answered := r.Find(rateDone, 0); answered.Spread.Max < 5 {
		t.Errorf("answered %+v, want about 20 tx/s", answered.Spread)
	}
	if r.Find(orderLog, 0).Spread.Max <= 0 {
		t.Error("the order's messages have no log")
	}
	for _, name := range []string{"clusters", "nodes"} {
		if set, _ := r.Settings[name].(map[string]any); len(set) < 5 || r.Versions["postgresql"] == "" || r.Machine[machine.FsyncAfter] == nil {
			t.Errorf("of %s only %v is recorded; %v, %v", name, set, r.Versions, r.Machine)
		}
	}
	if len(r.Figures) != len(measures)+8 {
		t.Errorf("%d figures", len(r.Figures))
	}
	for _, f := range r.Figures {
		if f.How == "" || f.Value < 0 || f.ID == "steady.bytes_blocks" && f.Value < 100 {
			t.Errorf("figure %+v", f)
		}
	}
}
