// Package portable reads the statements that all engines execute alike (spec/engines.md,
// "Statements"). Its verdict on a statement is the same for every engine.
package portable

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Bounds of a statement.
const (
	rowsMax  = 10_000
	partsMax = 1_600 // columns, assignments, tests

	argumentsMax = 64 // of a procedure
)

// Refusal is the error for a statement that is not of the subset: SQLSTATE and the construct.
type Refusal struct{ SQLState, Construct string }

func (r *Refusal) Error() string { return r.Construct }

func refuse(format string, args ...any) error {
	return &Refusal{"0A000", fmt.Sprintf(format, args...)}
}

// OperandKind is the kind of an operand.
type OperandKind byte

// The kinds of an operand.
const (
	Column OperandKind = iota + 1
	Number
	String
	True
	False
	Null
	Parameter
)

// Operand is a column, a literal or a parameter.
type Operand struct {
	Kind OperandKind
	Text string // name, digits, contents, or number of the parameter
}

// Value is an operand, or two with an operator between them.
type Value struct {
	Left, Right Operand
	Operator    string // empty: Left alone
}

// Assignment gives a column a value.
type Assignment struct {
	Column string
	Value  Value
}

// Test compares two operands; "is null" and "is not null" have one.
type Test struct {
	Left, Right Operand
	Operator    string
}

// Statement is a statement of the subset.
type Statement struct {
	Op      byte        // 'I', 'U', 'D', or 'C' for CALL
	Table   string      // or procedure
	Columns []string    // of an insert
	Rows    [][]Operand // of an insert; the arguments of a CALL are one row
	Set     []Assignment
	Where   []Test // all of them
}

// Texts are statements of one block that were read: most transactions share their text. Nobody
// changes a statement. It is not for several goroutines.
type Texts map[string]*Statement

// Parse is [Parse] of a text, once.
func (t Texts) Parse(sql string) (*Statement, error) {
	if s := t[sql]; s != nil {
		return s, nil
	}
	s, err := Parse(sql)
	if err == nil {
		t[sql] = s
	}
	return s, err
}

// Parse reads a statement. The error is a *Refusal that names the construct. Cost: linear.
func Parse(sql string) (*Statement, error) {
	words, err := split(sql)
	if err != nil {
		return nil, err
	}
	p := &parser{words: words}
	s := p.statement()
	if p.err == nil && p.at < len(p.words) {
		p.fail("at %q", p.peek().text)
	}
	if p.err != nil {
		return nil, p.err
	}
	return s, nil
}

// word is a token: a keyword or name, a number, a string, a parameter or a sign.
type word struct {
	kind byte // 'a', '0', '\'', '$', '+'
	text string
}

var token = regexp.MustCompile(`^(?:([A-Za-z_][A-Za-z0-9_]*)|([0-9]+(?:\.[0-9]+)?)|('(?:[^']|'')*')|(\$[0-9]+)|(<>|<=|>=|\|\||[-+=<>(),.]))`)

func split(sql string) ([]word, error) {
	var words []word
	for {
		sql = strings.TrimLeft(sql, " \t\r\n")
		if sql == "" {
			return words, nil
		}
		m := token.FindStringSubmatch(sql)
		if m == nil || strings.HasPrefix(sql, "--") {
			return nil, refuse("at %.20q", sql)
		}
		kind := strings.IndexFunc("a0'$+", func(r rune) bool { return m[1+strings.IndexRune("a0'$+", r)] != "" })
		w := word{"a0'$+"[kind], m[0]}
		if w.kind == '\'' {
			w.text = strings.ReplaceAll(w.text[1:len(w.text)-1], "''", "'")
		}
		words, sql = append(words, w), sql[len(m[0]):]
		// PostgreSQL reads 1a, 'a''b' after a name and the like in ways of its own.
		if next := token.FindStringSubmatch(sql); next != nil && w.kind != '+' && next[5] == "" {
			return nil, refuse("at %.20q", m[0]+sql)
		}
	}
}

type parser struct {
	words []word
	at    int
	err   error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = refuse(format, args...)
	}
	p.at = len(p.words)
}

func (p *parser) peek() word {
	if p.at < len(p.words) {
		return p.words[p.at]
	}
	return word{}
}

// skip takes a keyword or a sign, if it is next.
func (p *parser) skip(text string) bool {
	w := p.peek()
	found := w.kind == '+' && w.text == text || w.kind == 'a' && strings.EqualFold(w.text, text)
	if found {
		p.at++
	}
	return found
}

func (p *parser) want(text string) {
	if !p.skip(text) {
		p.fail("at %q, where %s belongs", p.peek().text, text)
	}
}

