package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/canonical"
)

// deleteRules are the server's words for what happens when a row is deleted.
var deleteRules = map[string]canonical.OnDelete{
	"RESTRICT": canonical.Refuse, "NO ACTION": canonical.Refuse, "CASCADE": canonical.Cascade, "SET NULL": canonical.SetNull,
}

// readForeignKeys reads those of a table, and which tables have one that refers to it.
func (d *described) readForeignKeys(ctx context.Context, q querier, name names, short string) error {
	rows, err := q.QueryContext(ctx, `SELECT k.CONSTRAINT_NAME, k.COLUMN_NAME, k.REFERENCED_TABLE_SCHEMA, k.REFERENCED_TABLE_NAME, k.REFERENCED_COLUMN_NAME,
		r.UPDATE_RULE IN ('RESTRICT', 'NO ACTION'), r.DELETE_RULE
		FROM information_schema.KEY_COLUMN_USAGE k JOIN information_schema.REFERENTIAL_CONSTRAINTS r
			ON r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME AND r.TABLE_NAME = k.TABLE_NAME
		WHERE k.TABLE_SCHEMA = ? AND k.TABLE_NAME = ? AND k.REFERENCED_TABLE_NAME IS NOT NULL
		ORDER BY k.CONSTRAINT_NAME, k.ORDINAL_POSITION`, name.database, short)
	if err != nil {
		return err
	}
	last := ""
	err = each(rows, func() error {
		var constraint, column, schema, table, refers, rule string
		var refuses bool
		if err := rows.Scan(&constraint, &column, &schema, &table, &refers, &refuses, &rule); err != nil {
			return err
		}
		onDelete, known := deleteRules[rule]
		switch {
		case !refuses || !known:
			return refused("foreign key %s of table %s is of another kind", constraint, d.Name)
		case schema != name.database || table == short:
			return refused("foreign key %s of table %s, which refers to table %s.%s", constraint, d.Name, schema, table)
		case constraint != last:
			d.ForeignKeys = append(d.ForeignKeys, canonical.ForeignKey{Table: "public." + table, OnDelete: onDelete})
		}
		f := &d.ForeignKeys[len(d.ForeignKeys)-1]
		f.Columns, f.Refers, last = append(f.Columns, column), append(f.Refers, refers), constraint
		return nil
	})
	if err != nil {
		return err
	}
	rows, err = q.QueryContext(ctx, `SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE
		WHERE REFERENCED_TABLE_SCHEMA = ? AND REFERENCED_TABLE_NAME = ? ORDER BY TABLE_SCHEMA, TABLE_NAME`, name.database, short)
	if err != nil {
		return err
	}
	return each(rows, func() error {
		var schema, table string
		err := rows.Scan(&schema, &table)
		if err == nil && schema != name.database {
			err = refused("table %s.%s has a foreign key that refers to table %s", schema, table, d.Name)
		}
		d.children = append(d.children, "public."+table)
		return err
	})
}

// partners are the tables that foreign keys connect a table with.
func (t *table) partners() []string {
	all := slices.Clone(t.children)
	for _, f := range t.ForeignKeys {
		all = append(all, f.Table)
	}
	return all
}

func (r *run) hasForeignKeys() bool {
	for _, t := range r.tables {
		if len(t.ForeignKeys) > 0 {
			return true
		}
	}
	return false
}

// checkPartners expects everything that foreign keys connect attached tables with on the ledger.
func (r *run) checkPartners(attached []string) error {
	for _, name := range attached {
		for _, other := range r.tables[name].partners() {
			if r.tables[other] == nil {
				return refused("a foreign key connects table %s with table %s, which is not on the ledger; attach them together", name, other)
			}
		}
	}
	return checkActions(r.tables)
}

// checkLeft expects nothing on the ledger that foreign keys connect with detached tables.
func (r *run) checkLeft(detached []string) error {
	for name, t := range r.tables {
		for _, other := range t.partners() {
			if slices.Contains(detached, other) {
				return refused("a foreign key connects table %s with table %s, which stays on the ledger; detach them together", other, name)
			}
		}
	}
	return nil
}

// checking says which constraints the server checks. Write sets have their foreign keys checked
// after their last change. Repairs lead to a certified state.
type checking string

