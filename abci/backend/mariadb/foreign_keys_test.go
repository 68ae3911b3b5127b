package mariadb

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

const orderLines = `CREATE TABLE %.items (id BIGINT PRIMARY KEY, name VARCHAR(40)); INSERT INTO %.items VALUES (1, 'first'), (2, 'second');
	CREATE TABLE %.line (id BIGINT PRIMARY KEY, item BIGINT REFERENCES %.items (id)); INSERT INTO %.line VALUES (1, 1), (2, NULL);
	GRANT SELECT, INSERT, UPDATE, DELETE ON %.items TO effects_ops; GRANT SELECT, INSERT, UPDATE, DELETE ON %.line TO effects_ops`

// Tables that foreign keys connect come onto the ledger and leave it together. A transaction that
// fails halfway leaves none of them.
func TestForeignKeysConnectTablesOfTheLedger(t *testing.T) {
	o := fresh(t, orderLines)
	c := o.chain(t)
	deploy := func(text string) proposal { return proposal{kind: wire.Kind_KIND_DEPLOY, sql: text} }
	x := c.commit(deploy("ATTACH TABLE public.line ENCODING 2"), deploy("ATTACH TABLE public.items ENCODING 2"),
		deploy("ATTACH TABLE public.items, public.none ENCODING 2"), deploy("ATTACH TABLE public.items, public.line ENCODING 2"), deploy("DETACH TABLE public.line"))
	for i, want := range []string{"attach them together", "attach them together", "does not exist", "", "detach them together"} {
		if r := x.Results[i]; r.Succeeded != (want == "") || !strings.Contains(r.Message, want) {
			t.Errorf("transaction %d: %+v, want %q", i, r, want)
		}
	}
	if err := c.b.Scrub(t.Context()); err != nil || connected(t, c.b).Deviates {
		t.Errorf("the rows are not those of the running state (%v)", err)
	}
	tables, err := readTables(t.Context(), c.b.pool, c.b.name, c.at.Number, map[string]*described{})
	if err != nil || len(tables) != 2 || !strings.Contains(tables["public.line"].text, "foreign key (item) references public.items (id)") {
		t.Fatal(tables, err)
	}
}

// Keys whose actions would depend on an order are refused, with the tables that they connect.
func TestActionsThatDependOnAnOrderAreRefused(t *testing.T) {
	for why, definition := range map[string]string{
		"may both act on one row": `CREATE TABLE %.line (id BIGINT PRIMARY KEY, item BIGINT REFERENCES %.items (id) ON DELETE CASCADE, other BIGINT REFERENCES %.items (id))`,
		"(a) and (b)": `CREATE TABLE %.middle (id BIGINT PRIMARY KEY, item BIGINT REFERENCES %.items (id) ON DELETE CASCADE);
			CREATE TABLE %.line (id BIGINT PRIMARY KEY, a BIGINT REFERENCES %.middle (id) ON DELETE SET NULL, b BIGINT REFERENCES %.items (id) ON DELETE SET NULL)`,
		"leads back": `CREATE TABLE %.line (id BIGINT PRIMARY KEY, item BIGINT REFERENCES %.items (id) ON DELETE SET NULL);
			ALTER TABLE %.items ADD COLUMN line BIGINT REFERENCES %.line (id)`,
	} {
		t.Run(why, func(t *testing.T) {
			c := fresh(t, items, definition).chain(t)
			tables := "ATTACH TABLE public.items, public.line"
			if strings.Contains(definition, "middle") {
				tables += ", public.middle"
			}
			x := c.commit(proposal{kind: wire.Kind_KIND_DEPLOY, sql: tables + " ENCODING 2"})
			if r := x.Results[0]; r.SQLState != "0A000" || !strings.Contains(r.Message, why) {
				t.Errorf("%+v, want %q", r, why)
			}
		})
	}
}

