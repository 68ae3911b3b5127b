package mariadb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// packetBytes is how much one statement of ours carries.
const packetBytes = 1 << 20

// rowSet is the rows of a table, encoded, by the hash of their key.
type rowSet map[wire.Hash][]byte

// sum is the state of such rows. Cost: one BLAKE3 of 2,048 bytes a row.
func (t *table) sum(rows rowSet) canonical.State {
	var s canonical.State
	for _, row := range rows {
		t.hasher.Add(&s, row)
	}
	return s
}

func (t *table) stateOf(rows rowSet) wire.Hash {
	s := t.sum(rows)
	return canonical.TableState(t.Name, canonical.SchemaHash2(t.text), &s)
}

// readRows reads the table itself.
func readRows(ctx context.Context, q querier, name names, t *table) (rowSet, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+t.serialized("t")+" FROM "+t.quoted(name)+" AS t")
	if err != nil {
		return nil, err
	}
	out := rowSet{}
	return out, each(rows, func() error {
		var raw []byte
		if err := rows.Scan(&raw); err != nil {
			return err
		}
		row, key, err := t.encode(raw)
		out[sha256.Sum256(key)] = row
		return err
	})
}

// rowsAt gives the rows at the end of a block as base and history tell them. ErrOutOfTurn: they do
// not reach back as far.
func rowsAt(ctx context.Context, q querier, name names, t *table, number uint64) (rowSet, error) {
	if number < t.baseAfter {
		return nil, notTold(number, t.baseAfter)
	}
	out := rowSet{}
	rows, err := q.QueryContext(ctx, name.in(`SELECT key_hash, row_bytes FROM %L.base WHERE table_id = ?`), t.id)
	if err != nil {
		return nil, err
	}
	err = each(rows, func() error {
		var key, row []byte
		if err := rows.Scan(&key, &row); err != nil {
			return err
		}
		hash, err := hashOf(key)
		out[hash] = row
		return err
	})
	if err != nil {
		return nil, err
	}
	rows, err = q.QueryContext(ctx, name.in(`SELECT key_hash, op, row_bytes FROM %L.history
		WHERE table_id = ? AND block > ? AND block <= ? ORDER BY block, place`), t.id, t.baseAfter, number)
	if err != nil {
		return nil, err
	}
	return out, each(rows, func() error {
		var key, row []byte
		var op string
		if err := rows.Scan(&key, &op, &row); err != nil {
			return err
		}
		hash, err := hashOf(key)
		if op == "D" {
			delete(out, hash)
		} else {
			out[hash] = row
		}
		return err
	})
}

func notTold(number, oldest uint64) error {
	return fmt.Errorf("%w: the rows at block %d cannot be told: what is kept reaches back to block %d only", backend.ErrOutOfTurn, number, oldest)
}

// writeBase makes these rows the base of a table.
func writeBase(ctx context.Context, q querier, name names, t *table, rows rowSet) error {
	if _, err := q.ExecContext(ctx, name.in(`DELETE FROM %L.base WHERE table_id = ?`), t.id); err != nil {
		return err
	}
	in := inserter{ctx: ctx, q: q, head: name.in("INSERT INTO %L.base (table_id, key_hash, row_bytes) VALUES ")}
	for key, row := range rows {
		if err := in.add(fmt.Sprintf("(%d, x'%x', x'%x')", t.id, key, row)); err != nil {
			return err
		}
	}
	return in.flush()
}

// inserter sends many rows in one statement.
type inserter struct {
	ctx  context.Context
	q    querier
	head string
	rows strings.Builder
}

func (i *inserter) add(row string) error {
	if i.rows.Len() > 0 {
		i.rows.WriteByte(',')
	}
	i.rows.WriteString(row)
	if i.rows.Len() < packetBytes {
		return nil
	}
	return i.flush()
}

func (i *inserter) flush() error {
	if i.rows.Len() == 0 {
		return nil
	}
	_, err := i.q.ExecContext(i.ctx, i.head+i.rows.String())
	i.rows.Reset()
	return err
}

// put brings a table from the rows that it has to those that it should have, and tells the
// differences. Rows go before others come, since they may have the same unique keys.
func put(ctx context.Context, q querier, name names, t *table, have, want rowSet) ([]backend.RowDeviation, error) {
	var found []backend.RowDeviation
	for key, row := range have {
		if bytes.Equal(want[key], row) {
			continue
		}
		columns, err := canonical.DecodeRow(row)
		if err != nil {
			return nil, err
		}
		where, err := t.matching(t.keyOf(columns))
		if err != nil {
			return nil, err
		}
		if _, err := q.ExecContext(ctx, "DELETE FROM "+t.quoted(name)+" WHERE "+where); err != nil {
			return nil, err
		}
		found = append(found, t.deviation(want[key], row))
	}
	for key, row := range want {
		if bytes.Equal(have[key], row) {
			continue
		}
		columns, err := canonical.DecodeRow(row)
		if err != nil {
			return nil, err
		}
		text, err := t.insertion(columns, name)
		if err != nil {
			return nil, err
		}
		if _, err := q.ExecContext(ctx, text); err != nil {
			return nil, err
		}
		if have[key] == nil {
			found = append(found, t.deviation(row, nil))
		}
	}
	return found, nil
}

// deviation words a row that differs; nil: there is none.
func (t *table) deviation(want, have []byte) backend.RowDeviation {
	d := backend.RowDeviation{Table: t.Name, Expected: t.json(want, false), Found: t.json(have, false)}
	if d.Key = t.json(want, true); d.Key == nil {
		d.Key = t.json(have, true)
	}
	return d
}

// json words a row, or its key alone.
func (t *table) json(row []byte, key bool) []byte {
	columns, err := canonical.DecodeRow(row)
	if row == nil || err != nil {
		return nil
	}
	if key {
		columns = t.keyOfRow(columns)
	}
	words := map[string]string{}
	for i := range columns {
		if c, err := t.column(columns[i].Ordinal); err == nil {
			words[c.Name] = canonical.FormatText(c.Type, &columns[i].Value)
		}
	}
	out, err := json.Marshal(words)
	if err != nil {
		return nil
	}
	return out
}

func hexLiteral(raw []byte) string { return "x'" + hex.EncodeToString(raw) + "'" }
