package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

var _ backend.Joiner = (*Backend)(nil)

// Join makes the ledger of another organisation's reading, in one transaction.
func (b *Backend) Join(ctx context.Context, from backend.Foundation, number uint64, certified wire.Hash) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.once(ctx, func() error { return b.join(ctx, from, number, certified) })
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == beyondRepair {
		err = &backend.Obstacle{Why: strings.TrimSpace(refused.Detail + " " + refused.Hint), Err: err}
	}
	if err != nil {
		return fmt.Errorf("join at block %d: %w", number, beyond(err))
	}
	return nil
}

func (b *Backend) join(ctx context.Context, from backend.Foundation, number uint64, certified wire.Hash) error {
	parts := newStage(func(ctx context.Context, raw []byte) error {
		_, err := b.conn.Exec(ctx, `SELECT chainify_node.join_parts($1, $2, $3)`, int64(number), certified[:], raw)
		return told(err)
	})
	err := from.Foundation(ctx, func(part []byte) error { return parts.add(ctx, part) })
	if err := parts.end(ctx, err); err != nil {
		return err
	}
	tables, err := b.joinSchema(ctx, number, certified)
	if err != nil {
		return told(err)
	}
	for _, t := range tables {
		if err := b.joinRows(ctx, from, t); err != nil {
			return err
		}
	}
	_, err = b.conn.Exec(ctx, `SELECT chainify_node.join_end($1)`, int64(number))
	return err
}

// joinSchema makes tables and definitions. It returns all tables, with as many rows as certified.
func (b *Backend) joinSchema(ctx context.Context, number uint64, certified wire.Hash) ([]backend.TableState, error) {
	rows, err := b.conn.Query(ctx, `SELECT tbl, rows FROM chainify_node.join_schema($1, $2)`, int64(number), certified[:])
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (backend.TableState, error) {
		var t backend.TableState
		var count int64
		err := row.Scan(&t.Table, &count)
		t.Rows = uint64(count)
		return t, err
	})
}

// joinRows takes the rows of a table, and not one more than it has.
func (b *Backend) joinRows(ctx context.Context, from backend.Reading, t backend.TableState) error {
	give := func(ctx context.Context, raw []byte) error {
		_, err := b.conn.Exec(ctx, `SELECT chainify_node.join_rows($1, $2)`, t.Table, raw)
		return told(err)
	}
	if err := give(ctx, make([]byte, 4)); err != nil || t.Rows == 0 { // what it was prepared with goes
		return err
	}
	rows, taken := newStage(give), uint64(0)
	err := from.Rows(ctx, t.Table, backend.All(), func(cells []byte) error {
		if taken++; taken > t.Rows {
			return fmt.Errorf("%w: more rows of table %q than the %d that it has", backend.ErrFalse, t.Table, t.Rows)
		}
		return rows.add(ctx, cells)
	})
	return rows.end(ctx, err)
}
