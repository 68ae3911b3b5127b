package node

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/config"
)

// told asks a node for its metrics and looks for one of some lines.
func (r *runner) told(lines ...string) bool {
	r.t.Helper()
	c, err := config.Load(string(r.home))
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := http.Get("http://" + c.Metrics.Listen + "/metrics")
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		r.t.Fatalf("code %d, %v: %s", res.StatusCode, err, text)
	}
	return slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool { return slices.Contains(lines, line) })
}

func TestMetricsShowWhoDeviated(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	clients := startAll(t, nodes)
	execute(t, clients[0], "UPDATE t SET x = 1")
	// The client is answered when its own organisation has the block.
	eventually(t, patience, "delta has block 1", func() bool { return nodes[3].told(`chainify_ledger_blocks{stage="committed"} 1`) })
	nodes[3].db.Tamper("a row")
	for _, n := range nodes[:3] {
		n.db.Delay(time.Second) // a vote that comes after the certificate goes unseen: here delta's comes first
	}
	execute(t, clients[0], "UPDATE t SET x = 2")
	for _, want := range []struct {
		at   *runner
		line string
	}{
		{nodes[0], `chainify_votes_total{organisation="delta",verdict="differs"} 1`},
		{nodes[0], `chainify_votes_total{organisation="acme",verdict="agrees"} 2`},
		{nodes[0], `chainify_transactions_total{outcome="committed"} 2`},
		{nodes[0], `chainify_answer_seconds_count 2`},
		{nodes[0], `chainify_ledger_blocks{stage="certified"} 2`},
		{nodes[0], `chainify_incidents_total{incident="effects deviate"} 0`},
		{nodes[3], `chainify_incidents_total{incident="effects deviate"} 1`},
		{nodes[3], `chainify_incidents_total{incident="deviation cured"} 1`},
		{nodes[3], `chainify_state{state="serving"} 1`},
		{nodes[0], `chainify_lane_dropped_total 0`},
	} {
		eventually(t, patience, organisationOf(want.at)+": "+want.line, func() bool { return want.at.told(want.line) })
	}
	const bolt = `chainify_votes_total{organisation="bolt",verdict="agrees"} `
	eventually(t, patience, bolt, func() bool { return nodes[0].told(bolt+"1", bolt+"2") }) // block 1 was certified by any three
}
