package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/wire"
)

// The tutorial does what it says; and a gateway that leaves agreements out or makes them up gets
// nothing through, anywhere.
func TestTutorialTrades(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	network := newNetwork(ctx, t)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "tutorial-trades.md"))
	must(t, err)
	blocks := regexp.MustCompile("(?s)```sql\n-- (.*?) as (.*?)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 10 {
		t.Fatalf("the tutorial has %d blocks", len(blocks))
	}
	for _, b := range blocks {
		where, role, sql := b[1], b[2], b[3]
		if where == "every organisation" {
			must(t, network.Each(func(o *harness.Organisation) error { return o.Exec(ctx, role, sql) }))
			continue
		}
		runBlock(ctx, t, network.Organisation(where), role, sql)
		// A member that is asked answers from its own database, which may be a block behind.
		tip, err := network.Organisation(where).Tip(ctx)
		must(t, err)
		waitSame(ctx, t, network.Organisations, tip.Number)
	}
	signTrades(ctx, t, network.Organisation("acme"))
	plainTrades(ctx, t, network)
	forge(ctx, t, network.Organisation("acme"))
	waitSame(ctx, t, network.Organisations, 1)
	for _, o := range network.Organisations {
		var trades, failed int
		must(t, o.Scan(ctx, "SELECT count(*) FROM trades", &trades))
		must(t, o.Scan(ctx, "SELECT count(*) FROM chainify.transactions WHERE sql LIKE '%forged%' AND NOT outcome AND sqlstate = 'CH009'", &failed))
		if trades != 3 || failed != 2 {
			t.Errorf("%s: %d trades, want 3; %d forged transactions failed, want 2", o.Name, trades, failed)
		}
		checkVerified(ctx, t, o)
	}
	checkSameTransactions(ctx, t, network)
	pagesSay(ctx, t, network.Organisation("acme"), map[string][]string{
		"/":                             {"No deviation found", "acme", "bolt", "cargo", "delta", "public.trades"},
		"/rows?table=trades&key=1":      {"public.trades / 1", "<strong>acme</strong>", "inserted"},
		"/receipts?table=public.trades": {"key values"},
	})
}

