package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/backendtest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// The node works as a role that may do nothing but what chainify_node may. Roles are the cluster's,
// not the database's.
const setup = `
CREATE EXTENSION chainify;
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'effects_node') THEN
        CREATE ROLE effects_node LOGIN IN ROLE chainify_node;
        CREATE ROLE effects_ops IN ROLE chainify_admin;
    END IF;
END $$;
CREATE TABLE public.items (id bigint PRIMARY KEY, name text);
INSERT INTO public.items VALUES (1, 'first');
GRANT ALL ON public.items TO effects_ops`

// endless runs until it is cancelled, and holds no more memory the longer it runs.
const endless = `WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n % 2 FROM r) SELECT count(*) FROM r`

func TestExtensionConforms(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backendtest.Subject {
		dsn := database(t, setup)
		return backendtest.Subject{
			Open: func(t *testing.T) backend.Backend {
				return elsewhere{open(t, dsn+" user=effects_node"), t, dsn + " user=effects_node"}
			},
			Block: extensionBlock,
			Tamper: func(t *testing.T) {
				run(t, dsn, `SET chainify.guard = off; UPDATE public.items SET name = 'tampered' WHERE id = 1`)
			},
			TamperBoth: func(t *testing.T) {
				run(t, dsn, `SET chainify.guard = off; UPDATE public.items SET name = 'tampered' WHERE id = 1;
					UPDATE chainify_history.items SET name = 'tampered'`)
			},
			TamperHistory: func(t *testing.T) {
				run(t, dsn, `SET chainify.guard = off; UPDATE public.items SET name = 'tampered' WHERE id = 1;
					UPDATE chainify_history.items SET name = 'tampered'; UPDATE chainify_checkpoint.items SET name = 'tampered'`)
			},
			TamperPast: func(t *testing.T) {
				run(t, dsn, `SET chainify.guard = off; UPDATE chainify_history.items SET name = 'tampered' WHERE _block = 2;
					UPDATE chainify_ledger.ledger_table SET base_block = 2; SELECT chainify_node.audit()`)
			},
			Scrub: func(t *testing.T) { run(t, dsn, `SELECT chainify_node.scrub('public.items')`) },
			Stick: func(n uint64) (*wire.OrderedBlock, func()) {
				b := orderedBlock(n, wire.Kind_KIND_SQL, endless)
				b.Budget = wire.Budget{Statements: time.Second, Deploys: time.Minute}
				return b, func() {}
			},
		}
	})
}

// extensionBlock attaches the table, then every block adds a row and changes the first one.
func extensionBlock(n uint64) *wire.OrderedBlock {
	if n == 1 {
		return orderedBlock(n, wire.Kind_KIND_DEPLOY, "ATTACH TABLE public.items")
	}
	return orderedBlock(n, wire.Kind_KIND_SQL,
		fmt.Sprintf("INSERT INTO items VALUES (%d, 'x')", n), "UPDATE items SET name = name || '!' WHERE id = 1")
}

func orderedBlock(n uint64, kind wire.Kind, statements ...string) *wire.OrderedBlock {
	b := &wire.OrderedBlock{Number: n, Height: int64(2 * n), TimeMicro: int64(n) * 1_000_000}
	var raw [][]byte
	for i, sql := range statements {
		proposal := marshal(&wire.Proposal{
			ChainId: "test", Client: &wire.Client{Organisation: "a", Role: "effects_ops"}, Nonce: n<<8 + uint64(i),
			ValidUntilHeight: 1000, Kind: kind, Sql: sql,
		})
		b.IDs = append(b.IDs, wire.TxIDOf(proposal))
		raw = append(raw, marshal(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: proposal}}))
	}
	b.Transactions = wire.EncodeTransactions(raw)
	return b
}

func marshal(m proto.Message) []byte {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return raw
}

