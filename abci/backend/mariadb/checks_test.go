package mariadb

import (
	"errors"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// Clauses as the server words them give the line of the schema text. The server's own wording is
// tried by TestEnginesAgreeOnRandomChecks.
func TestClausesOfChecks(t *testing.T) {
	table := &canonical.Table{Name: "public.t", PrimaryKey: []string{"id"}, Columns: []canonical.ColumnType{
		{Ordinal: 1, Name: "id", Type: "bigint", NotNull: true},
		{Ordinal: 2, Name: "i", Type: "integer"},
		{Ordinal: 3, Name: "ok", Type: "boolean"},
		{Ordinal: 4, Name: "t", Type: "text"},
		{Ordinal: 5, Name: "and", Type: "integer"},
	}}
	one, two := "02000000080000000000000001", "02000000080000000000000002"
	for _, c := range []struct{ clause, line string }{
		{`"i" > 1`, "(i > " + one + ")"},
		{"`i` > 1", "(i > " + one + ")"},
		{`1 < "i"`, "(i > " + one + ")"},
		{`"i" <> 1 or "id" >= 2 and "and" > 1`, "(((and > " + one + ") and (id >= " + two + ")) or (i <> " + one + "))"},
		{`("i" <> 1 or "id" >= 2) and "and" is null`, "(((i <> " + one + ") or (id >= " + two + ")) and (and is null))"},
		{`"i" not between 1 and 2 and "ok"`, "(((i < " + one + ") or (i > " + two + ")) and (ok = 010000000101))"},
		{`"i" in (2,1,2) or "ok" = 0`, "((i = " + one + ") or (i = " + two + ") or (ok = 010000000100))"},
		{`"i" not in (-1)`, "(i <> 0200000008ffffffffffffffff)"},
		{`"t" = 'a\'b\\c\n\r\Z"'`, "(t = 0500000009" + "612762" + "5c630a0d1a22)"},
		{`"ok" <> 0`, "(ok = 010000000101)"},
		{`"and" < "i"`, "(and < i)"},
	} {
		got, why := parseCheck(c.clause, table)
		if why != "" {
			t.Errorf("%s: %s", c.clause, why)
			continue
		}
		with := *table
		with.Checks = []canonical.Check{got}
		text, err := canonical.SchemaText(&with)
		if line, _, _ := strings.Cut(text, "\n"); err != nil || line != "check "+c.line {
			t.Errorf("%s: %s, %v", c.clause, line, err)
		}
	}
	for _, c := range []struct{ clause, why string }{
		{`"i" > 1 or`, `at ""`},
		{`"i" > 1)`, `at ")"`},
		{`("i" > 1`, `at ""`},
		{`"x" > 1`, `at "x"`},
		{`"i" > 1 "i" < 2`, `at "i"`},
		{`"t" = 'a\qb'`, "column t of type text beside"},
		{`"t" = 'a`, `at "'a"`},
		{`"i" not > 1`, `at ">"`},
		{`"i" is not 1`, `at "1"`},
		{`- "i" > 1`, `at "i"`},
		{`"ok" is true`, `at "true"`},
		{"", `at ""`},
		{strings.Repeat("(", clauseDepthMax+1) + `"i" > 1` + strings.Repeat(")", clauseDepthMax+1), "more than 64 levels"},
		{strings.Repeat(" ", clauseBytesMax+1), "an expression of 65537 bytes"},
	} {
		if _, why := parseCheck(c.clause, table); !strings.HasPrefix(why, c.why) {
			t.Errorf("%s: %q, want %q", c.clause, why, c.why)
		}
	}
}

// A table whose rows its checks would not take is refused. Damage that a check would have refused
// is put right.
func TestRowsBeyondChecks(t *testing.T) {
	o := fresh(t, `CREATE TABLE %.limited (id BIGINT PRIMARY KEY, n INT, CONSTRAINT k CHECK (n > 0 OR n IN (-7, -8))); SET check_constraint_checks = 0;
		INSERT INTO %.limited VALUES (1, -1), (2, 2); SET check_constraint_checks = 1; GRANT SELECT, INSERT, UPDATE, DELETE ON %.limited TO effects_ops`)
	c := o.chain(t)
	attach := proposal{kind: wire.Kind_KIND_DEPLOY, sql: "ATTACH TABLE public.limited ENCODING 2"}
	if r := c.commit(attach).Results[0]; r.SQLState != "0A000" || !strings.Contains(r.Message, "has rows that its check") {
		t.Fatalf("a row beyond the check: %+v", r)
	}
	o.run(t, strings.ReplaceAll("UPDATE %.limited SET n = -7 WHERE id = 1", "%", o.name))
	c.attach("public.limited")
	if r := c.commit(sqlOf("UPDATE limited SET n = 0 WHERE id = 2")).Results[0]; r.SQLState != "23514" {
		t.Errorf("%+v", r)
	}
	repair := func(want int) error {
		found, err := c.b.Repair(t.Context(), backend.Rows, c.at.Number, c.at.Hash, c.at.Number, c.at.Hash)
		if err == nil && len(found) != want {
			t.Errorf("%d rows found, want %d", len(found), want)
		}
		return err
	}
	o.unguarded(t, "SET check_constraint_checks = 0; UPDATE %D.limited SET n = -1 WHERE id = 1; SET check_constraint_checks = 1; DELETE FROM %D.limited WHERE id = 2")
	if err := repair(2); err != nil {
		t.Error(err)
	}
	// A dropped check is another definition, until it is back in any wording.
	o.run(t, strings.ReplaceAll("ALTER TABLE %.limited DROP CONSTRAINT k", "%", o.name))
	var why *backend.Obstacle
	if err := repair(0); !errors.As(err, &why) || !strings.Contains(why.Why, "another definition") {
		t.Error(err)
	}
	o.run(t, strings.ReplaceAll("ALTER TABLE %.limited ADD CONSTRAINT other CHECK (n = -7 OR n = -8 OR NOT n <= 0)", "%", o.name))
	if err := repair(0); err != nil {
		t.Error(err)
	}
	// Rows that were certified come back, whatever the server would check.
	var on bool
	err := checkNothing.during(t.Context(), c.b.conn, func() error {
		return c.b.conn.QueryRowContext(t.Context(), "SELECT @@foreign_key_checks OR @@check_constraint_checks").Scan(&on)
	})
	if err != nil || on {
		t.Error("repairs check rows", err)
	}
	if err := c.b.conn.QueryRowContext(t.Context(), "SELECT @@foreign_key_checks AND @@check_constraint_checks").Scan(&on); err != nil || !on {
		t.Error("blocks check no rows", err)
	}
}
