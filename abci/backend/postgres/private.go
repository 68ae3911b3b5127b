package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

var _ backend.Private = (*Backend)(nil)

// Circles implements backend.Private.
func (b *Backend) Circles(ctx context.Context) (told backend.Circles, err error) {
	rows, _ := b.pool.Query(ctx, `SELECT circle, organisation FROM chainify_node.circles()`) // its error comes with the rows
	told.Members, err = pgx.CollectRows(rows, pgx.RowToStructByPos[backend.CircleMember])
	if err != nil {
		return told, fmt.Errorf("read circles: %w", err)
	}
	rows, _ = b.pool.Query(ctx, `SELECT relation, column_name, circle, type FROM chainify_node.sealed_columns()`)
	told.Columns, err = pgx.CollectRows(rows, pgx.RowToStructByPos[backend.SealedColumn])
	if err != nil {
		return told, fmt.Errorf("read sealed columns: %w", err)
	}
	return told, nil
}

const holdMany = `SELECT chainify_node.hold_many($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[])`

// sealedArrays are values as hold_many takes them.
func sealedArrays(values []*wire.SealedValue) []any {
	n := len(values)
	tables, columns := make([]string, n), make([]string, n)
	commitments, salts, encoded := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	for i, v := range values {
		tables[i], columns[i], commitments[i], salts[i], encoded[i] = v.Table, v.Column, v.Commitment, v.Salt, v.Value
	}
	return []any{tables, columns, commitments, salts, encoded}
}

// Hold implements backend.Private.
func (b *Backend) Hold(ctx context.Context, values []*wire.SealedValue) error {
	if _, err := b.pool.Exec(ctx, holdMany, sealedArrays(values)...); err != nil {
		return fmt.Errorf("hold private values: %w", reticent(err))
	}
	return nil
}

// Missing implements backend.Private.
func (b *Backend) Missing(ctx context.Context, most int) ([]*wire.SealedName, error) {
	rows, _ := b.pool.Query(ctx, `SELECT relation, column_name, commitment FROM chainify_node.missing_private($1)`, most)
	missing, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*wire.SealedName, error) {
		name := &wire.SealedName{}
		return name, row.Scan(&name.Table, &name.Column, &name.Commitment)
	})
	if err != nil {
		return nil, fmt.Errorf("look for missing private values: %w", err)
	}
	return missing, nil
}

// Held implements backend.Private.
func (b *Backend) Held(ctx context.Context, names []*wire.SealedName) ([]*wire.SealedValue, error) {
	n := len(names)
	tables, columns, commitments := make([]string, n), make([]string, n), make([][]byte, n)
	for i, name := range names {
		tables[i], columns[i], commitments[i] = name.Table, name.Column, name.Commitment
	}
	rows, _ := b.pool.Query(ctx,
		`SELECT relation, column_name, type, commitment, salt, value FROM chainify_node.held_private($1::text[], $2::text[], $3::bytea[])`, tables, columns, commitments)
	held, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*wire.SealedValue, error) {
		v := &wire.SealedValue{}
		return v, row.Scan(&v.Table, &v.Column, &v.Type, &v.Commitment, &v.Salt, &v.Value)
	})
	if err != nil {
		return nil, fmt.Errorf("read private values: %w", reticent(err))
	}
	return held, nil
}

// reticent is an error of the server without its texts, which may quote a value (K2).
func reticent(err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("SQLSTATE %s", e.Code)
}

// holdOnTheWay puts the private values of an executed block's successful transactions into the
// block's transaction: readers see both or neither. It fails only when the block has to be executed
// again, since what organisations agree on does not depend on these values (K5). Called with
// mu held.
func (b *Backend) holdOnTheWay(ctx context.Context, x backend.Execution) error {
	if b.cfg.OnTheWay == nil {
		return nil
	}
	var values []*wire.SealedValue
	for _, r := range x.Results {
		if r.Succeeded {
			values = append(values, b.cfg.OnTheWay.Values(r.ID)...)
		}
	}
	if len(values) == 0 {
		return nil
	}
	together := &pgx.Batch{}
	together.Queue(`SAVEPOINT chainify_private`)
	together.Queue(holdMany, sealedArrays(values)...)
	together.Queue(`RELEASE SAVEPOINT chainify_private`)
	err := b.conn.SendBatch(ctx, together).Close()
	if err == nil {
		return nil
	}
	if _, undo := b.conn.Exec(ctx, `ROLLBACK TO SAVEPOINT chainify_private`); undo != nil {
		return fmt.Errorf("hold private values: %w", reticent(err))
	}
	b.cfg.OnTheWay.Unheld(reticent(err))
	return nil
}
