package mariadb

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/portable"
)

// parse reads a value as the server sends it.
func parse(logical string, raw []byte) (canonical.Value, error) {
	text := string(raw)
	switch logical {
	case "bytea":
		return canonical.Value{Tag: canonical.Bytea, Text: text}, nil
	case "boolean":
		switch text {
		case "0":
			text = "f"
		case "1":
			text = "t"
		}
	case "text":
		return canonical.Value{Tag: canonical.Text, Text: text}, nil // Append checks it
	}
	return canonical.ParseText(logical, text)
}

// literal spells a value so that neither settings nor contents change what it means. SQLSTATE 22003
// and 22021 are for values that a column of the type cannot have.
func literal(logical string, v *canonical.Value) (string, error) {
	if v == nil {
		return "NULL", nil
	}
	switch v.Tag {
	case canonical.Boolean, canonical.Integer:
		return strconv.FormatInt(v.Number, 10), nil
	case canonical.Numeric:
		if strings.ContainsAny(v.Text, "NI") {
			return "", &outcome{"22003", "numeric field overflow"}
		}
		return canonical.DecimalText(v.Text) // one with an exponent would be a DOUBLE
	case canonical.Float:
		if v.Float != v.Float || v.Float-v.Float != 0 {
			return "", &outcome{"22003", "neither NaN nor infinity is stored"}
		}
		return strconv.FormatFloat(v.Float, 'e', -1, 64), nil
	case canonical.Text, canonical.JSON:
		if strings.Contains(v.Text, "\x00") {
			return "", &outcome{"22021", "zero byte in a text"}
		}
		return "_utf8mb4 x'" + hex.EncodeToString([]byte(v.Text)) + "'", nil
	case canonical.Bytea:
		return "x'" + hex.EncodeToString([]byte(v.Text)) + "'", nil
	case canonical.UUID:
		return "CAST('" + canonical.FormatUUID(v.Text) + "' AS UUID)", nil
	}
	text := canonical.FormatText(logical, v)
	if again, err := canonical.ParseText(logical, text); err != nil || again.Number != v.Number {
		return "", &outcome{"22008", "date or time out of range"}
	}
	switch v.Tag {
	case canonical.Date:
		return "DATE'" + text + "'", nil
	case canonical.Time:
		return "TIME'" + text + "'", nil
	default:
		return "TIMESTAMP'" + strings.TrimSuffix(text, "+00") + "'", nil
	}
}

func bound(b portable.Bound) (string, error) {
	if b.Column != "" {
		return quoted(b.Column), nil
	}
	return literal(b.Type, b.Value)
}

// serialized is an expression for the columns of a row, each with its length: what readSerialized
// reads. prefix is OLD, NEW or a table.
func (t *table) serialized(prefix string) string {
	parts := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		column := prefix + "." + quoted(c.Name)
		parts[i] = fmt.Sprintf("IF(%s IS NULL, '-', CONCAT(LENGTH(%s), ':', %s))", column, column, column)
	}
	return "CONCAT(" + strings.Join(parts, ", ") + ")"
}

// readSerialized reads such a row back.
func (t *table) readSerialized(raw []byte) ([]canonical.Column, error) {
	var row []canonical.Column
	for _, c := range t.Columns {
		if len(raw) > 0 && raw[0] == '-' {
			raw = raw[1:]
			continue
		}
		length, rest, _ := bytes.Cut(raw, []byte(":"))
		n, err := strconv.Atoi(string(length))
		if err != nil || n < 0 || n > len(rest) {
			return nil, fmt.Errorf("row of %s: no length of column %s", t.Name, c.Name)
		}
		v, err := parse(c.Type, rest[:n])
		if err != nil {
			return nil, fmt.Errorf("row of %s: column %s: %w", t.Name, c.Name, err)
		}
		row, raw = append(row, canonical.Column{Ordinal: c.Ordinal, Value: v}), rest[n:]
	}
	if len(raw) > 0 {
		return nil, fmt.Errorf("row of %s: %d bytes too many", t.Name, len(raw))
	}
	return row, nil
}

// assignments are the columns and literals of a row, as INSERT takes them.
func (t *table) insertion(row []canonical.Column, name names) (string, error) {
	columns, values := make([]string, len(row)), make([]string, len(row))
	for i := range row {
		c, err := t.column(row[i].Ordinal)
		if err != nil {
			return "", err
		}
		columns[i] = quoted(c.Name)
		if values[i], err = t.cell(c, &row[i].Value); err != nil {
			return "", err
		}
	}
	// Columns that are not named are NULL, whatever their default.
	for _, c := range t.Columns {
		if indexOf(row, c.Ordinal) < 0 {
			columns, values = append(columns, quoted(c.Name)), append(values, "NULL")
		}
	}
	return "INSERT INTO " + t.quoted(name) + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")", nil
}

func indexOf(row []canonical.Column, ordinal uint16) int {
	for i := range row {
		if row[i].Ordinal == ordinal {
			return i
		}
	}
	return -1
}

// column is the one with an ordinal; 22023: there is none.
func (t *table) column(ordinal uint16) (*canonical.ColumnType, error) {
	if ordinal == 0 || int(ordinal) > len(t.Columns) {
		return nil, &outcome{"22023", fmt.Sprintf("table %s has no column %d", t.Name, ordinal)}
	}
	return &t.Columns[ordinal-1], nil
}

// cell is the literal of a value for a column; 22023: it is of another type.
func (t *table) cell(c *canonical.ColumnType, v *canonical.Value) (string, error) {
	if tag, err := canonical.TypeTag(c.Type); err != nil || v.Tag != tag {
		return "", &outcome{"22023", fmt.Sprintf("column %s of %s is of another type", c.Name, t.Name)}
	}
	return literal(c.Type, v)
}

// matching is the condition for the row with a key; 22023: it is no key of the table.
func (t *table) matching(key []canonical.Column) (string, error) {
	if len(key) != len(t.PrimaryKey) {
		return "", &outcome{"22023", "no key of table " + t.Name}
	}
	tests := make([]string, len(key))
	for i := range key {
		c, err := t.column(key[i].Ordinal)
		if err == nil && !t.isKey(c.Name) {
			err = &outcome{"22023", "no key of table " + t.Name}
		}
		if err != nil {
			return "", err
		}
		value, err := t.cell(c, &key[i].Value)
		if err != nil {
			return "", err
		}
		tests[i] = quoted(c.Name) + " = " + value
	}
	return strings.Join(tests, " AND "), nil
}
