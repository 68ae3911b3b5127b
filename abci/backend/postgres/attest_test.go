package postgres

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/anchor"
	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// attested is a ledger whose blocks three of four organisations certified.
type attested struct {
	t    *testing.T
	dsn  string
	conn *pgx.Conn
	b    *Backend
	ids  []wire.TxID
	last wire.Hash
	n    uint64
}

var attesting = []string{"a", "b", "c", "d"}

const attestConsent = 3

func attestKey(organisation string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(organisation))
	return ed25519.NewKeyFromSeed(seed[:])
}

func attestAddress(organisation string) []byte {
	sum := sha256.Sum256(attestKey(organisation).Public().(ed25519.PublicKey))
	return sum[:20]
}

func attestAuthority() audit.Authority {
	a := audit.Authority{ChainID: "test", Consent: attestConsent, GatewayKeys: map[string][]byte{"a": attestKey("a").Public().(ed25519.PublicKey)}}
	for _, o := range attesting {
		a.Validators = append(a.Validators, audit.Validator{Organisation: o, Key: attestKey(o).Public().(ed25519.PublicKey)})
	}
	return a
}

func attestRegistry() *wire.RegistryHistory {
	registry := &wire.RegistryHistory{Consents: []wire.ConsentFrom{{Block: 1, Consent: attestConsent}}}
	for _, o := range attesting {
		key := wire.HexBytes(attestKey(o).Public().(ed25519.PublicKey))
		registry.Organisations = append(registry.Organisations, wire.OrganisationPeriod{Name: o, GatewayKey: key, From: 1})
		registry.Validators = append(registry.Validators, wire.ValidatorPeriod{Organisation: o, Address: attestAddress(o), PublicKey: key, From: 1})
	}
	return registry
}

