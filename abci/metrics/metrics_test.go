package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/effects"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// database is a database whose health a test sets.
type database struct {
	health backend.Health
	err    error
}

func (d *database) Inspect(context.Context) (backend.Health, error) { return d.health, d.err }

func (d *database) Mirrors(context.Context) (backend.Mirrors, error) {
	return backend.Mirrors{Wanted: 3, Serving: 2, Lag: 4, Bytes: 1024, Pinned: 5, Recent: 6, Readers: 7}, d.err
}

func (d *database) Servers() backend.Servers {
	return backend.Servers{Standbys: 2, OtherPrimaries: 1, LastBlock: 9, StandbyBlocks: []uint64{9, 4}}
}

func newMetrics(db *database) *Metrics {
	standing := Standing{
		Status: func(context.Context) *wire.StatusResponse {
			return &wire.StatusResponse{
				Protocol:     &wire.ProtocolStatus{InForce: 1, Known: 2, Next: 2, NextHeight: 9, Organisations: []*wire.ProtocolStatus_Knows{{Organisation: "bolt", Version: 1}, {Organisation: "away"}}},
				Organisation: "acme", ChainId: "trade", Version: "1", Height: 9, LastOrdered: 4, LastCertified: 3, LastCommitted: 2,
				State: "serving", Peers: 2, Organisations: 3, Consent: 2,
			}
		},
		Queue:    func() gateway.Stats { return gateway.Stats{Pending: 5, Unordered: 1, EarlyAborts: 3} },
		Evidence: func() uint64 { return 0 }, Suspended: func() int { return 0 }, Oldest: func() int64 { return 1 }, Keep: 1000,
	}
	if db != nil {
		standing.Database = db
	}
	return New([]string{"acme", "bolt", "cargo"}, standing)
}

// scrape gives the lines that Prometheus reads.
func scrape(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("code %d, %v: %s", w.Code, err, text)
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			lines[line[:i]] = strings.TrimSpace(line[i+1:])
		}
	}
	return lines
}

func expect(t *testing.T, got map[string]string, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s is %q, want %q", name, got[name], want[name])
		}
	}
}

func TestWhatStandsIsToldWhenAsked(t *testing.T) {
	db := &database{health: backend.Health{Deviations: 1, ScrubAge: time.Minute, ScrubInterval: 10 * time.Minute}}
	m := newMetrics(db)
	expect(t, scrape(t, m), map[string]string{
		`chainify_state{state="serving"}`: "1", `chainify_state{state="excluded"}`: "0", "chainify_height": "9",
		`chainify_ledger_blocks{stage="ordered"}`: "4", `chainify_ledger_blocks{stage="committed"}`: "2",
		`chainify_queue_transactions{stage="pending"}`: "5", "chainify_deviations_open": "1", "chainify_database_up": "1",
		`chainify_database_servers{standing="standby"}`: "2", `chainify_database_servers{standing="other_primary"}`: "1", "chainify_standby_lag_blocks": "5",
		"chainify_early_aborts_total": "3", "chainify_oldest_order_block": "1", "chainify_order_blocks_kept": "1000",
		"chainify_scrub_age_seconds": "60", "chainify_scrub_interval_seconds": "600", `chainify_mirrors{stage="wanted"}`: "3", `chainify_mirrors{stage="serving"}`: "2", "chainify_mirror_lag_blocks": "4",
		"chainify_mirror_bytes": "1024", `chainify_snapshots{kind="pinned"}`: "5", `chainify_snapshots{kind="recent"}`: "6", "chainify_snapshot_readers": "7",
		`chainify_votes_total{organisation="cargo",verdict="differs"}`:       "0", // there before its first step
		`chainify_build_info{chain="trade",organisation="acme",version="1"}`: "1",
	})
	db.err = errors.New("gone")
	got := scrape(t, m)
	if _, told := got["chainify_deviations_open"]; told || got["chainify_database_up"] != "0" {
		t.Errorf("a database that is gone tells %q deviations, up is %q", got["chainify_deviations_open"], got["chainify_database_up"])
	}
}

