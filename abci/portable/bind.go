package portable

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// Bound is an operand with its type: a column, or a value, nil for NULL.
type Bound struct {
	Column string // empty: Value
	Type   string
	Value  *canonical.Value
}

// Binder gives operands of one statement their types.
type Binder struct {
	table      *canonical.Table
	parameters []*wire.Parameter
}

// NewBinder checks the names of a statement, and the columns that it sets. The error is a *Refusal.
func NewBinder(s *Statement, table *canonical.Table, parameters []*wire.Parameter) (*Binder, error) {
	b := &Binder{table, parameters}
	names := slices.Clone(s.Columns)
	for _, set := range s.Set {
		names = append(names, set.Column)
		for _, key := range append([][]string{table.PrimaryKey}, table.Unique...) {
			if slices.Contains(key, set.Column) {
				return nil, refuse("update of column %s of a key", set.Column)
			}
		}
	}
	for i, name := range names {
		if _, err := b.column(name); err != nil {
			return nil, err
		}
		if slices.Contains(names[:i], name) {
			return nil, &Refusal{"42701", fmt.Sprintf("column %s twice", name)}
		}
	}
	return b, nil
}

// Assigned is an operand that a column gets.
func (b *Binder) Assigned(column string, o Operand) (Bound, error) {
	c, err := b.column(column)
	if err != nil {
		return Bound{}, err
	}
	bound, err := b.operand(o, c.Type)
	if err == nil {
		err = fits(bound)
	}
	return bound, err
}

// fits refuses a constant that its column cannot have. PostgreSQL does so without looking for rows.
func fits(o Bound) error {
	if o.Value == nil || canonical.Fits(o.Type, o.Value) {
		return nil
	}
	return &Refusal{"22003", fmt.Sprintf("constant beyond %s", o.Type)}
}

// Value is the new value of a column in an update: both operands, of the types that the operator
// takes.
func (b *Binder) Value(column string, v Value) (left, right Bound, err error) {
	c, err := b.column(column)
	if err != nil {
		return left, right, err
	}
	tag, _ := canonical.TypeTag(c.Type)
	numbers := tag == canonical.Integer || tag == canonical.Numeric
	if v.Operator == "" {
		left, err = b.Assigned(column, v.Left)
		return left, right, err
	}
	if v.Left.Kind != Column && v.Right.Kind != Column {
		return left, right, refuse("%s of constants", v.Operator)
	}
	if v.Operator == "||" && tag != canonical.Text || v.Operator != "||" && !numbers {
		return left, right, refuse("%s for a column of type %s", v.Operator, c.Type)
	}
	if left, err = b.operand(v.Left, c.Type); err == nil {
		right, err = b.operand(v.Right, c.Type)
	}
	if err == nil && (!exact(left, c.Type) || !exact(right, c.Type)) {
		err = refuse("%s of other types than the column's", v.Operator)
	}
	for _, o := range []Bound{left, right} {
		if err == nil && tag == canonical.Numeric && o.Value != nil && !summed(c.Type, o.Value) {
			err = refuse("%s of a constant with too many digits", v.Operator)
		}
	}
	return left, right, err
}

// summed tells whether a sum with a constant is exact before it is rounded. One that is far beyond
// the column gives a sum that is, too.
func summed(logical string, v *canonical.Value) bool {
	precision, scale := canonical.Digits(logical)
	integer, fraction := canonical.DigitsOf(v)
	return fraction <= scale || integer > precision-scale+1 || canonical.Held(max(precision-scale, integer)+1, fraction)
}

// exact: an operation on it cannot go beyond the type before the column takes the result.
func exact(o Bound, logical string) bool { return o.Column == "" || o.Type == logical }

// Test is both operands of a comparison; of a test for NULL the left one alone.
func (b *Binder) Test(t Test) (left, right Bound, err error) {
	if t.Left.Kind != Column && t.Right.Kind != Column {
		return left, right, refuse("comparison without a column")
	}
	column := t.Left
	if column.Kind != Column {
		column = t.Right
	}
	c, err := b.column(column.Text)
	if err != nil {
		return left, right, err
	}
	logical := c.Type
	switch tag, _ := canonical.TypeTag(c.Type); {
	case tag == canonical.JSON && t.Right.Kind != 0:
		return left, right, refuse("comparison of json")
	case tag == canonical.UUID && strings.ContainsAny(t.Operator, "<>") && t.Operator != "<>":
		return left, right, refuse("order of uuid")
	case tag == canonical.Integer:
		logical = "bigint" // a constant beyond the column's type compares all the same
	}
	beside := func(o Operand) string {
		if o.Kind == Parameter && b.untyped(o) {
			return c.Type // PostgreSQL takes it for one of the column's type
		}
		return logical
	}
	if left, err = b.operand(t.Left, beside(t.Left)); err == nil && t.Right.Kind != 0 {
		right, err = b.operand(t.Right, beside(t.Right))
	}
	for _, o := range []Bound{left, right} {
		if err == nil && o.Value != nil && o.Value.Tag == canonical.Numeric && !canonical.ComparesDigits(c.Type, o.Value) {
			err = refuse("comparison with a constant of too many digits")
		}
	}
	return left, right, err
}

