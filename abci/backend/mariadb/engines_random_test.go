package mariadb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// generator makes the random transactions of both engines. items are the rows that EFFECTS
// transactions left in public.items.
type generator struct {
	*rand.Rand
	*testing.T
	items map[int64]string
	made  int64 // rows put into v
}

// proposals are those of one block.
func (g *generator) proposals() []*wire.Proposal {
	var all []*wire.Proposal
	for range 12 {
		all = append(all, g.statement(), randomEffects(g.T, g.Rand, g.items), g.row())
		if g.IntN(3) == 0 {
			all = append(all, &wire.Proposal{Kind: wire.Kind_KIND_SQL, Sql: pick(g.Rand, refusedStatements)})
		}
	}
	for range 1 + g.IntN(3) {
		at := g.IntN(len(all))
		all = slices.Insert(all, at, &wire.Proposal{Kind: wire.Kind_KIND_DEPLOY, Sql: pick(g.Rand, randomDeploys)})
		all = append(all, &wire.Proposal{Kind: wire.Kind_KIND_SQL, Sql: fmt.Sprintf("INSERT INTO extra (id, n) VALUES (%d, 1)", g.Int32())})
	}
	for i := range all {
		role := "engines_ops"
		if all[i].Kind != wire.Kind_KIND_EFFECTS && g.IntN(20) == 0 {
			role = pick(g.Rand, []string{"engines_write", "engines_none", "engines_nobody"})
		}
		all[i].Client = &wire.Client{Organisation: "a", Role: role}
	}
	return all
}

// statement is one of the subset, its literals in part as parameters.
func (g *generator) statement() *wire.Proposal {
	p := &wire.Proposal{Kind: wire.Kind_KIND_SQL, Sql: randomStatement(g.Rand)}
	for strings.Contains(p.Sql, "$n") {
		p.Sql = strings.Replace(p.Sql, "$n", fmt.Sprintf("$%d", len(p.Parameters)+2), 1)
		p.Parameters = append(p.Parameters, &wire.Parameter{Type: pick(g.Rand, []string{"", "numeric"}), Text: pick(g.Rand, numericTexts)})
	}
	for strings.Contains(p.Sql, "$1") {
		texts := []string{"0", "1.5", "-2.25e10", "1e-300", "NaN", "Infinity", "x", "1_000.5", "1e-400", "2e-324", "3e-324", "0x1p-2", "0x0.1p-1080", "5.", ".5", "0e-400"}
		p.Sql = strings.ReplaceAll(p.Sql, "$1", fmt.Sprintf("$%d", len(p.Parameters)+2))
		p.Parameters = append(p.Parameters, &wire.Parameter{Type: pick(g.Rand, []string{"", "double precision"}), Text: pick(g.Rand, texts)})
	}
	// $1 is this one, whatever the statement says.
	where := fmt.Sprint(g.IntN(30))
	if g.IntN(10) == 0 {
		where = pick(g.Rand, []string{"40000", "3000000000", "NaN", "a", "-1"})
	}
	p.Parameters = slices.Insert(p.Parameters, 0, &wire.Parameter{Type: pick(g.Rand, []string{"", "smallint", "integer", "bigint"}), Text: where})
	column := pick(g.Rand, []string{"id", "s", "i", "num"})
	switch {
	case strings.Contains(p.Sql, " WHERE "):
		p.Sql += " AND " + column + " <> $1"
	case !strings.HasPrefix(p.Sql, "INSERT"):
		p.Sql += " WHERE " + column + " = $1"
	case len(p.Parameters) == 1:
		p.Parameters = nil
	default:
		p.Sql = strings.Replace(p.Sql, "VALUES (", "VALUES ($1, ", 1)
		p.Sql = strings.Replace(p.Sql, "(id, ", "(i, id, ", 1)
	}
	return p
}

// numericTexts are parameters that stand for numbers.
var numericTexts = []string{
	"1", "12345.67e0", "9007199254740993e-9", "1.005e0", "-1005e-3", "1e-40", "1e-400", "1e7", "1e8", "+.5", "5.", "0e-16384", "0e1073741823", "0e-9",
	"0.005" + strings.Repeat("0", 60) + "1", "-0.005" + strings.Repeat("0", 68) + "1", "-0.005" + strings.Repeat("0", 69) + "1", "0.004" + strings.Repeat("9", 90),
	"1" + strings.Repeat("0", 90), "1_0", "1e", "",
}

