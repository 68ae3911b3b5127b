package explorer

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Read lets tests do what a page could.
func (e *Explorer) Read(ctx context.Context, look func(pgx.Tx) error) error {
	return e.db.read(ctx, look)
}
