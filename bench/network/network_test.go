package network

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/baseline"
	"github.com/chainify-db/chainify/bench/benchtest"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// build makes a binary of a package of one of the modules.
func build(t *testing.T, module, pkg, into string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", into, pkg)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
}

// The whole benchmark, tiny, against real databases and nodes.
func TestTheBenchmarkRuns(t *testing.T) {
	benchtest.Long(t)
	tree, dir := benchtest.Places(t)
	var progress strings.Builder
	cfg := Config{
		Dir: dir, PG: tree, Chainify: filepath.Join(dir, "chainify"), Baseline: filepath.Join(dir, "baseline"), CometBFT: filepath.Join(dir, "cometbft"),
		Seed: 1, Repeat: 1, Seconds: 1, Customers: 1000, PgbenchClients: []int{2}, Modes: true, Hasty: true, Progress: &progress,
	}
	build(t, filepath.Join("..", "..", "abci"), "./cmd/chainify", cfg.Chainify)
	build(t, filepath.Join("..", "..", "abci"), "github.com/cometbft/cometbft/cmd/cometbft", cfg.CometBFT)
	build(t, "..", "./cmd/baseline", cfg.Baseline)
	r := &report.Report{Name: "network", Versions: map[string]string{}, Settings: map[string]any{}}
	if err := Run(t.Context(), cfg, r); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	for _, s := range r.Series {
		rest := s.System == echoed // no node works meanwhile
		if len(s.Samples) != 1 || s.Spread.Median <= 0 || s.CPU.Median <= 0 && !rest {
			t.Errorf("%s: %+v", s.System, s)
		}
	}
	ids := map[string]bool{}
	for _, f := range r.Figures {
		if ids[f.ID] || f.How == "" || f.Value <= 0 {
			t.Errorf("figure %+v", f)
		}
		ids[f.ID] = true
	}
	for _, id := range targets.Under("network") {
		elsewhere := id == "network.cryptography" || strings.HasPrefix(id, "network.former_") // other binaries
		if !ids[id] && !elsewhere {
			t.Errorf("there is a target for %s, which is no figure", id)
		}
	}
	for _, id := range []string{"network.one_dead", "network.one_slow", "network.one_slow_p50", "network.one_slow_p99", "network.server_four", "network.server_waiting_one_p50", "network.server_waiting_many", "network.server_cpu"} {
		if !ids[id] {
			t.Errorf("no figure %s", id)
		}
	}
	for _, system := range []string{tpccFour, tpccAlone} {
		if sizes := r.Find(system, 0).Details(blockSize); sizes[0] < 1 {
			t.Errorf("%s had blocks of %v transactions", system, sizes)
		}
	}
	for _, name := range []string{"clusters", "PostgreSQL alone", "nodes", "baseline", "CometBFT alone"} {
		if set, _ := r.Settings[name].(map[string]any); len(set) < 5 {
			t.Errorf("of %s only %v is recorded", name, r.Settings[name])
		}
	}
	if _, loaded := r.Settings["PostgreSQL alone"].(map[string]any)["shared_preload_libraries"]; loaded || r.Settings["nodes"].(map[string]any)["mode"] != "balanced" {
		t.Errorf("settings %v", r.Settings)
	}
	if !strings.HasPrefix(r.Versions["cometbft"], "v0.") || r.Versions["postgresql"] == "" || r.Machine[machine.LoadSettled] == nil {
		t.Errorf("recorded %v of %v", r.Versions, r.Machine)
	}
}

// The papers' experiments, tiny, with a point or two of each.
func TestThePapersRun(t *testing.T) {
	benchtest.Long(t)
	tree, dir := benchtest.Places(t)
	var progress strings.Builder
	cfg := Config{
		Dir: dir, PG: tree, Chainify: filepath.Join(dir, "chainify"), CometBFT: filepath.Join(dir, "cometbft"),
		Seed: 1, Repeat: 1, Seconds: 1, Customers: 1000, Hasty: true, Progress: &progress,
	}
	build(t, filepath.Join("..", "..", "abci"), "./cmd/chainify", cfg.Chainify)
	build(t, filepath.Join("..", "..", "abci"), "github.com/cometbft/cometbft/cmd/cometbft", cfg.CometBFT)
	r := &report.Report{Name: "papers", Versions: map[string]string{}, Settings: map[string]any{}}
	if err := Papers(t.Context(), cfg, r); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	for _, s := range r.Series {
		if len(s.Samples) != 1 || s.Spread.Median <= 0 {
			t.Errorf("%s: %+v", s.System, s)
		}
	}
	ids := map[string]bool{}
	for _, f := range r.Figures {
		ids[f.ID] = f.Value > 0
	}
	for _, id := range []string{
		"any2_zipf_3", "any2_uniform_3", "any2_over_all3_3", "any2_over_all3_uniform_3", "any2_over_standalone_3", "slowdown_batch_1", "slowdown_batch_64", "slowdown_async",
		"clients_sync", "clients_async", "two_phase_over_ledger_1", "two_phase_over_ledger_4", "builtin_over_server_sync", "builtin_over_server_async",
		"phase_proposal", "phase_consensus", "phase_execution", "phase_commit", "phase_consensus_1000", "tpcc_slowdown_batch_1", "tpcc_slowdown_batch_64", "tpcc_builtin_over_server_async",
	} {
		if !ids["papers."+id] {
			t.Errorf("no figure %s of %v", id, ids)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 2 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// The baseline has to do the work it is measured for: two of its nodes execute the same
// transactions, each once.
func TestTheBaselineExecutes(t *testing.T) {
	tree, dir := benchtest.Places(t)
	ctx := t.Context()
	net, err := harness.New(ctx, harness.Config{Dir: filepath.Join(dir, "net"), PG: tree, Database: plain, Organisations: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := net.StartDatabases(ctx); err != nil {
		t.Fatal(err)
	}
	for _, o := range net.Organisations {
		if err := o.Exec(ctx, "postgres", "CREATE ROLE bank LOGIN SUPERUSER; CREATE TABLE counted (n int); INSERT INTO counted VALUES (0);"+baseline.StateSQL); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{Baseline: filepath.Join(dir, "baseline")}
	build(t, "..", "./cmd/baseline", cfg.Baseline)
	nodes, err := newTheirs(cfg, filepath.Join(dir, "net", "baseline"), 2, net.Organisations)
	if err != nil {
		t.Fatal(err)
	}
	if err := nodes.start(ctx); err != nil {
		t.Fatal(err)
	}
	client, err := nodes.client(0)
	if err != nil {
		t.Fatal(err)
	}
	for nonce := range uint64(3) {
		raw, err := baseline.Encode(nonce, []baseline.Call{{SQL: "UPDATE counted SET n = n + $1", Args: []string{"2"}}, {SQL: "SELECT 1"}})
		if err != nil {
			t.Fatal(err)
		}
		if result, err := client.BroadcastTxCommit(ctx, raw); err != nil || result.TxResult.IsErr() {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	if err := nodes.stop(); err != nil { // each ends after the block it is in
		t.Fatal(err)
	}
	if err := nodes.start(ctx); err != nil { // and goes on from there
		t.Fatal(err)
	}
	if err := nodes.stop(); err != nil {
		t.Fatal(err)
	}
	for _, o := range net.Organisations {
		var counted, executed int
		if err := o.Scan(ctx, "SELECT n, executed FROM counted, baseline.state", &counted, &executed); err != nil || counted != 6 || executed != 6 {
			t.Errorf("%s counted %d, executed %d, %v", o.Name, counted, executed, err)
		}
	}
}