func newAttested(t *testing.T) *attested {
	t.Helper()
	dsn := database(t, setup+`; CREATE TABLE public.pairs (a text, b numeric, note text, PRIMARY KEY (a, b)); GRANT ALL ON public.pairs TO effects_ops`)
	registry := attestRegistry()
	cfg := Config{
		DSN: dsn + " user=effects_node", ChainID: "test", Organisation: "a",
		Registry: func() (*wire.RegistryHistory, error) { return registry, nil },
	}
	b, err := New(cfg)
	must.Do(t, err)
	t.Cleanup(func() { _ = b.Close() })
	connected(t, b)
	conn, err := pgx.Connect(t.Context(), dsn)
	must.Do(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	a := &attested{t: t, dsn: dsn, conn: conn, b: b}
	a.block(wire.Kind_KIND_DEPLOY, "ATTACH TABLE public.items, public.pairs")
	a.block(wire.Kind_KIND_SQL, "INSERT INTO items VALUES (2, 'x')", "SELECT 1/0", "UPDATE items SET name = name || '!'",
		"INSERT INTO pairs VALUES ('p', 1.50, NULL), ('q', 2, 'two')")
	a.block(wire.Kind_KIND_SQL, "UPDATE items SET name = 'y' WHERE id = 2", "DELETE FROM pairs WHERE a = 'q'")
	return a
}

// block executes and certifies the next one.
func (a *attested) block(kind wire.Kind, statements ...string) {
	a.t.Helper()
	a.n++
	block := orderedBlock(a.n, kind, statements...)
	x, err := a.b.Execute(a.t.Context(), block, a.last)
	if err == nil {
		err = a.b.Commit(a.t.Context())
	}
	if err == nil {
		err = a.b.StoreCertificate(a.t.Context(), certify(a.n, x.Hash))
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.ids, a.last = append(a.ids, block.IDs...), x.Hash
}

func certify(number uint64, hash wire.Hash) wire.Certificate {
	c := wire.Certificate{Number: number, Hash: hash}
	for _, o := range attesting[:attestConsent] {
		vote := wire.NewEffectsVote(wire.Key{Number: number, OrderHash: wire.Hash{5}}, o, hash).Encode()
		c.Votes = append(c.Votes, wire.CertifiedVote{
			Organisation: o, Validator: attestAddress(o), Height: int64(number) + 9, Round: 1, Extension: vote,
			Signature: ed25519.Sign(attestKey(o), wire.ExtensionSignBytes("test", int64(number)+9, 1, vote)),
		})
	}
	return c
}

// text asks for a value.
func (a *attested) text(sql string, args ...any) string {
	a.t.Helper()
	var out string
	if err := a.conn.QueryRow(a.t.Context(), sql, args...).Scan(&out); err != nil {
		a.t.Fatalf("%s: %v", sql, err)
	}
	return out
}

// all gives a receipt of every transaction, of some rows, and a digest of every block, as a reader
// gets them.
func (a *attested) all() []string {
	a.t.Helper()
	if _, err := a.conn.Exec(a.t.Context(), "SET ROLE chainify_reader"); err != nil {
		a.t.Fatal(err)
	}
	defer func() { _, _ = a.conn.Exec(a.t.Context(), "RESET ROLE") }()
	var out []string
	for _, id := range a.ids {
		out = append(out, a.text("SELECT chainify.receipt($1)", id[:]))
	}
	for _, row := range []string{"'items', 1", "'items', 2", "'pairs', 'p', 1.5", "'pairs', 'q', '2'::text"} {
		out = append(out, a.text("SELECT chainify.receipt("+row+")"))
	}
	for n := range a.n {
		out = append(out, a.text("SELECT chainify.digest($1)", int64(n+1)))
	}
	return append(out, a.text("SELECT chainify.digest()"))
}

func TestReceiptsHoldAndGoOnHolding(t *testing.T) {
	a := newAttested(t)
	early := a.all()
	var first []*audit.Receipt
	for _, text := range early {
		r, err := audit.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if wrong := r.Check(attestAuthority()); len(wrong) > 0 {
			t.Fatalf("%v in %s", wrong, text)
		}
		first = append(first, r)
	}
	for i, want := range []struct {
		number uint64
		index  uint32
		table  string
		op     string
	}{{2, 2, "public.items", "U"}, {3, 0, "public.items", "U"}, {2, 3, "public.pairs", "I"}, {3, 1, "public.pairs", "D"}} {
		r := first[len(a.ids)+i]
		if r.Block.Number != want.number || r.Transaction.Index != want.index || r.Change.Table != want.table || r.Change.Op != want.op {
			t.Errorf("receipt of row %d: block %d transaction %d %s %s, want %+v", i, r.Block.Number, r.Transaction.Index, r.Change.Table, r.Change.Op, want)
		}
	}
	// Later blocks, and history folded into the base of checkpoints, change no receipt of what was.
	before := a.ids
	for range 4 {
		a.block(wire.Kind_KIND_SQL, "INSERT INTO pairs VALUES ('r', "+fmt.Sprint(a.n)+", 'later')")
		run(t, a.dsn, "SELECT chainify_node.checkpoint()")
	}
	run(t, a.dsn, "SELECT chainify_node.fold_history()")
	if base := a.text("SELECT min(base_block)::text FROM chainify_ledger.ledger_table"); base != "5" {
		t.Fatalf("the base is at block %s, want 5", base)
	}
	a.ids = before
	late := a.all()
	for i := range early[:len(before)+4] {
		if late[i] != early[i] {
			t.Errorf("receipt %d was\n%s\nand is\n%s", i, early[i], late[i])
		}
	}
	auditorAgrees(t, append(early, late...))
}

// auditorAgrees has the auditor's script check the same, alone and as a chain, and sees it refuse
// one that was changed.
func auditorAgrees(t *testing.T, receipts []string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	organisations := make([]map[string]any, len(attesting))
	for i, o := range attesting {
		organisations[i] = map[string]any{"name": o, "gateway_key": []byte{}, "validators": [][]byte{attestKey(o).Public().(ed25519.PublicKey)}}
	}
	genesis, err := json.Marshal(map[string]any{"chain_id": "test", "app_state": map[string]any{"organisations": organisations}})
	must.Do(t, err)
	chain := "[" + strings.Join(receipts, ",") + "]"
	args := []string{filepath.Join("..", "..", "..", "audit", "audit.py"), "--genesis", write("genesis.json", string(genesis))}
	out, err := exec.Command("/usr/bin/python3", append(args, write("chain.json", chain), write("one.json", receipts[3]))...).CombinedOutput()
	if err != nil {
		t.Fatalf("the auditor: %v\n%s", err, out)
	}
	// One letter of a statement in the middle of the chain.
	changed := strings.Replace(chain, fmt.Sprintf("%x", "INSERT INTO items"), fmt.Sprintf("%x", "INSERT INTO itemz"), 1)
	out, err = exec.Command("/usr/bin/python3", append(args, write("changed.json", changed))...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "DOES NOT HOLD: transaction.id") {
		t.Fatalf("the auditor of a changed chain: %v\n%s", err, out)
	}
}

// The finding of chainify.verify(digest) for a change behind the guard's back, and the finding of a
// request for a receipt of block 2.
var tampering = []struct {
	name, sql string
	verify    string // start of a finding: block, what, detail
	receipt   string // start of the error's detail; "" when the receipt is none the worse
}{
	{"a row", `UPDATE items SET name = 'z' WHERE id = 2`, `3 row changed: public.items {"id": 2}`, ""},
	{"a row gone", `DELETE FROM pairs`, `3 row missing: public.pairs {"a": "p", "b": 1.5}`, ""},
	{"a row too many", `INSERT INTO items VALUES (9, 'z')`, `3 row unexpected: public.items {"id": 9}`, ""},
	{"a base row", `UPDATE chainify_checkpoint.items SET name = 'z' WHERE id = 1`, "3 checkpoint: public.items", ""},
	{"a history row", `UPDATE chainify_history.items SET name = 'z' WHERE _block = 2 AND id = 2`, "2 history hash: public.items transaction 0", "history hash"},
	{"a history hash", `UPDATE chainify_history.items SET _hash = sha256(_hash) WHERE _block = 2 AND id = 2`, "2 history hash: public.items transaction 0", "history hash"},
	{"a history row gone", `DELETE FROM chainify_history.pairs WHERE _block = 2`, "2 effects count", "effects count"},
	{"a transaction's text", `UPDATE chainify_ledger.transaction SET body = set_byte(body, length(body) - 1, 33) WHERE (block, index) = (2, 0)`, "2 transaction id: transaction 0", "transaction id"},
	{"a transaction's outcome", `UPDATE chainify_ledger.transaction SET succeeded = true WHERE (block, index) = (2, 1)`, "2 outcome: transaction 1", "outcome"},
	{"a transaction gone", `DELETE FROM chainify_ledger.transaction WHERE (block, index) = (2, 3)`, "2 transaction count", "transaction count"},
	{"an outcome bit", `UPDATE chainify_ledger.block SET outcomes = set_byte(outcomes, 0, 15) WHERE number = 2`, "2 block hash", "block hash"},
	{"an effects root", `UPDATE chainify_ledger.block SET effects_root = sha256(effects_root) WHERE number = 2`, "2 effects root", "block hash"},
	{"a state root", `UPDATE chainify_ledger.block SET state_root = sha256(state_root) WHERE number = 2`, "2 block hash", "block hash"},
	{"a block's time", `UPDATE chainify_ledger.block SET block_time = block_time + 1 WHERE number = 2`, "2 block hash", "block hash"},
	{"a block hash", `UPDATE chainify_ledger.block SET hash = sha256(hash) WHERE number = 2`, "3 previous hash", "block hash"},
	{"a certificate gone", `DELETE FROM chainify_ledger.certificate WHERE number = 2`, "2 certificate missing", "Its certificate comes"},
	{"a certificate's round", `UPDATE chainify_ledger.certificate SET effect_round = 1 WHERE number = 2`, "2 certificate: vote 0 of a: it is of effect round 0", "certificate: vote 0"},
	{
		"a vote", `UPDATE chainify_ledger.certificate SET votes = jsonb_set(votes, '{1,height}', '99') WHERE number = 2`,
		"2 certificate: vote 1 of b: the signature does not fit", "certificate: vote 1 of b",
	},
	{"a vote gone", `UPDATE chainify_ledger.certificate SET votes = votes - 0 WHERE number = 2`, "2 certificate: 2 organisations agree, want 3", "certificate: 2 organisations"},
	// Consistent from the block on: only what was kept elsewhere knows better.
	{
		"the whole block", `UPDATE chainify_ledger.block SET block_time = 7, hash = sha256('another') WHERE number = 2`,
		"2 digest: block.block_time: the digest has 2000000, the block kept here has 7", "block hash",
	},
	{"the end of the chain", `DELETE FROM chainify_ledger.block WHERE number > 1`, "2 digest: block.number: there is no block 2 here, the last one is 1", "-"},
}

func TestVerifyingADigestNamesWhatWasChanged(t *testing.T) {
	a := newAttested(t)
	digest := a.text("SELECT chainify.digest(2)")
	id := a.ids[1] // the first transaction of block 2
	if found := a.findings(t, "", digest); len(found) > 0 {
		t.Fatalf("nothing was changed: %q", found)
	}
	for _, c := range tampering {
		t.Run(c.name, func(t *testing.T) {
			found := a.findings(t, c.sql, digest)
			if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, c.verify) }) {
				t.Errorf("%q, want one that begins with %q", found, c.verify)
			}
			if c.receipt == "-" {
				return
			}
			a.tampered(t, c.sql, func(tx pgx.Tx) {
				var e *pgconn.PgError
				_, err := tx.Exec(t.Context(), "SELECT chainify.receipt($1)", id[:])
				switch {
				case c.receipt == "" && err != nil:
					t.Errorf("receipt: %v", err)
				case c.receipt != "" && (!errors.As(err, &e) || !strings.HasPrefix(e.Detail, c.receipt)):
					t.Errorf("receipt: %v with detail %+v, want %q", err, e, c.receipt)
				}
			})
		})
	}
	// Each value of the digest itself, too.
	var fields map[string]any
	must.Do(t, json.Unmarshal([]byte(digest), &fields))
	block := fields["block"].(map[string]any)
	for name, old := range block {
		switch v := old.(type) {
		case string:
			block[name] = "ff" + v[2:]
		case float64:
			block[name] = v + 1
		}
		changed, err := json.Marshal(fields)
		must.Do(t, err)
		said := name
		if name == "number" { // then it is compared with that block
			said = "hash"
		}
		if found := a.findings(t, "", string(changed)); !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, "digest: ") && strings.Contains(f, said) }) {
			t.Errorf("%s of the digest changed: %q", name, found)
		}
		block[name] = old
	}
}

