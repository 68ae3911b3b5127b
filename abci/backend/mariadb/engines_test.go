package mariadb_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/mariadb"
	"github.com/chainify-db/chainify/abci/backend/postgres"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	enginesPG = `CREATE EXTENSION chainify; CREATE ROLE engines_node LOGIN IN ROLE chainify_node; CREATE ROLE engines_ops IN ROLE chainify_admin;
		CREATE TABLE public.v (id bigint PRIMARY KEY, s smallint, i integer, n numeric(10,2), ok boolean, t text, v varchar(10) UNIQUE, raw bytea,
			day date, clock time, ts timestamp, tz timestamptz, u uuid, j jsonb, num integer NOT NULL DEFAULT 7);
		CREATE TABLE public.items (id bigint PRIMARY KEY, name varchar(40)); INSERT INTO items VALUES (1, 'first');
		GRANT ALL ON public.v, public.items TO engines_ops`
	enginesMariaDB = `CREATE TABLE engines.v (id BIGINT PRIMARY KEY, s SMALLINT, i INT, n DECIMAL(10,2), ok TINYINT(1) CHECK (ok IN (0,1)), t LONGTEXT,
			v VARCHAR(10) UNIQUE, raw LONGBLOB, day DATE, clock TIME(6), ts DATETIME(6), tz DATETIME(6) COMMENT 'timestamptz', u UUID, j JSON,
			num INT NOT NULL DEFAULT 7);
		CREATE TABLE engines.items (id BIGINT PRIMARY KEY, name VARCHAR(40)); INSERT INTO engines.items VALUES (1, 'first');
		GRANT SELECT, INSERT, UPDATE, DELETE ON engines.v TO engines_ops; GRANT SELECT, INSERT, UPDATE, DELETE ON engines.items TO engines_ops;
		GRANT engines_admin TO engines_ops`
)

// engine is one of the two databases that get each block.
type engine struct {
	backend.Backend
	at     backend.Position
	states func() map[string]string // rows and lanes, by table
}

// Each random block has the same outcomes and effects in both engines, and leaves the same rows.
// The schema text is each engine's own, so that state roots differ.
func TestEnginesAgreeOnTheEffectsOfRandomBlocks(t *testing.T) {
	pg, my := os.Getenv("CHAINIFY_TEST_PG"), os.Getenv("CHAINIFY_TEST_MARIADB")
	if pg == "" || my == "" {
		t.Skip("CHAINIFY_TEST_PG and CHAINIFY_TEST_MARIADB are not both set; `make test-mariadb` sets them")
	}
	random := seeded.Random(t)
	engines := []*engine{openPostgres(t, pg), openMariaDB(t, my)}
	engines[0].commit(t, enginesBlock(1, wire.Proposal{Kind: wire.Kind_KIND_DEPLOY, Sql: "ATTACH TABLE public.v, public.items"}))
	engines[1].commit(t, enginesBlock(1, wire.Proposal{Kind: wire.Kind_KIND_DEPLOY, Sql: "ATTACH TABLE public.v, public.items ENCODING 2"}))
	items := map[int64]string{1: "first"}
	succeeded, failed := 0, 0
	for n := uint64(2); n <= 40; n++ {
		var proposals []wire.Proposal
		for range 15 {
			proposals = append(proposals, wire.Proposal{Kind: wire.Kind_KIND_SQL, Sql: randomStatement(random)}, randomEffects(t, random, items))
		}
		block := enginesBlock(n, proposals...)
		block.Round = 1
		a, b := engines[0].commit(t, block), engines[1].commit(t, block)
		for i := range proposals {
			x, y := a.Results[i], b.Results[i]
			if x.Succeeded != y.Succeeded || x.Rows != y.Rows && x.Succeeded && proposals[i].Kind == wire.Kind_KIND_SQL || a.Effects[i] != b.Effects[i] {
				t.Errorf("block %d, %s %x: PostgreSQL %+v, MariaDB %+v", n, proposals[i].Sql, proposals[i].Effects, x, y)
			}
			if x.Succeeded {
				succeeded++
			} else {
				failed++
			}
		}
		h, g := headerOf(t, a), headerOf(t, b)
		if h.EffectsRoot != g.EffectsRoot || h.EffectsCount != g.EffectsCount || !slices.Equal(h.Outcomes.Bytes(), g.Outcomes.Bytes()) {
			t.Errorf("block %d: headers %+v, %+v", n, h, g)
		}
		if x, y := engines[0].states(), engines[1].states(); fmt.Sprint(x) != fmt.Sprint(y) {
			t.Fatalf("block %d: states differ:\n%.80s\n%.80s", n, fmt.Sprint(x), fmt.Sprint(y))
		}
	}
	t.Logf("%d transactions succeeded, %d failed", succeeded, failed)
	if succeeded < 200 || failed < 50 {
		t.Errorf("%d transactions succeeded, %d failed: too few of a kind", succeeded, failed)
	}
}