const (
	checkAll     checking = "foreign_key_checks = 1, check_constraint_checks = 1"
	checkRows    checking = "foreign_key_checks = 0, check_constraint_checks = 1"
	checkNothing checking = "foreign_key_checks = 0, check_constraint_checks = 0"
)

// set is for the session, from its next statement on.
func (c checking) set(ctx context.Context, q querier) error {
	_, err := q.ExecContext(ctx, "SET SESSION "+string(c))
	return err
}

// during runs f, and has everything checked again afterwards.
func (c checking) during(ctx context.Context, q querier, f func() error) error {
	if err := c.set(ctx, q); err != nil {
		return err
	}
	err := f()
	if setErr := checkAll.set(ctx, q); setErr != nil {
		return setErr
	}
	return err
}

// checkForeignKeys looks after the last change of a write set whether each child has its parent. A
// child without one is a conflict: the client's own database had found none.
func (r *run) checkForeignKeys(changes []change) error {
	last := map[place]int{} // by row, its last change
	for i := range changes {
		last[place{changes[i].table, string(changes[i].Key)}] = i
	}
	for i := range changes {
		c := &changes[i]
		if c.Op != 'D' && last[place{c.table, string(c.Key)}] == i {
			if err := r.checkParents(c.table, c.row, c.Key); err != nil {
				return err
			}
		}
		old := c.before
		if c.Op == 'D' {
			old = c.row
		}
		if old != nil {
			if err := r.checkChildren(c, old); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkParents expects the rows that a row refers to.
func (r *run) checkParents(t *table, row, key []byte) error {
	columns, err := canonical.DecodeRow(row)
	if err != nil {
		return err
	}
	for i := range t.ForeignKeys {
		f := &t.ForeignKeys[i]
		where, whole, err := t.referring(columns, f.Columns, f.Refers)
		if err != nil {
			return err
		}
		found, err := r.finds(f.Table, where, whole)
		if err != nil {
			return err
		}
		if whole && !found {
			return conflict(t, key)
		}
	}
	return nil
}

// checkChildren expects no row that refers to a former row, unless another row has its values now.
// An action of a foreign key would not wait for the other row.
func (r *run) checkChildren(c *change, row []byte) error {
	parent := c.table
	columns, err := canonical.DecodeRow(row)
	if err != nil || len(parent.children) == 0 {
		return err
	}
	for _, name := range parent.children {
		child := r.tables[name]
		if child == nil {
			continue
		}
		for i := range child.ForeignKeys {
			f := &child.ForeignKeys[i]
			if f.Table != parent.Name {
				continue
			}
			own, whole, err := parent.referring(columns, f.Refers, f.Refers)
			if err != nil {
				return err
			}
			theirs, _, err := parent.referring(columns, f.Refers, f.Columns)
			if err != nil {
				return err
			}
			acts := c.Op == 'D' && f.OnDelete != canonical.Refuse
			still, err := r.finds(parent.Name, own, whole && !acts)
			if err != nil {
				return err
			}
			needed, err := r.finds(name, theirs, whole && !still)
			if err != nil {
				return err
			}
			if needed {
				return conflict(parent, c.Key)
			}
		}
	}
	return nil
}

// referring is the condition that columns of the other table have the values of these; false: one
// of the values is NULL, so that nothing is referred to.
func (t *table) referring(row []canonical.Column, from, to []string) (string, bool, error) {
	tests := make([]string, len(from))
	for i, name := range from {
		at := slices.IndexFunc(t.Columns, func(c canonical.ColumnType) bool { return c.Name == name })
		if at < 0 {
			return "", false, fmt.Errorf("table %s has no column %s", t.Name, name)
		}
		value := canonical.KnownOf(row, t.Columns[at].Ordinal).Value
		if value == nil {
			return "", false, nil
		}
		text, err := t.cell(&t.Columns[at], value)
		if err != nil {
			return "", false, err
		}
		tests[i] = quoted(to[i]) + " = " + text
	}
	return strings.Join(tests, " AND "), true, nil
}

// finds tells whether a table has such a row; without a look where nothing is to be looked for.
func (r *run) finds(name, where string, look bool) (bool, error) {
	t := r.tables[name]
	if !look || t == nil {
		return false, nil
	}
	var one int
	err := r.conn.QueryRowContext(r.ctx, "SELECT 1 FROM "+t.quoted(r.name)+" WHERE "+where+" LIMIT 1").Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
