package explorer_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend/postgres/pages"
	"github.com/chainify-db/chainify/abci/explorer"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// evil is what a row, a statement, a parameter and an error hold in these tests.
const evil = `<script>document.title='broken into'</script>"'&`

const setup = `
CREATE EXTENSION chainify;
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'explorer_node') THEN
        CREATE ROLE explorer_node LOGIN IN ROLE chainify_node;
        CREATE ROLE explorer_reader LOGIN IN ROLE chainify_reader;
        CREATE ROLE explorer_stranger LOGIN;
        CREATE ROLE bank IN ROLE chainify_admin;
    END IF;
END $$;
CREATE TABLE public.checking (custid bigint PRIMARY KEY, balance numeric(12,2) NOT NULL CHECK (balance >= 0), note text);
CREATE TABLE public.entry (day date, place int, amount numeric(12,2), remark text, PRIMARY KEY (day, place));
INSERT INTO public.checking SELECT i, 500, NULL FROM generate_series(1, 50) i;
GRANT ALL ON public.checking, public.entry TO bank`

var databases atomic.Int64

// newDatabase makes a database on the server of CHAINIFY_TEST_PG and returns its connection string,
// for a superuser.
func newDatabase(t *testing.T) string {
	t.Helper()
	server := os.Getenv("CHAINIFY_TEST_PG")
	if server == "" {
		t.Skip("CHAINIFY_TEST_PG is not set: it names a server with the extension, for a superuser; `make test` sets it")
	}
	name := fmt.Sprintf("explorer_%d_%d", os.Getpid(), databases.Add(1))
	run(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { run(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	dsn := server + " dbname=" + name
	run(t, dsn, setup)
	return dsn
}

func run(t *testing.T, dsn, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err == nil {
		_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
		_ = conn.Close(ctx)
	}
	if err != nil {
		t.Fatalf("%.60s: %v", sql, err)
	}
}

// world is a ledger with its explorer.
type world struct {
	t        *testing.T
	dsn      string
	node     *pgx.Conn // as the node
	hash     []byte
	blocks   uint64
	ids      [][]wire.TxID // by block, from 1
	shared   bool          // the ledger is one of several engines
	status   *wire.StatusResponse
	votes    []explorer.Vote
	explorer *explorer.Explorer
	server   *httptest.Server
}

// newWorld makes a ledger of a few blocks, with failures, a row that looks like a script, votes and
// a deviation that was put right.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t)
	w.deploy("ATTACH TABLE public.checking, public.entry")
	w.execute(
		"UPDATE checking SET balance = balance - 100 WHERE custid = 1",
		"UPDATE checking SET balance = balance - 1000000 WHERE custid = 1",
		"INSERT INTO entry VALUES ('2026-02-03', 1, 12.50, 'first'), ('2026-02-03', 2, 7, '"+strings.ReplaceAll(evil, "'", "''")+"')")
	w.execute("UPDATE checking SET balance = balance + 1, note = coalesce($2, $1) WHERE custid = 1", "DELETE FROM entry WHERE place = 1", "SELECT no_such('"+strings.ReplaceAll(evil, "'", "''")+"')")
	run(t, w.dsn, `SET chainify.guard = off; UPDATE public.checking SET balance = 1000500 WHERE custid = 42; SELECT chainify_node.scrub('public.checking');
		SELECT r.* FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, NULL, 'rows') r`)
	return w
}

// sharedWorld makes a ledger of several engines with a procedure, and gives PostgreSQL's digest of
// it. That of MariaDB is otherDigest.
func sharedWorld(t *testing.T) (w *world, digest string) {
	t.Helper()
	w = emptyWorld(t)
	w.shared = true
	run(t, w.dsn, `CREATE TABLE public.stock (id bigint PRIMARY KEY, pieces bigint NOT NULL); GRANT ALL ON public.stock TO bank;
		CREATE PROCEDURE public.take(nr bigint, wanted bigint) LANGUAGE sql AS 'UPDATE stock SET pieces = pieces - wanted WHERE id = nr'`)
	admin, err := pgx.Connect(t.Context(), w.dsn)
	if err == nil {
		err = admin.QueryRow(t.Context(), `SELECT chainify.procedure_digest('public.take(bigint, bigint)')`).Scan(&digest)
		_ = admin.Close(context.Background())
	}
	must.Do(t, err)
	w.deploy("ATTACH TABLE public.stock ENCODING 2")
	w.deploy("ATTACH PROCEDURE public.take (bigint, bigint) ENCODING 2 MARIADB " + otherDigest + " POSTGRESQL " + digest)
	return w, digest
}

var otherDigest = strings.Repeat("0a", 32)

// emptyWorld makes a ledger without blocks.
func emptyWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dsn: newDatabase(t), ids: [][]wire.TxID{nil}}
	w.status = &wire.StatusResponse{Organisation: "acme", ChainId: "trade", State: "serving", Peers: 3, Organisations: 4, Consent: 3}
	w.hash = make([]byte, len(wire.Hash{}))
	conn, err := pgx.Connect(t.Context(), w.dsn+" user=explorer_node")
	must.Do(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	w.node = conn
	if _, err := conn.Exec(t.Context(), `SELECT chainify_node.init('trade', 'acme')`); err != nil {
		t.Fatal(err)
	}
	var validators []string
	for _, o := range voters {
		key := voterKey(o).Public().(ed25519.PublicKey)
		validators = append(validators, fmt.Sprintf(`{"organisation": %q, "address": "%x", "public_key": "%x", "from_block": 1}`, o, addressOf(key), []byte(key)))
	}
	run(t, w.dsn, `SELECT chainify_node.set_registry('{"consents": [{"from_block": 1, "consent": 3}], "validators": [`+strings.Join(validators, ",")+`], "organisations": [
		{"name": "acme", "gateway_key": "01", "ordering_only": false, "from_block": 1}, {"name": "bolt", "gateway_key": "02", "ordering_only": false, "from_block": 1},
		{"name": "cargo", "gateway_key": "03", "ordering_only": false, "from_block": 1}, {"name": "delta", "gateway_key": "04", "ordering_only": false, "from_block": 1},
		{"name": "notary", "gateway_key": "05", "ordering_only": true, "from_block": 1}]}')`)
	e := explorer.New(explorer.Options{
		Ledger: w.ledgerAs("explorer_reader"), Hosts: []string{"ledger.example"}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Status: w.statusNow,
		Votes:  func() []explorer.Vote { return w.votes },
	})
	w.explorer, w.server = e, httptest.NewServer(e.Handler())
	t.Cleanup(func() { w.server.Close(); e.Close() })
	return w
}

// ledgerAs opens the ledger of a world, logged in as a role.
func (w *world) ledgerAs(user string) *pages.Ledger {
	w.t.Helper()
	ledger, err := pages.Open(w.dsn + " user=" + user)
	if err != nil {
		w.t.Fatal(err)
	}
	return ledger
}

// voters are whose votes are in the certificates.
var voters = []string{"acme", "bolt", "cargo"}

func voterKey(organisation string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(organisation))
	return ed25519.NewKeyFromSeed(seed[:])
}

