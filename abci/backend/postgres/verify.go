package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend"
)

// verifySQL are the extension's own checks, of the ledger and then of each table on it.
const verifySQL = `SELECT block, what, detail FROM chainify.verify_ledger()
	UNION ALL SELECT NULL, f.what, concat(f.tbl, ' ', f.key, ': expected ', f.expected, ', found ', f.found)
	FROM chainify.tables t, LATERAL chainify.verify_table(t.name::regclass) f`

// Verify has a database verify its ledger and tables, and reports the findings. The role of dsn is
// a member of chainify_reader.
func Verify(ctx context.Context, dsn string, each func(backend.Finding) error) error {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	c.DialFunc = backend.Dial // and no settings, which a pooler may refuse
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, verifySQL)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var block *int64
		var f backend.Finding
		if err := rows.Scan(&block, &f.What, &f.Detail); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		if block != nil {
			f.Block = uint64(*block)
		}
		if err := each(f); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	return nil
}