func (e *engine) commit(t *testing.T, b *wire.OrderedBlock) backend.Execution {
	t.Helper()
	x, err := e.Execute(t.Context(), b, e.at.Hash)
	if err == nil {
		err = e.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if b.Number == 1 && !x.Results[0].Succeeded {
		t.Fatalf("attach: %+v", x.Results[0])
	}
	e.at.Hash = x.Hash
	return x
}

func headerOf(t *testing.T, x backend.Execution) *wire.Header {
	t.Helper()
	h, err := wire.DecodeHeader(x.Header)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func enginesBlock(n uint64, proposals ...wire.Proposal) *wire.OrderedBlock {
	b := &wire.OrderedBlock{Number: n, Height: int64(2 * n), TimeMicro: int64(n) * 1_000_000}
	var raw [][]byte
	for i := range proposals {
		p := &proposals[i]
		p.ChainId, p.Client = "test", &wire.Client{Organisation: "a", Role: "engines_ops"}
		p.Nonce, p.ValidUntilHeight = n<<8+uint64(i), 1000
		encoded := wire.Encode(p)
		b.IDs = append(b.IDs, wire.TxIDOf(encoded))
		raw = append(raw, wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: encoded}}))
	}
	b.Transactions = wire.EncodeTransactions(raw)
	return b
}

