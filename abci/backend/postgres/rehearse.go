package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend"
)

const (
	rehearsalConns    = 4 // rehearsals at once
	rehearsalAttempts = 5 // while blocks are in the way
	rehearsalPause    = 20 * time.Millisecond
)

var _ backend.Rehearser = (*Backend)(nil)

// HasPolicies implements backend.Rehearser.
func (b *Backend) HasPolicies(ctx context.Context) (has bool, err error) {
	if err := b.pool.QueryRow(ctx, `SELECT chainify_node.has_policies()`).Scan(&has); err != nil {
		return false, fmt.Errorf("look for agreement policies: %w", err)
	}
	return has, nil
}

// Rehearse implements backend.Rehearser. A block goes first: a rehearsal in its way is cancelled, and tried again.
func (b *Backend) Rehearse(ctx context.Context, tx []byte) (r backend.Rehearsal, err error) {
	for attempt := range rehearsalAttempts {
		if r, err = b.rehearse(ctx, tx); err == nil && !passing(r.SQLState) {
			return r, nil
		}
		if err != nil && !passing(sqlState(err)) {
			break
		}
		if err == nil {
			err = fmt.Errorf("%s (SQLSTATE %s)", r.Message, r.SQLState)
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(time.Duration(attempt+1) * rehearsalPause):
		}
	}
	return r, fmt.Errorf("rehearse transaction: %w", err)
}

// rehearse begins, runs and undoes in one round trip; what fails is undone in another.
func (b *Backend) rehearse(ctx context.Context, tx []byte) (r backend.Rehearsal, err error) {
	conn, err := b.rehearsals.Acquire(ctx)
	if err != nil {
		return r, err
	}
	defer conn.Release() // closes one that is still in a transaction, which undoes as well
	batch := &pgx.Batch{}
	batch.Queue("BEGIN")
	batch.Queue(`SELECT coalesce(wanted, '{}'), coalesce(refusal, ''), coalesce(sqlstate, ''), coalesce(message, '') FROM chainify_node.rehearse($1, $2)`,
		tx, time.Now().UnixMicro()).QueryRow(func(row pgx.Row) error { return row.Scan(&r.Wanted, &r.Refusal, &r.SQLState, &r.Message) })
	batch.Queue("ROLLBACK")
	if err = conn.SendBatch(ctx, batch).Close(); err != nil && !conn.Conn().IsClosed() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer cancel()
		_, _ = conn.Exec(end, "ROLLBACK")
	}
	return r, err
}

// passing says that a failure tells of this moment: a block was in the way, or another session.
func passing(state string) bool {
	switch state {
	case "CH007", "40001", "40P01", "55P03", "57014":
		return true
	}
	return false
}