func (p *parser) name() string {
	w := p.peek()
	switch {
	case w.kind != 'a':
		p.fail("at %q, where a name belongs", w.text)
	case w.text != strings.ToLower(w.text):
		p.fail("name %q in upper case", w.text)
	case slices.Contains(reserved, w.text):
		p.fail("reserved name %q", w.text)
	}
	p.at++
	return w.text
}

func (p *parser) statement() *Statement {
	s := &Statement{}
	switch {
	case p.skip("insert"):
		s.Op = 'I'
		p.want("into")
		s.Table = p.table()
		p.insert(s)
		return s
	case p.skip("update"):
		s.Op = 'U'
		s.Table = p.table()
		p.want("set")
		for more := true; more && p.err == nil; more = p.skip(",") {
			column := p.name()
			p.want("=")
			s.Set = append(s.Set, Assignment{column, p.value()})
		}
	case p.skip("delete"):
		s.Op = 'D'
		p.want("from")
		s.Table = p.table()
	case p.skip("call"):
		s.Op = 'C'
		s.Table = p.table()
		s.Rows = [][]Operand{p.arguments()}
		return s
	default:
		p.fail("statement %q", p.peek().text)
		return s
	}
	if p.skip("where") {
		for more := true; more && p.err == nil; more = p.skip("and") {
			s.Where = append(s.Where, p.test())
		}
	}
	if len(s.Set) > partsMax || len(s.Where) > partsMax {
		p.fail("more than %d parts", partsMax)
	}
	return s
}

func (p *parser) table() string {
	name := p.name()
	if p.skip(".") {
		return name + "." + p.name()
	}
	return "public." + name
}

// arguments are operands in parentheses, or none in them.
func (p *parser) arguments() []Operand {
	var arguments []Operand
	p.want("(")
	if p.skip(")") {
		return nil
	}
	for more := true; more && p.err == nil; more = p.skip(",") {
		arguments = append(arguments, p.operand())
	}
	p.want(")")
	if len(arguments) > argumentsMax {
		p.fail("%d arguments, at most %d", len(arguments), argumentsMax)
	}
	return arguments
}

func (p *parser) insert(s *Statement) {
	p.want("(")
	for more := true; more && p.err == nil; more = p.skip(",") {
		s.Columns = append(s.Columns, p.name())
	}
	p.want(")")
	p.want("values")
	for more := true; more && p.err == nil; more = p.skip(",") {
		var row []Operand
		p.want("(")
		for more := true; more && p.err == nil; more = p.skip(",") {
			row = append(row, p.operand())
		}
		p.want(")")
		if len(row) != len(s.Columns) || len(row) > partsMax || len(s.Rows) == rowsMax {
			p.fail("%d values for %d columns, in row %d", len(row), len(s.Columns), len(s.Rows))
		}
		s.Rows = append(s.Rows, row)
	}
}

func (p *parser) value() Value {
	v := Value{Left: p.operand()}
	for _, operator := range []string{"+", "-", "||"} {
		if p.skip(operator) {
			v.Operator, v.Right = operator, p.operand()
			return v
		}
	}
	return v
}

func (p *parser) test() Test {
	t := Test{Left: p.operand()}
	if p.skip("is") {
		t.Operator = "is null"
		if p.skip("not") {
			t.Operator = "is not null"
		}
		p.want("null")
		return t
	}
	for _, operator := range []string{"=", "<>", "<=", ">=", "<", ">"} {
		if p.skip(operator) {
			t.Operator, t.Right = operator, p.operand()
			return t
		}
	}
	p.fail("at %q, where a comparison belongs", p.peek().text)
	return t
}

func (p *parser) operand() Operand {
	negative := p.skip("-")
	w := p.peek()
	switch {
	case w.kind == '0' && negative:
		p.at++
		return Operand{Number, "-" + w.text}
	case negative:
		p.fail("- before %q", w.text)
	case w.kind == '0':
		p.at++
		return Operand{Number, w.text}
	case w.kind == '\'':
		p.at++
		return Operand{String, w.text}
	case w.kind == '$':
		p.at++
		return Operand{Parameter, w.text[1:]}
	}
	for kind, keyword := range map[OperandKind]string{True: "true", False: "false", Null: "null"} {
		if p.skip(keyword) {
			return Operand{Kind: kind}
		}
	}
	name := p.name()
	if p.peek().text == "(" && p.peek().kind == '+' {
		p.fail("function %s", name)
	}
	return Operand{Column, name}
}

// reserved are PostgreSQL's reserved words, which are no names there without quotes.
var reserved = strings.Fields(`all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate
	collation column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
	current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze from full grant
	group having ilike in initially inner intersect into is isnull join lateral leading left like limit localtime localtimestamp natural
	not notnull null offset on only or order outer overlaps placing primary references returning right select session_user similar some
	symmetric system_user table tablesample then to trailing true union unique user using variadic verbose when where window with`)