func TestVotesAreJudgedByTheCertificate(t *testing.T) {
	m := newMetrics(nil)
	now := time.Unix(0, 0)
	m.now = func() time.Time { return now }
	block := &wire.OrderedBlock{Number: 7, OrderHash: wire.Hash{1}, IDs: make([]wire.TxID, 3)}
	good, bad := wire.Hash{2}, wire.Hash{3}
	m.Voted("acme", wire.NewEffectsVote(block.Key(), "acme", good)) // before the block is decided
	m.Decided(wire.Decision{Ordered: block})
	m.Decided(wire.Decision{Ordered: block}) // told again after a restart
	m.Voted("cargo", wire.NewEffectsVote(block.Key(), "cargo", bad))
	now = now.Add(100 * time.Millisecond)
	m.Decided(wire.Decision{Certificate: &wire.Certificate{Number: 7, Hash: good, Votes: []wire.CertifiedVote{
		{Organisation: "acme", Extension: wire.NewEffectsVote(block.Key(), "acme", good).Encode()},
		{Organisation: "dust", Extension: wire.NewStuckVote(block.Key(), 1).Encode()},
	}}})
	m.Voted("bolt", wire.NewEffectsVote(block.Key(), "bolt", good)) // late
	m.Voted("bolt", wire.NewEffectsVote(block.Key(), "bolt", bad))  // the first one counts
	expect(t, scrape(t, m), map[string]string{
		`chainify_votes_total{organisation="acme",verdict="agrees"}`: "1", `chainify_votes_total{organisation="bolt",verdict="agrees"}`: "1",
		`chainify_votes_total{organisation="cargo",verdict="differs"}`: "1", `chainify_votes_total{organisation="cargo",verdict="agrees"}`: "0",
		`chainify_votes_total{organisation="bolt",verdict="differs"}`: "0", `chainify_votes_total{organisation="dust",verdict="stuck"}`: "1",
		`chainify_last_agreed_block{organisation="bolt"}`: "7", `chainify_last_agreed_block{organisation="cargo"}`: "",
		"chainify_consent_seconds_sum": "0.1", "chainify_ledger_block_transactions_count": "1", "chainify_ledger_block_transactions_sum": "3",
	})
	m.Decided(wire.Decision{Ordered: &wire.OrderedBlock{Number: 8}})
	m.Voted("acme", wire.NewEffectsVote(wire.Key{Number: 8}, "acme", good)) // of what nobody can judge yet
	judged := m.Judged()
	slices.SortFunc(judged, func(a, b Judged) int { return strings.Compare(a.Organisation, b.Organisation) })
	if want := []Judged{{7, "acme", "agrees"}, {7, "bolt", "agrees"}, {7, "cargo", "differs"}, {7, "dust", "stuck"}}; !slices.Equal(judged, want) {
		t.Errorf("judged %v, want %v", judged, want)
	}
}

// Messages of others must not make a node remember without end.
func TestExecutionsRememberedAreBounded(t *testing.T) {
	m := newMetrics(nil)
	for n := range uint64(10 * executionsKept) {
		m.Voted("cargo", wire.NewEffectsVote(wire.Key{Number: n + 1}, "cargo", wire.Hash{}))
	}
	if n := len(m.agreement.executions); n != executionsKept {
		t.Errorf("%d executions are remembered, want %d", n, executionsKept)
	}
}

// fill makes every metric have a value.
func fill(m *Metrics) {
	m.Bundled(1, 300)
	m.Ordered(time.Millisecond)
	for _, r := range []wire.TxResult{{Block: 1, Succeeded: true}, {Block: 1}, {}} {
		m.Settled(time.Millisecond, r)
	}
	m.Ended("execute", time.Second, effects.Stuck)
	m.Happened(effects.Report{What: effects.RowsRepaired, Rows: 2})
	m.Happened(effects.Report{What: effects.Recovered, TookMS: 250})
	block := &wire.OrderedBlock{Number: 1}
	m.Decided(wire.Decision{Ordered: block})
	m.Voted("acme", wire.NewEffectsVote(block.Key(), "acme", wire.Hash{}))
	m.Decided(wire.Decision{Certificate: &wire.Certificate{Number: 1}})
}

func TestWhatHappensIsCounted(t *testing.T) {
	m := newMetrics(nil)
	fill(m)
	expect(t, scrape(t, m), map[string]string{
		`chainify_transactions_total{outcome="committed"}`: "1", `chainify_transactions_total{outcome="failed"}`: "1",
		`chainify_transactions_total{outcome="refused"}`: "1", "chainify_answer_seconds_count": "3", "chainify_order_seconds_count": "1",
		"chainify_bundle_bytes_sum": "300", "chainify_rows_repaired_total": "2", "chainify_recovery_seconds_sum": "0.25",
		`chainify_operation_failures_total{failure="stuck",operation="execute"}`: "1",
		`chainify_operation_seconds_sum{operation="execute"}`:                    "1",
		`chainify_incidents_total{incident="effects deviate"}`:                   "0",
		`chainify_protocol_version{standing="next"}`:                             "2", `chainify_protocol_known{organisation="bolt"}`: "1", "chainify_protocol_next_height": "9",
	})
}

// Dashboard and alert rules name no metric, state or incident that the node does not tell.
func TestDashboardAndAlertsNameWhatIsTold(t *testing.T) {
	m := newMetrics(&database{})
	fill(m)
	told := map[string]bool{}
	for name := range scrape(t, m) {
		name, _, _ = strings.Cut(name, "{")
		told[name] = true
	}
	named := regexp.MustCompile(`\bchainify_[a-z_]+`)
	label := regexp.MustCompile(`\b(state|incident|verdict|stage|standing|kind)=\\?"([a-z_ ]+)\\?"`)
	values := map[string][]string{
		"state": States, "incident": {string(effects.Deviation)}, "verdict": {string(agrees), string(differs), string(stuck)},
		"stage":    {"ordered", "certified", "committed", "pending", "unordered", "wanted", "serving"},
		"kind":     {"pinned", "recent"},
		"standing": {"standby", "left_behind", "other_primary", "silent", "in_force", "known", "next"},
	}
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		text, err := os.ReadFile("../../helm/chainify/files/" + file)
		must.Do(t, err)
		if strings.HasSuffix(file, ".json") && !json.Valid(text) {
			t.Errorf("%s is not JSON", file)
		}
		names := named.FindAllString(string(text), -1)
		if len(names) < 10 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		for _, name := range names {
			if !told[name] && !told[name+"_count"] {
				t.Errorf("%s names %s, which is not told", file, name)
			}
		}
		for _, l := range label.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(values[l[1]], l[2]) {
				t.Errorf("%s asks for %s %q, which there is not", file, l[1], l[2])
			}
		}
	}
}
