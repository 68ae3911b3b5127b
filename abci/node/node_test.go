package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/backendtest"
	"github.com/chainify-db/chainify/abci/comet/lane"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// runner is a node that a test starts and stops.
type runner struct {
	t       testing.TB
	home    config.Home
	backend func() backend.Backend
	db      *backendtest.Database
	lies    func(abci.Application) abci.Application // nil: it does not
	header  func(*types.LightBlock) *types.LightBlock
	change  func(*config.Config) // after it was read and checked; nil: nothing is changed
	lane    lane.Options
	knows   wire.Protocol // 0: what the program does
	beside  bool          // CometBFT is a process of its own
	log     *lockedBuffer
	cancel  context.CancelFunc
	done    chan error
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// tail is the last lines.
func (b *lockedBuffer) tail(lines int) string {
	all := strings.SplitAfter(b.String(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

func (r *runner) start() {
	r.t.Helper()
	ready := make(chan struct{})
	r.cancel, r.done = r.run(func() { close(ready) })
	select {
	case <-ready:
	case err := <-r.done:
		r.t.Fatalf("the node ended: %v\n%s", err, r.log)
	case <-time.After(5 * time.Minute):
		r.t.Fatalf("the node is not ready in 20 s\n%s", r.log)
	}
}

// run runs the node until it is cancelled, or ends by itself.
func (r *runner) run(ready func()) (cancel context.CancelFunc, done chan error) {
	r.t.Helper()
	c, err := config.Load(string(r.home))
	if err != nil {
		r.t.Fatal(err)
	}
	if r.change != nil {
		r.change(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done = make(chan error, 1)
	opt := Options{
		Home: r.home, Config: c, Version: "test", Ready: ready, Application: r.lies, Header: r.header, Lane: r.lane, Knows: r.knows, Beside: r.beside,
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if r.backend != nil {
		opt.Backend = r.backend()
	}
	go func() { done <- Run(ctx, opt) }()
	return cancel, done
}

func (r *runner) stop() {
	r.t.Helper()
	if r.cancel == nil {
		return
	}
	r.cancel()
	r.cancel = nil
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("the node ended with %v\n%s", err, r.log)
		}
	case <-time.After(5 * time.Minute):
		r.t.Fatalf("the node did not stop in 20 s\n%s", r.log)
	}
}

func (r *runner) dial() *gateway.Client {
	r.t.Helper()
	c, err := gateway.Dial(context.Background(), r.home.Path("node.sock"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// newNetwork makes homes; each node has a database in memory that outlives its restarts.
func newNetwork(t testing.TB, organisations ...string) []*runner {
	t.Helper()
	return newTestnet(t, config.Testnet{Organisations: organisations})
}

// startAll starts the nodes and waits until each is connected with all others and orders; a client
// of each is returned.
func startAll(t testing.TB, nodes []*runner) []*gateway.Client {
	t.Helper()
	clients := make([]*gateway.Client, len(nodes))
	for i, r := range nodes {
		r.start()
		clients[i] = r.dial()
	}
	for i, c := range clients {
		want := "serving"
		if nodes[i].backend == nil {
			want = "ordering_only"
		}
		eventually(t, patience, want+" with all peers", func() bool {
			s, err := c.Status(context.Background())
			return err == nil && s.State == want && int(s.Peers) == len(nodes)-1
		})
	}
	return clients
}

// newTestnet is newNetwork with what is set in n.
func newTestnet(t testing.TB, n config.Testnet) []*runner {
	t.Helper()
	dir, err := os.MkdirTemp("", "chainify-node") // short: a socket's path is bounded
	must.Do(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	n.Dir, n.ChainID, n.Now = dir, "test", time.Now().UTC()
	n.BasePort = freePorts(t, (len(n.Organisations)+len(n.OrderingOnly))*config.PortsPerHome)
	homes, err := n.Create()
	must.Do(t, err)
	runners := make([]*runner, len(homes))
	for i, h := range homes {
		db := backendtest.NewDatabase()
		runners[i] = &runner{t: t, home: h, log: &lockedBuffer{}, db: db}
		if i < len(n.Organisations) {
			runners[i].backend = func() backend.Backend { return backendtest.Open(db, time.Minute) }
		}
		t.Cleanup(runners[i].stop)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the end of the log of %s:\n%s", filepath.Base(string(h)), runners[i].log.tail(40))
			}
		})
	}
	return runners
}

// patience is how long something may take that happens at once on a quiet machine.
const patience = 5 * time.Minute

func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in %s", what, limit)
		}
	}
}

func sql(text string) *wire.Statement { return &wire.Statement{Kind: wire.Kind_KIND_SQL, Sql: text} }

// execute submits and waits, as chainify.execute does.
func execute(t testing.TB, c *gateway.Client, text string) *wire.Outcome {
	t.Helper()
	ids, err := c.Submit(context.Background(), "bank", sql(text))
	must.Do(t, err)
	out, err := c.Wait(context.Background(), uint32(patience.Milliseconds()), ids...)
	if err != nil || len(out) != 1 {
		t.Fatalf("outcomes %v, %v", out, err)
	}
	return out[0]
}

func TestSingleNodeCommitsAndRestarts(t *testing.T) {
	r := newNetwork(t, "acme")[0]
	r.start()
	c := r.dial()
	first := execute(t, c, "INSERT INTO t VALUES (1)")
	if !first.Succeeded || first.Block != 1 {
		t.Fatalf("outcome %v", first)
	}
	second := execute(t, c, "INSERT INTO t VALUES (2)")
	if second.Block != 2 {
		t.Fatalf("outcome %v", second)
	}
	s, err := c.Status(context.Background())
	if err != nil || s.State != "serving" || s.LastCommitted != 2 || s.Organisation != "acme" || s.Consent != 1 {
		t.Fatalf("status %v, %v", s, err)
	}
	checkHTTP(t, r)
	height := quiet(t, c)
	r.stop()
	if _, err := os.Stat(r.home.Path("node.sock")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the socket is left")
	}
	if log := r.log.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("errors in the log:\n%s", log)
	}

	r.start()
	c = r.dial()
	out, err := c.Wait(context.Background(), 5_000, first.Id)
	if err != nil || len(out) != 1 || out[0].Block != 1 || !out[0].Succeeded {
		t.Fatalf("the outcome after a restart: %v, %v", out, err)
	}
	if third := execute(t, c, "INSERT INTO t VALUES (3)"); third.Block != 3 {
		t.Fatalf("outcome %v", third)
	}
	if s, err := c.Status(context.Background()); err != nil || s.Height <= height {
		t.Fatalf("status %v, %v", s, err)
	}
}

// quiet asserts that a network without transactions makes no blocks, and returns the height.
func quiet(t *testing.T, c *gateway.Client) int64 {
	t.Helper()
	var last int64
	since := time.Now()
	eventually(t, patience, "quiet network", func() bool {
		s, err := c.Status(context.Background())
		must.Do(t, err)
		if s.Height != last {
			last, since = s.Height, time.Now()
		}
		return time.Since(since) > 500*time.Millisecond
	})
	return last
}

func checkHTTP(t *testing.T, r *runner) {
	t.Helper()
	c, err := config.Load(string(r.home))
	must.Do(t, err)
	for path, want := range map[string]string{
		"/healthz": `"ok":true`, "/v1/status": `"last_committed":2`, "/v1/blocks/1": `"ledger_block_hash":"`,
	} {
		eventually(t, 10*time.Second, path, func() bool { // the certificate comes one block later
			res, err := http.Get("http://" + c.HTTP.Listen + path)
			must.Do(t, err)
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			return err == nil && strings.Contains(string(body), want)
		})
	}
}

func TestFourNodesAgreeAndSurviveOne(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	clients := startAll(t, nodes)
	var ids [][]byte
	var mu sync.Mutex
	var load sync.WaitGroup
	for i, c := range clients {
		load.Add(1)
		go func() {
			defer load.Done()
			for n := range 5 {
				o := execute(t, c, fmt.Sprintf("UPDATE t SET x = %d WHERE id = %d", n, i))
				mu.Lock()
				ids = append(ids, o.Id)
				mu.Unlock()
			}
		}()
	}
	load.Wait()
	nodes[3].stop()
	more := execute(t, clients[0], "UPDATE t SET x = 7")
	nodes[2].stop() // two of four: nothing can be ordered
	stuck, err := clients[0].Submit(context.Background(), "bank", sql("UPDATE t SET x = 8"))
	must.Do(t, err)
	eventually(t, patience, "57P03 without quorum", func() bool {
		_, err := clients[0].Submit(context.Background(), "bank", sql("UPDATE t SET x = 9"))
		var e *gateway.Error
		return errors.As(err, &e) && e.SQLState == gateway.StateCannotOrder
	})
	nodes[2].start()
	nodes[3].start()
	clients[2], clients[3] = nodes[2].dial(), nodes[3].dial()
	out, err := clients[0].Wait(context.Background(), uint32(patience.Milliseconds()), stuck...)
	if err != nil || len(out) != 1 || !out[0].Succeeded {
		t.Fatalf("the transaction that waited for the quorum: %v, %v", out, err)
	}
	ids = append(ids, more.Id, stuck[0])
	for i, c := range clients {
		got, err := c.Wait(context.Background(), uint32(patience.Milliseconds()), ids...)
		if err != nil || len(got) != len(ids) {
			t.Fatalf("node %d knows %d of %d outcomes: %v", i, len(got), len(ids), err)
		}
		for _, o := range got {
			if !o.Succeeded {
				t.Errorf("node %d: outcome %v", i, o)
			}
		}
	}
}

// Three organisations and a validator without a database order on when one organisation is away,
// and with c = 2 they certify too. The validator takes no transaction and knows no outcome.
func TestThreeOrganisationsAndAnOrderingOnlyValidatorSurviveOne(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	nodes := newTestnet(t, config.Testnet{Organisations: []string{"acme", "bolt", "cargo"}, OrderingOnly: []string{"notary"}, Consent: 2})
	clients := startAll(t, nodes)
	for _, c := range clients {
		if s := status(t, c); s.Organisations != 3 || s.Consent != 2 {
			t.Fatalf("status %v, want consent of 2 of 3 organisations", s)
		}
	}
	execute(t, clients[0], "UPDATE t SET x = 1")
	nodes[2].stop()
	last := execute(t, clients[1], "UPDATE t SET x = 2")
	if !last.Succeeded {
		t.Fatalf("outcome %v", last)
	}
	eventually(t, patience, "the validator sees it certified", func() bool {
		s, err := clients[3].Status(context.Background())
		return err == nil && s.LastCertified == last.Block
	})
	_, err := clients[3].Submit(context.Background(), "bank", sql("UPDATE t SET x = 3"))
	var refused *gateway.Error
	if !errors.As(err, &refused) || refused.SQLState != gateway.StateUnsupported {
		t.Fatalf("submission at the validator: %v", err)
	}
	nodes[2].start()
	if out, err := nodes[2].dial().Wait(context.Background(), uint32(patience.Milliseconds()), last.Id); err != nil || len(out) != 1 || !out[0].Succeeded {
		t.Fatalf("the organisation that was away: %v, %v", out, err)
	}
}

// From two thirds to All and back, through the order: c holds for blocks ordered once the change is
// in force.
func TestConsentPolicyChangesThroughTheOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	clients := startAll(t, nodes)
	execute(t, clients[1], "SELECT 1")
	consent := func(c uint32) *wire.GovernanceAction {
		return &wire.GovernanceAction{Body: &wire.GovernanceAction_Consent{Consent: c}}
	}
	var refused *gateway.Error
	if err := govern(t, clients[1], 1, nodes[:2], consent(4)); !errors.As(err, &refused) || refused.SQLState != gateway.StateRefused {
		t.Fatalf("two approvals of four: %v", err)
	}
	inForce := func(consent uint32) {
		t.Helper()
		eventually(t, patience, fmt.Sprintf("consent %d is in force", consent), func() bool {
			return status(t, clients[0]).Consent == consent
		})
	}
	must.Do(t, govern(t, clients[1], 1, []*runner{nodes[0], nodes[1], nodes[3]}, consent(4)))
	inForce(4)
	nodes[3].stop() // with All, blocks wait for the one that is away
	ids, err := clients[0].Submit(context.Background(), "bank", sql("SELECT 3"))
	must.Do(t, err)
	eventually(t, patience, "ordered", func() bool { s := status(t, clients[0]); return s.LastOrdered == s.LastCertified+1 })
	if out, err := clients[0].Wait(context.Background(), 700, ids...); err != nil || len(out) != 0 {
		t.Fatalf("with All and one away: %v, %v", out, err)
	}
	if err := govern(t, clients[1], 2, nodes[:3], consent(3)); err != nil { // accepted while the block waits, which keeps its c
		t.Fatal(err)
	}
	eventually(t, patience, "accepted", func() bool { s := status(t, clients[0]); return s.Changes == 2 && s.ChangeWaits })
	nodes[3].start()
	clients[3] = nodes[3].dial()
	if out, err := clients[0].Wait(context.Background(), uint32(patience.Milliseconds()), ids...); err != nil || len(out) != 1 || !out[0].Succeeded {
		t.Fatalf("when it is back: %v, %v", out, err)
	}
	inForce(3)
	nodes[3].stop()
	if o := execute(t, clients[0], "SELECT 4"); !o.Succeeded {
		t.Fatalf("with two thirds again and one away: %v", o)
	}
	nodes[3].start()
	if s := status(t, nodes[3].dial()); s.Consent != 3 || s.Changes != 2 {
		t.Errorf("after a restart: %v", s)
	}
}

// govern submits a change that these nodes' organisations approve.
func govern(t *testing.T, client *gateway.Client, sequence uint64, signers []*runner, actions ...*wire.GovernanceAction) error {
	t.Helper()
	return submitChange(t, client, wire.Encode(&wire.GovernanceChange{ChainId: "test", Sequence: sequence, Actions: actions}), signers)
}

func organisationOf(r *runner) string { return filepath.Base(string(r.home)) }

func status(t testing.TB, c *gateway.Client) *wire.StatusResponse {
	t.Helper()
	s, err := c.Status(context.Background())
	must.Do(t, err)
	return s
}

// Two organisations against two have other effects of one transaction, for good: that one is
// quarantined, the others of its block are committed, and so is what comes later.
func TestATransactionWithDifferingEffectsIsQuarantinedAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	for _, r := range nodes[2:] {
		r.db.Differ("fee()")
	}
	clients := startAll(t, nodes)
	execute(t, clients[0], "SELECT 1")
	ids, err := clients[0].Submit(context.Background(), "bank", sql("UPDATE t SET x = 1"), sql("UPDATE t SET x = fee()"), sql("UPDATE t SET x = 3"))
	must.Do(t, err)
	for i, c := range clients {
		out, err := c.Wait(context.Background(), 30_000, ids...)
		if err != nil || len(out) != 3 {
			t.Fatalf("node %d: %v, %v", i, out, err)
		}
		if !out[0].Succeeded || out[1].Succeeded || out[1].Sqlstate != "CH001" || !out[2].Succeeded {
			t.Errorf("node %d: outcomes %v", i, out)
		}
	}
	if o := execute(t, clients[3], "SELECT 2"); !o.Succeeded {
		t.Errorf("the next block: %v", o)
	}
}

