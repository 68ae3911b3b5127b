package recovery

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/bench/benchtest"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// The whole benchmark, tiny, against a real database and a network.
func TestTheBenchmarkRuns(t *testing.T) {
	tree, dir := benchtest.Places(t)
	node := filepath.Join(dir, "chainify")
	build := exec.Command("go", "build", "-o", node, "./cmd/chainify")
	build.Dir = filepath.Join("..", "..", "abci")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the node: %v\n%s", err, out)
	}
	var progress strings.Builder
	r := &report.Report{Name: "recovery", Versions: map[string]string{}, Settings: map[string]any{}}
	if err := Run(t.Context(), Config{
		Dir: dir, PG: tree, Chainify: node, Out: t.TempDir(), Script: "./run", Seed: 1, Repeat: 1, Rows: 2 * rowsKept, Progress: &progress,
	}, r); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	ids := map[string]bool{}
	for _, f := range r.Figures {
		if f.How == "" {
			t.Errorf("figure %+v", f)
		}
		ids[f.ID] = true
	}
	for _, name := range []string{"one server", "clusters"} {
		if set, _ := r.Settings[name].(map[string]any); set["shared_buffers"] == nil || r.Versions["postgresql"] == "" {
			t.Errorf("of %s only %v is recorded, of PostgreSQL %q", name, set, r.Versions["postgresql"])
		}
	}
	for _, id := range targets.Under("recovery") {
		if !ids[id] {
			t.Errorf("there is a target for %s, which is no figure", id)
		}
	}
}