func addressOf(key ed25519.PublicKey) []byte {
	sum := sha256.Sum256(key)
	return sum[:20]
}

func (w *world) statusNow(context.Context) *wire.StatusResponse { return w.status }

func (w *world) deploy(sql string) { w.block(wire.Kind_KIND_DEPLOY, sql) }

func (w *world) execute(statements ...string) { w.block(wire.Kind_KIND_SQL, statements...) }

// block makes and certifies a block, all but delta voting for it.
func (w *world) block(kind wire.Kind, statements ...string) {
	w.t.Helper()
	w.blocks++
	height, timeMicro := int64(2*w.blocks), 1_770_000_000_000_000+int64(w.blocks)*83_000
	parameters := []*wire.Parameter{{Type: "text", Text: evil}, {Null: true}}
	var raw [][]byte
	var ids []wire.TxID
	for i, sql := range statements {
		proposal := wire.Encode(&wire.Proposal{
			ChainId: "trade", Client: &wire.Client{Organisation: "acme", Role: "bank"}, Nonce: w.blocks<<8 + uint64(i), ValidUntilHeight: 1000, Kind: kind, Sql: sql,
			Parameters: parameters[:strings.Count(sql, "$")],
		})
		ids = append(ids, wire.TxIDOf(proposal))
		raw = append(raw, wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: proposal}}))
	}
	execute := `SELECT hash FROM chainify_node.execute_block($1, $2, $3, $4, $5)`
	if w.shared { // the node has judged the transactions, and refuses none
		execute = `SELECT hash FROM chainify_node.execute_block($1, $2, $3, $4, $5, refused => '{}', refused_sqlstates => '{}', refused_messages => '{}')`
	}
	err := w.node.QueryRow(w.t.Context(), execute, int64(w.blocks), height, timeMicro, w.hash, wire.EncodeTransactions(raw)).Scan(&w.hash)
	if err != nil {
		w.t.Fatalf("block %d: %v", w.blocks, err)
	}
	w.ids = append(w.ids, ids)
	w.certify(height + 1)
	w.status = &wire.StatusResponse{
		Organisation: "acme", ChainId: "trade", State: "serving", Peers: 3, Organisations: 4, Consent: 3,
		LastOrdered: w.blocks, LastCertified: w.blocks, LastCommitted: w.blocks, Height: int64(2 * w.blocks),
	}
}

// certify stores the certificate of the last block, with votes of the order's block height.
func (w *world) certify(height int64) {
	w.t.Helper()
	var votes []map[string]any
	for _, o := range voters {
		key, extension := voterKey(o), wire.NewEffectsVote(wire.Key{Number: w.blocks}, o, wire.Hash(w.hash)).Encode()
		votes = append(votes, map[string]any{
			"organisation": o, "validator": hex.EncodeToString(addressOf(key.Public().(ed25519.PublicKey))), "height": height, "round": 0,
			"extension": hex.EncodeToString(extension), "signature": hex.EncodeToString(ed25519.Sign(key, wire.ExtensionSignBytes("trade", height, 0, extension))),
		})
	}
	if _, err := w.node.Exec(w.t.Context(), `SELECT chainify_node.store_certificate($1, 0, $2, $3)`, int64(w.blocks), w.hash, votes); err != nil {
		w.t.Fatal(err)
	}
}

// id is that of a transaction, in hexadecimal.
func (w *world) id(block, index int) string { return hex.EncodeToString(w.ids[block][index][:]) }

// get asks for a path and returns the answer with what it says.
func (w *world) get(path string, change ...func(*http.Request)) (*http.Response, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.server.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range change {
		c(r)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: 5 * time.Minute}
	answer, err := client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer, string(text)
}
