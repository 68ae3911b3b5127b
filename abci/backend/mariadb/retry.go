package mariadb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// touchedMax is how many rows a retry looks up.
const touchedMax = 10_000

// touched is a row that a block changed.
type touched struct{ table, key string }

// Retry is Execute. Where the block has another hash, the rows that it changes are put right as
// base and history tell them, and it runs again. The result stays only when the block then has the
// certified hash and changes each row that was put right (R8).
func (b *Backend) Retry(ctx context.Context, block *wire.OrderedBlock, previous, certified wire.Hash) (backend.Execution, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, err := b.retry(ctx, block, previous, certified)
	if err != nil {
		return x, fmt.Errorf("execute block %d: %w", block.Number, err)
	}
	return x, nil
}

func (b *Backend) retry(ctx context.Context, block *wire.OrderedBlock, previous, certified wire.Hash) (backend.Execution, error) {
	x, err := b.execute(ctx, block, previous, nil)
	if err != nil || x.Hash == certified {
		return x, err
	}
	rows := b.open.touched()
	if len(rows) == 0 || len(rows) > touchedMax {
		return x, nil
	}
	var mended []touched
	var found []backend.RowDeviation
	untrue := false
	again, err := b.execute(ctx, block, previous, func(r *run) error {
		err := checkNothing.during(r.ctx, r.conn, func() (err error) {
			mended, found, err = r.mend(rows)
			return err
		})
		untrue = outcomeOf(err) != nil
		return err
	})
	switch {
	case untrue && ctx.Err() == nil: // base and history tell rows that the table cannot have
		return b.execute(ctx, block, previous, nil)
	case err != nil:
		return again, err
	}
	changed := map[touched]bool{}
	for _, row := range b.open.touched() {
		changed[row] = true
	}
	sound := again.Hash == certified
	for _, row := range mended {
		sound = sound && changed[row]
	}
	switch {
	case !sound:
		return b.execute(ctx, block, previous, nil)
	case len(found) == 0:
		return again, nil
	}
	// Open until RecordDeviation completes it; it is there only if the block is.
	if err := writeDeviation(ctx, b.conn, b.name, block.Number, "block", certified, x.Hash, nil, found); err != nil {
		b.undo()
		return backend.Execution{}, err
	}
	return again, nil
}

// touched are the rows that the block changed, each once.
func (r *run) touched() []touched {
	var rows []touched
	known := map[touched]bool{}
	for i := range r.changes {
		row := touched{r.changes[i].Table, string(r.changes[i].Key)}
		if !known[row] {
			known[row] = true
			rows = append(rows, row)
		}
	}
	return rows
}

// mend puts rows right before the block runs, and tells which were not, and how they differed.
func (r *run) mend(rows []touched) (mended []touched, found []backend.RowDeviation, err error) {
	for _, row := range rows {
		t := r.tables[row.table]
		if t == nil {
			continue
		}
		hash := wire.Hash(sha256.Sum256([]byte(row.key)))
		want, err := rowAt(r.ctx, r.conn, r.name, t, hash)
		if err != nil {
			return nil, nil, err
		}
		key, err := canonical.DecodeRow([]byte(row.key))
		if err != nil {
			return nil, nil, err
		}
		have, err := r.rowWith(t, key)
		if err != nil {
			return nil, nil, err
		}
		if bytes.Equal(want, have) {
			continue
		}
		differs, err := put(r.ctx, r.conn, r.name, t, setOf(hash, have), setOf(hash, want))
		if err != nil {
			return nil, nil, err
		}
		mended, found = append(mended, row), append(found, differs...)
	}
	_, err = r.conn.ExecContext(r.ctx, r.name.in("DELETE FROM %L.captured")) // these are no changes of the block
	return mended, found, err
}

func setOf(key wire.Hash, row []byte) rowSet {
	if row == nil {
		return rowSet{}
	}
	return rowSet{key: row}
}

// rowAt is the row with a key as base and history tell it now; nil: there is none.
func rowAt(ctx context.Context, q querier, name names, t *table, key wire.Hash) ([]byte, error) {
	var op string
	var row []byte
	err := q.QueryRowContext(ctx, name.in(`SELECT op, row_bytes FROM %L.history WHERE table_id = ? AND key_hash = ? AND block > ?
		ORDER BY block DESC, place DESC LIMIT 1`), t.id, key[:], t.baseAfter).Scan(&op, &row)
	if errors.Is(err, sql.ErrNoRows) {
		err = q.QueryRowContext(ctx, name.in(`SELECT row_bytes FROM %L.base WHERE table_id = ? AND key_hash = ?`), t.id, key[:]).Scan(&row)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case op == "D":
		return nil, err
	}
	return row, err
}

// rowWith is the row of a table with a key; nil: there is none.
func (r *run) rowWith(t *table, key []canonical.Column) ([]byte, error) {
	where, err := t.matching(key)
	if err != nil {
		return nil, err
	}
	var raw []byte
	err = r.conn.QueryRowContext(r.ctx, "SELECT "+t.serialized("t")+" FROM "+t.quoted(r.name)+" AS t WHERE "+where).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	row, _, err := t.encode(raw)
	return row, err
}
