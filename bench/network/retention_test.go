package network

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/bench/benchtest"
	"github.com/chainify-db/chainify/bench/report"
)

// Each pair of looks gives one value; pairs of the first quarter, and looks with a turn that took
// longer than one, give none.
func TestTheShareOfArchivingIsToldInPairs(t *testing.T) {
	r := &report.Report{}
	for i, x := range []struct{ rate, mark float64 }{{80, 1}, {100, 0}, {60, 1}, {100, 0}, {50, 1}, {90, 1}, {100, 0}, {100, 0}, {100, 1}} {
		r.Add(rateDone, 0, "tx/s", report.Sample{Repetition: steadyLooks/quarters - 1 + i, Value: x.rate, Detail: map[string]float64{archiving: x.mark}})
	}
	if got, want := shares(r.Find(rateDone, 0)), []float64{0.8, 0.95}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if shares(nil) != nil {
		t.Error("no series has shares")
	}
}

func TestDisksAreJudgedByTheirLastQuarter(t *testing.T) {
	for _, growth := range []float64{0, 2} {
		r := &report.Report{}
		for i := 1; i <= steadyLooks; i++ {
			for _, name := range []string{dropDisk, dropDatabase, dropNode, keepDisk, rateDone, latency50, latency99} {
				value := 100.0
				if name == dropDisk {
					value += growth * float64(i)
				}
				r.Add(name, 0, "MB", report.Sample{Repetition: i, Value: value, Detail: map[string]float64{archiving: float64(i % 2)}})
			}
		}
		if err := retentionFigures(r); err != nil {
			t.Fatal(err)
		}
		if missed := r.Missed(); (len(missed) > 0) != (growth > 0) || growth > 0 && missed[0] != "retention.disk_growth" {
			t.Errorf("growth by %g: missed %v", growth, missed)
		}
	}
}

func TestAFewBlocksAreKept(t *testing.T) {
	if got := []int{blocksKept(20 * time.Second), blocksKept(4 * time.Minute), blocksKept(time.Hour)}; !slices.Equal(got, []int{20, 200, 3000}) {
		t.Errorf("kept are %v", got)
	}
	for length, want := range map[time.Duration]string{20 * time.Second: "10", time.Hour: "100"} {
		if got := retentionSettings(length)["chainify.checkpoint_interval"]; got != want {
			t.Errorf("a checkpoint each %s blocks in %s, want %s", got, length, want)
		}
	}
}

func TestAGenesisForgetsEvidence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "genesis.json")
	for text, good := range map[string]bool{`{"consensus_params": {"block": {"max_bytes": "1"}}}`: true, `{}`: false, `{`: false} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := forgetEvidence(file); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := os.WriteFile(file, []byte(`{"consensus_params": {"block": {"max_bytes": "1"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := forgetEvidence(file); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	var doc struct {
		Params struct {
			Block, Evidence map[string]string
		} `json:"consensus_params"`
	}
	if err != nil || json.Unmarshal(raw, &doc) != nil || doc.Params.Evidence["max_age_num_blocks"] != "10" || doc.Params.Block["max_bytes"] != "1" {
		t.Errorf("%s, %v", raw, err)
	}
}

// Years in seconds, against real databases and nodes.
func TestRetentionIsMeasured(t *testing.T) {
	benchtest.Long(t)
	tree, dir := benchtest.Places(t)
	var progress strings.Builder
	cfg := SteadyConfig{
		Config: Config{
			Dir: dir, PG: tree, Chainify: filepath.Join(dir, "chainify"), Seed: 1, Seconds: 1, Customers: 1000, Progress: &progress,
		},
		Length: 30 * time.Second,
	}
	build(t, filepath.Join("..", "..", "abci"), "./cmd/chainify", cfg.Chainify)
	r := &report.Report{Name: "retention", Versions: map[string]string{}, Settings: map[string]any{}}
	if err := Retention(t.Context(), cfg, r); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	want := []string{"archive_over_database", "dropped", "verify_rate", "disk_growth", "database_growth", "node_growth", "kept_growth", "throughput", "latency_p50", "latency_p99"}
	for _, f := range r.Figures {
		i := slices.Index(want, strings.TrimPrefix(f.ID, "retention."))
		if i < 0 || f.How == "" || f.Value <= 0 {
			t.Errorf("figure %+v", f)
			continue
		}
		want = slices.Delete(want, i, i+1)
	}
	if len(want) > 0 {
		t.Errorf("no figures %v", want)
	}
	for _, name := range []string{dropDisk, keepDisk, archiveDisk, rateDone} {
		if s := r.Find(name, 0); s == nil || len(s.Samples) != steadyLooks || s.Spread.Max <= 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
