package mariadb_test

import (
	"context"
	"database/sql"
	"fmt"
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
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	enginesPG = `CREATE EXTENSION chainify; CREATE ROLE engines_node LOGIN IN ROLE chainify_node; CREATE ROLE engines_ops IN ROLE chainify_admin;
		CREATE ROLE engines_write IN ROLE chainify_client; CREATE ROLE engines_none IN ROLE chainify_client; CREATE ROLE engines_keys IN ROLE chainify_client;
		CREATE TABLE public.v (id bigint PRIMARY KEY, s smallint, i integer, n numeric(10,2), ok boolean, t text, v varchar(10) UNIQUE, raw bytea,
			day date, clock time, ts timestamp, tz timestamptz, u uuid, j jsonb, num integer NOT NULL DEFAULT 7, d double precision);
		CREATE TABLE public.items (id bigint PRIMARY KEY, name varchar(40)); INSERT INTO items VALUES (1, 'first');
		CREATE TABLE public.longest (id bigint PRIMARY KEY, k varchar(648) UNIQUE); GRANT ALL ON public.longest TO engines_ops;
		CREATE TABLE public.extra (id integer PRIMARY KEY, n integer); CREATE TABLE public.strange (id integer PRIMARY KEY, n integer CHECK (n + 1 > 0));
		GRANT ALL ON public.v, public.items, public.extra TO engines_ops; GRANT INSERT, UPDATE, DELETE ON public.v, public.items TO engines_write; GRANT SELECT (id), INSERT ON public.items TO engines_keys`
	enginesMariaDB = `CREATE TABLE engines.v (id BIGINT PRIMARY KEY, s SMALLINT, i INT, n DECIMAL(10,2), ok TINYINT(1) CHECK (ok IN (0,1)), t LONGTEXT,
			v VARCHAR(10) UNIQUE, raw LONGBLOB, day DATE, clock TIME(6), ts DATETIME(6), tz DATETIME(6) COMMENT 'timestamptz', u UUID, j JSON,
			num INT NOT NULL DEFAULT 7, d DOUBLE);
		CREATE TABLE engines.items (id BIGINT PRIMARY KEY, name VARCHAR(40)); INSERT INTO engines.items VALUES (1, 'first');
		CREATE TABLE engines.longest (id BIGINT PRIMARY KEY, k VARCHAR(648) UNIQUE); GRANT SELECT, INSERT, UPDATE, DELETE ON engines.longest TO engines_ops;
		CREATE TABLE engines.extra (id INT PRIMARY KEY, n INT); CREATE TABLE engines.strange (id INT PRIMARY KEY, n INT CHECK (n + 1 > 0));
		GRANT SELECT, INSERT, UPDATE, DELETE ON engines.v TO engines_ops; GRANT SELECT, INSERT, UPDATE, DELETE ON engines.items TO engines_ops;
		GRANT SELECT, INSERT, UPDATE, DELETE ON engines.extra TO engines_ops; GRANT engines_admin TO engines_ops;
		GRANT INSERT, UPDATE, DELETE ON engines.v TO engines_write; GRANT INSERT, UPDATE, DELETE ON engines.items TO engines_write;
		GRANT SELECT (id), INSERT ON engines.items TO engines_keys`
)

// engine is one of the two databases that get each block.
type engine struct {
	backend.Backend
	at     backend.Position
	states func() map[string]string // rows and lanes, by table
	tamper func(statement string)   // behind the ledger's back
}

