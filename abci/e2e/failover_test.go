package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// failoverTarget is how long it takes at most on a quiet machine from the primary's kill to the
// organisation's next committed block. A longer time is told, and fails no test.
const failoverTarget = 15 * time.Second

// clients submit deposits at an organisation, one after the other each, and keep what was answered.
type clients struct {
	mu       sync.Mutex
	answered []string // ids of transactions that succeeded
	cancel   context.CancelFunc
	work     sync.WaitGroup
}

// startClients has n clients at each organisation. They connect to the server that takes changes,
// again after each error.
func startClients(ctx context.Context, net *harness.Network, n int) *clients {
	ctx, cancel := context.WithCancel(ctx)
	c := &clients{cancel: cancel}
	for _, o := range net.Organisations {
		dsn := o.ServersDSN("bank") + " target_session_attrs=read-write connect_timeout=2"
		for i := range n {
			c.work.Go(func() {
				for ctx.Err() == nil {
					c.session(ctx, dsn, i+1)
				}
			})
		}
	}
	return c
}

// session submits until something fails.
func (c *clients) session(ctx context.Context, dsn string, customer int) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		var id []byte
		var succeeded *bool
		err := conn.QueryRow(ctx, fmt.Sprintf("SELECT id, outcome FROM chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = %d')", customer)).Scan(&id, &succeeded)
		if err != nil {
			return
		}
		if succeeded != nil && *succeeded {
			c.mu.Lock()
			c.answered = append(c.answered, hex.EncodeToString(id))
			c.mu.Unlock()
		}
	}
}

func (c *clients) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.answered)
}

// stop ends the clients and returns the ids of all that was answered.
func (c *clients) stop() []string {
	c.cancel()
	c.work.Wait()
	return c.answered
}

// more waits until so many further transactions were answered.
func (c *clients) more(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	want := c.count() + n
	must(t, harness.Poll(ctx, progressLimit, "answers", func(context.Context) (bool, string, error) {
		got := c.count()
		return got >= want, fmt.Sprintf("%d of %d", got, want), nil
	}))
}

// withStandby makes a network whose first organisation has a primary and a standby.
func withStandby(ctx context.Context, t *testing.T) (net *harness.Network, o *harness.Organisation, standby *harness.Cluster) {
	t.Helper()
	net = newNetwork(ctx, t)
	o = net.Organisations[0]
	standby, err := o.AddStandby(ctx)
	must(t, err)
	must(t, o.StopNode())
	must(t, o.StartNode())
	must(t, o.WaitServing(ctx, readyLimit))
	standbyHas(ctx, t, o, standby)
	return net, o, standby
}

// standbyHas waits until the standby shows the organisation's last block.
func standbyHas(ctx context.Context, t *testing.T, o *harness.Organisation, standby *harness.Cluster) {
	t.Helper()
	want, err := o.Tip(ctx)
	must(t, err)
	must(t, harness.Poll(ctx, catchUpLimit, "standby has block "+fmt.Sprint(want.Number), func(ctx context.Context) (bool, string, error) {
		var at uint64
		if err := o.ScanStandby(ctx, standby, "SELECT coalesce(max(number), 0) FROM chainify.ledger", &at); err != nil {
			return false, err.Error(), nil
		}
		return at >= want.Number, fmt.Sprintf("at %d", at), nil
	}))
}

// allThere fails the test when an organisation lacks a transaction that was answered, or has it
// twice.
func allThere(ctx context.Context, t *testing.T, net *harness.Network, answered []string) {
	t.Helper()
	for _, o := range net.Organisations {
		var have int
		must(t, o.Scan(ctx, fmt.Sprintf("SELECT count(*) FROM chainify.transactions WHERE outcome AND encode(id, 'hex') = ANY('{%s}')", strings.Join(answered, ",")), &have))
		if have != len(answered) {
			t.Errorf("%s has %d of %d transactions that were answered", o.Name, have, len(answered))
		}
	}
}

// failOver ends the primary at once and promotes the standby. It returns the time to the
// organisation's next committed block.
func failOver(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation, standby *harness.Cluster) time.Duration {
	t.Helper()
	others := others(net, o)
	began := time.Now()
	must(t, o.Cluster.StopNow())
	must(t, o.PromoteTo(ctx, standby))
	want, err := others[0].Tip(ctx)
	must(t, err)
	reaches(ctx, t, o, want.Number+1, progressLimit)
	return time.Since(began)
}

