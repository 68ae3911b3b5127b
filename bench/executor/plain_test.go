package executor

import (
	"strings"
	"testing"

	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

// The cost is that of the session and of the block together, within each repetition.
func TestTheCostIsOfCapturingAndApplying(t *testing.T) {
	r := &report.Report{Name: "plain"}
	const block = 64
	for repetition := 1; repetition <= 2; repetition++ {
		slow := float64(repetition) // a machine that is twice as slow in the second
		for _, s := range workload.Scripts() {
			for _, of := range []struct {
				system string
				size   float64
				cpu    float64
			}{
				{aloneOn, 0, 100},
				{aloneOff, 0, 50},
				{aloneUndone, 0, 80},
				{captured, 0, 130},
				{rolledBack, 0, 120},
				{applied, block, 30},
				{appliedByTwo, block, 45},
				{executed, block, 60},
				{applied, block / 8, 50},
				{executed, block / 8, 80},
			} {
				r.Add(s.Name+of.system, of.size, "tx/s", report.Sample{Repetition: repetition, Value: 1, ServerCPUUS: of.cpu * slow, Detail: map[string]float64{setSize: 400}})
			}
		}
	}
	if err := plainFigures(r, block); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"cost": 1.6, "cost_small": 1.8, "cost_sync_off": 3.2, "capture_cost": 1.3, "capture_rollback_cost": 1.5,
		"apply_over_execute": 0.5, "apply_over_execute_small": 0.625, "write_set": 400,
		"two_processes": 1, "two_processes_cpu": 1.5,
	}
	seen := map[string]bool{}
	for _, f := range r.Figures {
		seen[f.ID] = true
		for _, s := range workload.Scripts() {
			if part, of := strings.CutPrefix(f.ID, "plain."+s.ID()+"_"); of && (f.Value != want[part] || f.Min != f.Max) {
				t.Errorf("%s is %g, from %g to %g, want %g", f.ID, f.Value, f.Min, f.Max, want[part])
			}
		}
	}
	if len(r.Figures) != len(want)*len(workload.Scripts()) {
		t.Errorf("%d figures", len(r.Figures))
	}
	for _, id := range targets.Under("plain") {
		alone := strings.HasSuffix(id, "_cost") || strings.HasSuffix(id, "_apply_over_execute") // the others are of networks
		if !seen[id] && alone {
			t.Errorf("there is a target for %s, which is no figure", id)
		}
	}
	if _, err := sums([]float64{1}, nil); err == nil {
		t.Error("series of unequal length were added")
	}
}

// The measurement, tiny, against real servers: whatever way the transactions take, each leaves its
// row of history, and the ledger verifies.
func TestPlainSQLIsMeasured(t *testing.T) {
	cfg := config(t)
	cfg.Sizes, cfg.Seconds = nil, 0 // one round each
	var progress strings.Builder
	cfg.Progress = &progress
	r := &report.Report{Name: "plain", Versions: map[string]string{}, Settings: map[string]any{}}
	p, err := openPlain(t.Context(), cfg, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for repetition := range 2 { // not run: so few transactions take no processor time that can be told
		if err := p.repeat(t.Context(), repetition); err != nil {
			t.Fatalf("%v\n%s", err, progress.String())
		}
	}
	var findings, history, transactions int
	if err := p.sites.ledger.conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM chainify.verify_ledger() WHERE what <> 'certificate missing')
		+ (SELECT count(*) FROM chainify.verify_table('tpcb.account')) + (SELECT count(*) FROM chainify.verify_table('tpcb.history')),
		(SELECT count(*) FROM tpcb.history), (SELECT sum(succeeded) FROM chainify.ledger WHERE number > 1)`).Scan(&findings, &history, &transactions); err != nil {
		t.Fatal(err)
	}
	// Two repetitions, of which one counts, of three scripts. Each is applied and executed in
	// blocks of two sizes, and applied by two processes. Two of them write history.
	if all := 2 * 3 * 5 * cfg.Block; findings != 0 || transactions != all || history != all*2/3 {
		t.Errorf("seed %d: %d findings, %d rows of history, %d transactions of %d", cfg.Seed, findings, history, transactions, all)
	}
	for _, s := range r.Series {
		if len(s.Samples) != 1 || s.Spread.Median <= 0 {
			t.Errorf("%s: %+v", s.System, s)
		}
	}
}
