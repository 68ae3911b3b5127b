package canonical

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// tableVector is a table as spec/vectors/schemas.json writes it.
type tableVector struct {
	Table   string
	Columns []struct {
		Ordinal    uint16
		Name, Type string
		NotNull    bool `json:"not_null"`
		Default    *valueVector
	}
	PrimaryKey  []string `json:"primary_key"`
	Unique      [][]string
	ForeignKeys []struct {
		Columns, Refers []string
		Table           string
		OnDelete        OnDelete `json:"on_delete"`
	} `json:"foreign_keys"`
	Checks []checkVector
}

// checkVector is a check: parts, or a test.
type checkVector struct {
	All, Any               []checkVector
	Column, Operator, With string
	Value                  *valueVector
}

func (v checkVector) check() Check {
	c := Check{Column: v.Column, Operator: v.Operator, Other: v.With}
	if v.Value != nil {
		c.Value = &v.Value.Value
	}
	for word, parts := range map[string][]checkVector{And: v.All, Or: v.Any} {
		if parts != nil {
			c.Word = word
		}
		for _, part := range parts {
			c.Parts = append(c.Parts, part.check())
		}
	}
	return c
}

func (v *tableVector) table() *Table {
	t := &Table{Name: v.Table, PrimaryKey: v.PrimaryKey, Unique: v.Unique}
	for _, c := range v.Columns {
		column := ColumnType{Ordinal: c.Ordinal, Name: c.Name, Type: c.Type, NotNull: c.NotNull}
		if c.Default != nil {
			column.Default = &c.Default.Value
		}
		t.Columns = append(t.Columns, column)
	}
	for _, f := range v.ForeignKeys {
		t.ForeignKeys = append(t.ForeignKeys, ForeignKey{f.Columns, f.Table, f.Refers, f.OnDelete})
	}
	for _, check := range v.Checks {
		t.Checks = append(t.Checks, check.check())
	}
	return t
}

func TestVectorsOfSchemas(t *testing.T) {
	var v struct {
		Cases []struct {
			Name string
			tableVector
			SchemaText []string  `json:"schema_text"`
			SchemaHash wire.Hash `json:"schema_hash"`
		}
		Refused []json.RawMessage
	}
	readVectors(t, "schemas", &v)
	for _, c := range v.Cases {
		want := ""
		for i, line := range c.SchemaText {
			if want += line; i+1 < len(c.SchemaText) {
				want += "\n"
			}
		}
		got, err := SchemaText(c.table())
		if err != nil || got != want || SchemaHash2(got) != c.SchemaHash {
			t.Errorf("%s: %q, %v, hash %x", c.Name, got, err, SchemaHash2(got))
		}
		if again, err := ParseSchemaText(c.Table, got); err != nil || !reflect.DeepEqual(again.PrimaryKey, c.PrimaryKey) || len(again.Columns) != len(c.Columns) {
			t.Errorf("%s: read back as %+v, %v", c.Name, again, err)
		}
		shuffled := c.table()
		slices.Reverse(shuffled.Unique)
		slices.Reverse(shuffled.ForeignKeys)
		slices.Reverse(shuffled.Checks)
		if again, _ := SchemaText(shuffled); again != got {
			t.Errorf("%s: in another order the text is %q", c.Name, again)
		}
	}
	for _, raw := range v.Refused {
		var c struct {
			Name string
			tableVector
		}
		must.Do(t, json.Unmarshal(raw, &c))
		if text, err := SchemaText(c.table()); !errors.Is(err, ErrValue) {
			t.Errorf("%s: %q, %v", c.Name, text, err)
		}
	}
}
