// Package postgres implements backend.Backend for PostgreSQL with the extension chainify. It writes
// only through the functions of schema chainify_node (spec/sql-api.md).
//
// One connection executes blocks and holds the advisory lock that keeps a second node off the
// database. A pool of two connections serves all other work while a block is open.
package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// Config says which database, and for which chain.
type Config struct {
	DSN          string // libpq keywords or URL, of one or several servers; a member of chainify_node
	ChainID      string
	Organisation string
	// Registry returns the registries of all blocks so far, for verification in the database. The
	// list only grows. nil, or a nil result: the database gets none.
	Registry func() (*wire.RegistryHistory, error)
	// StuckAfter bounds the time in which one transaction may fail its block again and again;
	// default 60 s.
	StuckAfter time.Duration
	// SynchronousCommit says what a block's COMMIT waits for before others see its rows,
	// PostgreSQL's setting of that name; default on.
	SynchronousCommit string
	// Memory keeps which of the servers is followed; nil: it is forgotten with the process.
	Memory Memory
	// Environment receives the database's environment at each connection; nil: not called. It must
	// not wait.
	Environment func(backend.Environment)
	// OnTheWay has private values for blocks; nil: none has any.
	OnTheWay backend.OnTheWay
	// RehearsalLimit bounds the rehearsal of a transaction; default 2 s.
	RehearsalLimit time.Duration
}

const (
	stuckAfter     = 60 * time.Second
	rehearsalLimit = 2 * time.Second
	cleanupLimit   = 5 * time.Second // for ROLLBACK and disconnecting after something failed
	poolConns      = 2
	lockSpace      = 0x63686679 // "chfy": the advisory lock (lockSpace, lockNode) of the database is the node's
	lockNode       = 1
	certificateBad = "22000"
	outOfTurn      = "55000"
	beyondRepair   = "CH002"
)

// Backend is an organisation's PostgreSQL.
type Backend struct {
	cfg    Config
	config *pgx.ConnConfig // of the block connection
	pool   *pgxpool.Pool
	// rehearsals has connections of its own, that roll back everything.
	rehearsals *rehearsals

	mu   sync.Mutex // guards the block connection; held while it works
	conn *pgx.Conn
	open bool
	// former is the newest block connection, which may have outlived its socket.
	former process

	hosts []host              // of the DSN, for block connections
	at    atomic.Pointer[pin] // the server of the block connection, or the last one
	// seen has the latest state of the servers; watching ends the goroutine that looks.
	seen     atomic.Pointer[backend.Servers]
	watching sync.WaitGroup
	unwatch  context.CancelFunc

	partRows uint64 // as the constant; fewer in tests

	failing failing
	// standing says whether the ledger is shared with other engines, by the database's last answer
	// on this connection; empty: not known.
	standing string
	// shared is the last known result of standing, also after a lost connection.
	shared atomic.Bool
	// scrubbedFor is the last block that met a damaged row. All tables are scrubbed once for each
	// such block.
	scrubbedFor uint64

	// told is the history of registries that the database has; nil: not known.
	told atomic.Pointer[wire.RegistryHistory]
}

// process names a backend process of a server.
type process struct {
	host string
	pid  uint32
}

var (
	_ backend.Backend   = (*Backend)(nil)
	_ backend.OfEngines = (*Backend)(nil)
)

// New prepares a backend; the first Position connects.
func New(cfg Config) (*Backend, error) {
	if cfg.StuckAfter == 0 {
		cfg.StuckAfter = stuckAfter
	}
	if cfg.RehearsalLimit == 0 {
		cfg.RehearsalLimit = rehearsalLimit
	}
	if cfg.Memory == nil {
		cfg.Memory = &processMemory{}
	}
	if cfg.StuckAfter < 0 {
		return nil, errors.New("configure database: a limit is not positive")
	}
	pooled, err := pgxpool.ParseConfig(cfg.DSN)
	if err != nil {
		return nil, fmt.Errorf("configure database: %w", err)
	}
	pooled.MaxConns, pooled.MinConns = poolConns, 0
	settle(&pooled.ConnConfig.Config)
	b := &Backend{cfg: cfg, config: pooled.ConnConfig.Copy(), unwatch: func() {}, partRows: partRows}
	pooled.BeforeConnect, pooled.AfterConnect = b.toPinned, b.isPinned
	pool, err := pgxpool.NewWithConfig(context.Background(), pooled)
	if err != nil {
		return nil, fmt.Errorf("configure database: %w", err)
	}
	b.pool = pool
	b.config.RuntimeParams["synchronous_commit"] = cmp.Or(cfg.SynchronousCommit, "on")
	if b.rehearsals, err = newRehearsals(pooled, cfg.RehearsalLimit); err != nil {
		pool.Close()
		return nil, fmt.Errorf("configure database: %w", err)
	}
	// Cancelling an execution must cancel the statement, not cut the connection and the lock with
	// it.
	b.config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cleanupLimit}
	}
	if b.hosts, err = hostsOf(b.config); err != nil {
		_ = b.Close()
		return nil, fmt.Errorf("configure database: %w", err)
	}
	if len(b.hosts) > 1 {
		var watch context.Context
		watch, b.unwatch = context.WithCancel(context.Background())
		b.watching.Go(func() { b.watchServers(watch) })
	}
	return b, nil
}

