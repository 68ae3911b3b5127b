package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/anchor"
)

var _ anchor.Source = (*Backend)(nil)

// Digest is that of the last certified block.
func (b *Backend) Digest(ctx context.Context) ([]byte, error) {
	var digest []byte
	err := b.pool.QueryRow(ctx, `SELECT chainify.digest(max(number)) FROM chainify.ledger WHERE certified HAVING max(number) IS NOT NULL`).Scan(&digest)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, anchor.ErrNoDigest
	}
	if err != nil {
		return nil, fmt.Errorf("digest: %w", err)
	}
	return digest, nil
}

// VerifyDigest says where the database does not lead to a digest any more, on a connection of its
// own: it reads everything.
func (b *Backend) VerifyDigest(ctx context.Context, digest []byte) ([]string, error) {
	conn, err := b.session(ctx)
	if err != nil {
		return nil, fmt.Errorf("verify digest: connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	rows, err := conn.Query(ctx, `SELECT block || ' ' || what || ': ' || detail FROM chainify.verify($1::jsonb)`, string(digest))
	if err != nil {
		return nil, fmt.Errorf("verify digest: %w", err)
	}
	findings, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("verify digest: %w", err)
	}
	return findings, nil
}
