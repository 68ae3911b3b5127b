package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// Adopt takes the effects of a block from another organisation, in a transaction that stays open.
func (b *Backend) Adopt(ctx context.Context, from backend.Past, block *wire.OrderedBlock, previous, certified wire.Hash) (x backend.Execution, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err = b.ready(ctx); err == nil {
		if x, err = b.adopt(ctx, from, block, previous, certified); err == nil {
			err = b.holdOnTheWay(ctx, x)
		}
		if err != nil {
			b.undo()
		}
	}
	if err != nil {
		return backend.Execution{}, fmt.Errorf("adopt block %d: %w", block.Number, err)
	}
	b.open = true
	return x, nil
}

func (b *Backend) adopt(ctx context.Context, from backend.Past, block *wire.OrderedBlock, previous, certified wire.Hash) (backend.Execution, error) {
	refused, err := b.begin(ctx, block)
	if err != nil {
		return backend.Execution{}, err
	}
	changes := newStage(func(ctx context.Context, raw []byte) error {
		_, err := b.conn.Exec(ctx, `SELECT chainify_node.stage_changes($1, $2)`, int64(block.Number), raw)
		if sqlState(err) == beyondRepair { // of a table that is not on the ledger here: false, or made by the block
			return fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
		}
		return told(err)
	})
	header, err := backend.Take(ctx, from, block, certified, func(part []byte) error { return changes.add(ctx, part) })
	if err := changes.end(ctx, err); err != nil {
		return backend.Execution{}, err
	}
	var a answer
	err = b.conn.QueryRow(ctx,
		`SELECT hash, sealed, outcomes, rows, sqlstates, messages, transaction_effects
		 FROM chainify_node.adopt_block($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		int64(block.Number), block.Height, block.TimeMicro, previous[:], block.Transactions, indices(block.Quarantined), block.QuarantineAll,
		certified[:], header.Raw, refused.indices, refused.sqlstates, refused.messages,
	).Scan(&a.hash, &a.header, &a.outcomes, &a.rows, &a.sqlstates, &a.messages, &a.effects)
	if err != nil {
		return backend.Execution{}, notAdopted(err)
	}
	plain := *block
	plain.Round = 0 // no transaction ran, so that none has a hash of its own
	return a.execution(&plain)
}

// notAdopted sorts an error of applying a block. An honest organisation's rows may be refused by
// a matter of this database, such as a constraint that answers otherwise here.
func notAdopted(err error) error {
	var refused *pgconn.PgError
	switch {
	case own(err) || !errors.As(err, &refused):
		return err
	case refused.Code == malformed:
		return fmt.Errorf("%w: %w", backend.ErrUnfit, err)
	case refused.Code == outOfTurn:
		return fmt.Errorf("%w: %w", backend.ErrOutOfTurn, err)
	case refused.Code == beyondRepair:
		return &backend.Obstacle{Why: refused.Detail, Err: err}
	}
	return &backend.Obstacle{Why: refused.Message, Err: err}
}
