package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

func TestWhatNeverPassesIsStuckAtOnce(t *testing.T) {
	stuckAtOnce(t, database(t, setup), "SELECT repeat('[', 1000000)::json", "SELECT float8_avg('{1}')")
}

func TestWhatNeedsTooMuchMemoryIsStuckAtOnce(t *testing.T) {
	dsn := database(t, setup)
	run(t, dsn, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET chainify.block_memory = ''64MB''', current_database()); END $$`)
	const keeps = "SELECT cardinality(array_agg(repeat('x', 1000000) || g)) FROM generate_series(1, 900) g"
	b := steady(t, dsn)
	at := connected(t, b)
	_, err := b.Execute(t.Context(), orderedBlock(1, wire.Kind_KIND_SQL, "SELECT 1", keeps), at.Hash)
	var stuck *backend.StuckError
	if !errors.As(err, &stuck) || stuck.Index != 1 {
		t.Errorf("%v, want stuck at 1 the first time", err)
	}
}

// An error of the machine that does not pass is no outcome. It holds a block up no longer than it
// takes to see it twice. The backend names further ones of that block at once.
func stuckAtOnce(t *testing.T, dsn, one, other string) {
	t.Helper()
	b := steady(t, dsn) // a minute for what may pass
	hash := connected(t, b).Hash
	for n, failing := range [][2]string{{one, other}, {other, one}} {
		block := orderedBlock(uint64(n)+1, wire.Kind_KIND_SQL, "SELECT 1", failing[0], "SELECT 2", failing[1])
		stuck := func() *uint32 {
			t.Helper()
			x, err := b.Execute(t.Context(), block, hash)
			var e *backend.StuckError
			switch state := sqlState(err); {
			case errors.As(err, &e):
				return &e.Index
			case err == nil:
				t.Fatalf("executed, with outcomes %+v", x.Results)
			case state != "54001" && state != "XX000":
				t.Fatal(err)
			}
			return nil
		}
		if first := stuck(); first != nil {
			t.Errorf("stuck at %d when it failed once", *first)
		}
		if second := stuck(); second == nil || *second != 1 {
			t.Fatalf("the second time stuck at %v, want 1", second)
		}
		block.Quarantined = []uint32{1}
		if third := stuck(); third == nil || *third != 3 {
			t.Fatalf("stuck at %v, want 3 at once", third)
		}
		block.Quarantined = []uint32{1, 3}
		x, err := b.Execute(t.Context(), block, hash)
		if err == nil {
			err = b.Commit(t.Context())
		}
		must.Do(t, err)
		for i, want := range []string{"", "CH001", "", "CH001"} {
			if x.Results[i].SQLState != want {
				t.Errorf("transaction %d: %s, want %s", i, x.Results[i].SQLState, want)
			}
		}
		hash = x.Hash
	}
}

// Servers whose stacks may be of different size execute the same block, calls and statements at the
// edge of what is allowed included.
func TestServersWithDifferentStacksAgree(t *testing.T) {
	const functions = `
		CREATE FUNCTION deep(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN CASE WHEN n = 0 THEN 0 ELSE deep(n - 1) + 1 END; END';
		CREATE FUNCTION caught(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN deep(n); EXCEPTION WHEN OTHERS THEN RETURN -1; END'`
	statements := []string{
		"INSERT INTO t VALUES (1, deep(198))", "INSERT INTO t VALUES (2, deep(199))", "INSERT INTO t VALUES (3, deep(201))", "INSERT INTO t VALUES (4, caught(3000))",
		"INSERT INTO t VALUES (5, 0" + strings.Repeat(" + 1", 990) + ")", "INSERT INTO t VALUES (6, 0" + strings.Repeat(" + 1", 5000) + ")",
	}
	var hashes []wire.Hash
	var outcomes []string
	for _, depth := range []string{"100kB", "7MB"} {
		server := crashServer(t, map[string]string{"max_stack_depth": "'" + depth + "'"})
		dsn := newLedger(t, server, "stack")
		b := steady(t, dsn)
		at := connected(t, b)
		hash := executed(t, b, orderedBlock(1, wire.Kind_KIND_DEPLOY, "CREATE TABLE public.t (id bigint PRIMARY KEY, n int)"), at.Hash, time.Minute)
		run(t, dsn, functions)
		x, err := b.Execute(t.Context(), orderedBlock(2, wire.Kind_KIND_SQL, statements...), hash)
		if err != nil {
			t.Fatalf("max_stack_depth %s: %v", depth, err)
		}
		var states []string
		for _, result := range x.Results {
			states = append(states, result.SQLState)
		}
		hashes, outcomes = append(hashes, x.Hash), append(outcomes, strings.Join(states, ","))
	}
	if hashes[0] != hashes[1] || outcomes[0] != outcomes[1] {
		t.Errorf("blocks %x with %q", hashes, outcomes)
	}
	t.Log(outcomes[0])
}