// refusedStatements are beyond the subset, or beyond the ledger.
var refusedStatements = []string{
	"SELECT 1", "DELETE FROM v;", "DELETE FROM V", "UPDATE v SET t = upper(t)", "UPDATE v SET i = i * 2", "UPDATE v SET id = 7",
	"INSERT INTO v (id) SELECT 5000", "INSERT INTO v VALUES (5000)", "INSERT INTO v (id) VALUES (1) ON CONFLICT DO NOTHING", "DELETE FROM items USING v",
	"UPDATE v SET t = 'a' RETURNING id", "DELETE FROM nothing", "DELETE FROM strange", "DELETE FROM v WHERE i = 1 OR i = 2", "-- nothing",
	"UPDATE v SET nothing = 1", "UPDATE v SET i = 1, i = 2", "DELETE FROM public.items WHERE id = 100", "DELETE FROM other.v", "TRUNCATE v", "DROP TABLE v",
	"INSERT INTO v (id, n) VALUES (1, i)", "INSERT INTO pg_class (relname) VALUES ('x')", "DELETE FROM extra", "UPDATE extra SET n = n + 1",
}

// randomDeploys attach and detach a table again and again, in right and wrong spellings.
var randomDeploys = []string{
	"ATTACH TABLE public.extra ENCODING 2", "ATTACH TABLE public.extra ENCODING 2", "DETACH TABLE public.extra", "DETACH TABLE public.extra",
	"ATTACH TABLE public.extra", "attach table public.extra encoding 2", "ATTACH TABLE public.extra, public.nothing ENCODING 2",
	"DETACH TABLE public.extra, public.nothing", "ATTACH TABLE public.strange ENCODING 2", "DETACH TABLE public.extra, public.extra",
	"ATTACH TABLE public.extra, public.extra ENCODING 2", "CREATE TABLE made (id integer PRIMARY KEY)", "SET DETERMINISM detect",
	"ALTER TABLE v ADD COLUMN more integer", "DETACH TABLE public.strange", "ATTACH TABLE public.v ENCODING 2",
}