// Each random block has the same LedgerBlockHash in both engines: the same outcomes, effects, rows
// and schema texts.
func TestEnginesAgreeOnRandomBlocks(t *testing.T) {
	pg, my := os.Getenv("CHAINIFY_TEST_PG"), os.Getenv("CHAINIFY_TEST_MARIADB")
	if pg == "" || my == "" {
		t.Skip("CHAINIFY_TEST_PG and CHAINIFY_TEST_MARIADB are not both set; `make test-mariadb` sets them")
	}
	random := &generator{Rand: seeded.Random(t), T: t, items: map[int64]string{1: "first"}}
	engines := []*engine{openPostgres(t, pg), openMariaDB(t, my)}
	attach := enginesBlock(1, &wire.Proposal{Kind: wire.Kind_KIND_DEPLOY, Sql: "ATTACH TABLE public.v, public.items ENCODING 2"})
	if a, b := engines[0].commit(t, attach), engines[1].commit(t, attach); a.Hash != b.Hash {
		t.Fatalf("attach: headers %+v, %+v", headerOf(t, a), headerOf(t, b))
	}
	counts := map[string]int{}
	for n := uint64(2); n <= 121; n++ {
		proposals := random.proposals()
		block := enginesBlock(n, proposals...)
		block.Round = 1
		a, b := engines[0].commit(t, block), engines[1].commit(t, block)
		for i := range proposals {
			x, y, p := a.Results[i], b.Results[i], proposals[i]
			if x.Succeeded != y.Succeeded || x.Rows != y.Rows && x.Succeeded && p.Kind == wire.Kind_KIND_SQL || a.Effects[i] != b.Effects[i] {
				t.Errorf("block %d, %s %v %x as %s: PostgreSQL %+v, MariaDB %+v", n, p.Sql, p.Parameters, p.Effects, p.Client.Role, x, y)
			}
			counts[fmt.Sprint(p.Kind, " ", x.SQLState)]++
		}
		if a.Hash != b.Hash {
			t.Fatalf("block %d: %s", n, difference(t, a, b, engines))
		}
	}
	for i, e := range engines {
		e.tamper("DELETE FROM items WHERE id = 100; UPDATE items SET name = 'tampered'; UPDATE v SET i = 5 WHERE i IS NULL; DELETE FROM v WHERE id < 1010; INSERT INTO items (id, name) VALUES (101, 'more')")
		e.restoredFrom(t, engines[1-i], 121)
	}
	// A table that the last block detaches would be in the way of the replay.
	proposals := slices.DeleteFunc(random.proposals(), func(p *wire.Proposal) bool { return p.Kind == wire.Kind_KIND_DEPLOY })
	if a, b := engines[0].commit(t, enginesBlock(122, proposals...)), engines[1].commit(t, enginesBlock(122, proposals...)); a.Hash != b.Hash {
		t.Errorf("after a restore, headers %+v, %+v", headerOf(t, a), headerOf(t, b))
	}
	for i, e := range engines {
		if _, err := e.Repair(t.Context(), backend.Replay, 122, e.at.Hash, 122, e.at.Hash); err != nil {
			t.Errorf("replay of engine %d: %v", i, err)
		}
	}
	t.Logf("transactions by kind and SQLSTATE: %v", counts)
	if counts["KIND_SQL "] < 500 || counts["KIND_EFFECTS "] < 300 || counts["KIND_DEPLOY "] < 8 {
		t.Error("too few transactions of a kind succeeded")
	}
}

func (e *engine) commit(t *testing.T, b *wire.OrderedBlock) backend.Execution {
	t.Helper()
	x, err := e.Execute(t.Context(), b, e.at.Hash)
	if err == nil {
		err = e.Commit(t.Context())
	}
	must.Do(t, err)
	if b.Number == 1 && !x.Results[0].Succeeded {
		t.Fatalf("attach: %+v", x.Results[0])
	}
	e.at.Hash = x.Hash
	return x
}

// restoredFrom takes the rows of the other engine at the end of a block.
func (e *engine) restoredFrom(t *testing.T, other *engine, number uint64) {
	t.Helper()
	reading, err := other.Read(t.Context(), number, other.at.Hash)
	must.Do(t, err)
	defer reading.Close()
	found, err := e.Restore(t.Context(), reading, number, e.at.Hash, number, e.at.Hash)
	if err != nil || len(found) == 0 {
		t.Fatalf("restore: %d rows found to differ, %v", len(found), err)
	}
	if again, err := e.Repair(t.Context(), backend.Rows, number, e.at.Hash, number, e.at.Hash); err != nil || len(again) != 0 {
		t.Errorf("rows that differ after the restore: %v, %v", again, err)
	}
}

// difference names the parts of two headers that differ, and the tables.
func difference(t *testing.T, a, b backend.Execution, engines []*engine) string {
	x, y := headerOf(t, a), headerOf(t, b)
	out := fmt.Sprintf("effects %x %x, count %d %d, state %x %x, outcomes %x %x", x.EffectsRoot, y.EffectsRoot, x.EffectsCount, y.EffectsCount,
		x.StateRoot, y.StateRoot, x.Outcomes.Bytes(), y.Outcomes.Bytes())
	here, there := engines[0].states(), engines[1].states()
	for name := range here {
		out += fmt.Sprintf("; %s equal: %v", name, here[name] == there[name])
	}
	return fmt.Sprint(out, "; of ", len(here), " and ", len(there), " tables")
}

