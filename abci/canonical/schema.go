package canonical

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/chainify-db/chainify/abci/wire"
)

// Table describes a table in words that no engine owns (spec/engines.md, "Schema text 2").
type Table struct {
	Name        string // schema.name
	Columns     []ColumnType
	PrimaryKey  []string // in the order of the key
	Unique      [][]string
	ForeignKeys []ForeignKey
	Checks      []Check // but those that belong to types
}

// ColumnType is a column with its logical type.
type ColumnType struct {
	Ordinal uint16
	Name    string
	Type    string // integer, numeric(10,2), varchar(20) …
	NotNull bool
	Default *Value // of the column's type; nil: none
}

// ForeignKey refuses other values of the columns that it refers to.
type ForeignKey struct {
	Columns  []string
	Table    string
	Refers   []string
	OnDelete OnDelete
}

// OnDelete is the action of a foreign key on the rows that refer to a deleted one.
type OnDelete string

// Actions of foreign keys, as a schema text ends their lines.
const (
	Refuse  OnDelete = "" // to delete the row
	Cascade OnDelete = " on delete cascade"
	SetNull OnDelete = " on delete set null"
)

const (
	nameBytesMax = 63
	precisionMax = 65
	scaleMax     = 38
	lengthMax    = 16_383 // characters of a varchar
	// keyBytesMax is for PostgreSQL, where an entry of an index has at most 2,704 bytes.
	keyBytesMax = 2_600
)

var portableName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// plainTags are the tags of the types without arguments.
var plainTags = map[string]Tag{
	"boolean": Boolean, "smallint": Integer, "integer": Integer, "bigint": Integer, "double": Float, "text": Text, "bytea": Bytea,
	"date": Date, "time": Time, "timestamp": Timestamp, "timestamptz": TimestampTZ, "uuid": UUID, "json": JSON,
}

// TypeTag is the tag of a logical type's values. It returns ErrValue for a type that has no logical
// name, or one that engines do not share.
func TypeTag(logical string) (Tag, error) {
	if tag, ok := plainTags[logical]; ok {
		return tag, nil
	}
	if length, ok := arguments(logical, "varchar", 1); ok && length[0] >= 1 && length[0] <= lengthMax {
		return Text, nil
	}
	if size, ok := arguments(logical, "numeric", 2); ok && size[0] >= 1 && size[0] <= precisionMax && size[1] <= min(size[0], scaleMax) {
		return Numeric, nil
	}
	return 0, wrong("type %q", logical)
}

// Digits are the digits of a type numeric(precision,scale); zeros of another.
func Digits(logical string) (precision, scale int) {
	if size, ok := arguments(logical, "numeric", 2); ok {
		return size[0], size[1]
	}
	return 0, 0
}

// arguments are the numbers in a type such as numeric(10,2), of which there is one spelling.
func arguments(logical, name string, count int) ([]int, bool) {
	inside, ok := strings.CutPrefix(logical, name+"(")
	inside, closed := strings.CutSuffix(inside, ")")
	parts := strings.Split(inside, ",")
	if !ok || !closed || len(parts) != count {
		return nil, false
	}
	numbers := make([]int, count)
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || strconv.Itoa(n) != part {
			return nil, false
		}
		numbers[i] = n
	}
	return numbers, true
}