func openPostgres(t *testing.T, server string) *engine {
	run := func(dsn, statements string) {
		conn, err := pgx.Connect(context.Background(), dsn)
		if err == nil {
			_, err = conn.PgConn().Exec(context.Background(), statements).ReadAll()
			_ = conn.Close(context.Background())
		}
		if err != nil {
			t.Fatalf("%.60s: %v", statements, err)
		}
	}
	run(server, "CREATE DATABASE engines")
	t.Cleanup(func() {
		run(server, "DROP DATABASE engines WITH (FORCE)")
		run(server, "DROP ROLE engines_node, engines_ops")
	})
	dsn := server + " dbname=engines"
	run(dsn, enginesPG)
	b, err := postgres.New(postgres.Config{DSN: dsn + " user=engines_node", ChainID: "test", Organisation: "a"})
	if err != nil {
		t.Fatal(err)
	}
	states := func() map[string]string {
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		rows, err := conn.Query(t.Context(), `SELECT l.name, s.row_count, encode(s.lanes, 'hex') FROM chainify_ledger.ledger_table l
			JOIN chainify_ledger.table_state s ON s.table_id = l.id`)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		var name, lanes string
		var count int64
		if _, err = pgx.ForEachRow(rows, []any{&name, &count, &lanes}, func() error {
			found[name] = fmt.Sprint(count, " ", lanes)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	return openedEngine(t, b, states)
}

func openMariaDB(t *testing.T, server string) *engine {
	root, err := sql.Open("mysql", server+"?multiStatements=true&charset=utf8mb4")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	run := func(statements string) {
		if _, err := root.Exec(statements); err != nil {
			t.Fatalf("%.60s: %v", statements, err)
		}
	}
	run("CREATE DATABASE engines CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin; CREATE USER engines@localhost")
	t.Cleanup(func() {
		run("DROP DATABASE engines; DROP DATABASE engines_ledger; DROP USER engines@localhost; DROP ROLE engines_ops, engines_admin, engines_chainify")
	})
	if err := mariadb.Install(t.Context(), server+"engines", "engines@localhost", "engines_ops"); err != nil {
		t.Fatal(err)
	}
	run(enginesMariaDB)
	b, err := mariadb.New(mariadb.Config{DSN: strings.Replace(server, "root@", "engines@", 1) + "engines", ChainID: "test", Organisation: "a"})
	if err != nil {
		t.Fatal(err)
	}
	states := func() map[string]string {
		rows, err := root.Query("SELECT name, row_count, lower(hex(lanes)) FROM engines_ledger.ledger_table")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		found := map[string]string{}
		for rows.Next() {
			var name, lanes string
			var count int64
			if err := rows.Scan(&name, &count, &lanes); err != nil {
				t.Fatal(err)
			}
			found[name] = fmt.Sprint(count, " ", lanes)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return found
	}
	return openedEngine(t, b, states)
}

// openedEngine polls until the backend has its database, at most ten seconds.
func openedEngine(t *testing.T, b backend.Backend, states func() map[string]string) *engine {
	t.Cleanup(func() { _ = b.Close() })
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, err := b.Position(t.Context())
		if err == nil {
			return &engine{Backend: b, states: states}
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// randomLiterals are spellings of values of each column, some of which it refuses.
var randomLiterals = map[string][]string{
	"s":     {"0", "-32768", "32767", "32768", "NULL"},
	"i":     {"0", "-1", "2147483647", "-2147483648", "2147483648", "NULL"},
	"n":     {"0", "-0.00", "12.5", "99999999.99", "100000000", "1.005", "-1.005", "NULL"},
	"ok":    {"TRUE", "FALSE", "NULL"},
	"t":     {"''", "'a'", "'é😀 '", `'\ it''s "%" _'`, "NULL"},
	"v":     {"''", "'a'", "'a '", "'A'", "'é'", "'1234567890'", "'1234567890   '", "'12345678901'", "NULL"},
	"raw":   {`'\x'`, `'\x00ff'`, "NULL"},
	"day":   {"'0001-01-01'", "'2024-02-29'", "'9999-12-31'", "'2023-02-29'", "NULL"},
	"clock": {"'00:00:00'", "'23:59:59.999999'", "'24:00:00'", "NULL"},
	"ts":    {"'0001-01-01 00:00:00'", "'1969-12-31 23:59:59.5'", "'9999-12-31 23:59:59.999999'", "NULL"},
	"tz":    {"'2024-02-29 12:00:00+00'", "NULL"},
	"u":     {"'00112233-4455-6677-8899-aabbccddeeff'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "NULL"},
	"j":     {`'{"b": [1.0, 2e2], "a": "\u00e9"}'`, "'[]'", "'1.50'", "NULL"},
	"num":   {"1", "2147483647", "NULL"},
}

func pick(random *rand.Rand, list []string) string { return list[random.IntN(len(list))] }

func randomColumn(random *rand.Rand) string {
	return pick(random, []string{"s", "i", "n", "ok", "t", "v", "raw", "day", "clock", "ts", "tz", "u", "j", "num"})
}

// randomStatement is one of the subset that both engines execute.
func randomStatement(random *rand.Rand) string {
	where := ""
	switch column := randomColumn(random); {
	case random.IntN(2) == 0:
		where = fmt.Sprintf(" WHERE id = %d", random.IntN(30))
	case random.IntN(4) == 0:
		where = " WHERE " + column + " IS NOT NULL"
	case column != "j" && column != "num":
		value := pick(random, randomLiterals[column][:2])
		where = " WHERE " + column + " " + pick(random, []string{"=", "<>", "<", "<=", ">", ">="}) + " " + value
	}
	switch random.IntN(6) {
	case 0:
		if where == "" {
			return fmt.Sprintf("DELETE FROM v WHERE id > %d", 10+random.IntN(20))
		}
		return "DELETE FROM v" + where
	case 1:
		set := pick(random, []string{
			"s = s + 1", "s = s - 32767", "i = i + 1", "i = i - 2147483647", "n = n + 0.01", "n = n - 99999999.99", "t = t || 'x'", "t = 'x' || t", "num = num + 1",
		})
		return "UPDATE v SET " + set + where
	case 2:
		column := randomColumn(random)
		if column == "v" {
			column = "t"
		}
		return "UPDATE v SET " + column + " = " + pick(random, randomLiterals[column]) + where
	}
	columns, values := []string{"id"}, []string{fmt.Sprint(random.IntN(30))}
	for range 3 {
		column := randomColumn(random)
		if slices.Contains(columns, column) {
			continue
		}
		columns, values = append(columns, column), append(values, pick(random, randomLiterals[column]))
	}
	return "INSERT INTO v (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
}

// randomEffects is a write set of one row, as it is or as it is not; rows are kept in items.
func randomEffects(t *testing.T, random *rand.Rand, items map[int64]string) wire.Proposal {
	row := func(id int64, name string) []byte {
		raw, err := canonical.AppendRow(nil, []canonical.Column{
			{Ordinal: 1, Value: canonical.Value{Tag: canonical.Integer, Number: id}}, {Ordinal: 2, Value: canonical.Value{Tag: canonical.Text, Text: name}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	id, name := int64(random.IntN(8)), pick(random, []string{"a", "é", "", "it's"})
	before, present := items[id]
	key, err := canonical.AppendRow(nil, []canonical.Column{{Ordinal: 1, Value: canonical.Value{Tag: canonical.Integer, Number: id}}})
	if err != nil {
		t.Fatal(err)
	}
	right := random.IntN(4) > 0
	if !right {
		before += "?"
	}
	change := wire.RowChange{Op: 'I', Row: row(id, name)}
	switch hash := wire.RowHash("public.items", row(id, before)); {
	case present && random.IntN(2) == 0:
		change = wire.RowChange{Op: 'D', Row: key, Before: hash}
		if right {
			delete(items, id)
		}
	case present:
		value := canonical.Value{Tag: canonical.Text, Text: name}
		raw, err := value.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		change = wire.RowChange{Op: 'U', Row: key, Before: hash, Cells: []wire.Cell{{Ordinal: 2, Value: raw}}}
		if right {
			items[id] = name
		}
	default:
		items[id] = name
	}
	s := wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{"public.items"}, Changes: []wire.RowChange{change}}
	return wire.Proposal{Kind: wire.Kind_KIND_EFFECTS, Effects: s.Encode()}
}
