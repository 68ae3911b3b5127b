package mariadb

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/canonical"
)

// readChecks are the checks of a table as the server words them, by level and name.
func readChecks(ctx context.Context, q querier, name names, short string) (map[string]string, error) {
	rows, err := q.QueryContext(ctx, `SELECT concat(LEVEL, ' ', CONSTRAINT_NAME), CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS
		WHERE CONSTRAINT_SCHEMA = ? AND TABLE_NAME = ?`, name.database, short)
	if err != nil {
		return nil, err
	}
	checks := map[string]string{}
	return checks, each(rows, func() error {
		var constraint, clause string
		err := rows.Scan(&constraint, &clause)
		checks[constraint] = clause
		return err
	})
}

// takeTypeCheck takes the check that belongs to a column's type out of checks.
func takeTypeCheck(c *canonical.ColumnType, checks map[string]string) error {
	of := "Column " + c.Name
	switch c.Type {
	case "boolean":
		if !isCheck(checks[of], "", c.Name, " in (0,1)") {
			return refused("column %s: a boolean has the check %s in (0,1)", c.Name, c.Name)
		}
		delete(checks, of)
	case "json":
		delete(checks, of)
	}
	return nil
}

// isCheck tells whether a clause is the column's name between two texts, in the quotes of any
// sql_mode.
func isCheck(clause, before, column, after string) bool {
	return clause == before+quoted(column)+after || clause == before+`"`+column+`"`+after
}

// addChecks reads those that belong to no type.
func (d *described) addChecks(checks map[string]string) error {
	for _, of := range slices.Sorted(maps.Keys(checks)) {
		c, why := parseCheck(checks[of], &d.Table)
		if why != "" {
			_, constraint, _ := strings.Cut(of, " ")
			return refused("table %s has the check %s: %s", d.Name, constraint, why)
		}
		d.Checks = append(d.Checks, c)
	}
	return nil
}

// refuseRows refuses a table with rows that its checks would not take: they may have been off when
// such a row came, or when the check was made.
func (d *described) refuseRows(ctx context.Context, q querier, name names) error {
	t := table{Table: d.Table}
	for i := range d.Checks {
		text, err := t.spellCheck(&d.Checks[i])
		if err != nil {
			return err
		}
		var found bool
		if err := q.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+t.quoted(name)+" WHERE NOT "+text+")").Scan(&found); err != nil {
			return err
		}
		if found {
			return refused("table %s has rows that its check %s does not take", d.Name, text)
		}
	}
	return nil
}

// spellCheck writes a check of the table for MariaDB, in parentheses.
func (t *table) spellCheck(c *canonical.Check) (string, error) {
	if c.Word != "" {
		parts := make([]string, len(c.Parts))
		for i := range c.Parts {
			var err error
			if parts[i], err = t.spellCheck(&c.Parts[i]); err != nil {
				return "", err
			}
		}
		return "(" + strings.Join(parts, " "+c.Word+" ") + ")", nil
	}
	with, err := "", error(nil)
	if c.Other != "" {
		with = quoted(c.Other)
	} else if c.Value != nil {
		at := slices.IndexFunc(t.Columns, func(column canonical.ColumnType) bool { return column.Name == c.Column })
		with, err = literal(t.Columns[at].Type, c.Value)
	}
	return "(" + quoted(c.Column) + " " + c.Operator + " " + with + ")", err
}

// Bounds of a check's expression.
const (
	clauseBytesMax  = 65_536
	clauseDepthMax  = 64
	doubleDigitsMax = 15 // that a double has for sure
)

// clauseToken is a name, a literal with a type, a text, a number, a word or a sign, as the server
// words them.
var clauseToken = regexp.MustCompile("(?s)^(?:[\"`]([a-z_][a-z0-9_]*)[\"`]" + `|((?:DATE|TIME|TIMESTAMP|X)'[^'\\]*')|('(?:[^'\\]|\\.)*')|([0-9]+(?:\.[0-9]+)?)|([A-Za-z_][A-Za-z0-9_]*)|(<>|<=|>=|[-=<>(),]))`)

// kindsOfTokens names the groups of clauseToken.
const kindsOfTokens = `"X'0a+`

type clauseWord struct {
	kind byte // of kindsOfTokens
	text string
}

