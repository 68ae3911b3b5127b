package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// An error of the machine that does not pass is no outcome, and holds a block up no longer than it takes to see it twice; further ones of
// that block are named at once.
func TestWhatExceedsTheStackIsStuckAtOnce(t *testing.T) {
	const deep = "SELECT repeat('[', 1000000)::json"
	b := steady(t, database(t, setup)) // a minute for what may pass
	at := connected(t, b)
	block := orderedBlock(1, wire.Kind_KIND_SQL, "SELECT 1", deep, "SELECT 2", deep)
	began := time.Now()
	stuck := func() *uint32 {
		t.Helper()
		x, err := b.Execute(t.Context(), block, at.Hash)
		var e *backend.StuckError
		switch {
		case errors.As(err, &e):
			return &e.Index
		case err == nil:
			t.Fatalf("executed, with outcomes %+v", x.Results)
		case sqlState(err) != "54001":
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
	x, err := b.Execute(t.Context(), block, at.Hash)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "CH001", "", "CH001"} {
		if x.Results[i].SQLState != want {
			t.Errorf("transaction %d: %s, want %s", i, x.Results[i].SQLState, want)
		}
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}
