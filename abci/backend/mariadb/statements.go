package mariadb

import (
	"fmt"
	"strings"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/portable"
	"github.com/chainify-db/chainify/abci/wire"
)

// statement runs one of the subset that engines share, as the client's role.
func (r *run) statement(p *wire.Proposal) (int64, error) {
	if s, err := r.texts.Parse(p.Sql); err == nil && s.Op == 'C' {
		return 0, r.call(s, p)
	}
	text, err := r.spelled(p)
	if err != nil {
		return 0, err
	}
	if err := r.become(p.Client.Role); err != nil {
		return 0, err
	}
	return r.changed(text)
}

// changed runs a statement and tells how many rows it met.
func (r *run) changed(statement string) (int64, error) {
	result, err := r.conn.ExecContext(r.ctx, statement)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// spell writes a statement for MariaDB.
func spell(s *portable.Statement, t *table, name names, parameters []*wire.Parameter) (string, error) {
	b, err := portable.NewBinder(s, &t.Table, parameters)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	switch s.Op {
	case 'I':
		columns := make([]string, len(s.Columns))
		for i, c := range s.Columns {
			columns[i] = quoted(c)
		}
		out.WriteString("INSERT INTO " + t.quoted(name) + " (" + strings.Join(columns, ", ") + ") VALUES ")
		err := spellRows(&out, s, b)
		return out.String(), err
	case 'U':
		out.WriteString("UPDATE " + t.quoted(name) + " SET ")
		for i, set := range s.Set {
			left, right, err := b.Value(set.Column, set.Value)
			if err != nil {
				return "", err
			}
			value, err := spellPair(left, set.Value.Operator, right)
			if err != nil {
				return "", err
			}
			if i > 0 {
				out.WriteString(", ")
			}
			out.WriteString(quoted(set.Column) + " = " + value)
		}
	case 'D':
		out.WriteString("DELETE FROM " + t.quoted(name))
	}
	for i, test := range s.Where {
		left, right, err := b.Test(test)
		if err != nil {
			return "", err
		}
		operator := test.Operator
		value, err := spellPair(left, operator, right)
		if test.Right.Kind == 0 {
			value, err = bound(left)
			value += " " + operator
		}
		if err != nil {
			return "", err
		}
		out.WriteString(map[bool]string{true: " WHERE ", false: " AND "}[i == 0] + value)
	}
	return out.String(), nil
}

func spellRows(out *strings.Builder, s *portable.Statement, b *portable.Binder) error {
	for i, row := range s.Rows {
		values := make([]string, len(row))
		for j, o := range row {
			v, err := b.Assigned(s.Columns[j], o)
			if err == nil && v.Column != "" {
				err = &portable.Refusal{SQLState: "0A000", Construct: "column " + v.Column + " in VALUES"}
			}
			if err == nil {
				values[j], err = bound(v)
			}
			if err != nil {
				return err
			}
		}
		if i > 0 {
			out.WriteString(", ")
		}
		out.WriteString("(" + strings.Join(values, ", ") + ")")
	}
	return nil
}

func spellPair(left portable.Bound, operator string, right portable.Bound) (string, error) {
	l, err := bound(left)
	if err != nil || operator == "" {
		return l, err
	}
	r, err := bound(right)
	return l + " " + operator + " " + r, err
}

// keyText words an encoded key.
func (t *table) keyText(key []byte) string {
	columns, err := canonical.DecodeRow(key)
	if err != nil {
		return ""
	}
	texts := make([]string, 0, len(columns))
	for i := range columns {
		if c, err := t.column(columns[i].Ordinal); err == nil {
			texts = append(texts, canonical.FormatText(c.Type, &columns[i].Value))
		}
	}
	return strings.Join(texts, ", ")
}

// conflict is the outcome of a write set that finds a row otherwise than its client did.
func conflict(t *table, key []byte) error {
	if _, err := canonical.DecodeRow(key); err != nil {
		return &outcome{"22023", err.Error()}
	}
	return &outcome{"40001", fmt.Sprintf("row (%s) of table %q is not as the transaction saw it", t.keyText(key), t.Name)}
}

// apply makes the changes of a write set (spec/transactions.md, "Applying a write set"), as the
// client's role.
func (r *run) apply(p *wire.Proposal) (int64, error) {
	s, err := wire.DecodeWriteSet(p.Effects)
	if err == nil {
		err = canonical.CheckWriteSet(s)
	}
	if err != nil {
		return 0, &outcome{"22023", err.Error()}
	}
	tables := make([]*table, len(s.Tables))
	for i, name := range s.Tables {
		if tables[i] = r.tables[name]; tables[i] == nil {
			return 0, &outcome{"42P01", "table " + name + " is not on the ledger"}
		}
	}
	if err := r.checkReads(s, tables, p.Client.Role); err != nil {
		return 0, err
	}
	if err := r.lookAll(s, tables, p.Client.Role); err != nil {
		return 0, err
	}
	if err := r.become(p.Client.Role); err != nil {
		return 0, err
	}
	for i := range s.Changes {
		if err := r.applyOne(tables[s.Changes[i].Table], &s.Changes[i]); err != nil {
			return 0, err
		}
	}
	return int64(len(s.Changes)), nil
}

// lookAll compares the rows that the transaction looked for. Its role needs the right to read the
// columns of their keys; the ledger's reads the others.
func (r *run) lookAll(s *wire.WriteSet, tables []*table, role string) error {
	if len(s.Seen) == 0 {
		return nil
	}
	if err := r.become(role); err != nil {
		return err
	}
	asked := map[*table]bool{}
	for i := range s.Seen {
		t := tables[s.Seen[i].Table]
		if asked[t] {
			continue
		}
		asked[t] = true
		if err := r.mayRead(t, t.PrimaryKey); err != nil {
			return err
		}
	}
	if _, err := r.conn.ExecContext(r.ctx, "SET ROLE "+r.name.role()); err != nil {
		return err
	}
	for i := range s.Seen {
		if err := r.seen(tables[s.Seen[i].Table], &s.Seen[i]); err != nil {
			return err
		}
	}
	return nil
}

// mayRead asks for columns of a table, and for no row.
func (r *run) mayRead(t *table, columns []string) error {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = quoted(c)
	}
	rows, err := r.conn.QueryContext(r.ctx, "SELECT "+strings.Join(names, ", ")+" FROM "+t.quoted(r.name)+" LIMIT 0")
	if err != nil {
		return err
	}
	return each(rows, func() error { return nil })
}

