// Package pages reads a ledger in PostgreSQL for the explorer, as chainify_reader, in read-only
// transactions with limits.
package pages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/chainify-db/chainify/abci/backend/postgres"
	"github.com/chainify-db/chainify/abci/explorer"
)

const (
	readerRole   = "chainify_reader"
	poolConns    = 4
	idleLimit    = 5 * time.Minute
	connectLimit = 5 * time.Second
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

// Ledger reads the database. Safe for concurrent use.
type Ledger struct{ pool *pgxpool.Pool }

var _ explorer.Ledger = (*Ledger)(nil)

// Open prepares it; the first question connects. dsn is of a role that is a member of
// chainify_reader: all is read with the rights of that role alone. Errors are about dsn.
func Open(dsn string) (*Ledger, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("configure the explorer's database: %w", err)
	}
	config.MaxConns, config.MinConns, config.MaxConnIdleTime = poolConns, 0, idleLimit
	for name, value := range sessionSettings {
		config.ConnConfig.RuntimeParams[name] = value
	}
	postgres.EndWithMachine(&config.ConnConfig.Config)
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectLimit
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("configure the explorer's database: %w", err)
	}
	return &Ledger{pool}, nil
}

// Offers implements [explorer.Ledger]: everything.
func (l *Ledger) Offers() explorer.Offers {
	return explorer.Offers{Receipts: true, Members: true, Analytics: true}
}

// Close disconnects.
func (l *Ledger) Close() { l.pool.Close() }

// Read implements [explorer.Ledger].
func (l *Ledger) Read(ctx context.Context, look func(explorer.Moment) error) error {
	return refusalOf(l.Transaction(ctx, func(tx pgx.Tx) error { return look(moment{tx}) }))
}

// Transaction gives look a transaction of the kind that pages read in.
func (l *Ledger) Transaction(ctx context.Context, look func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, l.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, look)
}

// moment is a transaction.
type moment struct{ tx pgx.Tx }

// list reads all rows of a query, whose columns are the fields of T in their order. The query
// bounds their number.
func list[T any](ctx context.Context, tx pgx.Tx, sql string, arguments ...any) ([]T, error) {
	rows, err := tx.Query(ctx, sql, arguments...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// one is the only element, or ErrNone.
func one[T any](found []T, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	if len(found) == 0 {
		return none, explorer.ErrNone
	}
	return found[0], nil
}

// refusalOf words an error of the server; other errors stay.
func refusalOf(err error) error {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return err
	}
	said, reason := wordsOf(server), explorer.Refused
	switch {
	case server.Code == "57014" || server.Code == "55P03" || server.Code == "CH007":
		reason = explorer.TooSlow
	case server.Code == "02000" || server.Code == "42P01":
		reason = explorer.Missing
	case server.Code == "CH002":
		reason = explorer.NotCertified
	case server.Code == "55000":
		reason = explorer.NotYet
	case strings.HasPrefix(server.Code, "22"):
		reason = explorer.NoKey
	case server.Code == "42501" || strings.HasPrefix(server.Code, "28"):
		reason = explorer.NoRight
		said += " The role that explorer.dsn logs in as has to be a member of " + readerRole + "."
	}
	return &explorer.Refusal{Reason: reason, Said: said}
}

// wordsOf are the database's own words.
func wordsOf(server *pgconn.PgError) string {
	return strings.TrimSpace(strings.Join([]string{sentence(server.Message), server.Detail, server.Hint}, " "))
}

// sentence makes one of a PostgreSQL message.
func sentence(message string) string {
	if message == "" {
		return ""
	}
	return strings.ToUpper(message[:1]) + message[1:] + "."
}
