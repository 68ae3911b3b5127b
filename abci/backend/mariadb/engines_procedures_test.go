package mariadb_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/mariadb"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// A transfer in the words of each engine: it reads a balance, raises where it is too small, changes
// two rows and adds a third.
const (
	transferPG = `CREATE TABLE public.account (id bigint PRIMARY KEY, owner varchar(20), balance numeric(12,2) NOT NULL);
		CREATE TABLE public.moved (id bigint PRIMARY KEY, amount numeric(12,2) NOT NULL, note text, made timestamp);
		INSERT INTO account VALUES (1, 'ann', 100.00), (2, 'ben', 5.50);
		GRANT ALL ON public.account, public.moved TO engines_ops; GRANT SELECT ON public.account, public.moved TO engines_none;
		CREATE PROCEDURE public.transfer(nr bigint, giver bigint, taker bigint, amount numeric, note text) LANGUAGE plpgsql AS $$
		DECLARE had numeric;
		BEGIN
			SELECT balance INTO had FROM account WHERE id = giver;
			IF had IS NULL OR had < amount THEN
				RAISE EXCEPTION 'balance too small';
			END IF;
			UPDATE account SET balance = balance - amount WHERE id = giver;
			UPDATE account SET balance = balance + amount WHERE id = taker;
			INSERT INTO moved (id, amount, note, made) VALUES (nr, amount, note, now() AT TIME ZONE 'UTC');
		END $$;
		REVOKE EXECUTE ON PROCEDURE public.transfer FROM PUBLIC;
		GRANT EXECUTE ON PROCEDURE public.transfer TO engines_ops;
		CREATE PROCEDURE public.nothing() LANGUAGE sql AS 'SELECT 1'`
	transferMariaDB = `CREATE TABLE engines.account (id BIGINT PRIMARY KEY, owner VARCHAR(20), balance DECIMAL(12,2) NOT NULL);
		CREATE TABLE engines.moved (id BIGINT PRIMARY KEY, amount DECIMAL(12,2) NOT NULL, note LONGTEXT, made DATETIME(6));
		INSERT INTO engines.account VALUES (1, 'ann', 100.00), (2, 'ben', 5.50);
		GRANT SELECT, INSERT, UPDATE, DELETE ON engines.account TO engines_ops; GRANT SELECT, INSERT, UPDATE, DELETE ON engines.moved TO engines_ops;
		GRANT SELECT ON engines.account TO engines_none; GRANT SELECT ON engines.moved TO engines_none; ` + mariadb.ProcedureSettings + `;
		CREATE PROCEDURE engines.transfer(nr BIGINT, giver BIGINT, taker BIGINT, amount DECIMAL(65,38), note LONGTEXT) SQL SECURITY INVOKER
		BEGIN
			DECLARE had DECIMAL(12,2);
			SELECT balance INTO had FROM account WHERE id = giver;
			IF had IS NULL OR had < amount THEN
				SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'balance too small';
			END IF;
			UPDATE account SET balance = balance - amount WHERE id = giver;
			UPDATE account SET balance = balance + amount WHERE id = taker;
			INSERT INTO moved (id, amount, note, made) VALUES (nr, amount, note, now(6));
			SELECT 'a result that nobody reads';
		END;
		GRANT EXECUTE ON PROCEDURE engines.transfer TO engines_ops;
		CREATE PROCEDURE engines.nothing() SQL SECURITY INVOKER SELECT 1`
	transferSignature = "(bigint, bigint, bigint, numeric, text)"
)

// digests are the words of a procedure in both engines, as the text that attaches it names them.
func digests(t *testing.T, pg, my, name string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pg+" dbname=engines")
	must.Do(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	pool, err := sql.Open("mysql", my+"engines")
	must.Do(t, err)
	defer func() { _ = pool.Close() }()
	var there, here string
	must.Do(t, conn.QueryRow(t.Context(), "SELECT chainify.procedure_digest($1::regproc::regprocedure)", "public."+name).Scan(&there))
	must.Do(t, pool.QueryRowContext(t.Context(), "SELECT engines_ledger.procedure_digest(?)", name).Scan(&here))
	return "MARIADB " + here + " POSTGRESQL " + there
}

func deployOf(text string) *wire.Proposal {
	return &wire.Proposal{Kind: wire.Kind_KIND_DEPLOY, Sql: text}
}

func callOf(text string, parameters ...*wire.Parameter) *wire.Proposal {
	return &wire.Proposal{Kind: wire.Kind_KIND_SQL, Sql: text, Parameters: parameters}
}

