package portable

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

var table = &canonical.Table{
	Name: "public.t",
	Columns: []canonical.ColumnType{
		{Ordinal: 1, Name: "id", Type: "bigint", NotNull: true},
		{Ordinal: 2, Name: "name", Type: "varchar(20)"},
		{Ordinal: 3, Name: "price", Type: "numeric(10,2)"},
		{Ordinal: 4, Name: "small", Type: "integer"},
		{Ordinal: 5, Name: "open", Type: "boolean"},
		{Ordinal: 6, Name: "day", Type: "date"},
		{Ordinal: 7, Name: "data", Type: "json"},
		{Ordinal: 8, Name: "code", Type: "varchar(5)"},
		{Ordinal: 9, Name: "ref", Type: "uuid"},
	},
	PrimaryKey: []string{"id"},
	Unique:     [][]string{{"code"}},
}

// bind reads a statement and binds all of it.
func bind(sql string, parameters ...*wire.Parameter) error {
	s, err := Parse(sql)
	if err != nil {
		return err
	}
	return check(s, table, parameters)
}

func TestStatementsOfTheSubset(t *testing.T) {
	for _, sql := range []string{
		"INSERT INTO t (id, name) VALUES (1, 'it''s'), (-2, NULL)",
		"insert into public.t (id, price, open, day, data) values (1, 1.5, TRUE, '2024-02-29', '{}')",
		"UPDATE t SET name = name || '!' WHERE id = 1",
		"UPDATE t SET price = price - 1.50, open = false, small = small + 1 WHERE id >= 1 AND name IS NOT NULL AND open = true",
		"DELETE FROM t WHERE small = 3000000000",
		"DELETE FROM t",
		"DELETE FROM t WHERE 5 < id AND day <> '2024-01-01' AND data IS NULL",
	} {
		if err := bind(sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if err := bind("UPDATE t SET name = $2 WHERE id = $1", &wire.Parameter{Type: "integer", Text: "5"}, &wire.Parameter{Null: true}); err != nil {
		t.Error(err)
	}
}

func TestOtherStatementsAreRefused(t *testing.T) {
	for _, c := range []struct{ sql, state, construct string }{
		{"SELECT 1", "0A000", `statement "SELECT"`},
		{"", "0A000", `statement ""`},
		{"DELETE FROM t; DELETE FROM t", "0A000", `at "; DELETE FROM t"`},
		{"DELETE FROM t -- all", "0A000", `at "-- all"`},
		{"DELETE FROM t /* all */", "0A000", `at "/* all */"`},
		{"DELETE FROM T", "0A000", `name "T" in upper case`},
		{`DELETE FROM "t"`, "0A000", `at "\"t\""`},
		{"DELETE FROM user", "0A000", `reserved name "user"`},
		{"DELETE FROM t WHERE id = 1 OR id = 2", "0A000", `at "OR"`},
		{"DELETE FROM t WHERE id = now()", "0A000", "function now"},
		{"DELETE FROM t WHERE 1 = 1", "0A000", "comparison without a column"},
		{"DELETE FROM t WHERE id = '1'", "0A000", "text beside bigint"},
		{"DELETE FROM t WHERE id = 1.5", "0A000", "number 1.5 beside bigint"},
		{"DELETE FROM t WHERE id = price", "0A000", "numeric(10,2) beside bigint"},
		{"DELETE FROM t WHERE name = 1", "0A000", "number 1 beside varchar(20)"},
		{"DELETE FROM t WHERE data = '{}'", "0A000", "comparison of json"},
		{"DELETE FROM t WHERE id = 1 AND ref >= ref", "0A000", "order of uuid"},
		{"DELETE FROM t WHERE ref <> ref", "", "accepted"},
		{"DELETE FROM t WHERE nothing = 1", "42703", "column nothing does not exist"},
		{"DELETE FROM t WHERE id = $1", "42P02", "there is no parameter $1"},
		{"DELETE FROM t WHERE id = 1a", "0A000", `at "1a"`},
		{"DELETE FROM t WHERE name = E'x'", "0A000", `at "E'x'"`},
		{"DELETE FROM t WHERE name = 'a''b' 'c'", "", ""},
		{"DELETE FROM t WHERE id = - 1", "", "accepted"},
		{"UPDATE t SET id = id + 1", "0A000", "update of column id of a key"},
		{"UPDATE t SET code = 'x'", "0A000", "update of column code of a key"},
		{"UPDATE t SET price = 1 + 2", "0A000", "+ of constants"},
		{"UPDATE t SET price = price - 0." + strings.Repeat("0", 72) + "1", "0A000", "- of a constant with too many digits"},
		{"UPDATE t SET price = price - 0." + strings.Repeat("0", 71) + "1", "", "accepted"},
		{"UPDATE t SET price = price + 1" + strings.Repeat("0", 90) + ".001", "", "accepted"},
		{"DELETE FROM t WHERE price > -0." + strings.Repeat("0", 72) + "1", "0A000", "comparison with a constant of too many digits"},
		{"DELETE FROM t WHERE price > 12345678." + strings.Repeat("1", 73), "0A000", "comparison with a constant of too many digits"},
		{"DELETE FROM t WHERE price > 123456789." + strings.Repeat("1", 73), "", "accepted"},
		{"UPDATE t SET price = 100000000", "22003", "constant beyond numeric(10,2)"},
		{"UPDATE t SET small = small + 1 + 2", "0A000", `at "+"`},
		{"UPDATE t SET small = id + 1", "0A000", "+ of other types than the column's"},
		{"UPDATE t SET small = small * 2", "0A000", `at "* 2"`},
		{"UPDATE t SET name = name + 1", "0A000", "+ for a column of type varchar(20)"},
		{"UPDATE t SET small = 1 RETURNING id", "0A000", `at "RETURNING"`},
		{"UPDATE t SET small = 99999999999", "22007", `no canonical value: "99999999999" as integer`},
		{"UPDATE t SET small = 1, small = 2", "42701", "column small twice"},
		{"INSERT INTO t VALUES (1)", "0A000", `at "VALUES", where ( belongs`},
		{"INSERT INTO t (id) VALUES (1, 2)", "0A000", "2 values for 1 columns, in row 0"},
		{"INSERT INTO t (id) VALUES (1) ON CONFLICT DO NOTHING", "0A000", `at "ON"`},
		{"INSERT INTO t (day) VALUES ('2023-02-29')", "22007", `no canonical value: "2023-02-29" as date`},
	} {
		err := bind(c.sql)
		var refusal *Refusal
		switch {
		case c.construct == "accepted" && err == nil:
		case !errors.As(err, &refusal):
			t.Errorf("%s: %v", c.sql, err)
		case c.state != "" && fmt.Sprint(refusal.SQLState, refusal.Construct) != fmt.Sprint(c.state, c.construct):
			t.Errorf("%s: %s %s", c.sql, refusal.SQLState, refusal.Construct)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("UPDATE t SET name = name || '!' WHERE id = -1.5 AND x IS NOT NULL")
	f.Add("INSERT INTO t (id, name) VALUES (1, 'it''s'), ($1, NULL)")
	f.Fuzz(func(t *testing.T, sql string) {
		s, err := Parse(sql)
		if refusal := (*Refusal)(nil); err != nil && !errors.As(err, &refusal) {
			t.Errorf("%q: %v", sql, err)
		}
		if err == nil && (s.Table == "" || s.Op == 'I' && len(s.Rows) == 0) {
			t.Errorf("%q: %+v", sql, s)
		}
	})
}
