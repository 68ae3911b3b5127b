package portable

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

var called = Ledger{Procedures: map[string]*canonical.Procedure{
	"public.pay":    {Name: "public.pay", Types: []string{"bigint", "numeric", "text"}},
	"public.every":  {Name: "public.every", Types: []string{"smallint", "integer", "double", "boolean", "date", "json", "uuid"}},
	"public.ending": {Name: "public.ending"},
}}

func judgeCall(sql string, parameters ...*wire.Parameter) error {
	return called.Judge(&wire.Proposal{Kind: wire.Kind_KIND_SQL, Sql: sql, Parameters: parameters})
}

func TestCallsOfTheSubset(t *testing.T) {
	of := func(logical, text string) *wire.Parameter { return &wire.Parameter{Type: logical, Text: text} }
	for _, c := range []struct {
		sql        string
		parameters []*wire.Parameter
	}{
		{"CALL pay (1, 2.50, 'it''s')", nil},
		{"call public.pay(-9223372036854775807, -1, NULL)", nil},
		{"CALL pay(9223372036854775807, 1, $1)", []*wire.Parameter{of("text", "x")}},
		{"CALL pay($1, $2, $3)", []*wire.Parameter{of("smallint", "1"), of("numeric", "0.00000000000000000000000000000000000001"), of("character varying", "x")}},
		{"CALL pay($1, $1, $1)", []*wire.Parameter{{Null: true}}},
		{"CALL every ($1, -2147483647, $2, TRUE, '2024-02-29', '{}', NULL)", []*wire.Parameter{of("", "5"), of("double precision", "1.5")}},
		{"CALL ending()", nil},
	} {
		if err := judgeCall(c.sql, c.parameters...); err != nil {
			t.Errorf("%s: %v", c.sql, err)
		}
	}
}

func TestOtherCallsAreRefused(t *testing.T) {
	for _, c := range []struct {
		sql, state, construct string
		parameter             *wire.Parameter
	}{
		{"CALL sell(1)", "42883", "procedure public.sell was not on the ledger before the block", nil},
		{"CALL pay(1, 2)", "42883", "2 arguments for procedure public.pay(bigint, numeric, text)", nil},
		{"CALL other.pay(1, 2, '')", "42883", "procedure other.pay was not on the ledger before the block", nil},
		{"CALL pay", "0A000", `at "", where ( belongs`, nil},
		{"CALL pay(1, 2, '') RETURNING x", "0A000", `at "RETURNING"`, nil},
		{"CALL pay(1, 2, '');", "0A000", `at ";"`, nil},
		{"CALL pay(id, 2, '')", "0A000", "column id as an argument", nil},
		{"CALL pay(a => 1, 2, '')", "0A000", `at "=", where ) belongs`, nil},
		{"CALL pay(1 + 1, 2, '')", "0A000", `at "+", where ) belongs`, nil},
		{"CALL pay(now(), 2, '')", "0A000", "function now", nil},
		{"CALL pay('1', 2, '')", "0A000", "text beside bigint", nil},
		{"CALL pay(1.0, 2, '')", "0A000", "number 1.0 beside bigint", nil},
		{"CALL pay(-9223372036854775808, 2, '')", "0A000", "number -9223372036854775808 beside bigint", nil}, // PostgreSQL: numeric
		{"CALL pay(9223372036854775808, 2, '')", "22007", `no canonical value: "9223372036854775808" as bigint`, nil},
		{"CALL pay(1, 2, 3)", "0A000", "number 3 beside text", nil},
		{"CALL pay(1, 0.000000000000000000000000000000000000001, '')", "22003", "constant beyond numeric(65,38)", nil},
		{"CALL pay(1, $1, '')", "22003", "constant beyond numeric(65,38)", &wire.Parameter{Type: "numeric", Text: "1e-39"}},
		{"CALL pay(1, 1000000000000000000000000000, '')", "22003", "constant beyond numeric(65,38)", nil},
		{"CALL pay(1, $1, '')", "0A000", "parameter of type bigint beside numeric(65,38)", &wire.Parameter{Type: "bigint", Text: "1"}},
		{"CALL pay(1, $1, '')", "22007", `no canonical value: "NaN" as numeric(65,38)`, &wire.Parameter{Type: "numeric", Text: "NaN"}},
		{"CALL pay(1, 2, $2)", "42P02", "there is no parameter $2", &wire.Parameter{}},
		{"CALL every(1, 1, NULL, TRUE, NULL, NULL, NULL)", "0A000", "number 1 beside smallint", nil}, // PostgreSQL: integer
		{"CALL every($1, 1, NULL, TRUE, NULL, NULL, NULL)", "0A000", "wider parameter beside smallint", &wire.Parameter{Type: "integer", Text: "1"}},
		{"CALL every(NULL, $1, NULL, TRUE, NULL, NULL, NULL)", "0A000", "wider parameter beside integer", &wire.Parameter{Type: "bigint", Text: "1"}},
		{"CALL every(NULL, -2147483648, NULL, TRUE, NULL, NULL, NULL)", "0A000", "number -2147483648 beside integer", nil}, // PostgreSQL: bigint
		{"CALL every(NULL, 1, 1.5, TRUE, NULL, NULL, NULL)", "0A000", "number 1.5 beside double", nil},
		{"CALL pay(" + strings.Repeat("1, ", 64) + "1)", "0A000", "65 arguments, at most 64", nil},
	} {
		parameters := []*wire.Parameter{}
		if c.parameter != nil {
			parameters = append(parameters, c.parameter)
		}
		err := judgeCall(c.sql, parameters...)
		if got := fmt.Sprint(stateOf(err), " ", err); got != c.state+" "+c.construct {
			t.Errorf("%s: %s", c.sql, got)
		}
	}
}