// Changes that foreign keys make when a row is deleted are recorded, down to the last table. A
// write set names them, in any order.
func TestActionsOfForeignKeysAreRecorded(t *testing.T) {
	o := fresh(t, items+"; INSERT INTO %.items VALUES (2, 'second'), (3, 'third'), (4, 'fourth')",
		`CREATE TABLE %.line (id BIGINT PRIMARY KEY, item BIGINT REFERENCES %.items (id) ON DELETE CASCADE); INSERT INTO %.line VALUES (1, 1), (2, 1), (3, 2), (4, 3), (5, NULL);
		CREATE TABLE %.remark (id BIGINT PRIMARY KEY, line BIGINT REFERENCES %.line (id) ON DELETE SET NULL); INSERT INTO %.remark VALUES (1, 1), (2, 3), (3, 4), (4, 5);
		GRANT SELECT, INSERT, UPDATE, DELETE ON %.items TO effects_ops`)
	c := o.chain(t)
	c.attach("public.items, public.line, public.remark")
	tables := []string{"public.items", "public.line", "public.remark"}
	pair := func(id, other int64) []byte { return encoded(t, number(1, id), number(2, other)) }
	gone := func(table uint16, row []byte, id int64) wire.RowChange {
		return wire.RowChange{Table: table, Op: 'D', Row: encoded(t, number(1, id)), Before: wire.RowHash(tables[table], row)}
	}
	item := func(id int64, name string) []byte { return encoded(t, number(1, id), text(2, name)) }
	set := func(changes ...wire.RowChange) proposal {
		used := slices.MaxFunc(changes, func(a, b wire.RowChange) int { return cmp.Compare(a.Table, b.Table) }).Table + 1
		return proposal{kind: wire.Kind_KIND_EFFECTS, effects: (&wire.WriteSet{Isolation: wire.ReadCommitted, Tables: tables[:used], Changes: changes}).Encode()}
	}
	forgotten := wire.RowChange{Table: 2, Op: 'U', Row: encoded(t, number(1, 3)), Before: wire.RowHash(tables[2], pair(3, 4)), Cells: []wire.Cell{{Ordinal: 2, Value: []byte{0, 0, 0, 0, 0}}}}
	steps := []struct {
		proposal
		want    string
		changes int
	}{
		{sqlOf("DELETE FROM items WHERE id < 3"), "", 7},
		{set(gone(0, item(3, "third"), 3)), "40001", 0},
		{set(gone(0, item(3, "third"), 3), wire.RowChange{Op: 'I', Row: item(3, "again")}), "40001", 0},
		{set(gone(0, item(3, "third"), 3), gone(1, pair(4, 3), 4)), "42501", 0}, // the changes are the client's own here
		{set(gone(0, item(3, "third"), 3), gone(1, pair(4, 3), 4)), "40001", 0},
		{set(gone(1, pair(4, 3), 4), forgotten, gone(0, item(3, "third"), 3)), "", 3},
		{sqlOf("DELETE FROM items WHERE id = 4"), "", 1},
	}
	for i, step := range steps {
		if i == 4 {
			o.unguarded(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON %D.line TO effects_ops; GRANT SELECT, INSERT, UPDATE, DELETE ON %D.remark TO effects_ops")
		}
		x := c.commit(step.proposal)
		if r := x.Results[0]; r.SQLState != step.want || r.Succeeded != (step.want == "") {
			t.Errorf("step %d: %+v, want %q", i, r, step.want)
		}
		var found int
		if err := c.b.pool.QueryRowContext(t.Context(), c.b.name.in("SELECT count(*) FROM %L.history WHERE block = ?"), c.at.Number).Scan(&found); err != nil || found != step.changes {
			t.Errorf("step %d: %d changes, want %d (%v)", i, found, step.changes, err)
		}
	}
	for _, damage := range []string{"INSERT INTO %D.line VALUES (1, NULL)", "DELETE FROM %D.line WHERE id = 5"} {
		o.unguarded(t, "SET foreign_key_checks = 0; "+damage+"; SET foreign_key_checks = 1")
		if found, err := c.b.Repair(t.Context(), backend.Rows, c.at.Number, c.at.Hash, c.at.Number, c.at.Hash); err != nil || len(found) != 1 {
			t.Errorf("%s: %v %v", damage, found, err)
		}
	}
	if err := c.b.Scrub(t.Context()); err != nil || connected(t, c.b).Deviates {
		t.Error("the rows are not those of the running state", err)
	}
}

// Statements are refused as MariaDB refuses them. The changes of a write set may come in any order,
// as long as every child has its parent in the end.
func TestForeignKeysHoldInBlocks(t *testing.T) {
	o := fresh(t, orderLines)
	c := o.chain(t)
	c.attach("public.items, public.line")
	item := func(id int64, name string) []byte { return encoded(t, number(1, id), text(2, name)) }
	line := func(id int64, item int64) []byte { return encoded(t, number(1, id), number(2, item)) }
	key := func(id int64) []byte { return encoded(t, number(1, id)) }
	set := func(changes ...wire.RowChange) proposal {
		s := &wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{"public.items", "public.line"}, Changes: changes}
		return proposal{kind: wire.Kind_KIND_EFFECTS, effects: s.Encode()}
	}
	gone := func(table uint16, row []byte, id int64) wire.RowChange {
		return wire.RowChange{Table: table, Op: 'D', Row: key(id), Before: wire.RowHash([]string{"public.items", "public.line"}[table], row)}
	}
	steps := []struct {
		proposal
		want string
	}{
		{sqlOf("INSERT INTO line (id, item) VALUES (9, 99)"), "23503"},
		{sqlOf("DELETE FROM items WHERE id = 1"), "23503"},
		{sqlOf("UPDATE line SET item = 98 WHERE id = 1"), "23503"},
		{sqlOf("DELETE FROM items WHERE id = 2"), ""},
		{set(wire.RowChange{Table: 1, Op: 'I', Row: line(3, 30)}, wire.RowChange{Op: 'I', Row: item(30, "child first")}), ""},
		{set(wire.RowChange{Table: 1, Op: 'I', Row: line(4, 40)}, wire.RowChange{Op: 'I', Row: item(41, "x")}), "40001"},
		{set(gone(0, item(1, "first"), 1), wire.RowChange{Table: 1, Op: 'I', Row: line(5, 30)}), "40001"},
		{set(gone(0, item(30, "child first"), 30), gone(1, line(3, 30), 3)), ""},
	}
	for i, step := range steps {
		x := c.commit(step.proposal)
		if r := x.Results[0]; r.SQLState != step.want || r.Succeeded != (step.want == "") {
			t.Errorf("step %d: %+v, want %q", i, r, step.want)
		}
	}
	for _, damage := range []string{"DELETE FROM %D.items WHERE id = 1", "UPDATE %D.line SET item = 77 WHERE id = 1"} {
		o.unguarded(t, "SET foreign_key_checks = 0; "+damage+"; SET foreign_key_checks = 1")
		for _, step := range []backend.Step{backend.Rows, backend.Replay} {
			if found, err := c.b.Repair(t.Context(), step, c.at.Number, c.at.Hash, c.at.Number, c.at.Hash); err != nil || step == backend.Rows && len(found) != 1 {
				t.Errorf("%s, %s: %v %v", damage, step, found, err)
			}
		}
		if err := c.b.Scrub(t.Context()); err != nil || connected(t, c.b).Deviates {
			t.Errorf("%s: %v", damage, err)
		}
	}
	var on bool
	if err := c.b.conn.QueryRowContext(t.Context(), "SELECT @@foreign_key_checks AND @@check_constraint_checks").Scan(&on); err != nil || !on {
		t.Error("the session checks no foreign keys any more, or no rows", err)
	}
}