func splitClause(clause string) ([]clauseWord, string) {
	var words []clauseWord
	for {
		clause = strings.TrimLeft(clause, " ")
		if clause == "" {
			return words, ""
		}
		m := clauseToken.FindStringSubmatch(clause)
		if m == nil {
			return nil, fmt.Sprintf("at %.20q", clause)
		}
		at := slices.IndexFunc(m[1:], func(group string) bool { return group != "" })
		words, clause = append(words, clauseWord{kindsOfTokens[at], m[1+at]}), clause[len(m[0]):]
		last := &words[len(words)-1]
		if last.kind != '+' && strings.HasPrefix(clause, "'") || last.kind == '0' && clause != "" && !strings.ContainsRune(" ),", rune(clause[0])) {
			return nil, fmt.Sprintf("at %.20q", m[0]+clause) // an introducer, an exponent, 0x00
		}
	}
}

// clauseReader reads a condition as the server words it, and keeps the first construct that engines
// do not share.
type clauseReader struct {
	words []clauseWord
	at    int
	table *canonical.Table
	why   string
}

// parseCheck reads a check of a table whose columns are known. why is the construct that engines do
// not share; empty: it is read. Cost: linear.
func parseCheck(clause string, t *canonical.Table) (c canonical.Check, why string) {
	if len(clause) > clauseBytesMax {
		return c, fmt.Sprintf("an expression of %d bytes", len(clause))
	}
	words, why := splitClause(clause)
	r := &clauseReader{words: words, table: t, why: why}
	if why == "" {
		c = r.condition(canonical.Or, 0)
	}
	if r.why == "" && r.at < len(r.words) {
		r.unexpected()
	}
	return c, r.why
}

func (r *clauseReader) fail(format string, args ...any) {
	if r.why == "" {
		r.why = fmt.Sprintf(format, args...)
	}
	r.at = len(r.words)
}

func (r *clauseReader) unexpected() { r.fail("at %.20q", r.next().text) }

func (r *clauseReader) next() clauseWord {
	if r.at < len(r.words) {
		return r.words[r.at]
	}
	return clauseWord{}
}

// skip takes a word or a sign, if it is next.
func (r *clauseReader) skip(text string) bool {
	w := r.next()
	found := (w.kind == 'a' || w.kind == '+') && w.text == text
	if found {
		r.at++
	}
	return found
}

func (r *clauseReader) want(text string) {
	if !r.skip(text) {
		r.unexpected()
	}
}

// condition reads conditions with a word between them: Or, or And, which binds closer.
func (r *clauseReader) condition(word string, depth int) canonical.Check {
	c := canonical.Check{Word: word}
	for more := true; more && r.why == ""; more = r.skip(word) {
		if word == canonical.Or {
			c.Parts = append(c.Parts, r.condition(canonical.And, depth))
		} else {
			c.Parts = append(c.Parts, r.test(depth))
		}
	}
	return c
}

func (r *clauseReader) test(depth int) canonical.Check {
	if depth > clauseDepthMax {
		r.fail("more than %d levels", clauseDepthMax)
	}
	if r.skip("(") {
		c := r.condition(canonical.Or, depth+1)
		r.want(")")
		return c
	}
	if r.next().kind == '"' {
		return r.predicate(r.column())
	}
	literal := r.literal()
	operator := canonical.Turned(r.operator())
	c := r.column()
	return canonical.Check{Column: c.Name, Operator: operator, Value: r.value(c, literal)}
}

// column reads a name. It is never nil.
func (r *clauseReader) column() *canonical.ColumnType {
	w := r.next()
	for i := range r.table.Columns {
		if c := &r.table.Columns[i]; w.kind == '"' && c.Name == w.text {
			r.at++
			return c
		}
	}
	r.unexpected()
	return &canonical.ColumnType{}
}

