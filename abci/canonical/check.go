package canonical

import (
	"encoding/hex"
	"slices"
	"strings"
)

// Check is a CHECK constraint of a schema text (spec/engines.md, "Checks"): a test of a column, or
// several checks with a word between them. It has no NOT: engines take a negation into the tests.
type Check struct {
	Word  string // And, Or; empty: a test
	Parts []Check

	Column   string
	Operator string // of a comparison, IsNull or IsNotNull
	Value    *Value // of the column's type
	Other    string // column; empty: Value
}

// Words of checks, as a schema text has them.
const (
	And       = "and"
	Or        = "or"
	IsNull    = "is null"
	IsNotNull = "is not null"
)

const (
	checksMax     = 64
	checkBytesMax = 8_192 // of a line
	checkDepthMax = 16
)

var (
	negatedSigns = map[string]string{"=": "<>", "<>": "=", "<": ">=", ">=": "<", "<=": ">", ">": "<=", IsNull: IsNotNull, IsNotNull: IsNull, And: Or, Or: And}
	turnedSigns  = map[string]string{"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
)

// Turned is a comparison's operator with both sides exchanged.
func Turned(operator string) string { return turnedSigns[operator] }

// Negated holds where c does not, and is NULL where c is.
func (c Check) Negated() Check {
	c.Word, c.Operator = negatedSigns[c.Word], negatedSigns[c.Operator]
	c.Parts = slices.Clone(c.Parts)
	for i := range c.Parts {
		c.Parts[i] = c.Parts[i].Negated()
	}
	return c
}

// settled is the one form of checks that are written otherwise. No word stands in the same word,
// parts are in order and each once, the lesser of two columns is on the left, and a boolean has
// no <>.
func (c Check) settled() Check {
	switch {
	case c.Word != "":
	case c.Other != "" && c.Other < c.Column:
		c.Column, c.Other, c.Operator = c.Other, c.Column, turnedSigns[c.Operator]
		return c
	case c.Operator == "<>" && c.Value != nil && c.Value.Tag == Boolean:
		c.Operator, c.Value = "=", &Value{Tag: Boolean, Number: 1 - c.Value.Number}
		return c
	default:
		return c
	}
	var parts []Check
	for _, part := range c.Parts {
		if part = part.settled(); part.Word == c.Word {
			parts = append(parts, part.Parts...)
		} else {
			parts = append(parts, part)
		}
	}
	slices.SortFunc(parts, func(a, b Check) int { return strings.Compare(a.words(), b.words()) })
	parts = slices.CompactFunc(parts, func(a, b Check) bool { return a.words() == b.words() })
	if len(parts) == 1 {
		return parts[0]
	}
	return Check{Word: c.Word, Parts: parts}
}

func (c *Check) words() string {
	switch {
	case c.Word != "":
		parts := make([]string, len(c.Parts))
		for i := range c.Parts {
			parts[i] = c.Parts[i].words()
		}
		return "(" + strings.Join(parts, " "+c.Word+" ") + ")"
	case turnedSigns[c.Operator] == "":
		return "(" + c.Column + " " + c.Operator + ")"
	case c.Other != "":
		return "(" + c.Column + " " + c.Operator + " " + c.Other + ")"
	}
	raw, err := c.Value.Append(nil)
	if err != nil {
		return ""
	}
	return "(" + c.Column + " " + c.Operator + " " + hex.EncodeToString(raw) + ")"
}

// line is the line of a check. Cost: its words times its depth.
func (c Check) line(t *Table, known map[string]*ColumnType) (string, error) {
	if err := c.examine(t, known); err != nil {
		return "", err
	}
	c = c.settled()
	if c.deeper(checkDepthMax) {
		return "", wrong("a check of more than %d levels", checkDepthMax)
	}
	line := "check " + c.words()
	if len(line) > checkBytesMax {
		return "", wrong("a check of %d bytes in the schema text, at most %d", len(line), checkBytesMax)
	}
	return line, nil
}

// examine refuses tests whose outcome could differ between engines.
func (c *Check) examine(t *Table, known map[string]*ColumnType) error {
	if c.Word != "" {
		if len(c.Parts) == 0 {
			return wrong("a check without a test")
		}
		for i := range c.Parts {
			if err := c.Parts[i].examine(t, known); err != nil {
				return err
			}
		}
		return nil
	}
	column := known[c.Column]
	if column == nil {
		return wrong("a check of column %s, which is not there", c.Column)
	}
	for i := range t.ForeignKeys { // MariaDB takes no check of a column that a foreign key changes
		f := &t.ForeignKeys[i]
		if f.OnDelete == SetNull && (slices.Contains(f.Columns, c.Column) || slices.Contains(f.Columns, c.Other)) {
			return wrong("a check of column %s or %s, which a foreign key sets NULL", c.Column, c.Other)
		}
	}
	if c.Operator == IsNull || c.Operator == IsNotNull {
		return nil
	}
	tag, _ := TypeTag(column.Type)
	if turnedSigns[c.Operator] == "" || c.Other == "" && c.Value == nil {
		return wrong("a check that compares column %s with nothing", c.Column)
	}
	if tag == JSON || tag == UUID && c.Operator != "=" && c.Operator != "<>" {
		return wrong("a check that compares column %s of type %s by %s", c.Column, column.Type, c.Operator)
	}
	if c.Other == "" && c.Value.Tag == tag && comparable(column.Type, c.Value) {
		return nil
	}
	if other := known[c.Other]; other != nil {
		if otherTag, _ := TypeTag(other.Type); otherTag == tag {
			return nil
		}
	}
	return wrong("a check that compares column %s of type %s with another type, or a value that engines do not share", c.Column, column.Type)
}

// deeper tells whether words nest deeper than so many levels.
func (c *Check) deeper(levels int) bool {
	return c.Word != "" && (levels == 0 || slices.ContainsFunc(c.Parts, func(part Check) bool { return part.deeper(levels - 1) }))
}

// comparable tells whether every engine compares a column with all of a value.
func comparable(logical string, v *Value) bool {
	switch v.Tag {
	case Numeric:
		return !strings.ContainsAny(v.Text, "NI") && ComparesDigits(logical, v)
	case Float:
		return v.Float-v.Float == 0 // neither NaN nor infinity
	case Text: // MariaDB's catalogue shows other characters as question marks
		return !strings.ContainsFunc(v.Text, func(r rune) bool { return r == 0 || r == '?' || r > 0xFFFF })
	case Date, Timestamp, TimestampTZ:
		again, err := ParseText(logical, FormatText(logical, v))
		return err == nil && again.Number == v.Number
	}
	return true
}

// readCheck reads the words of a check back. It is generous: SchemaText has the last word. false:
// they are none.
func readCheck(text string, depth int) (c Check, rest string, ok bool) {
	text, ok = strings.CutPrefix(text, "(")
	if !ok || depth > checkDepthMax {
		return c, text, false
	}
	if !strings.HasPrefix(text, "(") {
		test, rest, ok := strings.Cut(text, ")")
		return readTest(test), rest, ok
	}
	for {
		var part Check
		if part, text, ok = readCheck(text, depth+1); !ok {
			return c, text, false
		}
		c.Parts = append(c.Parts, part)
		if rest, ok := strings.CutPrefix(text, ")"); ok {
			return c, rest, true
		}
		for _, word := range []string{And, Or} {
			if next, ok := strings.CutPrefix(text, " "+word+" "); ok && (c.Word == "" || c.Word == word) {
				c.Word, text = word, next
				break
			}
		}
	}
}

func readTest(text string) Check {
	column, rest, _ := strings.Cut(text, " ")
	if rest == IsNull || rest == IsNotNull {
		return Check{Column: column, Operator: rest}
	}
	operator, with, _ := strings.Cut(rest, " ")
	c := Check{Column: column, Operator: operator, Other: with}
	if raw, err := hex.DecodeString(with); err == nil && with != "" && with[0] == '0' {
		if v, err := DecodeValue(raw); err == nil {
			c.Other, c.Value = "", &v
		}
	}
	return c
}
