package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// elsewhere executes, and undoes, each block in a new session first: its hash has to be that of the
// node's session.
type elsewhere struct {
	backend.Backend
	t   *testing.T
	dsn string
}

func (e elsewhere) Execute(ctx context.Context, b *wire.OrderedBlock, previous wire.Hash) (backend.Execution, error) {
	if b.Budget != (wire.Budget{}) { // a block that does not end
		return e.Backend.Execute(ctx, b, previous)
	}
	if err := e.Rollback(ctx); err != nil { // the node's session would keep its locks
		e.t.Logf("roll back before block %d: %v", b.Number, err)
	}
	hash, fails := e.hash(ctx, b, previous)
	x, err := e.Backend.Execute(ctx, b, previous)
	if err == nil && (fails != nil || hash != x.Hash) {
		e.t.Errorf("block %d: hash %x, in a new session %x (%v)", b.Number, x.Hash, hash, fails)
	}
	return x, err
}

func (e elsewhere) hash(ctx context.Context, b *wire.OrderedBlock, previous wire.Hash) (wire.Hash, error) {
	conn, err := pgx.Connect(ctx, e.dsn)
	if err != nil {
		return wire.Hash{}, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return wire.Hash{}, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	var hash []byte
	if err := tx.QueryRow(ctx, `SELECT hash FROM chainify_node.execute_block($1, $2, $3, $4, $5, $6, $7)`,
		int64(b.Number), b.Height, b.TimeMicro, previous[:], b.Transactions, indices(b.Quarantined), b.QuarantineAll).Scan(&hash); err != nil {
		return wire.Hash{}, err
	}
	return hashOf(hash)
}
