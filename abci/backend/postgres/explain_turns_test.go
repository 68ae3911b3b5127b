package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// People see why EFFECTS transactions of a block have their turns: the rows in common, the order,
// and the reasons of those that have none or failed. The graph has them by the rows that they saw
// and write. One that saw an older row is in nobody's way.
func TestExplainBlockShowsTurns(t *testing.T) {
	dsn, b, first, r := writeSetDatabase(t)
	const parents = "public.parents"
	update := func(id int, note string) *wire.WriteSet {
		return r.change(parents, 'U', fmt.Sprintf("%d, 'n%d'", id, id), fmt.Sprintf("%d, '%s'", id, note), 2)
	}
	saw := func(s *wire.WriteSet, id int) *wire.WriteSet {
		s.Seen = append(s.Seen, wire.RowSeen{Key: r.key(parents, fmt.Sprint(id, ", NULL")), Present: true, Hash: r.hash(parents, fmt.Sprintf("%d, 'n%d'", id, id))})
		return s
	}
	stale := r.change(parents, 'U', "9, 'older'", "9, 'stale'", 2)
	stale.Changes = append(stale.Changes, update(10, "stale").Changes...)
	previous := applyWriteSets(t, b, 2, first, []writeSetCase{
		{name: "a writer", set: update(1, "written")},
		{name: "a reader", set: saw(update(2, "after a reader"), 1)},
		{name: "the first of three", set: saw(update(4, "a"), 5), sqlstate: "40001"},
		{name: "the second of three", set: saw(update(5, "b"), 6)},
		{name: "the third of three", set: saw(update(6, "c"), 4)},
		{name: "a stale one", set: stale, sqlstate: "40001"},
		{name: "a condition", set: update(10, "bad"), sqlstate: "23514"},
	})
	applyWriteSets(t, b, 3, previous, []writeSetCase{{name: "alone", set: update(7, "alone")}})
	const row = `row (%d) of table "public.parents"`
	line := func(format string, ids ...any) string {
		return fmt.Sprintf(strings.ReplaceAll(format, "ROW", row), ids...)
	}
	want := strings.Join([]string{
		"turns of t0 t1 t2 t3 t4 t5 t6: t1 t0 t3 t4 t5 t6",
		line("ROW: seen by t1, written by t0", 1),
		line("ROW: seen by t4, written by t2", 4),
		line("ROW: seen by t2, written by t3", 5),
		line("ROW: seen by t3, written by t4", 6),
		line("t2 has no turn: ROW is changed by others of the block: by transaction 3, 4", 5),
		line("t5 failed in its turn: ROW is not as the transaction saw it", 9),
		`t6 failed in its turn: new row for relation "parents" violates check constraint "parents_note_check"`,
		"t1 waits for t0: write-read of public.parents",
	}, "\n")
	var text, dot, alone string
	query(t, dsn, "SELECT chainify.explain_block(2)", &text)
	query(t, dsn, "SELECT chainify.explain_block(2, 'dot')", &dot)
	query(t, dsn, "SELECT chainify.explain_block(3)", &alone)
	if graph := "components: 3, critical path: 3 (t2 t3 t4)"; !strings.Contains(text, graph) {
		t.Errorf("explain_block says\n%s\nwant in it\n%s", text, graph)
	}
	if !strings.Contains(text, want) {
		t.Errorf("explain_block says\n%s\nwant in it\n%s", text, want)
	}
	for _, part := range []string{`[label="row (1) of table \"public.parents\"", shape=ellipse]; t1 -> r0; r0 -> t0;`, "t2 [style=dotted];", "t5 [style=dashed];"} {
		if !strings.Contains(dot, part) {
			t.Errorf("explain_block draws\n%s\nwant in it %s", dot, part)
		}
	}
	if strings.Contains(alone, "turns") {
		t.Errorf("a transaction that is alone has turns:\n%s", alone)
	}
}

// A measurement may switch turns off: then transactions are applied in the order of the block, and
// a reader behind a writer of its row fails.
func TestTurnsCanBeSwitchedOff(t *testing.T) {
	dsn, b, first, r := writeSetDatabase(t)
	var name string
	query(t, dsn, "SELECT current_database()", &name)
	block := func(id int, sqlstate string) []writeSetCase {
		const parents = "public.parents"
		row := func(id int) string { return fmt.Sprintf("%d, 'n%d'", id, id) }
		reader := r.change(parents, 'U', row(id+1), fmt.Sprintf("%d, 'read'", id+1), 2)
		reader.Seen = []wire.RowSeen{{Key: r.key(parents, fmt.Sprint(id, ", NULL")), Present: true, Hash: r.hash(parents, row(id))}}
		return []writeSetCase{
			{name: "the writer", set: r.change(parents, 'U', row(id), fmt.Sprintf("%d, 'written'", id), 2)},
			{name: "the reader", set: reader, sqlstate: sqlstate},
		}
	}
	previous := applyWriteSets(t, b, 2, first, block(1, ""))
	must.Do(t, b.Close())
	run(t, dsn, fmt.Sprintf("ALTER DATABASE %s SET chainify.debug_turns = off", name))
	b = open(t, dsn+" user=effects_node")
	connected(t, b)
	applyWriteSets(t, b, 3, previous, block(4, "40001"))
}
