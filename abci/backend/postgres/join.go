package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

var _ backend.Joiner = (*Backend)(nil)

// joining is an attempt to take a ledger over, at the end of a block.
type joining struct {
	*Backend
	from   backend.Foundation
	number uint64
	news   func(table string, here, rows uint64)
	keep   *pgx.Conn // commits what is received
}

// Join makes the ledger of another organisation's reading, in one transaction.
func (b *Backend) Join(ctx context.Context, from backend.Foundation, number uint64, certified wire.Hash, news func(table string, here, rows uint64)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := &joining{Backend: b, from: from, number: number, news: news}
	err := b.once(ctx, func() error { return j.join(ctx, certified) })
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == beyondRepair {
		err = &backend.Obstacle{Why: strings.TrimSpace(refused.Detail + " " + refused.Hint), Err: err}
	}
	if err != nil {
		return fmt.Errorf("join at block %d: %w", number, beyond(err))
	}
	return nil
}

func (j *joining) join(ctx context.Context, certified wire.Hash) error {
	parts := newStage(func(ctx context.Context, raw []byte) error {
		_, err := j.conn.Exec(ctx, `SELECT chainify_node.join_parts($1, $2, $3)`, int64(j.number), certified[:], raw)
		return told(err)
	})
	err := j.from.Foundation(ctx, func(part []byte) error { return parts.add(ctx, part) })
	if err := parts.end(ctx, err); err != nil {
		return err
	}
	tables, err := j.joinSchema(ctx, certified)
	if err != nil {
		return told(err)
	}
	if err := j.joinTables(ctx, tables); err != nil {
		return err
	}
	_, err = j.conn.Exec(ctx, `SELECT chainify_node.join_end($1)`, int64(j.number))
	return err
}

// joinSchema makes tables and definitions. It returns all tables, with as many rows as certified.
func (j *joining) joinSchema(ctx context.Context, certified wire.Hash) ([]backend.TableState, error) {
	rows, err := j.conn.Query(ctx, `SELECT tbl, rows FROM chainify_node.join_schema($1, $2)`, int64(j.number), certified[:])
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

// joinTables takes the rows of all tables. A connection of its own keeps them, so that the next
// attempt has them when this one ends.
func (j *joining) joinTables(ctx context.Context, tables []backend.TableState) error {
	conn, err := j.session(ctx)
	if err != nil {
		return fmt.Errorf("connect to keep rows: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
		defer cancel()
		_ = conn.Close(ctx) // each piece was committed
	}()
	j.keep = conn
	for _, t := range tables {
		if err := j.joinRows(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// joinRows takes the rows of a table, and not one more than it has. It asks for those alone that no
// attempt before received.
func (j *joining) joinRows(ctx context.Context, t backend.TableState) error {
	in, most, err := j.missing(ctx, t)
	if err != nil || most == 0 {
		return err
	}
	most = min(most, t.Rows)
	j.news(t.Table, t.Rows-most, t.Rows)
	rows, taken := newStage(nil), uint64(0)
	rows.give = func(ctx context.Context, raw []byte) error {
		if _, err := j.conn.Exec(ctx, `SELECT chainify_node.join_rows($1, $2)`, t.Table, raw); err != nil {
			return told(err)
		}
		if _, err := j.keep.Exec(ctx, `SELECT chainify_node.keep_received($1, $2, $3)`, t.Table, int64(rows.count), raw); err != nil {
			return err
		}
		j.news(t.Table, t.Rows-most+taken, t.Rows)
		return nil
	}
	err = j.from.Rows(ctx, t.Table, in, func(cells []byte) error {
		if taken++; taken > most {
			return fmt.Errorf("%w: more rows of table %q than the %d that it has", backend.ErrFalse, t.Table, most)
		}
		return rows.add(ctx, cells)
	})
	return rows.end(ctx, err)
}

// missing makes the table what attempts before received of it. It returns the ranges whose rows are
// others, none of which the table has then, and how many rows were told to be in them.
func (j *joining) missing(ctx context.Context, t backend.TableState) (backend.Ranges, uint64, error) {
	had, err := j.received(ctx, t)
	switch {
	case err != nil:
		return backend.Ranges{}, 0, err
	case !had:
		return j.anew(ctx, t)
	}
	in, most, err := j.differing(ctx, j.from, j.number, t)
	switch {
	case err != nil:
		return in, 0, err
	case t.Rows-min(most, t.Rows) < min(j.partRows, t.Rows/2):
		return j.anew(ctx, t) // too few of them to be worth rows in scattered ranges
	case len(in.List) > 0:
		_, err = j.conn.Exec(ctx, `SELECT chainify_node.join_without($1, $2, $3)`, t.Table, int32(in.Bits), integers(in.List))
	}
	return in, most, err
}

// received puts the rows of attempts before into the table, and reports whether there were any.
// Those that do not fit it are of another definition, or were never true.
func (j *joining) received(ctx context.Context, t backend.TableState) (bool, error) {
	if _, err := j.conn.Exec(ctx, `SAVEPOINT received`); err != nil {
		return false, err
	}
	var rows int64
	err := j.conn.QueryRow(ctx, `SELECT chainify_node.join_received($1, $2)`, t.Table, int64(receivedMax*t.Rows)).Scan(&rows)
	if err != nil && !own(err) {
		return false, nil
	}
	return rows > 0, err
}

// anew begins a table anew, without rows: those received are forgotten, and those that it was
// prepared with go.
func (j *joining) anew(ctx context.Context, t backend.TableState) (backend.Ranges, uint64, error) {
	_, err := j.conn.Exec(ctx, `ROLLBACK TO received`)
	if err == nil {
		_, err = j.keep.Exec(ctx, `SELECT chainify_node.forget_received($1)`, t.Table)
	}
	if err == nil {
		_, err = j.conn.Exec(ctx, `SELECT chainify_node.join_rows($1, $2)`, t.Table, make([]byte, 4))
		err = told(err)
	}
	return j.inParts(t.Rows), t.Rows, err
}

// receivedMax is how many rows attempts keep together for each one that a table has. Rows that came
// again, as they had changed meanwhile, are among them.
const receivedMax = 2

// partRows is how many rows make a further part of a table that comes in parts. Sorting them costs
// the other organisation a fifth more; a table of fewer comes as it lies there.
const partRows = 1 << 20

// inParts is the whole of a table. Its parts come one after the other, so that an attempt that ends
// loses one.
func (j *joining) inParts(rows uint64) backend.Ranges {
	in := backend.Ranges{Bits: min(uint32(bits.Len64(rows/j.partRows)), firstBitsMax)}
	for part := range uint32(1) << in.Bits {
		in.List = append(in.List, part)
	}
	return in
}
