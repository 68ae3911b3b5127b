package mariadb

import (
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/canonical"
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