// procedures are two engines with the procedures above, and their tables on the ledger.
func procedures(t *testing.T) (engines []*engine, attach string) {
	pg, my := os.Getenv("CHAINIFY_TEST_PG"), os.Getenv("CHAINIFY_TEST_MARIADB")
	if pg == "" || my == "" {
		t.Skip("CHAINIFY_TEST_PG and CHAINIFY_TEST_MARIADB are not both set; `make test-mariadb` sets them")
	}
	engines = []*engine{openPostgres(t, pg), openMariaDB(t, my)}
	engines[0].tamper(transferPG)
	engines[1].tamper(transferMariaDB)
	attach = "ATTACH PROCEDURE public.transfer " + transferSignature + " ENCODING 2 " + digests(t, pg, my, "transfer")
	both(t, engines, 1, []bool{true}, deployOf("ATTACH TABLE public.account, public.moved ENCODING 2"))
	return engines, attach
}

// both commits a block in both engines, and expects one hash and these outcomes.
func both(t *testing.T, engines []*engine, n uint64, want []bool, proposals ...*wire.Proposal) []backend.Execution {
	t.Helper()
	block := enginesBlock(n, proposals...)
	block.Round = 1
	a, b := engines[0].commit(t, block), engines[1].commit(t, block)
	for i := range proposals {
		x, y := a.Results[i], b.Results[i]
		if x.Succeeded != want[i] || y.Succeeded != want[i] || x.Rows != y.Rows || a.Effects[i] != b.Effects[i] {
			t.Errorf("block %d, %s: PostgreSQL %+v, MariaDB %+v, want %v", n, proposals[i].Sql, x, y, want[i])
		}
	}
	if a.Hash != b.Hash {
		t.Fatalf("block %d: %s", n, difference(t, a, b, engines))
	}
	return []backend.Execution{a, b}
}

// A procedure that each engine has in words of its own gives both the same blocks.
func TestEnginesAgreeOnProcedures(t *testing.T) {
	engines, attach := procedures(t)
	yes, no := true, false
	of := func(logical, text string) *wire.Parameter { return &wire.Parameter{Type: logical, Text: text} }
	both(t, engines, 2, []bool{no, yes, no}, callOf("CALL transfer(1, 1, 2, 10.5, 'x')"), deployOf(attach), callOf("CALL transfer(1, 1, 2, 10.5, 'x')"))
	refused := both(t, engines, 3, []bool{yes, no, no, yes, no, no, yes, no, yes, no},
		callOf("CALL transfer(1, 1, 2, 10.5, 'it''s')"), callOf("CALL transfer(2, 1, 2, 1000, NULL)"), callOf("CALL transfer(1, 1, 2, 1, NULL)"),
		callOf("CALL public.transfer($1, $2, $3, $4, $5)", of("bigint", "3"), of("integer", "2"), of("", "1"), of("numeric", "1.005"), of("text", "x")),
		callOf("CALL transfer(4, 1, 2, 1)"), callOf("CALL transfer('4', 1, 2, 1, NULL)"), callOf("UPDATE account SET owner = owner || '!' WHERE id = 1"),
		&wire.Proposal{Kind: wire.Kind_KIND_SQL, Sql: "CALL transfer(5, 1, 2, 1, NULL)", Client: &wire.Client{Organisation: "a", Role: "engines_none"}},
		callOf("CALL transfer(6, 1, 2, -1, 'negative')"), callOf("CALL nothing()"))
	for i, want := range map[int][2]string{1: {"P0001", "P0001"}, 2: {"23505", "23505"}, 4: {"CH011", "CH011"}, 5: {"CH011", "CH011"}, 7: {"42501", "42501"}, 9: {"CH011", "CH011"}} {
		if got := [2]string{refused[0].Results[i].SQLState, refused[1].Results[i].SQLState}; got != want {
			t.Errorf("transaction %d: %v, want %v; %+v", i, got, want, refused[1].Results[i])
		}
	}
	// One that leaves in the block is called by those of the block all the same.
	both(t, engines, 4, []bool{yes, yes, no}, deployOf("DETACH PROCEDURE public.transfer"), callOf("CALL transfer(7, 1, 2, 1, NULL)"), deployOf("DETACH PROCEDURE public.transfer"))
	both(t, engines, 5, []bool{no, yes}, callOf("CALL transfer(8, 1, 2, 1, NULL)"), deployOf(attach))
	both(t, engines, 6, []bool{yes, no}, callOf("CALL transfer(8, 1, 2, 1, NULL)"), deployOf(attach))
	for i, e := range engines {
		e.tamper("UPDATE account SET owner = 'tampered'")
		e.restoredFrom(t, engines[1-i], 6)
		e.tamper("UPDATE account SET balance = 0 WHERE id = 2")
		if _, err := e.Repair(t.Context(), backend.Rows, 6, e.at.Hash, 6, e.at.Hash); err != nil {
			t.Errorf("rows of engine %d: %v", i, err)
		}
	}
	// A call that fails leaves the changes of before as they were.
	both(t, engines, 7, []bool{yes, no, yes, no, yes}, callOf("UPDATE account SET owner = 'x' WHERE id = 1"), callOf("CALL transfer(9, 1, 2, 1000, NULL)"),
		callOf("UPDATE account SET owner = owner || 'y' WHERE id = 2"), callOf("CALL transfer(9, 1, 2, 1000, NULL)"), callOf("CALL transfer(9, 1, 2, 1, NULL)"))
}

