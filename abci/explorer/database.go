package explorer

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	readerRole = "chainify_reader"
	poolConns  = 4
	idleLimit  = 5 * time.Minute
)

// sessionSettings hold for whatever a page asks: a role that can read the ledger and nothing else,
// no writes, an end to everything.
var sessionSettings = map[string]string{
	"role":                                readerRole,
	"default_transaction_read_only":       "on",
	"application_name":                    "chainify explorer",
	"statement_timeout":                   "5s",
	"lock_timeout":                        "1s",
	"idle_in_transaction_session_timeout": "10s",
	"search_path":                         "pg_catalog, pg_temp",
	"jit":                                 "off", // takes longer than any of these queries
	"TimeZone":                            "UTC",
	"DateStyle":                           "ISO, YMD",
	"IntervalStyle":                       "postgres",
}

// database reads the ledger.
type database struct{ pool *pgxpool.Pool }

func openDatabase(dsn string) (*database, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("configure the explorer's database: %w", err)
	}
	config.MaxConns, config.MinConns, config.MaxConnIdleTime = poolConns, 0, idleLimit
	for name, value := range sessionSettings {
		config.ConnConfig.RuntimeParams[name] = value
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = headerLimit
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("configure the explorer's database: %w", err)
	}
	return &database{pool}, nil
}

// read looks at one moment of the database.
func (d *database) read(ctx context.Context, look func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, look)
}

// list reads all rows of a query, whose columns are the fields of T in their order. The query
// bounds their number.
func list[T any](ctx context.Context, tx pgx.Tx, sql string, arguments ...any) ([]T, error) {
	rows, err := tx.Query(ctx, sql, arguments...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}
