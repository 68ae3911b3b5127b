// Package mariadb implements backend.Backend for MariaDB 10.11, which has no extension of ours. The
// node captures the changes of a block by triggers, and computes their hashes itself
// (spec/engines.md).
//
// One connection executes blocks in an XA transaction, which DDL and COMMIT cannot end, and holds
// the lock that keeps a second node off the database. A pool of connections serves all other work
// while a block is open.
package mariadb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// Config says which database, and for which chain.
type Config struct {
	// DSN is a URL with Scheme. The database holds the tables of schema public; Install made the
	// ledger's own beside it.
	DSN          string
	ChainID      string
	Organisation string
	// StuckAfter bounds for how long one transaction may bring the block down time after time;
	// default 60 s.
	StuckAfter time.Duration
	// Scrubbing and Checkpoints are what Maintain does.
	Scrubbing   Scrubbing
	Checkpoints Checkpoints
}

const (
	stuckAfter   = 60 * time.Second
	cleanupLimit = 5 * time.Second // for rolling back and disconnecting after something failed
	lockSeconds  = 5               // for which a node waits for the lock of a lost connection of its own
	poolConns    = 8
	outcomesMax  = 1_000 // transactions that one query looks up
)

// Backend is an organisation's MariaDB.
type Backend struct {
	cfg  Config
	name names
	pool *sql.DB

	forgot time.Time // when answers were last looked through; of the caller of Asked

	bases sync.Mutex // held while the bases of tables move, and by repairs; taken after mu

	mu     sync.Mutex // guards the block connection; held while it works
	conn   *sql.Conn
	id     int64 // of the block connection at the server
	xid    xid   // of its transactions
	lock   string
	open   *run // the executed block
	failed failing
	// carefully is a block whose transactions run one at a time, since it failed while several
	// were at work.
	carefully uint64
	known     map[string]*described // tables, while the server's words for them stay
	guarded   map[string]bool       // tables with the ledger's triggers
	beyond    []string              // those of them that are not on the ledger, and other triggers to drop
	session   *session              // settings when the connection was made
}

var (
	_ backend.Backend    = (*Backend)(nil)
	_ backend.Inspector  = (*Backend)(nil)
	_ backend.Maintainer = (*Backend)(nil)
	_ backend.Desk       = (*Backend)(nil)
	_ backend.OfEngines  = (*Backend)(nil)
)

// Shared implements backend.OfEngines: no ledger of a MariaDB is another.
func (b *Backend) Shared() bool { return true }

// New prepares a backend; the first Position connects.
func New(cfg Config) (*Backend, error) {
	if cfg.StuckAfter == 0 {
		cfg.StuckAfter = stuckAfter
	}
	pool, name, err := openPool(cfg.DSN)
	if err != nil {
		return nil, fmt.Errorf("configure database: %w", err)
	}
	pool.SetMaxOpenConns(poolConns)
	return &Backend{cfg: cfg, name: name, pool: pool}, nil
}

// modes makes MariaDB read and check statements as spec/engines.md has it.
const modes = "ANSI_QUOTES,PIPES_AS_CONCAT,IGNORE_SPACE,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_ZERO_DATE," +
	"NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,ONLY_FULL_GROUP_BY,NO_UNSIGNED_SUBTRACTION,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION," +
	"SIMULTANEOUS_ASSIGNMENT,TIME_ROUND_FRACTIONAL"

// sessionSettings hold for every connection, whatever the server's own are.
var sessionSettings = map[string]string{
	"sql_mode":                 "'" + modes + "'",
	"time_zone":                "'+00:00'",
	"innodb_lock_wait_timeout": "100000", // the budget of the block ends a wait
	"lock_wait_timeout":        "100000",
	"collation_connection":     "utf8mb4_nopad_bin",
	"autocommit":               "1",
	"foreign_key_checks":       "1",
	"unique_checks":            "1",
	"check_constraint_checks":  "1",
	"sql_safe_updates":         "0",
	"sql_auto_is_null":         "0",
	"max_statement_time":       "0",
	"idle_transaction_timeout": "0", // an open block waits for the others' votes
	"wait_timeout":             "31536000",
	// These reach the values that a procedure's body computes.
	"div_precision_increment":  "4",
	"default_week_format":      "0",
	"lc_time_names":            "'en_US'",
	"max_recursive_iterations": "1000",
	"sql_select_limit":         "18446744073709551615",
	"sql_big_selects":          "1",
}

// transactionMode is a statement, since the setting has another name in newer releases.
const transactionMode = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, "

// openPool settles what every connection needs.
func openPool(dsn string) (*sql.DB, names, error) {
	c, name, err := parseDSN(dsn)
	if err != nil {
		return nil, names{}, err
	}
	c.DBName = "" // a role gives the right to it, later
	c.ClientFoundRows = true
	c.Params = sessionSettings
	_ = c.Apply(mysql.Charset("utf8mb4", "")) // the driver knows no collation of MariaDB's own
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, names{}, err
	}
	return sql.OpenDB(roleConnector{connector, name.role(), "READ WRITE"}), name, nil
}

