package mariadb_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend/mariadb"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	checksRounds = 6 // each with new tables, and new checks
	checksTables = 5
	checksBlocks = 20
)

// checkedColumn is a column of the tables of these tests.
type checkedColumn struct{ name, logical, pg, mariadb string }

// checkedColumns stand in this order; id is the key.
var checkedColumns = []checkedColumn{
	{"id", "bigint", "bigint PRIMARY KEY", "BIGINT PRIMARY KEY"},
	{"s", "smallint", "smallint", "SMALLINT"},
	{"i", "integer", "integer", "INT"},
	{"b", "bigint", "bigint", "BIGINT"},
	{"n", "numeric(10,2)", "numeric(10,2)", "DECIMAL(10,2)"},
	{"m", "numeric(65,38)", "numeric(65,38)", "DECIMAL(65,38)"},
	{"ok", "boolean", "boolean", "TINYINT(1) CHECK (ok IN (0,1))"},
	{"open", "boolean", "boolean", "TINYINT(1) CHECK (open IN (0,1))"},
	{"t", "text", "text", "LONGTEXT"},
	{"v", "varchar(10)", "varchar(10)", "VARCHAR(10)"},
	{"w", "varchar(10)", "varchar(10)", "VARCHAR(10)"},
	{"raw", "bytea", "bytea", "LONGBLOB"},
	{"raw2", "bytea", "bytea", "LONGBLOB"},
	{"day", "date", "date", "DATE"},
	{"day2", "date", "date", "DATE"},
	{"clock", "time", "time", "TIME(6)"},
	{"clock2", "time", "time", "TIME(6)"},
	{"ts", "timestamp", "timestamp", "DATETIME(6)"},
	{"ts2", "timestamp", "timestamp", "DATETIME(6)"},
	{"tz", "timestamptz", "timestamptz", "DATETIME(6) COMMENT 'timestamptz'"},
	{"tz2", "timestamptz", "timestamptz", "DATETIME(6) COMMENT 'timestamptz'"},
	{"u", "uuid", "uuid", "UUID"},
	{"u2", "uuid", "uuid", "UUID"},
	{"j", "json", "jsonb", "JSON"},
	{"d", "double", "double precision", "DOUBLE"},
	{"e", "double", "double precision", "DOUBLE"},
}

// checkedValues are values of columns and constants, as PostgreSQL's text has them. Those of
// checkedConstants are constants alone.
var (
	checkedValues = map[string][]string{
		"smallint": {"-32768", "-1", "0", "1", "2", "32767"}, "integer": {"-2147483648", "-1", "0", "1", "2", "2147483647"},
		"bigint":        {"-9223372036854775808", "-1", "0", "1", "2", "3000000000", "9223372036854775807"},
		"numeric(10,2)": {"-99999999.99", "-0.01", "0.00", "0.01", "1.50", "2.00", "99999999.99"},
		"numeric(65,38)": {
			"-123456789012345678901234567.00000000000000000000000000000000000001", "0.00000000000000000000000000000000000000",
			"0.00000000000000000000000000000000000001", "1.50000000000000000000000000000000000000",
		},
		"boolean": {"true", "false"}, "text": {"", "a", "a ", "A", "b", "é", "it's \\ \"\n\r\t\x1a%_", "ﬁ ß"}, "varchar(10)": {"", "a", "a ", "A", "b", "é", "a\\'b"},
		"bytea": {`\x`, `\x00`, `\x00ff`, `\x61`, `\xff`}, "date": {"0001-01-01", "1969-12-31", "2024-02-29", "9999-12-31"},
		"time":        {"00:00:00", "12:00:00", "12:00:00.5", "23:59:59.999999", "24:00:00"},
		"timestamp":   {"0001-01-01 00:00:00", "1969-12-31 23:59:59.5", "2024-02-29 12:00:00", "9999-12-31 23:59:59.999999"},
		"timestamptz": {"0001-01-01 00:00:00+00", "1970-01-01 00:00:00+00", "2024-02-29 12:00:00.25+00", "9999-12-31 23:59:59.999999+00"},
		"uuid":        {"00000000-0000-0000-0000-000000000000", "00112233-4455-6677-8899-aabbccddeeff", "ff112233-4455-1677-8899-000000000001"},
		"json":        {"{}", "[1]"}, "double": {"0", "1.5", "-1.5", "0.1", "100000000000000"},
	}
	checkedConstants = map[string][]string{
		"smallint": {"70000", "-9223372036854775808"}, "integer": {"3000000000"}, "numeric(10,2)": {"1", "1.505", "-0.004", "1" + strings.Repeat("0", 60) + ".5"},
		"numeric(65,38)": {"1", "0.1", "0.5" + strings.Repeat("0", 60) + "1", "0." + strings.Repeat("0", 70) + "1"}, "text": {"ab"}, "varchar(10)": {"longer than the column"}, "double": {"2", "-0", "0.10000000000000"},
	}
)

