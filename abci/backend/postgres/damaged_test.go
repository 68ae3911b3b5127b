package postgres

import (
	"context"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// A block that meets a row that cannot be read fails. The scrubber, whose next turn is minutes
// away, looks at once, the row is put right, and the block is executed.
func TestABlockThatMeetsDamageLetsItBeFound(t *testing.T) {
	m := newMatrix(t)
	run(t, m.dsn, "SELECT chainify_node.scrub(relation) FROM chainify_ledger.ledger_table WHERE detached_at IS NULL")
	for _, c := range tamperCases {
		if c.what == "TOAST: a chunk is gone" {
			run(t, m.dsn, "SET chainify.guard = off; SET allow_system_table_mods = on; "+c.damage)
		}
	}
	b := open(t, m.dsn)
	connected(t, b)
	touch := orderedBlock(m.at.Number+1, wire.Kind_KIND_SQL, "UPDATE items SET name = left(body, 3) WHERE id = 7")
	if _, err := b.Execute(t.Context(), touch, m.at.Hash); sqlState(err) != "XX001" {
		t.Fatalf("the block met a row whose value is gone: %v", err)
	}
	err := harness.Poll(t.Context(), tamperTime, "the scrubber looks", func(ctx context.Context) (bool, string, error) {
		at, err := b.Position(ctx)
		return at.Deviates, "nothing is found yet", err
	})
	must.Do(t, err)
	rows, err := b.Repair(t.Context(), backend.Rows, m.at.Number, m.at.Hash, m.at.Number, wire.Hash{})
	if err != nil || len(rows) != 1 {
		t.Fatalf("repair: %v, %+v", err, rows)
	}
	if x, err := b.Execute(t.Context(), touch, m.at.Hash); err != nil || !x.Results[0].Succeeded {
		t.Fatalf("after the repair: %v, %+v", err, x.Results)
	}
}