// settle sets on all connections the settings that the node needs, over the defaults of server,
// database and role. Rows written on other connections than that for blocks (certificates, the
// registry, records of deviations) are written again after a crash of the server, so they do not
// wait for the disk.
func settle(c *pgconn.Config) {
	for k, v := range map[string]string{
		"application_name":                    "chainify node",
		"search_path":                         "pg_catalog, pg_temp", // whatever role and database have: X11
		"synchronous_commit":                  "off",
		"default_transaction_read_only":       "off", // as in an alarm about a full disk
		"default_transaction_isolation":       "read committed",
		"default_transaction_deferrable":      "off",
		"exit_on_error":                       "off",
		"row_security":                        "on",
		"client_encoding":                     "UTF8",
		"lock_timeout":                        "0",
		"statement_timeout":                   "0",
		"idle_session_timeout":                "0",
		"idle_in_transaction_session_timeout": "0",
	} {
		c.RuntimeParams[k] = v
	}
	EndWithMachine(c)
	c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite // a standby takes no blocks
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		_, err := conn.Exec(ctx, settleNewer).ReadAll()
		return err
	}
}

// settleNewer sets a setting of newer majors. settle cannot, since PostgreSQL 15 refuses a
// connection that names it. A settings view would take memory or a temporary file, which a server
// may refuse.
const settleNewer = `SELECT pg_catalog.set_config('transaction_timeout', '0', false) WHERE pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL`

// Position reads the last committed block; it connects first when there is no block connection.
func (b *Backend) Position(ctx context.Context) (backend.Position, error) {
	if b.mu.TryLock() { // otherwise a block is at work, and connected
		err := b.reconnect(ctx)
		b.mu.Unlock()
		if err != nil {
			return backend.Position{}, err
		}
	}
	var number, certified, anewUntil int64
	var hash []byte
	var deviates bool
	var falseBlocks []int64
	err := b.pool.QueryRow(ctx, `SELECT number, hash, certified, deviates, false_blocks, anew_until FROM chainify_node.position()`).
		Scan(&number, &hash, &certified, &deviates, &falseBlocks, &anewUntil)
	if err != nil {
		return backend.Position{}, fmt.Errorf("read position: %w", err)
	}
	p := backend.Position{Number: uint64(number), Certified: uint64(certified), Deviates: deviates, AnewUntil: uint64(anewUntil)}
	for _, n := range falseBlocks {
		p.FalseBlocks = append(p.FalseBlocks, uint64(n))
	}
	p.Hash, err = hashOf(hash)
	return p, err
}