func TestAnOrderingOnlyOrganisationHasNoDatabase(t *testing.T) {
	nodes := newTestnet(t, config.Testnet{Organisations: []string{"acme"}, OrderingOnly: []string{"notary"}})
	c, err := config.Load(string(nodes[1].home))
	must.Do(t, err)
	for want, dsn := range map[string]string{"database.dsn must be empty": "dbname=x"} {
		c.Database.DSN = dsn
		if err := Run(context.Background(), Options{Home: nodes[1].home, Config: c, Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// The database answers slowly: a node that is told to stop finishes the block and tells its client.
func TestStopFinishesTheOpenBlock(t *testing.T) {
	r := newNetwork(t, "acme")[0]
	r.start()
	c := r.dial()
	execute(t, c, "SELECT 1")
	r.db.Delay(1500 * time.Millisecond) // longer than a precommit waits: the block is decided before it is executed
	ids, err := c.Submit(context.Background(), "bank", sql("UPDATE t SET x = 1"))
	must.Do(t, err)
	answered := make(chan string, 1)
	go func() {
		out, err := c.Wait(context.Background(), uint32(patience.Milliseconds()), ids...)
		answered <- fmt.Sprint(len(out), err)
	}()
	status := r.dial()
	eventually(t, 10*time.Second, "second block ordered", func() bool {
		s, err := status.Status(context.Background())
		return err == nil && s.LastOrdered == 2
	})
	r.stop()
	if got := <-answered; got != "1 <nil>" {
		t.Errorf("the waiting client got %s", got)
	}
	if n := len(r.db.Hashes()); n != 2 {
		t.Errorf("%d blocks committed, want 2", n)
	}
}

// The database does not come to an end: the node stops all the same, within its bound, and executes
// again later.
func TestStopDoesNotWaitForEver(t *testing.T) {
	r := newNetwork(t, "acme")[0]
	r.start()
	r.db.Delay(time.Hour)
	c := r.dial()
	if _, err := c.Submit(context.Background(), "bank", sql("UPDATE t SET x = 1")); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "block ordered", func() bool {
		s, err := c.Status(context.Background())
		return err == nil && s.LastOrdered == 1
	})
	r.stop()
	if n := len(r.db.Hashes()); n != 0 {
		t.Fatalf("%d blocks committed", n)
	}
	r.db.Delay(0)
	r.start()
	eventually(t, 10*time.Second, "block executed after the restart", func() bool { return len(r.db.Hashes()) == 1 })
}

func TestDatabaseDownAtStartAndAnswersLost(t *testing.T) {
	r := newNetwork(t, "acme")[0]
	edit(t, r, "validity_blocks = 1000", "validity_blocks = 5")
	r.db.Down(true)
	r.start()
	c := r.dial()
	if s, err := c.Status(context.Background()); err != nil || s.State != "database_down" {
		t.Fatalf("status %v, %v", s, err)
	}
	ids, err := c.Submit(context.Background(), "bank", sql("UPDATE t SET x = 1"))
	must.Do(t, err)
	// Far beyond its validity: what is ordered does not expire.
	eventually(t, patience, "ordering without a database", func() bool {
		s, err := c.Status(context.Background())
		return err == nil && s.LastOrdered == 1 && s.Height > 12
	})
	r.db.LoseCommit()
	r.db.Down(false)
	out, err := c.Wait(context.Background(), uint32(patience.Milliseconds()), ids...)
	if err != nil || len(out) != 1 || !out[0].Succeeded {
		t.Fatalf("outcomes %v, %v", out, err)
	}
}

func TestStartRefusals(t *testing.T) {
	try := func(name, want string, change func(*runner)) {
		r := newNetwork(t, "acme")[0]
		change(r)
		c, err := config.Load(string(r.home))
		if err == nil {
			err = Run(context.Background(), Options{
				Home: r.home, Config: c, Log: slog.New(slog.DiscardHandler), Backend: r.backend(),
			})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	try("no genesis", "genesis.json", func(r *runner) { os.Remove(r.home.Genesis()) })
	try("no validator key", "validator key", func(r *runner) { os.Remove(r.home.Path("config", "priv_validator_key.json")) })
	try("no gateway key", "gateway_key.json", func(r *runner) { os.Remove(r.home.Path("config", "gateway_key.json")) })
	try("another organisation", `organisation "zebra" of chainify.toml: the keys are those of "acme"`, func(r *runner) { edit(t, r, `"acme"`, `"zebra"`) })
	try("open tokens", "others could read", func(r *runner) {
		must.Do(t, os.WriteFile(r.home.Path("config", "tokens.json"), nil, 0o644))
	})
	try("socket in the way", "is not a socket", func(r *runner) {
		must.Do(t, os.WriteFile(r.home.Path("node.sock"), nil, 0o600))
	})
}

func edit(t *testing.T, r *runner, from, to string) {
	t.Helper()
	path := filepath.Join(string(r.home), config.FileName)
	text, err := os.ReadFile(path)
	must.Do(t, err)
	if !strings.Contains(string(text), from) {
		t.Fatalf("%s has no %s", path, from)
	}
	must.Do(t, os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600))
}

// A second node on one home must not start: two validators with one key would sign against each
// other.
func TestSecondNodeOnAHomeIsRefused(t *testing.T) {
	r := newNetwork(t, "acme")[0]
	r.start()
	c, err := config.Load(string(r.home))
	must.Do(t, err)
	err = Run(context.Background(), Options{Home: r.home, Config: c, Log: slog.New(slog.DiscardHandler), Backend: r.backend()})
	if err == nil || !strings.Contains(err.Error(), "another node") {
		t.Fatalf("error %v", err)
	}
}