// A name has one wording for good, so that blocks of before can be executed again.
func TestAProcedureKeepsItsWordsForGood(t *testing.T) {
	engines, attach := procedures(t)
	both(t, engines, 2, []bool{true}, deployOf(attach))
	other := func(old, words string) *wire.Proposal {
		changed := strings.Replace(attach, old, words, 1)
		if changed == attach {
			t.Fatalf("%s has no %s", attach, old)
		}
		return deployOf(changed)
	}
	at := strings.Index(attach, " MARIADB ") + len(" MARIADB ")
	digest := attach[at : at+64]
	refused := []*wire.Proposal{
		deployOf("DETACH PROCEDURE public.transfer"),
		deployOf(attach[:len(attach)-64] + strings.Repeat("0f", 32)), other(digest, strings.Repeat("0f", 32)),
		other(" MARIADB "+digest, ""), deployOf(attach[:at+64]), other("numeric, text", "numeric, json"), other("numeric, text", "numeric"),
	}
	for _, x := range both(t, engines, 3, []bool{true, false, false, false, false, false, false}, refused...) {
		for i, result := range x.Results[1:] {
			if !strings.Contains(result.Message, "in other words: those of a name stay for good") {
				t.Errorf("%s: %+v", refused[i+1].Sql, result)
			}
		}
	}
	both(t, engines, 4, []bool{true}, deployOf(attach))
}

// A procedure with other words than those agreed is not attached there, and shows in the state root
// where it changes later.
func TestOtherWordsOfAProcedureAreFound(t *testing.T) {
	change := []string{
		"CREATE OR REPLACE PROCEDURE public.transfer(nr bigint, giver bigint, taker bigint, amount numeric, note text) LANGUAGE plpgsql AS $$ BEGIN NULL; END $$",
		"CREATE OR REPLACE PROCEDURE engines.transfer(nr BIGINT, giver BIGINT, taker BIGINT, amount DECIMAL(65,38), note LONGTEXT) SQL SECURITY INVOKER BEGIN END",
	}
	for i := range change {
		t.Run(fmt.Sprint("engine ", i), func(t *testing.T) {
			engines, attach := procedures(t)
			block := enginesBlock(2, deployOf(attach))
			engines[i].tamper(change[i])
			x, err := engines[i].Execute(t.Context(), block, engines[i].at.Hash)
			if err != nil || x.Results[0].SQLState != "CH005" {
				t.Errorf("other words are attached: %+v, %v", x.Results, err)
			}
			if y := engines[1-i].commit(t, block); !y.Results[0].Succeeded || y.Hash == x.Hash {
				t.Errorf("%+v; equal hashes: %v", y.Results[0], y.Hash == x.Hash)
			}
		})
		t.Run(fmt.Sprint("engine ", i, " later"), func(t *testing.T) {
			engines, attach := procedures(t)
			both(t, engines, 2, []bool{true}, deployOf(attach))
			engines[i].tamper(change[i])
			block := enginesBlock(3, callOf("DELETE FROM moved"))
			a, err := engines[0].Execute(t.Context(), block, engines[0].at.Hash)
			must.Do(t, err)
			b, err := engines[1].Execute(t.Context(), block, engines[1].at.Hash)
			if x, y := headerOf(t, a), headerOf(t, b); err != nil || x.StateRoot == y.StateRoot || x.EffectsRoot != y.EffectsRoot {
				t.Errorf("%+v, %+v, %v", x, y, err)
			}
			for _, e := range engines {
				must.Do(t, e.Rollback(t.Context()))
			}
			if _, err := engines[i].Repair(t.Context(), backend.Rows, 2, engines[i].at.Hash, 3, a.Hash); err == nil {
				t.Error("rows are put right where a procedure is another")
			}
		})
	}
}
