package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// reading is a transaction on a connection of its own, so that what it tells is of one moment.
type reading struct {
	conn   *pgx.Conn
	number uint64
	hash   wire.Hash
	tables []backend.TableState
}

var _ backend.Foundation = (*reading)(nil)

// Read begins to tell of the tables at the end of a block.
func (b *Backend) Read(ctx context.Context, number uint64, hash wire.Hash) (backend.Reading, error) {
	conn, err := b.session(ctx)
	if err != nil {
		return nil, fmt.Errorf("read block %d: connect: %w", number, err)
	}
	r := &reading{conn: conn, number: number, hash: hash}
	if err := r.begin(ctx, hash); err != nil {
		r.Close()
		if sqlState(err) == outOfTurn {
			err = fmt.Errorf("%w: %w", backend.ErrOutOfTurn, err)
		}
		return nil, fmt.Errorf("read block %d: %w", number, err)
	}
	return r, nil
}

func (r *reading) begin(ctx context.Context, hash wire.Hash) error {
	if _, err := r.conn.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`); err != nil {
		return err
	}
	return r.collect(ctx, hash)
}

// collect reads how the tables are.
func (r *reading) collect(ctx context.Context, hash wire.Hash) error {
	rows, err := r.conn.Query(ctx, `SELECT tbl, rows, state FROM chainify_node.state_tables($1, $2)`, int64(r.number), hash[:])
	if err != nil {
		return err
	}
	r.tables, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (backend.TableState, error) {
		var t backend.TableState
		var count int64
		var state []byte
		if err := row.Scan(&t.Table, &count, &state); err != nil {
			return t, err
		}
		t.Rows = uint64(count)
		t.State, err = hashOf(state)
		return t, err
	})
	return err
}

// Tables are all tables on the ledger.
func (r *reading) Tables() []backend.TableState { return r.tables }

// Digests tells of ranges of keys.
func (r *reading) Digests(ctx context.Context, table string, within backend.Ranges, bits uint32) ([]backend.RangeDigest, error) {
	return digests(ctx, r.conn, r.number, table, within, bits)
}

func digests(ctx context.Context, conn *pgx.Conn, number uint64, table string, within backend.Ranges, bits uint32) ([]backend.RangeDigest, error) {
	rows, err := conn.Query(ctx, `SELECT range, rows, digest FROM chainify_node.state_ranges($1, $2, $3, $4, $5)`,
		int64(number), table, int32(within.Bits), integers(within.List), int32(bits))
	if err != nil {
		return nil, fmt.Errorf("digests of %s: %w", table, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (backend.RangeDigest, error) {
		var of int32
		var count int64
		var digest []byte
		if err := row.Scan(&of, &count, &digest); err != nil {
			return backend.RangeDigest{}, err
		}
		hash, err := hashOf(digest)
		return backend.RangeDigest{Range: uint32(of), Rows: uint64(count), Digest: hash}, err
	})
	if err != nil {
		return nil, fmt.Errorf("digests of %s: %w", table, err)
	}
	return list, nil
}

func integers(list []uint32) []int32 {
	out := make([]int32, len(list))
	for i, v := range list {
		out[i] = int32(v)
	}
	return out
}

// Rows gives rows as the server sends them, range after range. Those of a range keep their order:
// keys that follow one another are written faster.
func (r *reading) Rows(ctx context.Context, table string, in backend.Ranges, each func(cells []byte) error) error {
	query := `SELECT cells FROM chainify_node.state_rows($1, $2, $3, $4)`
	if len(in.List) > 1 {
		query += ` WITH ORDINALITY r (range, cells, place) ORDER BY range, place`
	}
	rows, err := r.conn.Query(ctx, query, int64(r.number), table, int32(in.Bits), integers(in.List))
	if err != nil {
		return fmt.Errorf("rows of %s: %w", table, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.RawValues()[0]); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("rows of %s: %w", table, err)
	}
	return nil
}

// Foundation gives what the ledger is built on as the server sends it.
func (r *reading) Foundation(ctx context.Context, each func(part []byte) error) error {
	rows, err := r.conn.Query(ctx, `SELECT part FROM chainify_node.foundation($1, $2)`, int64(r.number), r.hash[:])
	if err == nil {
		var part []byte
		_, err = pgx.ForEachRow(rows, []any{&part}, func() error { return each(part) })
	}
	if sqlState(err) == outOfTurn {
		err = fmt.Errorf("%w: %w", backend.ErrOutOfTurn, err)
	}
	if err != nil {
		return fmt.Errorf("tell what the ledger is built on: %w", err)
	}
	return nil
}

// Close disconnects; the server ends the transaction.
func (r *reading) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	_ = r.conn.Close(ctx) // nothing was written
}
