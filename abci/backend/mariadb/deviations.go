package mariadb

import (
	"context"
	"fmt"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// rowsNoted is how many rows of a deviation are kept.
const rowsNoted = 1_000

// note records, in the transaction of a repair, the rows that differed. A deviation that a block
// showed is open until that block is right; the scrubber's is over with the repair.
func (r *repair) note(step backend.Step, deviating uint64, out wire.Hash, found []backend.RowDeviation) error {
	if len(found) == 0 {
		return nil
	}
	foundBy, curedBy := "block", any(nil)
	if deviating <= r.number {
		foundBy, curedBy = "scrubber", step.String()
	}
	return writeDeviation(r.ctx, r.q, r.name, deviating, foundBy, r.header.StateRoot, out, curedBy, found)
}

// writeDeviation records rows that differed; curedBy nil: it is open.
func writeDeviation(ctx context.Context, q querier, name names, block uint64, foundBy string, expected, out wire.Hash, curedBy any, found []backend.RowDeviation) error {
	done, err := q.ExecContext(ctx, name.in(`INSERT INTO %L.deviation (block, found_by, expected, found, rows_total, cured_by) VALUES (?, ?, ?, ?, ?, ?)`),
		block, foundBy, expected[:], out[:], len(found), curedBy)
	if err != nil {
		return err
	}
	id, err := done.LastInsertId()
	if err != nil {
		return err
	}
	in := inserter{ctx: ctx, q: q, head: name.in("INSERT INTO %L.deviation_row (deviation, place, name, row_key, expected, found) VALUES ")}
	for i, row := range found[:min(len(found), rowsNoted)] {
		err := in.add(fmt.Sprintf("(%d, %d, _utf8mb4 %s, %s, %s, %s)", id, i, hexLiteral([]byte(row.Table)), textOrNull(row.Key), textOrNull(row.Expected), textOrNull(row.Found)))
		if err != nil {
			return err
		}
	}
	return in.flush()
}

func textOrNull(raw []byte) string {
	if raw == nil {
		return "NULL"
	}
	return "_utf8mb4 " + hexLiteral(raw)
}

// RecordDeviation completes the record of a deviation that was cured.
func (b *Backend) RecordDeviation(ctx context.Context, number uint64, expected, found wire.Hash, curedBy string, took time.Duration) error {
	done, err := b.pool.ExecContext(ctx, b.name.in(`UPDATE %L.deviation SET expected = ?, found = ?, cured_by = ?, took_ms = ? WHERE block = ? AND cured_by IS NULL`),
		expected[:], found[:], curedBy, took.Milliseconds(), number)
	var open int64
	if err == nil {
		open, err = done.RowsAffected()
	}
	if err == nil && open == 0 {
		_, err = b.pool.ExecContext(ctx, b.name.in(`INSERT INTO %L.deviation (block, found_by, expected, found, rows_total, cured_by, took_ms) VALUES (?, 'block', ?, ?, 0, ?, ?)`),
			number, expected[:], found[:], curedBy, took.Milliseconds())
	}
	if err != nil {
		return fmt.Errorf("record deviation at block %d: %w", number, err)
	}
	return nil
}