// SchemaText is the schema text 2 of a table. It returns ErrValue, with the part that is to blame,
// for a table that engines cannot share.
func SchemaText(t *Table) (string, error) {
	known, err := t.check()
	if err != nil {
		return "", err
	}
	var lines []string
	for _, c := range t.Columns {
		line := fmt.Sprintf("column %d %s %s", c.Ordinal, c.Name, c.Type)
		if c.NotNull {
			line += " not null"
		}
		if c.Default != nil {
			raw, err := c.Default.Append(nil)
			if err != nil {
				return "", fmt.Errorf("default of column %s: %w", c.Name, err)
			}
			line += " default " + hex.EncodeToString(raw)
		}
		lines = append(lines, line)
	}
	lines = append(lines, "primary key "+list(t.PrimaryKey))
	for _, names := range t.Unique {
		lines = append(lines, "unique "+list(names))
	}
	for _, f := range t.ForeignKeys {
		lines = append(lines, "foreign key "+list(f.Columns)+" references "+f.Table+" "+list(f.Refers)+string(f.OnDelete))
	}
	for i := range t.Checks {
		line, err := t.Checks[i].line(t, known)
		if err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n"), nil
}

func list(names []string) string { return "(" + strings.Join(names, ", ") + ")" }

// check returns the columns by name.
func (t *Table) check() (map[string]*ColumnType, error) {
	if err := checkTableName(t.Name); err != nil {
		return nil, err
	}
	if len(t.Checks) > checksMax {
		return nil, wrong("%d checks, at most %d", len(t.Checks), checksMax)
	}
	known, last := map[string]*ColumnType{}, uint16(0)
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Ordinal <= last {
			return nil, wrong("ordinals of columns do not ascend")
		}
		last = c.Ordinal
		if err := checkName(c.Name); err != nil {
			return nil, err
		}
		tag, err := TypeTag(c.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		if known[c.Name] != nil || c.Default != nil && c.Default.Tag != tag {
			return nil, wrong("column %s is there twice, or has a default of another type", c.Name)
		}
		known[c.Name] = c
	}
	for _, name := range t.PrimaryKey {
		if c := known[name]; c != nil && !c.NotNull {
			return nil, wrong("column %s of the primary key may be NULL", name)
		}
	}
	for _, names := range append([][]string{t.PrimaryKey}, t.Unique...) {
		if err := checkKey(known, names); err != nil {
			return nil, err
		}
	}
	for i := range t.ForeignKeys {
		if err := t.ForeignKeys[i].check(t.Name, known); err != nil {
			return nil, err
		}
	}
	return known, nil
}

func (f *ForeignKey) check(of string, known map[string]*ColumnType) error {
	if err := checkTableName(f.Table); err != nil {
		return err
	}
	if len(f.Columns) != len(f.Refers) || f.Table == of {
		return wrong("foreign key %s to %s", list(f.Columns), f.Table)
	}
	if err := checkKey(known, f.Columns); err != nil {
		return err
	}
	for _, name := range f.Columns {
		if f.OnDelete == SetNull && known[name].NotNull {
			return wrong("foreign key %s, which sets a column NULL that cannot be", list(f.Columns))
		}
	}
	return nil
}

// checkKey checks columns that an index has: known ones, each once, of types that every engine
// finds by their whole value.
func checkKey(known map[string]*ColumnType, names []string) error {
	if len(names) == 0 {
		return wrong("a key without columns")
	}
	bytes := 0
	for i, name := range names {
		c := known[name]
		if c == nil || slices.Contains(names[:i], name) {
			return wrong("key %s", list(names))
		}
		if slices.Contains([]string{"text", "json", "bytea", "double"}, c.Type) {
			return wrong("key %s: %s is no type of a key", list(names), c.Type)
		}
		bytes += keyBytes(c.Type)
	}
	if bytes > keyBytesMax {
		return wrong("key %s has up to %d bytes, at most %d are possible", list(names), bytes, keyBytesMax)
	}
	return nil
}

// keyBytes are the bytes that a value of a type takes in an index at most.
func keyBytes(logical string) int {
	if length, ok := arguments(logical, "varchar", 1); ok {
		return 4*length[0] + 8
	}
	precision, _ := Digits(logical)
	return precision/2 + 16
}

func checkName(name string) error {
	if len(name) > nameBytesMax || !portableName.MatchString(name) {
		return wrong("name %q: engines share names of lower-case letters, digits and _ alone", name)
	}
	return nil
}

func checkTableName(table string) error {
	schema, name, ok := strings.Cut(table, ".")
	if !ok {
		return wrong("table %q has no schema", table)
	}
	if err := checkName(schema); err != nil {
		return err
	}
	return checkName(name)
}

// SchemaHash2 is the hash of a schema text 2.
func SchemaHash2(text string) wire.Hash {
	return hash(appendPrefixed([]byte("chainify/schema/2"), text))
}