// Outcomes looks transactions up among the committed blocks.
func (b *Backend) Outcomes(ctx context.Context, ids []wire.TxID) ([]wire.TxResult, error) {
	raw := make([][]byte, len(ids))
	for i := range ids {
		raw[i] = ids[i][:]
	}
	rows, err := b.pool.Query(ctx,
		`SELECT DISTINCT ON (id) id, block, index, outcome, rows, coalesce(sqlstate, ''), coalesce(error, '')
		 FROM chainify.transactions WHERE id = ANY($1) ORDER BY id, block`, raw)
	if err != nil {
		return nil, fmt.Errorf("look up %d transactions: %w", len(ids), err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r wire.TxResult, err error) {
		var id []byte
		var block, index int64
		if err = row.Scan(&id, &block, &index, &r.Succeeded, &r.Rows, &r.SQLState, &r.Message); err != nil {
			return r, err
		}
		r.Block, r.Index = uint64(block), uint32(index)
		r.ID, err = hashOf(id)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("look up %d transactions: %w", len(ids), err)
	}
	return found, nil
}

// Inspect returns the database's health.
func (b *Backend) Inspect(ctx context.Context) (backend.Health, error) {
	var h backend.Health
	var age, interval float64
	err := b.pool.QueryRow(ctx, `
		SELECT (SELECT count(DISTINCT id) FROM chainify.deviations WHERE cured_by IS NULL),
		       (SELECT coalesce(extract(epoch FROM clock_timestamp() - min(coalesce(t.scrubbed_at, l.block_time))), 0)
		        FROM chainify.tables t LEFT JOIN chainify.ledger l ON l.number = t.attached_at),
		       CASE WHEN current_setting('chainify.scrub_rate')::integer > 0
		            THEN extract(epoch FROM current_setting('chainify.scrub_interval')::interval) ELSE 0 END`,
	).Scan(&h.Deviations, &age, &interval)
	if err != nil {
		return h, fmt.Errorf("inspect database: %w", err)
	}
	h.ScrubAge, h.ScrubInterval = time.Duration(age*float64(time.Second)), time.Duration(interval*float64(time.Second))
	return h, nil
}

// Mirrors implements [backend.Inspector]. Without mirrors it asks no worker.
func (b *Backend) Mirrors(ctx context.Context) (backend.Mirrors, error) {
	var m backend.Mirrors
	err := b.pool.QueryRow(ctx, `SELECT count(*) FROM chainify.mirrored_tables`).Scan(&m.Wanted)
	if err == nil && m.Wanted > 0 {
		err = b.pool.QueryRow(ctx, `
			SELECT m.*, s.* FROM
				(SELECT count(*) FILTER (WHERE state = 'serving'), coalesce(max(lag), 0), coalesce(sum(bytes), 0)::bigint FROM chainify.mirrors) m,
				(SELECT count(*) FILTER (WHERE pinned), count(*) FILTER (WHERE NOT pinned), coalesce(sum(readers), 0)::bigint FROM chainify.snapshots) s`).
			Scan(&m.Serving, &m.Lag, &m.Bytes, &m.Pinned, &m.Recent, &m.Readers)
	}
	if err != nil {
		return m, fmt.Errorf("inspect mirrors: %w", err)
	}
	return m, nil
}

// StoreCertificate keeps a certificate beside its block, on a connection of its own: an open block
// stays open.
func (b *Backend) StoreCertificate(ctx context.Context, c wire.Certificate) error {
	votes, err := json.Marshal(wire.VotesJSON(c.Votes))
	if err != nil {
		return fmt.Errorf("store certificate %d: %w", c.Number, err)
	}
	if err := b.tellRegistry(ctx, b.pool); err != nil {
		return fmt.Errorf("store certificate %d: %w", c.Number, err)
	}
	_, err = b.pool.Exec(ctx, `SELECT chainify_node.store_certificate($1, $2, $3, $4::jsonb)`,
		int64(c.Number), int32(c.Round), c.Hash[:], string(votes))
	if sqlState(err) == certificateBad {
		return fmt.Errorf("store certificate %d: %w: %w", c.Number, backend.ErrBeyondRepair, err)
	}
	if err != nil {
		return fmt.Errorf("store certificate %d: %w", c.Number, err)
	}
	return nil
}

// execer is a connection or a pool of them.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// tellRegistry gives the database the history of registries, which verification needs, unless it
// has the newest. It must not run in the transaction of a block, which may be rolled back.
func (b *Backend) tellRegistry(ctx context.Context, on execer) error {
	if b.cfg.Registry == nil {
		return nil
	}
	history, err := b.cfg.Registry()
	if err != nil {
		return fmt.Errorf("tell the registry: %w", err)
	}
	if b.told.Load() == history {
		return nil
	}
	text, err := json.Marshal(history)
	if err != nil {
		return fmt.Errorf("encode the registry: %w", err)
	}
	if _, err := on.Exec(ctx, `SELECT chainify_node.set_registry($1::jsonb)`, string(text)); err != nil {
		return fmt.Errorf("tell the registry: %w", err)
	}
	b.told.Store(history)
	return nil
}

// RecordDeviation completes the record of a deviation that was cured.
func (b *Backend) RecordDeviation(ctx context.Context, number uint64, expected, found wire.Hash, curedBy string, took time.Duration) error {
	var seen []byte
	if found != (wire.Hash{}) {
		seen = found[:]
	}
	_, err := b.pool.Exec(ctx, `SELECT chainify_node.record_deviation($1, $2, $3, $4, $5)`,
		int64(number), expected[:], seen, curedBy, took)
	if err != nil {
		return fmt.Errorf("record deviation at block %d: %w", number, err)
	}
	return nil
}

// Close rolls back and disconnects.
func (b *Backend) Close() error {
	b.unwatch()
	b.watching.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
	b.pool.Close()
	b.rehearsals.close()
	return nil
}

func hashOf(raw []byte) (wire.Hash, error) {
	if len(raw) != len(wire.Hash{}) {
		return wire.Hash{}, fmt.Errorf("hash is %d bytes, want %d", len(raw), len(wire.Hash{}))
	}
	return wire.Hash(raw), nil
}

func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