// roleConnector gives each connection the rights of a role, and the ledger's isolation.
type roleConnector struct {
	driver.Connector
	role   string // quoted
	access string // READ WRITE or READ ONLY
}

// Connect implements driver.Connector.
func (c roleConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{"SET ROLE " + c.role, transactionMode + c.access} {
		if _, err = conn.(driver.ExecerContext).ExecContext(ctx, statement, nil); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("take the ledger's role and isolation: %s: %w", statement, err)
		}
	}
	return conn, nil
}

// Position reads the last committed block; it connects first when there is no block connection.
func (b *Backend) Position(ctx context.Context) (backend.Position, error) {
	if b.mu.TryLock() { // otherwise a block is at work, and connected
		err := b.reconnect(ctx)
		b.mu.Unlock()
		if err != nil {
			return backend.Position{}, err
		}
	}
	p, err := readPosition(ctx, b.pool, b.name)
	if err == nil {
		p.FalseBlocks, err = falseBlocks(ctx, b.pool, b.name)
	}
	if err != nil {
		return p, fmt.Errorf("read position: %w", err)
	}
	return p, nil
}

// querier is a connection or a pool of them.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func readPosition(ctx context.Context, q querier, name names) (backend.Position, error) {
	var p backend.Position
	var hash []byte
	err := q.QueryRowContext(ctx, name.in(`SELECT c.deviates, coalesce((SELECT max(number) FROM %L.certificate), 0), coalesce(b.number, 0), b.hash
		FROM %L.chain c LEFT JOIN %L.block b ON b.number = (SELECT max(number) FROM %L.block)`)).Scan(&p.Deviates, &p.Certified, &p.Number, &hash)
	if err == nil && p.Number > 0 {
		p.Hash, err = hashOf(hash)
	}
	return p, err
}

// Outcomes looks transactions up among the committed blocks.
func (b *Backend) Outcomes(ctx context.Context, ids []wire.TxID) ([]wire.TxResult, error) {
	found := map[wire.TxID]wire.TxResult{}
	for len(ids) > 0 {
		some := ids[:min(len(ids), outcomesMax)]
		ids = ids[len(some):]
		texts := make([]string, len(some))
		for i := range some {
			texts[i] = "x'" + hex.EncodeToString(some[i][:]) + "'"
		}
		rows, err := b.pool.QueryContext(ctx, b.name.in(`SELECT id, block, place, outcome, row_count, sql_state, error
			FROM %L.transaction WHERE id IN (`)+strings.Join(texts, ",")+")")
		if err != nil {
			return nil, fmt.Errorf("look up transactions: %w", err)
		}
		err = each(rows, func() error {
			var r wire.TxResult
			var id []byte
			if err := rows.Scan(&id, &r.Block, &r.Index, &r.Succeeded, &r.Rows, &r.SQLState, &r.Message); err != nil {
				return err
			}
			var err error
			if r.ID, err = hashOf(id); err == nil {
				found[r.ID] = r
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look up transactions: %w", err)
		}
	}
	out := make([]wire.TxResult, 0, len(found))
	for _, r := range found {
		out = append(out, r)
	}
	return out, nil
}

// each calls f for each row, and closes them.
func each(rows *sql.Rows, f func() error) error {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// StoreCertificate keeps a certificate beside its block, on a connection of the pool.
func (b *Backend) StoreCertificate(ctx context.Context, c wire.Certificate) error {
	votes, err := json.Marshal(wire.VotesJSON(c.Votes))
	if err != nil {
		return fmt.Errorf("store certificate %d: %w", c.Number, err)
	}
	var hash []byte
	err = b.pool.QueryRowContext(ctx, b.name.in(`SELECT hash FROM %L.block WHERE number = ?`), c.Number).Scan(&hash)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = backend.ErrOutOfTurn
	case err == nil && string(hash) != string(c.Hash[:]):
		err = backend.ErrBeyondRepair
	case err == nil:
		_, err = b.pool.ExecContext(ctx, b.name.in(`INSERT IGNORE INTO %L.certificate (number, effect_round, hash, votes) VALUES (?, ?, ?, ?)`),
			c.Number, c.Round, c.Hash[:], string(votes))
	}
	if err != nil {
		return fmt.Errorf("store certificate %d: %w", c.Number, err)
	}
	return nil
}

// Close rolls back and disconnects.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
	return b.pool.Close()
}

func hashOf(raw []byte) (wire.Hash, error) {
	if len(raw) != len(wire.Hash{}) {
		return wire.Hash{}, fmt.Errorf("hash is %d bytes, want %d", len(raw), len(wire.Hash{}))
	}
	return wire.Hash(raw), nil
}
