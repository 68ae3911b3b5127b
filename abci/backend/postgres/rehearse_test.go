package postgres

import (
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
)

// A rehearsal leaves nothing behind, neither its rows nor a transaction on its connection, and says how the transaction would fail.
func TestRehearsalsLeaveNothing(t *testing.T) {
	dsn := database(t, setup)
	b := open(t, dsn+" user=effects_node")
	at := connected(t, b)
	if _, err := b.Execute(t.Context(), extensionBlock(1), at.Hash); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	rehearsal := func(sql string) []byte {
		return wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: marshal(&wire.Proposal{
			ChainId: "test", Client: &wire.Client{Organisation: "a", Role: "effects_ops"}, Nonce: 1, ValidUntilHeight: 1000, Kind: wire.Kind_KIND_SQL, Sql: sql,
		})}})
	}
	for range 2 { // the second time as the first
		if r, err := b.Rehearse(t.Context(), rehearsal("INSERT INTO items VALUES (2, 'x')")); err != nil || r.SQLState != "" || len(r.Wanted) != 0 {
			t.Errorf("an insert: %+v, %v", r, err)
		}
		if r, err := b.Rehearse(t.Context(), rehearsal("INSERT INTO items VALUES (1, 'twice')")); err != nil || r.SQLState != "23505" {
			t.Errorf("a duplicate key: %+v, %v", r, err)
		}
		if _, err := b.Rehearse(t.Context(), []byte{1, 2, 3}); sqlState(err) != "22023" {
			t.Errorf("no transaction: %v", err)
		}
	}
	if s := b.rehearsals.Stat(); s.NewConnsCount() != 1 || s.AcquiredConns() != 0 {
		t.Errorf("%d connections were made, %d are in use, want one that is used again", s.NewConnsCount(), s.AcquiredConns())
	}
}