// pagesSay looks at the explorer's pages of a node that is started again with them.
func pagesSay(ctx context.Context, t *testing.T, o *harness.Organisation, pages map[string][]string) {
	t.Helper()
	port, err := harness.FreePorts(1)
	must(t, err)
	o.Explorer = fmt.Sprintf("127.0.0.1:%d", port)
	must(t, o.StopNode())
	must(t, o.StartNode())
	for path, says := range pages {
		must(t, harness.Poll(ctx, progressLimit, "the page "+path, func(context.Context) (bool, string, error) {
			res, err := http.Get("http://" + o.Explorer + path)
			if err != nil {
				return false, err.Error(), nil
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			for _, want := range says {
				if !strings.Contains(string(text), want) {
					return false, "it does not say " + want, err
				}
			}
			return true, "", err
		}))
	}
}

// runBlock runs a block of the tutorial and compares what it says comes of it.
func runBlock(ctx context.Context, t *testing.T, o *harness.Organisation, role, sql string) {
	t.Helper()
	conn, err := o.Cluster.Connect(ctx, database, role)
	must(t, err)
	defer conn.Close(ctx)
	sql, refused, _ := strings.Cut(sql, "-- refused: ")
	sql, gives, scalar := strings.Cut(sql, "-- gives: ")
	refused, gives = strings.TrimSpace(refused), strings.TrimSpace(gives)
	if scalar {
		var got any
		must(t, conn.QueryRow(ctx, strings.TrimSuffix(strings.TrimSpace(sql), ";")).Scan(&got))
		if fmt.Sprint(got) != gives {
			t.Fatalf("%s: %s\ngives %v, want %s", o.Name, sql, got, gives)
		}
		return
	}
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	switch {
	case refused == "" && err != nil:
		t.Fatalf("%s: %s\n%v", o.Name, sql, err)
	case refused != "" && (err == nil || !strings.Contains(err.Error(), refused)):
		t.Fatalf("%s: %s\ngives %v, want %q", o.Name, sql, err, refused)
	}
}

// signTrades submits what a client signed itself: the other firm is asked about it as about
// everything else.
func signTrades(ctx context.Context, t *testing.T, acme *harness.Organisation) {
	t.Helper()
	key := filepath.Join(acme.Home(), "clerk.json")
	out, err := acme.Tool(ctx, "client", "key", key)
	must(t, err)
	public := strings.TrimSpace(out)
	_, err = acme.Run(ctx, "client", "add", "--role", "bank", public)
	must(t, err)
	submit := func(trade string) (string, error) {
		return acme.Run(ctx, "submit", "--role", "bank", "--key", key, "--wait", "INSERT INTO trades VALUES ("+trade+")")
	}
	if out, err := submit("3, 'acme', 'bolt', 'bolts', 5000"); err == nil || !strings.Contains(out, "bolt does not agree: bolts are not worth 5000.00 to us") {
		t.Errorf("a trade that bolt does not want: %v\n%s", err, out)
	}
	if out, err := submit("3, 'acme', 'bolt', 'bolts', 800"); err != nil {
		t.Errorf("a trade that bolt agrees to: %v\n%s", err, out)
	}
}

// plainTrades makes trades by plain SQL: the other firm is asked about the write set.
func plainTrades(ctx context.Context, t *testing.T, network *harness.Network) {
	t.Helper()
	acme, cargo := plainSession(ctx, t, network.Organisation("acme")), plainSession(ctx, t, network.Organisation("cargo"))
	run(ctx, t, acme, "BEGIN")
	run(ctx, t, acme, "INSERT INTO trades VALUES (4, 'acme', 'bolt', 'bolts', 700)")
	run(ctx, t, acme, "INSERT INTO trades VALUES (5, 'acme', 'bolt', 'bolts', 6000)")
	if failed := fails(ctx, t, acme, "CH009", "COMMIT"); !strings.Contains(failed.Error()+failed.Detail, "bolts are not worth 6000.00 to us") {
		t.Errorf("a trade that bolt does not want, by plain SQL: %s", describe(failed))
	}
	idle(t, acme)
	want(ctx, t, acme, "SELECT count(*)::text FROM trades WHERE id > 3", "0")
	run(ctx, t, acme, "BEGIN")
	run(ctx, t, acme, "INSERT INTO trades VALUES (4, 'acme', 'bolt', 'bolts', 700)")
	run(ctx, t, acme, "COMMIT")
	must(t, harness.Poll(ctx, catchUpLimit, "cargo has the trade", func(ctx context.Context) (bool, string, error) {
		var n int
		err := network.Organisation("cargo").Scan(ctx, "SELECT count(*) FROM trades WHERE id = 4", &n)
		return n == 1, fmt.Sprint(n), err
	}))
	fails(ctx, t, cargo, "CH009", "UPDATE trades SET price = 1 WHERE id = 4")
	want(ctx, t, acme, "SELECT price::text FROM trades WHERE id = 4", "700.00")
}

// forge submits, past the gateway, a trade without agreement and one whose agreement acme signed in
// bolt's name.
func forge(ctx context.Context, t *testing.T, acme *harness.Organisation) {
	t.Helper()
	key, err := config.Home(acme.Home()).GatewayKey()
	must(t, err)
	var chain string
	var height uint64
	must(t, acme.Scan(ctx, "SELECT chain_id FROM chainify.status", &chain))
	must(t, acme.Scan(ctx, "SELECT height FROM chainify.status", &height))
	bundle := &wire.Bundle{ChainId: chain, Organisation: "acme", Sequence: 1}
	for i := range 2 {
		proposal := wire.Encode(&wire.Proposal{
			ChainId: chain, Client: &wire.Client{Organisation: "acme", Role: "bank"}, Nonce: uint64(i), ValidUntilHeight: height + 500,
			Kind: wire.Kind_KIND_SQL, Sql: fmt.Sprintf("INSERT INTO trades VALUES (%d, 'acme', 'bolt', 'forged', 1)", 100+i),
		})
		tx := &wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: proposal}}
		if i > 0 {
			tx.Agreements = []*wire.Agreement{made(wire.Answer(key, "bolt", chain, wire.TxIDOf(proposal), true))}
		}
		bundle.Transactions = append(bundle.Transactions, tx)
	}
	broadcast(ctx, t, acme, wire.SignBundle(key, bundle))
	must(t, harness.Poll(ctx, progressLimit, "the forged transactions", func(ctx context.Context) (bool, string, error) {
		var n int
		err := acme.Scan(ctx, "SELECT count(*) FROM chainify.transactions WHERE sql LIKE '%forged%'", &n)
		return n == 2, fmt.Sprint(n, err), nil
	}))
}

// broadcast hands a transaction to the mempool of a node that is started again with CometBFT's RPC.
func broadcast(ctx context.Context, t *testing.T, o *harness.Organisation, ordered []byte) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	must(t, o.StopNode())
	must(t, o.Configure(map[string]any{"rpc_listen": address}))
	must(t, o.StartNode())
	must(t, o.WaitServing(ctx, readyLimit))
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "broadcast_tx_sync", "params": map[string]any{"tx": ordered}})
	must(t, err)
	must(t, harness.Poll(ctx, progressLimit, "CometBFT's mempool", func(ctx context.Context) (bool, string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address, bytes.NewReader(body))
		if err != nil {
			return false, "", err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, err.Error(), nil
		}
		defer response.Body.Close()
		var answer struct {
			Result struct{ Code uint32 }
			Error  json.RawMessage
		}
		err = json.NewDecoder(response.Body).Decode(&answer)
		return err == nil && answer.Error == nil && answer.Result.Code == 0, fmt.Sprintf("%v %s", answer, answer.Error), nil
	}))
}

// made is a message that its key signed; a key in memory never fails.
func made[T any](signed T, err error) T {
	if err != nil {
		panic(err)
	}
	return signed
}