// The node takes digests outside, and checks the database against what it finds there.
func TestADatabaseIsCheckedAgainstADigestKeptOutside(t *testing.T) {
	dsn := database(t, setup)
	empty := open(t, dsn+" user=effects_node")
	connected(t, empty)
	if _, err := empty.Digest(t.Context()); !errors.Is(err, anchor.ErrNoDigest) {
		t.Fatalf("a database without blocks: %v", err)
	}
	a := newAttested(t)
	kept := anchor.Directory(t.TempDir())
	outside, err := anchor.New(anchor.Options{Source: a.b, Stores: []anchor.Store{kept}, VerifyEvery: time.Hour, Log: slog.New(slog.DiscardHandler)})
	must.Do(t, err)
	for hours := range 3 {
		must.Do(t, outside.Step(t.Context(), time.Now().Add(time.Duration(hours)*time.Hour)))
		a.block(wire.Kind_KIND_SQL, "UPDATE items SET name = name || '!'")
	}
	run(t, a.dsn, "SET chainify.guard = off; UPDATE chainify_ledger.block SET block_time = 7, hash = sha256('another') WHERE number = 5")
	err = outside.Step(t.Context(), time.Now().Add(4*time.Hour))
	if err == nil || !strings.Contains(err.Error(), "does not verify against "+anchor.Name("test", 5)) {
		t.Fatalf("%v", err)
	}
}

// tampered runs do after a change that is then undone.
func (a *attested) tampered(t *testing.T, sql string, do func(pgx.Tx)) {
	t.Helper()
	tx, err := a.conn.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "SET LOCAL chainify.guard = off; SET LOCAL session_replication_role = replica; "+sql)
	}
	must.Do(t, err)
	do(tx)
	_ = tx.Rollback(t.Context())
}

func (a *attested) findings(t *testing.T, sql, digest string) (out []string) {
	t.Helper()
	a.tampered(t, sql, func(tx pgx.Tx) {
		rows, err := tx.Query(t.Context(), "SELECT block || ' ' || what || ': ' || detail FROM chainify.verify($1::jsonb)", digest)
		if err == nil {
			out, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		must.Do(t, err)
	})
	return out
}
