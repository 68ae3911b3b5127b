package network

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/bench/benchtest"
	"github.com/chainify-db/chainify/bench/pgbench"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

func TestRatesOfSeveralPgbenchAddUp(t *testing.T) {
	l := ofAll([]pgbench.Result{{Rate: 100, Processed: 200, Led: 50, Retries: 5}, {Rate: 300, Processed: 600, Led: 150, Retries: 95}})
	if l.rate() != 400 || l.count != 800 || l.led.count != 200 || l.took != 2*time.Second || l.more[retriesOfEach] != 0.1 {
		t.Errorf("%+v", l)
	}
}

// A session that was lost in one repetition of several is seen, and so is the longest of all waits.
func TestWhatSessionsThatMeetLose(t *testing.T) {
	r := &report.Report{Name: "plain"}
	if err := plainFigures(r); err != nil || len(r.Figures) != 0 {
		t.Errorf("of nothing: %v, %v", r.Figures, err)
	}
	for i, lost := range []float64{0, 1, 0} {
		r.Add(hotRows, 1, "tx/s", report.Sample{Repetition: i, Value: 40})
		r.Add(hotRows, hotClients, "tx/s", report.Sample{Repetition: i, Value: 20, Detail: map[string]float64{lostSessions: lost, longestWait: 25 - float64(i), retriesOfEach: 2}})
	}
	for _, s := range workload.Scripts() {
		r.Add(s.Name+bySession, plainClients, "tx/s", report.Sample{Value: 80, ServerCPUUS: 3})
		r.Add(s.Name+byFunction, plainClients, "tx/s", report.Sample{Value: 100, ServerCPUUS: 2})
		r.Add(s.Name+byText, plainClients, "tx/s", report.Sample{Value: 160, ServerCPUUS: 1})
	}
	for system, value := range map[string]float64{tpccByEffects: 150, tpccEverywhere: 200, tpccByExecute: 50} {
		r.Add(system, tpccTerminals, "tx/s", report.Sample{Value: value, ServerCPUUS: value, Detail: map[string]float64{retriesOfEach: 1}})
	}
	r.Add(tpccAllExecute, 0, "tx/s", report.Sample{Value: 100, ServerCPUUS: 100})
	if err := plainFigures(r); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"plain.hot_rows": 0.5, "plain.hot_rows_retries": 2, "plain.hot_rows_lost": 1, "plain.hot_rows_longest_wait": 25,
		"plain.tpcc_effects": 1.5, "plain.tpcc_effects_waiting": 3, "plain.tpcc_effects_cpu": 1.5, "plain.tpcc_effects_retries": 1, "plain.tpcc_effects_everywhere": 2,
		"plain.tpcb_like_over_execute": 0.8, "plain.tpcb_like_over_execute_cpu": 1.5, "plain.tpcb_like_over_execute_text": 0.5, "plain.tpcb_like_over_execute_text_cpu": 3,
	}
	var seen []string
	for _, f := range r.Figures {
		seen = append(seen, f.ID)
		if value, known := want[f.ID]; known && f.Value != value {
			t.Errorf("%s is %g, want %g", f.ID, f.Value, value)
		}
	}
	for _, id := range targets.Under("plain") {
		alone := strings.HasSuffix(id, "_cost") || strings.HasSuffix(id, "_apply_over_execute") // of one database (executor)
		if !slices.Contains(seen, id) && !alone {
			t.Errorf("there is a target for %s, which is no figure", id)
		}
	}
	if missed := r.Missed(); !slices.Equal(missed, []string{"plain.hot_rows_lost", "plain.hot_rows_longest_wait"}) {
		t.Errorf("missed: %v", missed)
	}
}

func TestOnlyATransactionThatLostIsTriedAgain(t *testing.T) {
	for code, want := range map[string]bool{"40001": true, "40P01": true, "CH007": false, "23505": false} {
		if got := retryable(&pgconn.PgError{Code: code}); got != want {
			t.Errorf("%s: %v", code, got)
		}
	}
	if retryable(errors.New("connection reset")) {
		t.Error("a lost connection is tried again like a conflict")
	}
}

// A session holds a lock that a block needs, until the watcher has seen the block wait so long. It
// never has to give way: a busy machine may take its time.
func TestWaitsOfABlockAreSeen(t *testing.T) {
	tree, dir := benchtest.Places(t)
	ctx := t.Context()
	cfg := Config{Dir: dir, PG: tree, Chainify: filepath.Join(dir, "chainify"), Seed: 1, Seconds: 1, Customers: 2, Progress: &strings.Builder{}}
	build(t, filepath.Join("..", "..", "abci"), "./cmd/chainify", cfg.Chainify)
	net, err := openNetwork(ctx, cfg, "waits", settings, []string{"solo"}, plainTables.Schema())
	if net != nil {
		t.Cleanup(func() {
			if err := net.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	o := plainOurs(net, cfg, nil)
	if err := o.start(ctx); err != nil {
		t.Fatal(err)
	}
	holder, err := net.Organisations[0].Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := net.Organisations[0].SetSystem(ctx, doneLimit, "chainify.conflict_grace", "-1"); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"SET chainify.guard = off", "BEGIN", "SELECT FROM tpcb.hot WHERE id = 1 FOR UPDATE"} {
		if _, err := holder.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	waits, end, err := watchWaits(ctx, o.members())
	if err != nil {
		t.Fatal(err)
	}
	began, executed := time.Now(), make(chan error, 1)
	go func() {
		executed <- net.Organisations[0].Exec(ctx, role, "SELECT 1 / outcome::int FROM chainify.execute('UPDATE tpcb.hot SET v = v + 1 WHERE id = 1')")
	}()
	const long = 300 * time.Millisecond
	for time.Duration(waits.Load()) < long && time.Since(began) < doneLimit {
		time.Sleep(looksEvery)
	}
	errHolder := holder.Close(ctx)
	if err := errors.Join(errHolder, <-executed, end()); err != nil {
		t.Error(err)
	}
	if seen := time.Duration(waits.Load()); seen < long || seen > time.Since(began) {
		t.Errorf("the longest wait is %s", seen)
	}
}

// The measurement, tiny, against real databases and nodes.
func TestPlainSQLIsMeasured(t *testing.T) {
	benchtest.Long(t)
	tree, dir := benchtest.Places(t)
	var progress strings.Builder
	cfg := Config{Dir: dir, PG: tree, Chainify: filepath.Join(dir, "chainify"), Seed: 1, Repeat: 1, Seconds: 1, Hasty: true, Only: []string{"simple-update", hotRows}, Progress: &progress}
	build(t, filepath.Join("..", "..", "abci"), "./cmd/chainify", cfg.Chainify)
	r := &report.Report{Name: "plain", Versions: map[string]string{}, Settings: map[string]any{}}
	if err := Plain(t.Context(), cfg, r); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	if len(r.Series) != 6 {
		t.Errorf("%d systems:\n%s", len(r.Series), progress.String())
	}
	for _, s := range r.Series {
		if len(s.Samples) != 1 || s.Spread.Median <= 0 || s.CPU.Median <= 0 {
			t.Errorf("%s: %+v", s.System, s)
		}
	}
}
