package mariadb

import (
	"maps"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/canonical"
)

// actions is the body of a trigger that carries out the actions of foreign keys before a row is
// deleted. InnoDB would do so itself, in a way that no trigger sees. It then finds nothing left to
// do. Empty: no foreign key acts. The trigger rests while the session checks no foreign keys: a
// write set names all of its changes.
func (t *table) actions(tables map[string]*table, name names) string {
	var statements []string
	for _, other := range t.children {
		child := tables[other]
		if child == nil {
			continue
		}
		for i := range child.ForeignKeys {
			f := &child.ForeignKeys[i]
			if f.Table != t.Name || f.OnDelete == canonical.Refuse {
				continue
			}
			sets, tests := make([]string, len(f.Columns)), make([]string, len(f.Columns))
			for j, column := range f.Columns {
				sets[j], tests[j] = quoted(column)+" = NULL", quoted(column)+" = OLD."+quoted(f.Refers[j])
			}
			statement := "DELETE FROM " + child.quoted(name)
			if f.OnDelete == canonical.SetNull {
				statement = "UPDATE " + child.quoted(name) + " SET " + strings.Join(sets, ", ")
			}
			statements = append(statements, statement+" WHERE "+strings.Join(tests, " AND ")+"; ")
		}
	}
	if statements == nil {
		return ""
	}
	return "IF @@foreign_key_checks THEN " + strings.Join(statements, "") + "END IF"
}

// checkActions refuses foreign keys whose actions would depend on the order of rows or of keys,
// which engines do not share (spec/engines.md, "Actions of foreign keys"). Cost: the pairs of keys
// of a table, and the tables above each.
func checkActions(tables map[string]*table) error {
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		keys := tables[name].ForeignKeys
		for i := range keys {
			a := &keys[i]
			if a.OnDelete != canonical.Refuse && above(tables, a.Table, anyKey)[name] {
				return refused("foreign key (%s) of table %s leads back to the table", strings.Join(a.Columns, ", "), name)
			}
			for j := range keys[:i] {
				if b := &keys[j]; cross(a.OnDelete, b.OnDelete) && meet(above(tables, a.Table, cascading), above(tables, b.Table, cascading)) {
					return refused("foreign keys (%s) and (%s) of table %s may both act on one row by one statement",
						strings.Join(b.Columns, ", "), strings.Join(a.Columns, ", "), name)
				}
			}
		}
	}
	return nil
}

// cross tells whether it counts which of two keys acts first on a row.
func cross(a, b canonical.OnDelete) bool {
	return (a == canonical.Cascade) != (b == canonical.Cascade) || a == canonical.SetNull && b == canonical.SetNull
}

func anyKey(*canonical.ForeignKey) bool      { return true }
func cascading(f *canonical.ForeignKey) bool { return f.OnDelete == canonical.Cascade }

// above are a table and all that such foreign keys lead to from it.
func above(tables map[string]*table, name string, such func(*canonical.ForeignKey) bool) map[string]bool {
	found, open := map[string]bool{name: true}, []string{name}
	for len(open) > 0 {
		t := tables[open[0]]
		open = open[1:]
		if t == nil {
			continue
		}
		for i := range t.ForeignKeys {
			if f := &t.ForeignKeys[i]; such(f) && !found[f.Table] {
				found[f.Table], open = true, append(open, f.Table)
			}
		}
	}
	return found
}

func meet(a, b map[string]bool) bool {
	for name := range a {
		if b[name] {
			return true
		}
	}
	return false
}
