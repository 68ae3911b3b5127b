package postgres

import (
	"errors"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// A block is judged in a ledger of several engines, and where the ledger may become one. It also is
// while the standing of the ledger is not known. The other blocks cost no question.
func TestBlocksThatAreJudged(t *testing.T) {
	plain := orderedBlock(1, wire.Kind_KIND_SQL, "SELECT 1").Transactions
	attaching := orderedBlock(1, wire.Kind_KIND_DEPLOY, "ATTACH TABLE public.items ENCODING 2").Transactions
	for _, c := range []struct {
		standing     string
		transactions []byte
		want         bool
	}{
		{"", plain, true}, {"own", plain, false}, {"open", plain, false}, {"shared", plain, true}, {"own", attaching, true}, {"open", attaching, true},
	} {
		if got := judges(c.standing, c.transactions); got != c.want {
			t.Errorf("%q, %d bytes: %v", c.standing, len(c.transactions), got)
		}
	}
	if _, err := proposalsOf(wire.EncodeTransactions([][]byte{{1}})); err == nil {
		t.Error("a malformed transaction has a proposal")
	}
}

// How the ledger stands is asked once, and again when it may have changed. A database that became
// one of several engines without this node's knowledge takes no block that is not judged.
func TestTheStandingOfTheLedgerIsAskedAgain(t *testing.T) {
	b := open(t, database(t, setup))
	hash := connected(t, b).Hash
	commit := func(block *wire.OrderedBlock) backend.Execution {
		t.Helper()
		x, err := b.Execute(t.Context(), block, hash)
		if err == nil {
			err = b.Commit(t.Context())
		}
		must.Do(t, err)
		hash = x.Hash
		return x
	}
	commit(orderedBlock(1, wire.Kind_KIND_SQL, "SELECT 1"))
	if b.standing != "open" {
		t.Fatalf("a ledger without tables is %q", b.standing)
	}
	if x := commit(orderedBlock(2, wire.Kind_KIND_DEPLOY, "ATTACH TABLE public.items ENCODING 2")); !x.Results[0].Succeeded {
		t.Fatalf("%+v", x.Results[0])
	}
	refused := func(n uint64) {
		t.Helper()
		if x := commit(orderedBlock(n, wire.Kind_KIND_SQL, "SELECT lower(name) FROM items")); x.Results[0].SQLState != "CH011" || b.standing != "shared" {
			t.Errorf("%+v in a ledger that is %q", x.Results[0], b.standing)
		}
	}
	refused(3)
	b.standing = "open"
	if _, err := b.Execute(t.Context(), orderedBlock(4, wire.Kind_KIND_SQL, "SELECT 1"), hash); !errors.Is(err, backend.ErrOutOfTurn) {
		t.Fatalf("a block that was not judged: %v", err)
	}
	refused(4)
}