// row is a write set that inserts a row into v, with values of each type, some of which no engine
// takes, or some engines alone.
func (g *generator) row() *wire.Proposal {
	g.made++
	values := map[uint16][]canonical.Value{
		2: {{Tag: canonical.Integer, Number: 7}, {Tag: canonical.Integer, Number: 40_000}, {Tag: canonical.Text, Text: "7"}},
		3: {{Tag: canonical.Integer, Number: -1 << 31}, {Tag: canonical.Integer, Number: 1 << 31}},
		4: {
			{Tag: canonical.Numeric, Text: "12.5"},
			{Tag: canonical.Numeric, Text: "NaN"},
			{Tag: canonical.Numeric, Text: "1.005"},
			{Tag: canonical.Numeric, Text: "99999999.995"},
			{Tag: canonical.Numeric, Text: "Infinity"},
		},
		5:  {{Tag: canonical.Boolean, Number: 1}, {Tag: canonical.Boolean}},
		6:  {{Tag: canonical.Text, Text: "it's é😀 "}, {Tag: canonical.Text, Text: "a\x00b"}, {Tag: canonical.Text, Text: strings.Repeat("long", 5000)}},
		7:  {{Tag: canonical.Text, Text: fmt.Sprint(g.IntN(100))}, {Tag: canonical.Text, Text: "12345678901"}, {Tag: canonical.Text, Text: "é  "}},
		8:  {{Tag: canonical.Bytea, Text: "\x00\xff"}, {Tag: canonical.Bytea}},
		9:  {{Tag: canonical.Date, Number: 19_000}, {Tag: canonical.Date, Number: 3_000_000}, {Tag: canonical.Date, Number: 1<<63 - 1}, {Tag: canonical.Date, Number: -800_000}},
		10: {{Tag: canonical.Time, Number: 86_400_000_000}, {Tag: canonical.Time, Number: 1}},
		11: {{Tag: canonical.Timestamp, Number: -1}, {Tag: canonical.Timestamp, Number: -1 << 63}, {Tag: canonical.Timestamp, Number: 1 << 60}},
		12: {{Tag: canonical.TimestampTZ, Number: 1_700_000_000_123_456}},
		13: {{Tag: canonical.UUID, Text: "0123456789abcdef"}},
		14: {{Tag: canonical.JSON, Text: `{"a":[1.5,null]}`}, {Tag: canonical.JSON, Text: `"\u0000"`}, {Tag: canonical.JSON, Text: "1e100"}, {Tag: canonical.JSON, Text: strings.Trim(deepJSON(32), "'")}},
		15: {{Tag: canonical.Integer, Number: 3}},
		16: {{Tag: canonical.Float, Float: -0.5}, {Tag: canonical.Float, Float: math.NaN()}, {Tag: canonical.Float, Float: math.Inf(1)}, {Tag: canonical.Float, Float: 5e-324}},
		17: {{Tag: canonical.Integer, Number: 1}},
	}
	columns := []canonical.Column{{Ordinal: 1, Value: canonical.Value{Tag: canonical.Integer, Number: 1000 + g.made}}}
	few := g.IntN(4) // of the values that are not the first of their column
	for ordinal := uint16(2); ordinal <= 17; ordinal++ {
		list := values[ordinal]
		switch {
		case ordinal == 15 && g.IntN(10) > 0, g.IntN(3) == 0 && ordinal < 17:
			columns = append(columns, canonical.Column{Ordinal: ordinal, Value: list[0]})
		case few > 0 && g.IntN(20) == 0:
			columns = append(columns, canonical.Column{Ordinal: ordinal, Value: list[g.IntN(len(list))]})
			few--
		}
	}
	raw, err := canonical.AppendRow(nil, columns)
	if err != nil {
		g.Fatal(err)
	}
	s := wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{"public.v"}, Changes: []wire.RowChange{{Op: 'I', Row: raw}}}
	return &wire.Proposal{Kind: wire.Kind_KIND_EFFECTS, Effects: s.Encode()}
}

// randomLiterals are spellings of values of each column, some of which it refuses.
var randomLiterals = map[string][]string{
	"s":     {"0", "-32768", "32767", "32768", "NULL"},
	"i":     {"0", "-1", "2147483647", "-2147483648", "2147483648", "NULL"},
	"n":     {"0", "-0.00", "12.5", "-99999999.99", "0.004", "0.005", "-0.005", "00012.50", "99999999.99", "100000000", "1.005", "-1.005", "$n", "NULL"},
	"ok":    {"TRUE", "FALSE", "NULL"},
	"t":     {"''", "'a'", "'é😀 '", `'\ it''s "%" _'`, "NULL", "'" + strings.Repeat("é 😀 ", 10_000) + "'", "'\t line\n end  '", "'ﬁ ß İ \u200d'"},
	"v":     {"''", "'a'", "'a '", "'a  '", "' a'", "'ä'", "'a\u0308'", "'A'", "'é'", "'1234567890'", "'1234567890   '", "'12345678901'", "NULL"},
	"raw":   {`'\x'`, `'\x00ff'`, "NULL"},
	"day":   {"'0001-01-01'", "'2024-02-29'", "'9999-12-31'", "'2023-02-29'", "NULL"},
	"clock": {"'00:00:00'", "'23:59:59.999999'", "'24:00:00'", "NULL"},
	"ts":    {"'0001-01-01 00:00:00'", "'1969-12-31 23:59:59.5'", "'2024-02-29 23:59:59.999999'", "'2023-02-29 00:00:00'", "'9999-12-31 23:59:59.999999'", "'2024-02-29 12:00:00,5'", "'2024-02-29   1:00:00'", "NULL"},
	"tz":    {"'2024-02-29 12:00:00+00'", "'2024-02-29 12:00:00,25+00'", "NULL"},
	"u": {
		"'00112233-4455-6677-8899-aabbccddeeff'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "'00112233-4455-4677-8899-000000000000'",
		"'ff112233-4455-1677-8899-000000000001'", "NULL",
	},
	"j":   {`'{"b": [1.0, 2e2], "a": "\u00e9"}'`, "'[]'", "'1.50'", "NULL", deepJSON(31), deepJSON(32), deepJSON(40)},
	"num": {"1", "2147483647", "NULL"},
	"d":   {"$1", "NULL"},
}

