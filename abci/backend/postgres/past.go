package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// past is a connection of its own, so that a slow reader holds nobody up.
type past struct{ conn *pgx.Conn }

// ReadPast begins to tell of earlier blocks.
func (b *Backend) ReadPast(ctx context.Context) (backend.Past, error) {
	conn, err := b.session(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the past: connect: %w", err)
	}
	return past{conn}, nil
}

// Block gives a block part by part.
func (p past) Block(ctx context.Context, number uint64, hash wire.Hash, each func(part []byte) error) error {
	rows, err := p.conn.Query(ctx, `SELECT part FROM chainify_node.block_parts($1, $2) ORDER BY place`, int64(number), hash[:])
	if err == nil {
		var part []byte
		_, err = pgx.ForEachRow(rows, []any{&part}, func() error { return each(part) })
	}
	if sqlState(err) == outOfTurn {
		err = fmt.Errorf("%w: %w", backend.ErrOutOfTurn, err)
	}
	if err != nil {
		return fmt.Errorf("tell block %d: %w", number, err)
	}
	return nil
}

// Close ends it.
func (p past) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	_ = p.conn.Close(ctx)
}

var errNoHeader = errors.New("there is no header in what was told")

// RestoreBlock takes a block over from another organisation.
func (b *Backend) RestoreBlock(ctx context.Context, from backend.Past, block *wire.OrderedBlock, certified wire.Hash) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := beyond(b.once(ctx, func() error { return b.restoreBlock(ctx, from, block, certified) }))
	if err != nil {
		return fmt.Errorf("restore block %d: %w", block.Number, err)
	}
	return nil
}

func (b *Backend) restoreBlock(ctx context.Context, from backend.Past, block *wire.OrderedBlock, certified wire.Hash) error {
	changes := newStage(func(ctx context.Context, raw []byte) error {
		_, err := b.conn.Exec(ctx, `SELECT chainify_node.stage_changes($1, $2)`, int64(block.Number), raw)
		return told(err)
	})
	var header []byte
	err := from.Block(ctx, block.Number, certified, func(part []byte) error {
		if header == nil {
			header = append([]byte{}, part...)
			return nil
		}
		return changes.add(ctx, part)
	})
	if err == nil && header == nil {
		err = errNoHeader
	}
	if err := changes.end(ctx, err); err != nil {
		return err
	}
	_, err = b.conn.Exec(ctx, `SELECT chainify_node.restore_block($1, $2, $3, $4)`, int64(block.Number), certified[:], header, block.Transactions)
	return err
}
