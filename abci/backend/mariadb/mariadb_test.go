package mariadb

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/backendtest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

var databases atomic.Int64

// organisation is a fresh database on the server of CHAINIFY_TEST_MARIADB, with the roles of an
// organisation of its own.
type organisation struct {
	name string
	root *sql.DB // an administrator, whom nothing guards against
	dsn  string  // of the node
}

func fresh(t *testing.T, tables ...string) *organisation {
	t.Helper()
	server := os.Getenv("CHAINIFY_TEST_MARIADB")
	if server == "" {
		t.Skip("CHAINIFY_TEST_MARIADB is not set: it names a MariaDB server, for an administrator; `make test-mariadb` sets it")
	}
	o := &organisation{name: fmt.Sprintf("effects_%d_%d", os.Getpid(), databases.Add(1))}
	var err error
	if o.root, err = sql.Open("mysql", server+"?multiStatements=true&charset=utf8mb4&sql_mode=%27"+modes+"%27"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.root.Close() })
	o.run(t, "CREATE DATABASE "+o.name+" CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin; CREATE USER "+o.name+"@localhost")
	t.Cleanup(func() {
		o.run(t, strings.ReplaceAll("DROP DATABASE %; DROP DATABASE %_ledger; DROP USER %@localhost; DROP ROLE %_admin, %_reader, %_chainify", "%", o.name))
	})
	must.Do(t, Install(t.Context(), server+o.name, o.name+"@localhost", operators))
	o.run(t, "GRANT "+o.name+"_admin TO "+operators)
	for _, table := range tables {
		o.run(t, strings.ReplaceAll(table, "%", o.name))
	}
	o.dsn = strings.Replace(server, "root@", o.name+"@", 1) + o.name
	return o
}

// operators is the role of all clients. Roles are the server's, and a block names them.
const operators = "effects_ops"

func (o *organisation) run(t *testing.T, statements string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if _, err := o.root.ExecContext(ctx, statements); err != nil {
		t.Fatalf("%.60s: %v", statements, err)
	}
}

// unguarded runs statements in a session that has a list of changes, so that triggers refuse
// nothing.
func (o *organisation) unguarded(t *testing.T, statements string) {
	t.Helper()
	o.run(t, names{o.name}.in(captured)+"; "+names{o.name}.in(statements)+"; DROP TEMPORARY TABLE "+o.name+"_ledger.captured")
}

func (o *organisation) open(t *testing.T) *Backend {
	t.Helper()
	b, err := New(Config{DSN: o.dsn, ChainID: "test", Organisation: "a", StuckAfter: time.Second})
	must.Do(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

const items = `CREATE TABLE %.items (id BIGINT PRIMARY KEY, name VARCHAR(40)); INSERT INTO %.items VALUES (1, 'first');
	GRANT SELECT, INSERT, UPDATE, DELETE ON %.items TO effects_ops`

func TestMariaDBConforms(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backendtest.Subject {
		o := fresh(t, items)
		var opened *Backend
		return backendtest.Subject{
			Open: func(t *testing.T) backend.Backend {
				opened = o.open(t)
				return opened
			},
			Block:  itemsBlock,
			Tamper: func(t *testing.T) { o.unguarded(t, "UPDATE %D.items SET name = 'tampered' WHERE id = 1") },
			TamperBoth: func(t *testing.T) {
				o.unguarded(t, "UPDATE %D.items SET name = 'tampered' WHERE id = 1; UPDATE %L.history SET row_bytes = x'0000'")
			},
			TamperHistory: func(t *testing.T) {
				o.unguarded(t, `UPDATE %D.items SET name = 'tampered' WHERE id = 1; UPDATE %L.history SET row_bytes = x'0000';
					UPDATE %L.base SET row_bytes = (SELECT row_bytes FROM %L.history LIMIT 1)`)
			},
			TamperPast: func(t *testing.T) {
				o.unguarded(t, "UPDATE %L.history SET row_bytes = x'0000' WHERE block = 2 LIMIT 1")
				if next, err := opened.Audit(t.Context(), 1, 100); err != nil || next != 0 {
					t.Fatal(next, err)
				}
			},
			Scrub: func(t *testing.T) {
				must.Do(t, opened.Scrub(t.Context()))
			},
			Stick: o.stick(t),
		}
	})
}

// itemsBlock attaches the table, then every block adds a row and changes the first one.
func itemsBlock(n uint64) *wire.OrderedBlock {
	if n == 1 {
		return block(n, wire.Kind_KIND_DEPLOY, "ATTACH TABLE public.items ENCODING 2")
	}
	return block(n, wire.Kind_KIND_SQL,
		fmt.Sprintf("INSERT INTO items (id, name) VALUES (%d, 'x')", n), "UPDATE items SET name = name || '!' WHERE id = 1")
}

// proposal is a transaction without its client and place.
type proposal struct {
	kind    wire.Kind
	sql     string
	effects []byte
	role    string // empty: operators
}

func block(n uint64, kind wire.Kind, statements ...string) *wire.OrderedBlock {
	var proposals []proposal
	for _, sql := range statements {
		proposals = append(proposals, proposal{kind: kind, sql: sql})
	}
	return blockOf(n, proposals...)
}

func blockOf(n uint64, proposals ...proposal) *wire.OrderedBlock {
	b := &wire.OrderedBlock{Number: n, Height: int64(2 * n), TimeMicro: int64(n) * 1_000_000}
	var raw [][]byte
	for i, p := range proposals {
		encoded := wire.Encode(&wire.Proposal{
			ChainId: "test", Client: &wire.Client{Organisation: "a", Role: cmp.Or(p.role, operators)}, Nonce: n<<8 + uint64(i),
			ValidUntilHeight: 1000, Kind: p.kind, Sql: p.sql, Effects: p.effects,
		})
		b.IDs = append(b.IDs, wire.TxIDOf(encoded))
		raw = append(raw, wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: encoded}}))
	}
	b.Transactions = wire.EncodeTransactions(raw)
	return b
}

// stick lets another session lock the row that a block changes, and nothing ends it.
func (o *organisation) stick(t *testing.T) func(uint64) (*wire.OrderedBlock, func()) {
	return func(n uint64) (*wire.OrderedBlock, func()) {
		o.run(t, "DROP PROCEDURE IF EXISTS "+o.name+"_ledger.end_holders")
		tx, err := o.root.BeginTx(context.Background(), nil)
		if err == nil {
			_, err = tx.Exec("SELECT * FROM " + o.name + ".items WHERE id = 1 FOR UPDATE")
		}
		must.Do(t, err)
		b := block(n, wire.Kind_KIND_SQL, "UPDATE items SET name = 'stuck' WHERE id = 1")
		b.Budget = wire.Budget{Statements: time.Second, Deploys: time.Minute}
		return b, func() { _ = tx.Rollback() }
	}
}

// connected polls until the backend reaches its database, at most ten seconds.
func connected(t *testing.T, b *Backend) backend.Position {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		p, err := b.Position(t.Context())
		if err == nil {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestAnotherChainIsRefused(t *testing.T) {
	o := fresh(t)
	connected(t, o.open(t))
	other, err := New(Config{DSN: o.dsn, ChainID: "other", Organisation: "a"})
	must.Do(t, err)
	defer func() { _ = other.Close() }()
	if err := claim(t.Context(), other.pool, other.name, "other", "a"); err == nil || !strings.Contains(err.Error(), "name the chain: ") {
		t.Fatal(err)
	}
}
