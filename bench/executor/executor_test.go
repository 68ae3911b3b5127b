package executor

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/benchtest"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

// config is a tiny run against the tree that the environment names.
func config(t *testing.T) Config {
	t.Helper()
	tree, dir := benchtest.Places(t)
	return Config{
		Dir: dir, PG: tree, Seed: 1, Repeat: 1, Seconds: 1, Customers: 1000, Block: 64, Clients: []int{2},
		BlockSizes: []int{16, 64}, Sizes: []int{100, 1000}, TPCC: workload.TPCCSize{Warehouses: 2, Items: 100, Customers: 30},
	}
}

// Comparing systems means nothing unless they do the same work: after the same blocks the tables
// are the same, however the transactions were spelled. Few customers, so that transactions meet
// and amounts run out.
func TestAllSystemsDoTheSameWork(t *testing.T) {
	cfg := config(t)
	cfg.Customers, cfg.Sizes = 10, nil
	r := &report.Report{Versions: map[string]string{}, Settings: map[string]any{}}
	s, err := open(t.Context(), cfg, r, workload.SmallbankSchema(cfg.Customers))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	c, err := newChain(t.Context(), s.ledger, nil)
	if err != nil {
		t.Fatal(err)
	}
	bank := workload.NewSmallbank(cfg.Seed, 0, int64(cfg.Customers))
	for _, form := range []workload.Form{workload.Function, workload.Parameters, workload.Literal} {
		calls := bank.Block(500)
		raw, err := c.encode(wire.Kind_KIND_SQL, spelled(calls, form))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.run(t.Context(), raw); err != nil {
			t.Fatal(err)
		}
		if err := runLoop(t.Context(), s.plain.conn, "run_block", calls); err != nil {
			t.Fatal(err)
		}
		if ledger, plain := balances(t, s.ledger), balances(t, s.plain); ledger != plain {
			t.Fatalf("seed %d: after a block of %s the ledger holds\n%s\nthe plain tables\n%s", cfg.Seed, form, ledger, plain)
		}
	}
	checkLedger(t, s.ledger)
}

// checkLedger makes sure that digest, history and state hash were on: otherwise nothing of a
// ledger was measured. Nobody voted on these blocks, so they have no certificates.
func checkLedger(t *testing.T, s *site) {
	t.Helper()
	var effects, history, findings int
	err := s.conn.QueryRow(t.Context(), `SELECT (SELECT sum(effects_count) FROM chainify.ledger),
		(SELECT count(*) FROM chainify_history.smallbank__checking) + (SELECT count(*) FROM chainify_history.smallbank__savings),
		(SELECT count(*) FROM chainify.verify_ledger() WHERE what <> 'certificate missing') + (SELECT count(*) FROM chainify.verify_table('smallbank.checking'))
			+ (SELECT count(*) FROM chainify.verify_table('smallbank.savings'))`).Scan(&effects, &history, &findings)
	if err != nil {
		t.Fatal(err)
	}
	if effects < 1000 || effects != history || findings != 0 {
		t.Errorf("%d effects, %d rows of history, %d findings", effects, history, findings)
	}
}

