package mariadb

import (
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
	if err := c.b.conn.QueryRowContext(t.Context(), "SELECT @@foreign_key_checks").Scan(&on); err != nil || !on {
		t.Error("the session checks no foreign keys any more", err)
	}
}
