package mariadb

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// Of many transactions that go to the server together, those that fail lose nothing but their own
// changes: the block is that of one transaction at a time.
func TestTransactionsTogetherAreThoseOneByOne(t *testing.T) {
	c := fresh(t, items).chain(t)
	c.attach("public.items")
	b, at := c.b, c.at
	var statements []string
	for i := range 3 * batchMost {
		statements = append(statements, fmt.Sprintf("INSERT INTO items (id, name) VALUES (%d, 'x')", 2+i/2)) // every second one is there already
	}
	statements = append(statements, "INSERT INTO nowhere (id) VALUES (1)", "UPDATE items SET name = 'all'", "DELETE FROM items WHERE id > 40")
	run := func(carefully bool) backend.Execution {
		t.Helper()
		b.carefully = 0
		if carefully {
			b.carefully = 2
		}
		x, err := b.Execute(t.Context(), block(2, wire.Kind_KIND_SQL, statements...), at.Hash)
		must.Do(t, err)
		return x
	}
	together, alone := run(false), run(true)
	if together.Hash != alone.Hash {
		t.Errorf("together %x, one by one %x", together.Hash, alone.Hash)
	}
	for i := range alone.Results {
		if together.Results[i] != alone.Results[i] {
			t.Errorf("%s: together %+v, one by one %+v", statements[i], together.Results[i], alone.Results[i])
		}
		if i < 3*batchMost && together.Results[i].Succeeded != (i%2 == 0) {
			t.Errorf("%s: %+v", statements[i], together.Results[i])
		}
	}
	if rows := together.Results[3*batchMost+1].Rows; rows != 3*batchMost/2+1 {
		t.Errorf("an update of all rows met %d", rows)
	}
}

// A transaction that does not end among several is named when they run one at a time.
func TestOneOfSeveralThatDoesNotEndIsNamed(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	b, at := c.b, c.at
	o.run(t, "DROP PROCEDURE "+o.name+"_ledger.end_holders")
	tx, err := o.root.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = tx.Exec("SELECT * FROM " + o.name + ".items WHERE id = 1 FOR UPDATE")
	}
	must.Do(t, err)
	stuck := block(2, wire.Kind_KIND_SQL, "INSERT INTO items (id, name) VALUES (2, 'two')", "UPDATE items SET name = 'stuck' WHERE id = 1", "INSERT INTO items (id, name) VALUES (3, 'three')")
	stuck.Budget = wire.Budget{Statements: time.Second, Deploys: time.Minute}
	var named *backend.StuckError
	if _, err := b.Execute(t.Context(), stuck, at.Hash); err == nil || errors.As(err, &named) {
		t.Fatalf("while several were at work: %v", err)
	}
	connected(t, b)
	if _, err := b.Execute(t.Context(), stuck, at.Hash); !errors.As(err, &named) || named.Index != 1 {
		t.Fatalf("one at a time: %v, want stuck at transaction 1", err)
	}
	_ = tx.Rollback()
	connected(t, b)
	x, err := b.Execute(t.Context(), stuck, at.Hash)
	must.Do(t, err)
	for _, result := range x.Results {
		if !result.Succeeded {
			t.Errorf("%+v", result)
		}
	}
}