// checkTree is a random check: "and", "or" and "not" of others, or a test of a column.
type checkTree struct {
	word   string
	parts  []*checkTree
	column int
	with   []string // constants, or a column
}

func (g *keysGenerator) checkTree(depth int) *checkTree {
	if depth > 0 && g.IntN(3) > 0 {
		t := &checkTree{word: g.pick("and", "or", "or", "not")}
		for range map[bool]int{true: 1, false: 2 + g.IntN(2)}[t.word == "not"] {
			t.parts = append(t.parts, g.checkTree(depth-1))
		}
		return t
	}
	t := &checkTree{column: g.IntN(len(checkedColumns))}
	logical := checkedColumns[t.column].logical
	words := []string{"=", "<>", "<", "<=", ">", ">=", "turned", "between", "not between", "columns", "in", "not in", "is null", "is not null"}
	switch {
	case logical == "json":
		words = words[12:]
	case logical == "uuid":
		words = append(words[:2:2], words[9:]...)
	case logical == "boolean" && g.IntN(2) == 0:
		words = []string{"bare"}
	}
	t.word = g.pick(words...)
	for range map[string]int{"bare": 0, "is null": 0, "is not null": 0, "columns": 0, "in": 1 + g.IntN(3), "not in": 1 + g.IntN(3), "between": 2, "not between": 2}[t.word] + oneOf(t.word) {
		t.with = append(t.with, g.pick(append(checkedConstants[logical], checkedValues[logical]...)...))
	}
	if t.word == "columns" {
		t.with = []string{g.pick(comparableColumns(logical)...), g.pick("=", "<>")}
		if logical != "uuid" {
			t.with[1] = g.pick("=", "<>", "<", "<=", ">", ">=")
		}
	}
	return t
}

// oneOf is 1 for words with one constant.
func oneOf(word string) int {
	if strings.ContainsAny(word, "=<>") || word == "turned" {
		return 1
	}
	return 0
}

func kindOf(logical string) string {
	kind, _, _ := strings.Cut(logical, "(")
	return map[string]string{"smallint": "int", "integer": "int", "bigint": "int", "varchar": "text"}[kind] + map[bool]string{true: kind}[!strings.Contains("smallint integer bigint varchar", kind)]
}

func comparableColumns(logical string) []string {
	var names []string
	for _, c := range checkedColumns {
		if kindOf(c.logical) == kindOf(logical) {
			names = append(names, c.name)
		}
	}
	return names
}

// sql spells a check for an engine.
func (t *checkTree) sql(constant func(logical, text string) string) string {
	var parts []string
	for _, part := range t.parts {
		parts = append(parts, "("+part.sql(constant)+")")
	}
	c := checkedColumns[t.column]
	if t.word != "columns" {
		for _, text := range t.with {
			parts = append(parts, constant(c.logical, text))
		}
	}
	switch t.word {
	case "and", "or":
		return strings.Join(parts, " "+t.word+" ")
	case "not":
		return "not " + parts[0]
	case "bare":
		return c.name
	case "turned":
		return parts[0] + " >= " + c.name
	case "columns":
		return c.name + " " + t.with[1] + " " + t.with[0]
	case "between", "not between":
		return c.name + " " + t.word + " " + parts[0] + " and " + parts[1]
	case "in", "not in":
		return c.name + " " + t.word + " (" + strings.Join(parts, ", ") + ")"
	}
	return strings.TrimSpace(c.name + " " + t.word + " " + strings.Join(parts, ""))
}

