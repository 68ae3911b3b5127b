package joining

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/bench/benchtest"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// The whole benchmark, tiny, against real databases.
func TestTheBenchmarkRuns(t *testing.T) {
	benchtest.Long(t)
	tree, dir := benchtest.Places(t)
	node := filepath.Join(dir, "chainify")
	build := exec.Command("go", "build", "-o", node, "./cmd/chainify")
	build.Dir = filepath.Join("..", "..", "abci")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the node: %v\n%s", err, out)
	}
	var progress strings.Builder
	r := &report.Report{Name: "joining", Versions: map[string]string{}, Settings: map[string]any{}}
	cfg := Config{Dir: dir, PG: tree, Chainify: node, Rows: 300, Blocks: 40, Window: 500 * time.Millisecond, Progress: &progress}
	if err := Run(t.Context(), cfg, r); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	ids := map[string]bool{}
	for _, f := range r.Figures {
		ids[f.ID] = true
	}
	for _, id := range targets.Under("joining") {
		if !ids[id] {
			t.Errorf("there is a target for %s, which is no figure", id)
		}
	}
}