// predicate reads the rest of a test that begins with a column.
func (r *clauseReader) predicate(c *canonical.ColumnType) canonical.Check {
	test := canonical.Check{Column: c.Name}
	if r.skip("is") {
		test.Operator = canonical.IsNull
		if r.skip("not") {
			test.Operator = canonical.IsNotNull
		}
		r.want("null")
		return test
	}
	if w := r.next(); w.kind != '+' && w.text != "not" && w.text != "between" && w.text != "in" || w.text == ")" {
		if c.Type != "boolean" {
			r.fail("the value of column %s at %.20q", c.Name, w.text)
		}
		return canonical.Check{Column: c.Name, Operator: "=", Value: &canonical.Value{Tag: canonical.Boolean, Number: 1}}
	}
	not := r.skip("not")
	switch {
	case r.skip("between"):
		test.Word = canonical.And
		for _, operator := range []string{">=", "<="} {
			test.Parts = append(test.Parts, canonical.Check{Column: c.Name, Operator: operator, Value: r.value(c, r.literal())})
			if operator == ">=" {
				r.want("and")
			}
		}
	case r.skip("in"):
		test.Word = canonical.Or
		r.want("(")
		for more := true; more && r.why == ""; more = r.skip(",") {
			test.Parts = append(test.Parts, canonical.Check{Column: c.Name, Operator: "=", Value: r.value(c, r.literal())})
		}
		r.want(")")
	case not:
		r.unexpected()
	default:
		if test.Operator = r.operator(); r.next().kind == '"' {
			test.Other = r.column().Name
		} else {
			test.Value = r.value(c, r.literal())
		}
	}
	if not {
		test = test.Negated()
	}
	return test
}

func (r *clauseReader) operator() string {
	for _, operator := range []string{"=", "<>", "<=", ">=", "<", ">"} {
		if r.skip(operator) {
			return operator
		}
	}
	r.unexpected()
	return ""
}

// literal reads one without a type; a number has its sign.
func (r *clauseReader) literal() clauseWord {
	negative := r.skip("-")
	w := r.next()
	switch {
	case w.kind == 'a' && r.at+1 < len(r.words) && r.words[r.at+1].text == "(":
		r.fail("function %s", w.text)
	case w.kind == '0' && negative:
		w.text = "-" + w.text
	case negative || w.kind != '0' && w.kind != 'X' && w.kind != '\'':
		r.unexpected()
	}
	r.at++
	return w
}

// value is a literal as a column compares with it.
func (r *clauseReader) value(c *canonical.ColumnType, w clauseWord) *canonical.Value {
	if r.why != "" {
		return nil
	}
	v, ok := literalValue(c.Type, w)
	if !ok {
		r.fail("column %s of type %s beside %.40s", c.Name, c.Type, w.text)
		return nil
	}
	return &v
}

// literalsOf are the words before literals of a type.
var literalsOf = map[string]string{"date": "DATE", "time": "TIME", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP", "bytea": "X"}

// literalValue is false for literals of other types, and for spellings that are not the only one of
// their value.
func literalValue(logical string, w clauseWord) (v canonical.Value, ok bool) {
	tag, _ := canonical.TypeTag(logical)
	text, number, of := w.text, w.kind == '0', logical
	switch w.kind {
	case 'X':
		prefix, inside, _ := strings.Cut(strings.TrimSuffix(text, "'"), "'")
		if prefix != literalsOf[logical] {
			return v, false
		}
		text = inside
	case '\'':
		if text, ok = unescaped(text); !ok || logical == "bytea" {
			return v, false
		}
	}
	numeric := false
	switch tag {
	case canonical.Boolean:
		numeric, of, text = true, logical, map[string]string{"0": "f", "1": "t"}[text]
	case canonical.Integer:
		numeric, of = true, "bigint" // a constant beyond the column's type compares all the same
	case canonical.Numeric:
		numeric = true
	case canonical.Float:
		if numeric = true; len(strings.NewReplacer("-", "", ".", "").Replace(text)) > doubleDigitsMax {
			return v, false
		}
	case canonical.Bytea:
		text = `\x` + strings.ToLower(text)
	case canonical.Text:
		return canonical.Value{Tag: tag, Text: text}, !number
	}
	if numeric != number {
		return v, false
	}
	v, err := canonical.ParseText(of, text)
	if strings.Contains(text, ":") && strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	spelled := strings.TrimSuffix(canonical.FormatText(of, &v), "+00")
	return v, err == nil && (numeric || spelled == text)
}

// escapes are those that the server words in a text, whatever the session's sql_mode.
var escapes = strings.NewReplacer(`\\`, `\`, `\'`, `'`, `\n`, "\n", `\r`, "\r", `\Z`, "\x1a")

var escape = regexp.MustCompile(`(?s)\\(.)`)

func unescaped(quoted string) (text string, ok bool) {
	for _, m := range escape.FindAllStringSubmatch(quoted, -1) {
		if !strings.Contains(`\'nrZ`, m[1]) {
			return "", false
		}
	}
	return escapes.Replace(quoted[1 : len(quoted)-1]), true
}