func (b *Binder) column(name string) (*canonical.ColumnType, error) {
	for i := range b.table.Columns {
		if b.table.Columns[i].Name == name {
			return &b.table.Columns[i], nil
		}
	}
	return nil, &Refusal{"42703", fmt.Sprintf("column %s does not exist", name)}
}

// operand gives an operand the type that stands beside it.
func (b *Binder) operand(o Operand, logical string) (Bound, error) {
	tag, err := canonical.TypeTag(logical)
	if err != nil {
		return Bound{}, err
	}
	bound := Bound{Type: logical}
	switch o.Kind {
	case Column:
		c, err := b.column(o.Text)
		if err != nil {
			return bound, err
		}
		if other, _ := canonical.TypeTag(c.Type); other != tag {
			return bound, refuse("%s beside %s", c.Type, logical)
		}
		return Bound{Column: c.Name, Type: c.Type}, nil
	case Null:
		return bound, nil
	case Parameter:
		return b.parameter(o, logical, tag)
	case True, False:
		if tag != canonical.Boolean {
			return bound, refuse("boolean beside %s", logical)
		}
		bound.Value = &canonical.Value{Tag: tag}
		if o.Kind == True {
			bound.Value.Number = 1
		}
		return bound, nil
	case Number:
		if tag != canonical.Numeric && (tag != canonical.Integer || strings.Contains(o.Text, ".")) {
			return bound, refuse("number %.20s beside %s", o.Text, logical)
		}
	case String:
		if !slices.Contains([]canonical.Tag{
			canonical.Text, canonical.Bytea, canonical.Date, canonical.Time, canonical.Timestamp, canonical.TimestampTZ, canonical.UUID, canonical.JSON,
		}, tag) {
			return bound, refuse("text beside %s", logical)
		}
	}
	return b.literal(bound, o.Text)
}

func (b *Binder) literal(bound Bound, text string) (Bound, error) {
	v, err := canonical.ParseText(bound.Type, text)
	if err != nil {
		return bound, &Refusal{"22007", err.Error()}
	}
	bound.Value = &v
	return bound, storable(bound.Type, &v)
}

func (b *Binder) untyped(o Operand) bool {
	p := b.parameterOf(o)
	return p != nil && p.Type == ""
}

// parameterOf is the parameter that an operand names; nil: there is none.
func (b *Binder) parameterOf(o Operand) *wire.Parameter {
	n, err := strconv.Atoi(o.Text)
	if err != nil || n < 1 || n > len(b.parameters) {
		return nil
	}
	return b.parameters[n-1]
}

func (b *Binder) parameter(o Operand, logical string, tag canonical.Tag) (Bound, error) {
	bound := Bound{Type: logical}
	p := b.parameterOf(o)
	if p == nil {
		return bound, &Refusal{"42P02", "there is no parameter $" + o.Text}
	}
	if declared, known := parameterTags[p.Type]; p.Type != "" && (!known || declared != tag) {
		return bound, refuse("parameter of type %s beside %s", p.Type, logical)
	}
	if p.Null {
		return bound, nil
	}
	if declared := parameterTypes[p.Type]; declared != "" {
		if _, err := canonical.ParseText(declared, p.Text); err != nil {
			return bound, &Refusal{"22003", err.Error()}
		}
	}
	return b.literal(bound, p.Text)
}

// parameterTypes are the declared types that hold less than their tag does.
var parameterTypes = map[string]string{"smallint": "smallint", "integer": "integer"}

var parameterTags = map[string]canonical.Tag{
	"boolean": canonical.Boolean, "smallint": canonical.Integer, "integer": canonical.Integer, "bigint": canonical.Integer,
	"numeric": canonical.Numeric, "double precision": canonical.Float, "text": canonical.Text, "character varying": canonical.Text,
	"bytea": canonical.Bytea, "date": canonical.Date, "time without time zone": canonical.Time, "uuid": canonical.UUID,
	"timestamp without time zone": canonical.Timestamp, "timestamp with time zone": canonical.TimestampTZ, "jsonb": canonical.JSON,
}