// seen compares a row that the transaction looked for.
func (r *run) seen(t *table, seen *wire.RowSeen) error {
	key, err := canonical.DecodeRow(seen.Key)
	if err != nil {
		return err
	}
	row, err := r.rowWith(t, key)
	switch {
	case err != nil:
		return err
	case row == nil && !seen.Present:
		return nil
	}
	if row == nil || !seen.Present || wire.RowHash(t.Name, row) != seen.Hash {
		return conflict(t, seen.Key)
	}
	return nil
}

// wordingOf is the statement of a change, and the key of its row.
func (r *run) wordingOf(t *table, c *wire.RowChange) (text string, key []byte, err error) {
	columns, err := canonical.DecodeRow(c.Row)
	if err != nil {
		return "", nil, err
	}
	if c.Op != 'I' {
		text, err = t.changing(c, columns, r.name)
		return text, c.Row, err
	}
	if key, err = canonical.AppendRow(nil, t.keyOfRow(columns)); err == nil {
		text, err = t.insertion(columns, r.name)
	}
	return text, key, err
}

func (r *run) applyOne(t *table, c *wire.RowChange) error {
	text, key, err := r.wordingOf(t, c)
	if err != nil {
		return err
	}
	count, err := r.changed(text)
	if state := outcomes[errorNumber(err)]; state == "23505" || state == "23503" || err == nil && count != 1 {
		return conflict(t, key)
	}
	return err
}

// keyOfRow is keyOf for columns that nobody has checked.
func (t *table) keyOfRow(row []canonical.Column) []canonical.Column {
	var known []canonical.Column
	for _, c := range row {
		if _, err := t.column(c.Ordinal); err == nil {
			known = append(known, c)
		}
	}
	return t.keyOf(known)
}

// changing is the statement of an update or a delete.
func (t *table) changing(c *wire.RowChange, key []canonical.Column, name names) (string, error) {
	where, err := t.matching(key)
	if err != nil {
		return "", err
	}
	if c.Op == 'D' {
		return "DELETE FROM " + t.quoted(name) + " WHERE " + where, nil
	}
	sets := make([]string, len(c.Cells))
	for i, cell := range c.Cells {
		column, err := t.column(cell.Ordinal)
		if err != nil {
			return "", err
		}
		value := "NULL"
		if cell.Value[0] != 0 {
			v, err := canonical.DecodeValue(cell.Value)
			if err != nil {
				return "", err
			}
			if value, err = t.cell(column, &v); err != nil {
				return "", err
			}
		}
		sets[i] = quoted(column.Name) + " = " + value
	}
	return "UPDATE " + t.quoted(name) + " SET " + strings.Join(sets, ", ") + " WHERE " + where, nil
}

// compare expects just the changes that the write set names, each with the row before.
func (r *run) compare(effects []byte, made []change) error {
	s, err := wire.DecodeWriteSet(effects)
	if err != nil {
		return &outcome{"22023", err.Error()}
	}
	for i := range max(len(s.Changes), len(made)) {
		if i >= len(s.Changes) {
			return conflict(made[i].table, made[i].Key)
		}
		want := &s.Changes[i]
		t := r.tables[s.Tables[want.Table]]
		if i < len(made) && made[i].table == t && !made[i].changes(want) {
			return conflict(t, made[i].Key)
		}
		if i >= len(made) || made[i].table != t || made[i].Op != want.Op {
			return &outcome{"40001", fmt.Sprintf("change %d of table %q is not as the transaction made it", i, t.Name)}
		}
	}
	return nil
}

// changes tells whether the row before, and the key, are those of a write set's change.
func (c *change) changes(want *wire.RowChange) bool {
	switch want.Op {
	case 'I':
		columns, err := canonical.DecodeRow(want.Row)
		if err != nil {
			return false
		}
		key, err := canonical.AppendRow(nil, c.table.keyOfRow(columns))
		return err == nil && string(key) == string(c.Key)
	case 'U':
		return string(c.Key) == string(want.Row) && wire.RowHash(c.table.Name, c.before) == want.Before
	}
	return string(c.Key) == string(want.Row) && c.Hash == want.Before
}
