package postgres

import (
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// An index and a condition that this database has alone would refuse the rows of a certified block.
// They stop no adoption: they go first, and the database names them.
func TestPartsOfOnesOwnDoNotStopAdoption(t *testing.T) {
	here, there := database(t, setup), database(t, setup)
	adopts, other := steady(t, here), steady(t, there)
	attach := orderedBlock(1, wire.Kind_KIND_DEPLOY, "ATTACH TABLE public.items")
	hash := executed(t, adopts, attach, connected(t, adopts).Hash, time.Minute)
	executed(t, other, attach, connected(t, other).Hash, time.Minute)
	block := orderedBlock(2, wire.Kind_KIND_SQL, "INSERT INTO items VALUES (2, 'second')", "UPDATE items SET name = 'x' WHERE id = 1")
	want := executed(t, other, block, hash, time.Minute)

	run(t, here, `SET chainify.guard = off; CREATE INDEX own_index ON public.items ((1 / (id - 2)));
		ALTER TABLE public.items ADD CONSTRAINT own_condition CHECK (name <> 'x')`)
	past, err := other.ReadPast(t.Context())
	must.Do(t, err)
	defer past.Close()
	x, err := adopts.Adopt(t.Context(), past, block, hash, want)
	if err == nil {
		err = adopts.Commit(t.Context())
	}
	if err != nil || x.Hash != want {
		t.Fatalf("adopted as %x: %v; want %x", x.Hash, err, want)
	}
	var left, named int
	query(t, here, `SELECT (SELECT count(*) FROM pg_class WHERE relname = 'own_index') + (SELECT count(*) FROM pg_constraint WHERE conname = 'own_condition'),
		(SELECT count(*) FROM chainify.deviations d WHERE d::text ~ 'own_index|own_condition' AND cured_by IS NOT NULL)`, &left, &named)
	if left != 0 || named != 2 {
		t.Errorf("%d parts are left, and %d are named; want none and 2", left, named)
	}
}