func deepJSON(depth int) string {
	return "'" + strings.Repeat(`{"a":[`, depth/2) + strings.Repeat("[", depth%2) + "7" + strings.Repeat("]", depth%2) + strings.Repeat("]}", depth/2) + "'"
}

func pick(random *rand.Rand, list []string) string { return list[random.IntN(len(list))] }

func randomColumn(random *rand.Rand) string {
	return pick(random, []string{"s", "i", "n", "ok", "t", "v", "raw", "day", "clock", "ts", "tz", "u", "j", "num", "d"})
}

// randomStatement is one of the subset that both engines execute.
func randomStatement(random *rand.Rand) string {
	where := ""
	switch column := randomColumn(random); {
	case random.IntN(2) == 0:
		where = fmt.Sprintf(" WHERE id = %d", random.IntN(30))
	case random.IntN(4) == 0:
		where = " WHERE " + column + " IS NOT NULL"
	case column != "j" && column != "num":
		value := pick(random, randomLiterals[column][:2])
		if column == "n" && random.IntN(2) == 0 {
			value = "$n"
		}
		where = " WHERE " + column + " " + pick(random, []string{"=", "<>", "<", "<=", ">", ">="}) + " " + value
	}
	switch random.IntN(6) {
	case 0:
		if where == "" {
			return fmt.Sprintf("DELETE FROM v WHERE id > %d", 10+random.IntN(20))
		}
		return "DELETE FROM v" + where
	case 1:
		set := pick(random, []string{
			"s = s + 1", "s = s - 32767", "i = i + 1", "i = i - 2147483647", "n = n + 0.01", "n = n - 99999999.99", "n = n + $n", "n = $n - n", "t = t || 'x'", "t = 'x' || t", "num = num + 1",
		})
		return "UPDATE v SET " + set + where
	case 2:
		column := randomColumn(random)
		if column == "v" {
			column = "t"
		}
		return "UPDATE v SET " + column + " = " + pick(random, randomLiterals[column]) + where
	}
	columns, values := []string{"id"}, []string{fmt.Sprint(random.IntN(30))}
	for range 3 {
		column := randomColumn(random)
		if slices.Contains(columns, column) {
			continue
		}
		columns, values = append(columns, column), append(values, pick(random, randomLiterals[column]))
	}
	return "INSERT INTO v (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
}

// randomEffects is a write set of one row, as it is or as it is not; rows are kept in items.
func randomEffects(t *testing.T, random *rand.Rand, items map[int64]string) *wire.Proposal {
	row := func(id int64, name string) []byte {
		raw, err := canonical.AppendRow(nil, []canonical.Column{
			{Ordinal: 1, Value: canonical.Value{Tag: canonical.Integer, Number: id}}, {Ordinal: 2, Value: canonical.Value{Tag: canonical.Text, Text: name}},
		})
		must.Do(t, err)
		return raw
	}
	id, name := int64(random.IntN(8)), pick(random, []string{"a", "é", "", "it's"})
	before, present := items[id]
	key, err := canonical.AppendRow(nil, []canonical.Column{{Ordinal: 1, Value: canonical.Value{Tag: canonical.Integer, Number: id}}})
	must.Do(t, err)
	right := random.IntN(4) > 0
	if !right {
		before += "?"
	}
	change := wire.RowChange{Op: 'I', Row: row(id, name)}
	switch hash := wire.RowHash("public.items", row(id, before)); {
	case present && random.IntN(2) == 0:
		change = wire.RowChange{Op: 'D', Row: key, Before: hash}
		if right {
			delete(items, id)
		}
	case present:
		value := canonical.Value{Tag: canonical.Text, Text: name}
		raw, err := value.Append(nil)
		must.Do(t, err)
		change = wire.RowChange{Op: 'U', Row: key, Before: hash, Cells: []wire.Cell{{Ordinal: 2, Value: raw}}}
		if right {
			items[id] = name
		}
	default:
		items[id] = name
	}
	s := wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{"public.items"}, Changes: []wire.RowChange{change}}
	return &wire.Proposal{Kind: wire.Kind_KIND_EFFECTS, Effects: s.Encode()}
}