// nodeSays waits until the node's log has a text.
func nodeSays(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation, text string) {
	t.Helper()
	path := filepath.Join(net.Dir, o.Name, "node.log")
	must(t, harness.Poll(ctx, progressLimit, fmt.Sprintf("%q in the log of %s", text, o.Name), func(context.Context) (bool, string, error) {
		log, err := os.ReadFile(path)
		return strings.Contains(string(log), text), "", err
	}))
}

// failovers is how often the primary dies in the test: CHAINIFY_FAILOVERS, or twice.
func failovers(t *testing.T) int {
	t.Helper()
	text := os.Getenv("CHAINIFY_FAILOVERS")
	if text == "" {
		return 2
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// The primary of one organisation dies under load, and the operator promotes its standby. The
// organisation goes on there, and every answered transaction is there. The node refuses the old
// primary when it starts again. Rewound it follows as a standby, and takes over in turn.
func TestAPromotedStandbyGoesOn(t *testing.T) {
	t.Parallel()
	runs := failovers(t)
	ctx := underTestFor(t, testLimit+time.Duration(runs)*time.Minute)
	net, acme, standby := withStandby(ctx, t)
	load := startClients(ctx, net, 2)
	load.more(ctx, t, 50)
	var times []time.Duration
	for run := range runs {
		old := acme.Cluster
		took := failOver(ctx, t, net, acme, standby)
		t.Logf("run %d: from the primary's end to the next block %s", run+1, took.Round(10*time.Millisecond))
		times = append(times, took)
		load.more(ctx, t, 50)
		if run == 0 {
			refusesTheOther(ctx, t, net, acme, old)
			load.more(ctx, t, 50)
		}
		must(t, old.Rewind(ctx, acme.Cluster))
		must(t, old.Start(ctx))
		standbyHas(ctx, t, acme, old)
		standby = old
	}
	answered := load.stop()
	waitSame(ctx, t, net.Organisations, 1)
	allThere(ctx, t, net, answered)
	checkVerified(ctx, t, acme)
	checkSameTransactions(ctx, t, net)
	slices.Sort(times)
	t.Logf("%d failovers, %d answers: median %s, longest %s", runs, len(answered), times[runs/2].Round(10*time.Millisecond), times[runs-1].Round(10*time.Millisecond))
	if times[runs-1] > failoverTarget {
		t.Logf("the longest took %s, on a quiet machine at most %s", times[runs-1], failoverTarget)
	}
}

// refusesTheOther starts the old primary again, beside the new one. The node works on the new one
// alone, also when that is away for a moment. It tells the old one, where no session submits then.
func refusesTheOther(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation, old *harness.Cluster) {
	t.Helper()
	must(t, old.Start(ctx))
	must(t, o.Cluster.StopNow())
	nodeSays(ctx, t, net, o, "the server was left behind")
	must(t, o.Cluster.Start(ctx))
	must(t, harness.Poll(ctx, progressLimit, "the old primary is told", func(ctx context.Context) (bool, string, error) {
		var stale bool
		err := o.ScanStandby(ctx, old, "SELECT stale FROM chainify.status", &stale)
		return stale && err == nil, fmt.Sprint(err), nil
	}))
	var doctor string
	must(t, harness.Poll(ctx, progressLimit, "the doctor's finding", func(ctx context.Context) (bool, string, error) {
		doctor, _ = o.Run(ctx, "doctor")
		return strings.Contains(doctor, "there are several primaries"), doctor, nil
	}))
	bank, err := old.Connect(ctx, database, "bank")
	must(t, err)
	defer bank.Close(ctx)
	_, err = bank.Exec(ctx, "SELECT chainify.submit('UPDATE checking SET balance = 0 WHERE custid = 1')")
	if err == nil || !strings.Contains(err.Error(), "follows another server") {
		t.Errorf("a session of the old primary submits: %v", err)
	}
	must(t, bank.Close(ctx))
	must(t, old.Stop())
}

// A promoted standby may lack blocks. The node executes them again from its block store, and every
// answered transaction is there. When the new primary dies as well, the operator can have the node
// go on with the old one, which it refuses until then.
func TestAStandbyThatIsBehindGetsWhatItLacks(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net, acme, standby := withStandby(ctx, t)
	old := acme.Cluster
	must(t, standby.Stop()) // nothing reaches it
	load := startClients(ctx, net, 2)
	load.more(ctx, t, 100)
	must(t, acme.Cluster.StopNow())
	had, err := others(net, acme)[0].Tip(ctx)
	must(t, err)
	must(t, standby.Start(ctx))
	var behind uint64
	must(t, acme.ScanStandby(ctx, standby, "SELECT coalesce(max(number), 0) FROM chainify.ledger", &behind))
	if behind+5 > had.Number {
		t.Fatalf("the standby is at block %d of %d: it lacks too little for this test", behind, had.Number)
	}
	must(t, acme.PromoteTo(ctx, standby))
	reaches(ctx, t, acme, had.Number+1, progressLimit)
	load.more(ctx, t, 50)

	must(t, acme.Cluster.StopNow())
	acme.GoOnWith(old)
	must(t, old.Start(ctx))
	nodeSays(ctx, t, net, acme, "the server was left behind")
	must(t, acme.StopNode())
	printed, err := acme.Run(ctx, "accept-server")
	must(t, err)
	if !strings.Contains(printed, fmt.Sprintf("so far the node followed %s:%d, since epoch 2", standby.SocketDir, standby.Port)) {
		t.Errorf("accept-server prints %q", printed)
	}
	must(t, acme.StartNode())
	must(t, acme.WaitServing(ctx, readyLimit))
	load.more(ctx, t, 50)
	answered := load.stop()
	waitSame(ctx, t, net.Organisations, 1)
	t.Logf("blocks that the standby lacked: %d", had.Number-behind)
	allThere(ctx, t, net, answered)
	checkVerified(ctx, t, acme)
	checkSameTransactions(ctx, t, net)
}

// readings are queries that a standby answers as the primary does, by the role that asks.
var readings = map[string][]string{
	"dba": {
		"SELECT count(*)::text FROM chainify.verify_ledger()",
		"SELECT count(*)::text FROM chainify.verify_table('checking')",
		"SELECT count(*)::text FROM chainify.verify(chainify.digest())",
		"SELECT chainify.digest()::text",
		"SELECT chainify.receipt(id)::text FROM chainify.transactions WHERE outcome ORDER BY block DESC, index LIMIT 1",
		"SELECT chainify.receipt('checking', 1)::text",
		"SELECT string_agg(h::text, ';') FROM chainify.history('checking', 1) h",
		"SELECT string_agg(c::text, ';' ORDER BY custid) FROM chainify.as_of(NULL::checking, 2) c",
		"SELECT string_agg(c::text, ';' ORDER BY custid) FROM chainify_history.checking_as_of c",
		"SELECT string_agg(encode(chainify.row_hash(c), 'hex'), ';' ORDER BY custid) FROM checking c",
		"SELECT chainify.read_block()::text",
		"SELECT string_agg(concat_ws(' ', last_block, encode(last_hash, 'hex'), state, stale), ';') FROM chainify.status",
		"SELECT string_agg(l::text, ';') FROM chainify.ledger l",
		"SELECT string_agg(concat_ws(' ', t.block, t.index, t.id, t.organisation, t.role, t.sql, t.outcome), ';') FROM chainify.transactions t",
		"SELECT string_agg(concat_ws(' ', t.name, t.rows, t.state), ';') FROM chainify.tables t",
		"SELECT count(*)::text FROM chainify.deviations",
		"SELECT string_agg(o::text, ';') FROM chainify.organisations o",
		"SELECT string_agg(c::text, ';') FROM chainify.checkpoints c",
		"SELECT string_agg(d::text, ';') FROM chainify.definitions d",
		"SELECT string_agg(s::text, ';') FROM chainify.settings s",
		"SELECT string_agg(s::text, ';') FROM chainify.sequences s",
		"SELECT string_agg(p::text, ';') FROM chainify.policies p",
		"SELECT count(*)::text FROM chainify.planned",
		"SELECT string_agg(s::text, ';') FROM chainify.state_parts s",
		"SELECT string_agg(s::text, ';') FROM chainify.state_parts_at(2) s",
		"SELECT chainify.explain_block(max(number)) FROM chainify.ledger",
		"SELECT count(*)::text FROM chainify.mirrored_tables",
	},
	"bank": {
		"SELECT sum(balance)::text FROM checking",
		"SELECT string_agg(a::text, ';') FROM chainify.analyze('UPDATE checking SET balance = 1 WHERE custid = 1') a",
		"SELECT string_agg(a::text, ';') FROM chainify.access('UPDATE checking SET balance = 1 WHERE custid = 1') a",
	},
	harness.NodeRole: {
		"SELECT concat_ws(' ', epoch, mark, system_identifier, timeline, last_block) FROM chainify_node.server()",
		"SELECT string_agg(p::text, ';') FROM chainify_node.position() p",
		"SELECT chainify_node.has_policies()::text",
	},
}

// A standby in recovery serves reads, status, verification, receipts and the explorer, with the
// primary's answers. It submits nothing.
func TestAStandbyServesReads(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net, acme, standby := withStandby(ctx, t)
	deposits(ctx, t, acme, 3)
	waitSame(ctx, t, net.Organisations, 1)
	must(t, harness.Poll(ctx, catchUpLimit, "the last certificate on the standby", func(ctx context.Context) (bool, string, error) {
		var all bool
		err := acme.ScanStandby(ctx, standby, "SELECT bool_and(certified) FROM chainify.ledger", &all)
		return all && err == nil, fmt.Sprint(err), nil
	}))
	standbyHas(ctx, t, acme, standby)
	for role, queries := range readings {
		one, err := acme.Cluster.Connect(ctx, database, role)
		must(t, err)
		defer one.Close(ctx)
		two, err := standby.Connect(ctx, database, role)
		must(t, err)
		defer two.Close(ctx)
		for _, sql := range queries {
			var want, got *string
			must(t, one.QueryRow(ctx, sql).Scan(&want))
			if err := two.QueryRow(ctx, sql).Scan(&got); err != nil {
				t.Errorf("%s as %s: %v", sql, role, err)
			} else if want == nil != (got == nil) || want != nil && *want != *got {
				t.Errorf("%s: %.200q, on the primary %.200q", sql, shown(got), shown(want))
			}
		}
	}
	bank, err := standby.Connect(ctx, database, "bank")
	must(t, err)
	defer bank.Close(ctx)
	if _, err := bank.Exec(ctx, "UPDATE checking SET balance = balance + 1 WHERE custid = 1"); err == nil {
		t.Error("the standby takes a change")
	}
	explorerReads(ctx, t, acme, standby)
}

// explorerReads starts the node with an explorer that reads from the standby.
func explorerReads(ctx context.Context, t *testing.T, o *harness.Organisation, standby *harness.Cluster) {
	t.Helper()
	must(t, o.StopNode())
	path := filepath.Join(o.Home(), "chainify.toml")
	text, err := os.ReadFile(path)
	must(t, err)
	reads := strings.Replace(string(text), `dsn = ""`, fmt.Sprintf("dsn = %q", standby.DSN(database, "dba")), 1)
	if reads == string(text) {
		t.Fatal("the configuration has no empty dsn of the explorer")
	}
	must(t, os.WriteFile(path, []byte(reads), 0o600))
	port, err := harness.FreePorts(1)
	must(t, err)
	o.Explorer = fmt.Sprintf("127.0.0.1:%d", port)
	must(t, o.StartNode())
	must(t, o.WaitServing(ctx, readyLimit))
	var block, id string
	must(t, o.Scan(ctx, "SELECT block::text, encode(id, 'hex') FROM chainify.transactions WHERE outcome ORDER BY block DESC LIMIT 1", &block, &id))
	for _, page := range []string{"", "live", "blocks", "blocks/" + block, "transactions/" + id, "rows?table=checking&key=1", "deviations", "analytics", "receipts/" + id} {
		must(t, harness.Poll(ctx, progressLimit, "/"+page+" of the explorer", func(ctx context.Context) (bool, string, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.Explorer+"/"+page, nil)
			if err != nil {
				return false, "", err
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return false, err.Error(), nil // it does not listen yet
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
			return answer.StatusCode == http.StatusOK && err == nil, fmt.Sprintf("%s: %.300s", answer.Status, body), nil
		}))
	}
}

func shown(s *string) string {
	if s == nil {
		return "NULL"
	}
	return *s
}