func balances(t *testing.T, s *site) (text string) {
	t.Helper()
	err := s.conn.QueryRow(t.Context(), `SELECT string_agg(format('%s: %s %s', custid, s.balance, k.balance), E'\n' ORDER BY custid)
		FROM smallbank.savings s JOIN smallbank.checking k USING (custid)`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The whole benchmark, tiny, against real servers. Where a busy machine had no time for a second
// worker, it runs again, three times in all.
func TestTheBenchmarkRuns(t *testing.T) {
	var r *report.Report
	var progress strings.Builder
	cfg := config(t)
	cfg.Progress = &progress
	err := errInOneProcess
	for tries := 0; errors.Is(err, errInOneProcess) && tries < 3; tries++ {
		r = &report.Report{Name: "executor", Versions: map[string]string{}, Settings: map[string]any{}}
		err = Run(t.Context(), cfg, r)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	several := len(r.Notes) == 1 // the other note says what the executor lacks
	want := map[bool]int{false: 17, true: 21}[several]
	if len(r.Series) != want {
		t.Errorf("%d systems were measured, want %d:\n%s", len(r.Series), want, progress.String())
	}
	for _, s := range r.Series {
		if len(s.Samples) != 1 || s.Spread.Median <= 0 || s.CPU.Median <= 0 {
			t.Errorf("%s: %+v", s.System, s)
		}
	}
	if several {
		two := r.Find(twoWorkers, 0).Samples[0].Detail
		if two[blocksInParts] < 1 || two[blocksInParts] > two[allBlocks] {
			t.Errorf("of %g blocks with two workers %g ran in parts", two[allBlocks], two[blocksInParts])
		}
	}
	ids := map[string]bool{}
	for _, f := range r.Figures {
		if ids[f.ID] || f.Unit == "" || f.How == "" || f.Value <= 0 {
			t.Errorf("figure %+v", f)
		}
		ids[f.ID] = true
	}
	for _, id := range targets.Under("executor") {
		ofWorkers := strings.Contains(id, "two_workers") || strings.Contains(id, "skew")
		tooLarge := id == "executor.small_blocks" // its larger block is not among the sizes here
		if !ids[id] && !tooLarge && (several || !ofWorkers) {
			t.Errorf("there is a target for %s, which is no figure", id)
		}
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// Two workers of which one never works are no measurement of two.
func TestARunInWhichNothingRanInPartsFails(t *testing.T) {
	r := &report.Report{}
	for _, system := range []string{twoWorkers, blockFunction, pgbenchOff} {
		r.Add(system, 0, "tx/s", report.Sample{Repetition: 1, Value: 1, Detail: map[string]float64{blocksInParts: 0}})
	}
	for _, spread := range spreads {
		for workers := range 2 {
			r.Add(tpcc(spread), float64(workers+1), "tx/s", report.Sample{Repetition: 1, Value: 1})
		}
	}
	if err := workerFigures(r, true); err == nil || !strings.Contains(err.Error(), "in parts") {
		t.Errorf("without a block in parts: %v", err)
	}
	r.Find(twoWorkers, 0).Samples[0].Detail[blocksInParts] = 1
	if err := workerFigures(r, true); err != nil {
		t.Errorf("with one: %v", err)
	}
}

// The executor that others are compared with plans for the rows in its tables, like a node that
// starts. A plan that was made while a table was empty reads all of it for each row, until the
// session ends or the table's statistics change.
func TestTheLoneExecutorPlansForWhatItsTablesHold(t *testing.T) {
	cfg := config(t)
	size := workload.TPCCSize{Warehouses: 2, Items: 100, Customers: 30}
	a, err := OpenAlone(t.Context(), cfg.Dir, cfg.PG, Settings, size.Ordered())
	if a != nil {
		t.Cleanup(func() {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	sessions := map[uint32]bool{}
	for repetition := range 2 {
		if err := errors.Join(a.Renew(t.Context()), a.Vacuum(t.Context())); err != nil {
			t.Fatal(err)
		}
		sessions[a.site.blocks.conn.PgConn().PID()] = true
		var unknown, old string
		if err := a.site.conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(relname, ', ') FILTER (WHERE reltuples <= 0), ''),
			coalesce(string_agg(relname, ', ') FILTER (WHERE reltuples <> (xpath('//n/text()', query_to_xml(format('SELECT count(*) AS n FROM %s', c.oid::regclass), true, true, '')))[1]::text::real), '')
			FROM pg_class c WHERE relnamespace = 'tpcc'::regnamespace AND relkind = 'r' AND ($1 OR relname <> 'history')`, repetition > 0).Scan(&unknown, &old); err != nil {
			t.Fatal(err)
		}
		if unknown != "" || old != "" {
			t.Errorf("before measurement %d nothing is known of %q, and how many rows are in %q", repetition, unknown, old)
		}
		sample, err := a.Measure(t.Context(), 1, 50, workload.NewTPCC(cfg.Seed, uint64(repetition), size, workload.ByTheBook).Block)
		if err != nil || sample.Transactions < 50 {
			t.Fatal(sample, err)
		}
	}
	if len(sessions) != 2 {
		t.Errorf("two series of measurements were in %d sessions", len(sessions))
	}
}

// Verification, tiny; a finding without reason, or none with one, would have ended it.
func TestVerificationIsMeasured(t *testing.T) {
	r := &report.Report{Name: "verify", Versions: map[string]string{}, Settings: map[string]any{}}
	var progress strings.Builder
	cfg := config(t)
	cfg.Sizes, cfg.Progress = nil, &progress
	if err := Verify(t.Context(), cfg, checkpointEvery+2, r); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	if len(r.Figures) != 3 || len(r.Series) != 3 {
		t.Errorf("%+v", r)
	}
	for _, f := range r.Figures {
		if f.How == "" || f.Value <= 0 {
			t.Errorf("figure %+v", f)
		}
	}
}