func headerOf(t *testing.T, x backend.Execution) *wire.Header {
	t.Helper()
	h, err := wire.DecodeHeader(x.Header)
	must.Do(t, err)
	return h
}

func enginesBlock(n uint64, proposals ...*wire.Proposal) *wire.OrderedBlock {
	b := &wire.OrderedBlock{Number: n, Height: int64(2 * n), TimeMicro: int64(n) * 1_000_000}
	var raw [][]byte
	for i, p := range proposals {
		p.ChainId = "test"
		if p.Client == nil {
			p.Client = &wire.Client{Organisation: "a", Role: "engines_ops"}
		}
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
		run(server, "DROP ROLE engines_node, engines_ops, engines_write, engines_none, engines_keys")
	})
	dsn := server + " dbname=engines"
	run(dsn, enginesPG)
	b, err := postgres.New(postgres.Config{DSN: dsn + " user=engines_node", ChainID: "test", Organisation: "a"})
	must.Do(t, err)
	states := func() map[string]string {
		conn, err := pgx.Connect(t.Context(), dsn)
		must.Do(t, err)
		defer func() { _ = conn.Close(context.Background()) }()
		rows, err := conn.Query(t.Context(), `SELECT l.name, s.row_count, encode(s.lanes, 'hex') FROM chainify_ledger.ledger_table l
			JOIN chainify_ledger.table_state s ON s.table_id = l.id WHERE l.detached_at IS NULL`)
		must.Do(t, err)
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
	return openedEngine(t, b, states, func(statement string) {
		run(dsn, "SET chainify.guard = off; SET session_replication_role = replica; "+statement)
	})
}

func openMariaDB(t *testing.T, server string) *engine {
	root, err := sql.Open("mysql", server+"?multiStatements=true&charset=utf8mb4")
	must.Do(t, err)
	t.Cleanup(func() { _ = root.Close() })
	run := func(statements string) {
		if _, err := root.Exec(statements); err != nil {
			t.Fatalf("%.60s: %v", statements, err)
		}
	}
	run("CREATE DATABASE engines CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin; CREATE USER engines@localhost")
	t.Cleanup(func() {
		run("DROP DATABASE engines; DROP DATABASE engines_ledger; DROP USER engines@localhost; DROP ROLE engines_ops, engines_write, engines_none, engines_keys, engines_admin, engines_reader, engines_chainify")
	})
	must.Do(t, mariadb.Install(t.Context(), server+"engines", "engines@localhost", "engines_ops", "engines_write", "engines_none", "engines_keys"))
	run(enginesMariaDB)
	b, err := mariadb.New(mariadb.Config{DSN: strings.Replace(server, "root@", "engines@", 1) + "engines", ChainID: "test", Organisation: "a"})
	must.Do(t, err)
	states := func() map[string]string {
		rows, err := root.Query("SELECT name, row_count, lower(hex(lanes)) FROM engines_ledger.ledger_table WHERE detached_at IS NULL")
		must.Do(t, err)
		defer func() { _ = rows.Close() }()
		found := map[string]string{}
		for rows.Next() {
			var name, lanes string
			var count int64
			must.Do(t, rows.Scan(&name, &count, &lanes))
			found[name] = fmt.Sprint(count, " ", lanes)
		}
		must.Do(t, rows.Err())
		return found
	}
	return openedEngine(t, b, states, func(statement string) {
		run(`CREATE TEMPORARY TABLE engines_ledger.captured (seq BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(127), op CHAR(1), before_row LONGBLOB, after_row LONGBLOB);
			USE engines; ` + statement + "; DROP TEMPORARY TABLE engines_ledger.captured")
	})
}

// openedEngine polls until the backend has its database, at most ten seconds.
func openedEngine(t *testing.T, b backend.Backend, states func() map[string]string, tamper func(string)) *engine {
	t.Cleanup(func() { _ = b.Close() })
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, err := b.Position(t.Context())
		if err == nil {
			return &engine{Backend: b, states: states, tamper: tamper}
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