func constantPG(logical, text string) string {
	switch kindOf(logical) {
	case "int", "numeric", "boolean", "double":
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

func constantMariaDB(logical, text string) string {
	switch kindOf(logical) {
	case "int", "numeric", "boolean", "double":
		return text
	case "bytea":
		return "X'" + strings.TrimPrefix(text, `\x`) + "'"
	}
	text = strings.TrimSuffix(text, "+00")
	before := "" // a literal with a type, or a text
	if strings.Contains(text, "9") {
		before = map[string]string{"date": "DATE", "time": "TIME", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP"}[logical]
	}
	return before + "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(text) + "'"
}

// makeTables makes tables with random checks in both engines, and returns the text that attaches
// them.
func (g *keysGenerator) makeTables(engines []*engine, round int) string {
	g.tables = nil
	var attach []string
	for n := range checksTables {
		k := keyed{name: fmt.Sprintf("checked%d_%d", round, n), key: 1}
		var pg, mariadb []string
		for _, c := range checkedColumns {
			k.columns, k.types = append(k.columns, c.name), append(k.types, c.logical)
			pg, mariadb = append(pg, c.name+" "+c.pg), append(mariadb, c.name+" "+c.mariadb)
		}
		for range 1 + g.IntN(4) {
			check := g.checkTree(3)
			pg, mariadb = append(pg, "CHECK ("+check.sql(constantPG)+")"), append(mariadb, "CHECK ("+check.sql(constantMariaDB)+")")
		}
		engines[0].tamper("CREATE TABLE public." + k.name + " (" + strings.Join(pg, ", ") + "); GRANT ALL ON public." + k.name + " TO engines_ops")
		engines[1].tamper("CREATE TABLE engines." + k.name + " (" + strings.Join(mariadb, ", ") + "); GRANT SELECT, INSERT, UPDATE, DELETE ON engines." + k.name + " TO engines_ops")
		g.tables, attach = append(g.tables, k), append(attach, "public."+k.name)
		g.Logf("%s: %s", k.name, strings.Join(pg[len(checkedColumns):], ", "))
	}
	return "ATTACH TABLE " + strings.Join(attach, ", ") + " ENCODING 2"
}

// freshChecked draws a row, in which most columns are NULL.
func (g *keysGenerator) freshChecked(table int) []*string {
	row := make([]*string, len(checkedColumns))
	few := 1 + g.IntN(8)
	for i, c := range checkedColumns {
		values := checkedValues[c.logical]
		if i == 0 {
			values = []string{g.number()}
		}
		if text := values[g.IntN(len(values))]; i == 0 || g.IntN(few+1) == 0 {
			row[i] = &text
		}
	}
	return row
}

// checkedStatement inserts, updates or deletes rows of a table; values are parameters.
func (g *keysGenerator) checkedStatement() *wire.Proposal {
	p := &wire.Proposal{Kind: wire.Kind_KIND_SQL}
	parameter := func(text *string) string {
		if text == nil {
			return "NULL"
		}
		p.Parameters = append(p.Parameters, &wire.Parameter{Text: *text})
		return fmt.Sprintf("$%d", len(p.Parameters))
	}
	table := g.IntN(len(g.tables))
	name := g.tables[table].name
	switch g.IntN(8) {
	case 0:
		p.Sql = "DELETE FROM " + name + " WHERE id = " + g.number()
	case 1, 2, 3:
		at := 1 + g.IntN(len(checkedColumns)-1)
		p.Sql = "UPDATE " + name + " SET " + checkedColumns[at].name + " = " + parameter(g.freshChecked(table)[at])
		if g.IntN(2) == 0 {
			p.Sql += ", " + g.pick("s = s + 1", "i = i - 1", "n = n + 0.01", "t = t || v", "b = b + 1")
		}
		p.Sql += " WHERE id " + g.pick("=", "<", ">") + " " + g.number()
		if strings.Count(p.Sql, " "+checkedColumns[at].name+" = ") > 1 {
			p.Sql = "DELETE FROM " + name + " WHERE id = " + g.number()
			p.Parameters = nil
		}
	default:
		var rows []string
		for range 1 + g.IntN(2) {
			var values []string
			for _, text := range g.freshChecked(table) {
				values = append(values, parameter(text))
			}
			rows = append(rows, "("+strings.Join(values, ", ")+")")
		}
		p.Sql = "INSERT INTO " + name + " (" + strings.Join(g.tables[table].columns, ", ") + ") VALUES " + strings.Join(rows, ", ")
	}
	return p
}

// checkedWriteSet inserts a row, or updates or deletes one.
func (g *keysGenerator) checkedWriteSet() *wire.Proposal {
	s := &set{T: g.T, tables: g.tables, changes: map[int][]wire.RowChange{}}
	table := g.IntN(len(g.tables))
	rows := g.rows[table]
	if len(rows) == 0 || g.IntN(3) == 0 {
		s.insert(table, g.freshChecked(table))
	} else if row := rows[g.IntN(len(rows))]; g.IntN(6) == 0 {
		s.remove(table, row, false)
	} else {
		next := g.freshChecked(table)
		next[0] = row[0]
		for i := range next {
			if g.IntN(2) == 0 {
				next[i] = row[i]
			}
		}
		s.update(table, row, next, false)
	}
	if len(s.order) == 0 { // an update that changes nothing
		s.insert(table, g.freshChecked(table))
	}
	return &wire.Proposal{Kind: wire.Kind_KIND_EFFECTS, Effects: s.encode()}
}

// A violated check is one outcome in both engines: of a statement, a procedure and a write set.
func TestEnginesAgreeOnViolatedChecks(t *testing.T) {
	pg, my := enginesAt(t)
	engines := []*engine{openPostgres(t, pg), openMariaDB(t, my)}
	engines[0].tamper(`CREATE TABLE public.limited (id bigint PRIMARY KEY, n integer CHECK (n > 0), m integer, CONSTRAINT k CHECK (m IN (1, 2) OR n BETWEEN 5 AND 7));
		CREATE TABLE public.also (id bigint PRIMARY KEY REFERENCES limited); -- write sets run otherwise beside foreign keys
		INSERT INTO limited VALUES (1, 5, 0); GRANT ALL ON public.limited TO engines_ops;
		CREATE PROCEDURE public.put(a bigint, b integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO limited (id, n) VALUES (a, b); END $$; GRANT EXECUTE ON PROCEDURE public.put TO engines_ops`)
	engines[1].tamper(`CREATE TABLE engines.limited (id BIGINT PRIMARY KEY, n INT CHECK (0 < n), m INT, CONSTRAINT k CHECK (n <= 7 AND n >= 5 OR m = 2 OR m = 1));
		CREATE TABLE engines.also (id BIGINT PRIMARY KEY REFERENCES engines.limited (id));
		INSERT INTO engines.limited VALUES (1, 5, 0); GRANT SELECT, INSERT, UPDATE, DELETE ON engines.limited TO engines_ops; ` + mariadb.ProcedureSettings + `;
		CREATE PROCEDURE engines.put(a BIGINT, b INT) SQL SECURITY INVOKER INSERT INTO limited (id, n) VALUES (a, b); GRANT EXECUTE ON PROCEDURE engines.put TO engines_ops`)
	attach := "ATTACH PROCEDURE public.put (bigint, integer) ENCODING 2 " + digests(t, pg, my, "put")
	both(t, engines, 1, []bool{true, true}, deployOf("ATTACH TABLE public.limited, public.also ENCODING 2"), deployOf(attach))
	limited := []keyed{{"limited", []string{"id", "n", "m"}, []string{"bigint", "integer", "integer"}, 1}}
	row := func(texts ...string) []*string {
		cells := make([]*string, len(texts))
		for i := range texts {
			if texts[i] != "" {
				cells[i] = &texts[i]
			}
		}
		return cells
	}
	inserted := func(texts ...string) *wire.Proposal {
		s := &set{T: t, tables: limited, changes: map[int][]wire.RowChange{}}
		s.insert(0, row(texts...))
		return &wire.Proposal{Kind: wire.Kind_KIND_EFFECTS, Effects: s.encode()}
	}
	updated := func(before, after []*string) *wire.Proposal {
		s := &set{T: t, tables: limited, changes: map[int][]wire.RowChange{}}
		s.update(0, before, after, false)
		return &wire.Proposal{Kind: wire.Kind_KIND_EFFECTS, Effects: s.encode()}
	}
	cases := []struct {
		proposal *wire.Proposal
		runs     bool
	}{
		{callOf("INSERT INTO limited (id, n) VALUES (2, 0)"), false},
		{callOf("INSERT INTO limited (id, n, m) VALUES (2, 6, 9), (3, 8, 9)"), false},
		{callOf("INSERT INTO limited (id, n, m) VALUES (2, 6, 9), (3, 8, 2), (4, NULL, 7)"), true},
		{callOf("UPDATE limited SET n = n + 2 WHERE id < 3"), false},
		{callOf("UPDATE limited SET n = n + 1 WHERE id < 3"), true},
		{callOf("UPDATE limited SET n = NULL, m = NULL WHERE id = 2"), true},
		{callOf("CALL put(5, 0)"), false},
		{callOf("CALL put(5, 4)"), true}, // m is NULL
		{callOf("CALL put(6, -1)"), false},
		{inserted("6", "0", "1"), false},
		{inserted("6", "4", "3"), false},
		{inserted("6", "4", "1"), true},
		{updated(row("6", "4", "1"), row("6", "4", "3")), false},
		{updated(row("6", "4", "1"), row("6", "", "")), true},
	}
	for i, c := range cases {
		for j, x := range both(t, engines, uint64(i+2), []bool{c.runs}, c.proposal) {
			if state := x.Results[0].SQLState; (state == "23514") == c.runs {
				t.Errorf("case %d, engine %d: SQLSTATE %q", i, j, state)
			}
		}
	}
}

// Checks that engines could compute otherwise are refused by each.
func TestEnginesRefuseOtherChecks(t *testing.T) {
	pg, my := enginesAt(t)
	engines := []*engine{openPostgres(t, pg), openMariaDB(t, my)}
	both(t, engines, 1, []bool{true}, deployOf("ATTACH TABLE public.items ENCODING 2"))
	var values, nested string
	for n := range 300 {
		values += fmt.Sprint(n, ", ")
	}
	for n := range 17 {
		nested += fmt.Sprintf("(i = %d %s ", n, []string{"and", "or"}[n%2])
	}
	shared := []string{
		"n + 1 > 0", "char_length(t) > 0", "lower(t) = 'a'", "t LIKE 'a%'", "coalesce(i, 1) > 0", "n > i", "i > 1.5", "i = NULL", "i IN (1, NULL)", "ok IS TRUE", "(i > 0) = ok", "5 > 3",
		"u < '00112233-4455-6677-8899-aabbccddeeff'", "t <> 'a?'", "t <> '😀'", "d > 0.1234567890123456", "CASE WHEN i > 0 THEN ok END",
		"i IN (" + values + "300)", nested + "s = 1" + strings.Repeat(")", 17), "ts < tz", "(i > 0) IS NULL", "day > '2024-02-29' AND NOT (n - 1 > 0)",
	}
	own := [2][]string{
		{"i::text < '5'", "i < ANY (ARRAY[1, 2])", "t COLLATE \"C\" < 'a'", "day < 'infinity'", "ok IS DISTINCT FROM true", "j = '{}'", "m > 0." + strings.Repeat("0", 80) + "1"},
		{
			"i <=> 1", "i > 0 XOR s > 0", "raw = 'a'", "raw > 5", "t = _utf8mb4'x'", "t = 'x' COLLATE utf8mb4_bin", "binary t = 'x'", "n > 1.5e0", "d > 1e5", "i > 0x10", "i > '5'", "t > 5", "day > 20240229",
			"day > '2024-2-29'", "day > TIMESTAMP'2024-02-29 00:00:00'", "ts > '2024-02-29'", "ts > '2024-02-29  1:00:00'", "tz > '2024-02-29 00:00:00+00'", "clock > '1:00:00'", "ok = 2", "i", "i = 1 = 1",
			"i BETWEEN 1 AND s", "i IN (1, s)", "u <> '00112233445566778899aabbccddeeff'", "i DIV 2 > 0", "JSON_LENGTH(j) > 1", "j = '{}'", "NOT t LIKE 'a%'", "i > 99999999999999999999",
		},
	}
	for j, e := range engines {
		for n, check := range append(own[j], shared...) {
			name := fmt.Sprintf("refused%d", n)
			parts := []string{}
			for _, c := range checkedColumns {
				parts = append(parts, c.name+" "+[]string{c.pg, c.mariadb}[j])
			}
			e.tamper("CREATE TABLE " + []string{"public.", "engines."}[j] + name + " (" + strings.Join(parts, ", ") + ", CONSTRAINT k CHECK (" + check + "))")
			x, err := e.Execute(t.Context(), enginesBlock(2, deployOf("ATTACH TABLE public."+name+" ENCODING 2")), e.at.Hash)
			if err == nil {
				err = e.Rollback(t.Context())
			}
			must.Do(t, err)
			if r := x.Results[0]; r.SQLState != "0A000" || !strings.Contains(r.Message, "check") {
				t.Errorf("engine %d, %.60s: %+v", j, check, r)
			} else {
				t.Logf("engine %d, %.60s: %.150s", j, check, r.Message)
			}
		}
	}
}

// enginesAt are the servers of both engines.
func enginesAt(t *testing.T) (pg, my string) {
	pg, my = os.Getenv("CHAINIFY_TEST_PG"), os.Getenv("CHAINIFY_TEST_MARIADB")
	if pg == "" || my == "" {
		t.Skip("CHAINIFY_TEST_PG and CHAINIFY_TEST_MARIADB are not both set; `make test-mariadb` sets them")
	}
	return pg, my
}

// Random checks have one text in both engines, and one verdict about each random row: of
// statements, and of write sets.
func TestEnginesAgreeOnRandomChecks(t *testing.T) {
	pg, my := enginesAt(t)
	g, counts := &keysGenerator{Rand: seeded.Random(t), T: t}, map[string]int{}
	engines := []*engine{openPostgres(t, pg), openMariaDB(t, my)}
	conn, err := pgx.Connect(t.Context(), pg+" dbname=engines options='-c TimeZone=UTC'")
	must.Do(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	number := uint64(0)
	for round := range checksRounds {
		number++
		attach := enginesBlock(number, &wire.Proposal{Kind: wire.Kind_KIND_DEPLOY, Sql: g.makeTables(engines, round)})
		a, b := engines[0].commit(t, attach), engines[1].commit(t, attach)
		if x, y := a.Results[0], b.Results[0]; a.Hash != b.Hash || !x.Succeeded || !y.Succeeded {
			t.Fatalf("attach: PostgreSQL %+v, MariaDB %+v", x, y)
		}
		for range checksBlocks {
			number++
			g.look(conn)
			var proposals []*wire.Proposal
			for range 10 {
				proposals = append(proposals, g.checkedStatement(), g.checkedWriteSet())
			}
			block := enginesBlock(number, proposals...)
			block.Round = 1
			a, b := engines[0].commit(t, block), engines[1].commit(t, block)
			for i := range proposals {
				x, y, p := a.Results[i], b.Results[i], proposals[i]
				if x.Succeeded != y.Succeeded || (x.SQLState == "23514") != (y.SQLState == "23514") {
					t.Errorf("block %d, transaction %d, %s %v %s: PostgreSQL %+v, MariaDB %+v", number, i, p.Sql, p.Parameters, g.words(p), x, y)
				}
				counts[fmt.Sprint(p.Kind, " ", x.SQLState)]++
			}
			if a.Hash != b.Hash {
				t.Fatalf("block %d: %s", number, difference(t, a, b, engines))
			}
		}
	}
	t.Logf("transactions by kind and SQLSTATE: %v", counts)
	for _, want := range []string{"KIND_SQL ", "KIND_EFFECTS ", "KIND_SQL 23514", "KIND_EFFECTS 23514"} {
		if counts[want] < 100 {
			t.Errorf("only %d of %q", counts[want], want)
		}
	}
}