func TestAFailedTransactionKeepsItsReason(t *testing.T) {
	dsn := database(t, setup)
	b := open(t, dsn+" user=effects_node")
	at := connected(t, b)
	first, err := b.Execute(t.Context(), extensionBlock(1), at.Hash)
	if err == nil {
		err = b.Commit(t.Context())
	}
	must.Do(t, err)
	if r := first.Results[0]; !r.Succeeded {
		t.Fatalf("attach: %+v", r)
	}
	x, err := b.Execute(t.Context(), orderedBlock(2, wire.Kind_KIND_SQL, "INSERT INTO items VALUES (1, 'twice')", "UPDATE items SET name = 'y'"), first.Hash)
	must.Do(t, err)
	if r := x.Results[0]; r.Succeeded || r.SQLState != "23505" || !strings.Contains(r.Message, "items_pkey") || r.Index != 0 {
		t.Errorf("a duplicate key gives %+v", r)
	}
	if r := x.Results[1]; !r.Succeeded || r.Rows != 1 || r.SQLState != "" || r.Block != 2 || r.Index != 1 {
		t.Errorf("an update gives %+v", r)
	}
	header, err := wire.DecodeHeader(x.Header)
	if err != nil || header.Hash() != x.Hash {
		t.Errorf("header %+v (%v) does not hash to %x", header, err, x.Hash)
	}
}

// Lack of room for a sort is the machine's, not the statement's: it is no outcome, and the error
// says where it happened.
func TestAnErrorOfTheMachineNamesItsTransaction(t *testing.T) {
	dsn := database(t, setup)
	run(t, dsn, `CREATE FUNCTION public.exhaust(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
		$$ BEGIN RETURN (SELECT count(*) FROM (SELECT i FROM generate_series(1, 1000000) i ORDER BY i) s); END $$;
		DO $$ BEGIN
			EXECUTE format('ALTER DATABASE %I SET temp_file_limit = ''10MB''', current_database());
			EXECUTE format('ALTER DATABASE %I SET work_mem = ''64kB''', current_database());
		END $$`)
	b := open(t, dsn+" user=effects_node")
	at := connected(t, b)
	first, err := b.Execute(t.Context(), extensionBlock(1), at.Hash)
	if err == nil {
		err = b.Commit(t.Context())
	}
	must.Do(t, err)
	_, err = b.Execute(t.Context(), orderedBlock(2, wire.Kind_KIND_SQL,
		"INSERT INTO items VALUES (2, 'x')", "UPDATE items SET id = public.exhaust(id) WHERE id = 2"), first.Hash)
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "53400" || !strings.HasPrefix(e.Detail, "chainify block 2 tx 1") {
		t.Fatalf("%v with detail %+v", err, e)
	}
}

func TestInspectTellsDeviationsAndTheScrubbersAge(t *testing.T) {
	dsn := database(t, setup)
	b := open(t, dsn+" user=effects_node")
	at := connected(t, b)
	if h, err := b.Inspect(t.Context()); err != nil || h != (backend.Health{ScrubInterval: 10 * time.Minute}) {
		t.Errorf("without tables: %+v, %v", h, err)
	}
	if _, err := b.Execute(t.Context(), extensionBlock(1), at.Hash); err != nil {
		t.Fatal(err)
	}
	must.Do(t, b.Commit(t.Context()))
	run(t, dsn, `SELECT chainify_node.scrub('public.items')`)
	if h, err := b.Inspect(t.Context()); err != nil || h.Deviations != 0 || h.ScrubAge <= 0 || h.ScrubAge > time.Hour {
		t.Errorf("after scrubbing: %+v, %v", h, err)
	}
	run(t, dsn, `SET chainify.guard = off; UPDATE public.items SET name = 'tampered' WHERE id = 1; SELECT chainify_node.scrub('public.items')`)
	if h, err := b.Inspect(t.Context()); err != nil || h.Deviations != 1 {
		t.Errorf("after tampering: %+v, %v", h, err)
	}
}

func TestMirrorsAreCountedWithoutAWorker(t *testing.T) {
	dsn := database(t, setup)
	b := open(t, dsn+" user=effects_node")
	at := connected(t, b)
	if m, err := b.Mirrors(t.Context()); err != nil || m != (backend.Mirrors{}) {
		t.Errorf("without mirrors: %+v, %v", m, err)
	}
	if _, err := b.Execute(t.Context(), extensionBlock(1), at.Hash); err != nil {
		t.Fatal(err)
	}
	must.Do(t, b.Commit(t.Context()))
	run(t, dsn, `SELECT chainify.mirror('public.items'); INSERT INTO chainify_ledger.snapshot_pin (name, block) VALUES ('month', 1)`)
	if m, err := b.Mirrors(t.Context()); err != nil || m != (backend.Mirrors{Wanted: 1, Pinned: 1}) {
		t.Errorf("without a worker: %+v, %v", m, err)
	}
}
