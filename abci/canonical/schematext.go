package canonical

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// schemaTextBytesMax is above the text of a table with 1,600 columns of the longest names.
const schemaTextBytesMax = 1 << 20

// ParseSchemaText reads a schema text 2 back. It accepts what SchemaText writes and nothing else;
// other texts are ErrValue. Cost: that of SchemaText.
func ParseSchemaText(name, text string) (*Table, error) {
	if len(text) > schemaTextBytesMax {
		return nil, wrong("schema text of %d bytes", len(text))
	}
	t := &Table{Name: name}
	for _, line := range strings.Split(text, "\n") {
		if !t.readLine(line) {
			return nil, wrong("line %.80q of a schema text", line)
		}
	}
	slices.SortFunc(t.Columns, func(a, b ColumnType) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	again, err := SchemaText(t)
	if err == nil && again != text {
		err = wrong("schema text of %s in another spelling", name)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// readLine is generous: SchemaText has the last word.
func (t *Table) readLine(line string) bool {
	if rest, ok := strings.CutPrefix(line, "column "); ok {
		return t.readColumn(rest)
	}
	if rest, ok := strings.CutPrefix(line, "primary key "); ok {
		t.PrimaryKey = names(rest)
		return true
	}
	if rest, ok := strings.CutPrefix(line, "unique "); ok {
		t.Unique = append(t.Unique, names(rest))
		return true
	}
	if rest, ok := strings.CutPrefix(line, "check "); ok {
		check, rest, ok := readCheck(rest, 0)
		t.Checks = append(t.Checks, check)
		return ok && rest == ""
	}
	rest, ok := strings.CutPrefix(line, "foreign key ")
	columns, to, references := strings.Cut(rest, " references ")
	table, refers, _ := strings.Cut(to, " ")
	f := ForeignKey{Columns: names(columns), Table: table}
	for _, action := range []OnDelete{Cascade, SetNull} {
		if list, ok := strings.CutSuffix(refers, string(action)); ok {
			refers, f.OnDelete = list, action
		}
	}
	f.Refers = names(refers)
	t.ForeignKeys = append(t.ForeignKeys, f)
	return ok && references
}

func (t *Table) readColumn(rest string) bool {
	rest, value, hasDefault := strings.Cut(rest, " default ")
	rest, notNull := strings.CutSuffix(rest, " not null")
	words := strings.Split(rest, " ")
	if len(words) != 3 {
		return false
	}
	ordinal, err := strconv.ParseUint(words[0], 10, 16)
	c := ColumnType{Ordinal: uint16(ordinal), Name: words[1], Type: words[2], NotNull: notNull}
	if hasDefault && err == nil {
		var raw []byte
		if raw, err = hex.DecodeString(value); err == nil {
			var v Value
			v, err = DecodeValue(raw)
			c.Default = &v
		}
	}
	t.Columns = append(t.Columns, c)
	return err == nil
}

func names(list string) []string {
	return strings.Split(strings.TrimSuffix(strings.TrimPrefix(list, "("), ")"), ", ")
}
