package mariadb

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

var errNotConnected = errors.New("no connection for blocks")

// openAdministrator is a pool without a role of the ledger's.
func openAdministrator(dsn string) (*sql.DB, names, error) {
	c, name, err := parseDSN(dsn)
	if err != nil {
		return nil, names{}, err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, names{}, err
	}
	return sql.OpenDB(connector), name, nil
}

// captured is the session's own list of changed rows. Triggers write it, so a session without it
// changes no ledger table.
const captured = `CREATE OR REPLACE TEMPORARY TABLE %L.captured (seq BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(127) NOT NULL,
	op CHAR(1) CHARACTER SET ascii NOT NULL, before_row LONGBLOB, after_row LONGBLOB) ENGINE=InnoDB`

// reconnect makes sure of a block connection that has the lock, also where the former one was lost
// while it rested. Called with mu held.
func (b *Backend) reconnect(ctx context.Context) error {
	if b.conn != nil {
		if b.conn.PingContext(ctx) == nil {
			return nil
		}
		b.drop()
	}
	conn, err := b.pool.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	b.conn = conn
	if err := b.settle(ctx); err != nil {
		b.drop()
		return err
	}
	return nil
}

// settle takes the lock, names the chain and brings the triggers to those of the ledger tables.
func (b *Backend) settle(ctx context.Context) error {
	var err error
	if b.lock, err = readLock(ctx, b.conn, b.name); err != nil {
		return err
	}
	if b.xid, err = newXID(); err != nil {
		return err
	}
	var got sql.NullInt64
	var packet int64
	err = b.conn.QueryRowContext(ctx, `SELECT GET_LOCK(?, ?), CONNECTION_ID(), @@max_allowed_packet`, b.lock, lockSeconds).Scan(&got, &b.id, &packet)
	if err != nil {
		return fmt.Errorf("lock the database for this node: %w", err)
	}
	if got.Int64 != 1 {
		return errors.New("another node works on this database: it holds its lock")
	}
	if packet < packetLeast { // a text that grows beyond it turns into NULL, and no error tells
		return fmt.Errorf("max_allowed_packet is %d: want 1G in the server's configuration", packet)
	}
	if err := claim(ctx, b.conn, b.name, b.cfg.ChainID, b.cfg.Organisation); err != nil {
		return err
	}
	if _, err := b.conn.ExecContext(ctx, b.name.in(captured)); err != nil {
		return fmt.Errorf("prepare to capture changes: %w", err)
	}
	if b.session, err = readSession(ctx, b.conn, b.lock); err != nil {
		return err
	}
	return b.settleTriggers(ctx, nil)
}

// readLock is the name of the node's lock. Names of locks are the server's: any login could hold
// one that it can guess, and keep the node out.
func readLock(ctx context.Context, q querier, name names) (string, error) {
	var secret [16]byte
	_, err := rand.Read(secret[:])
	if err == nil {
		_, err = q.ExecContext(ctx, name.in(`INSERT IGNORE INTO %L.lock_name (only_one, secret) VALUES (1, ?)`), secret[:])
	}
	var kept []byte
	if err == nil {
		err = q.QueryRowContext(ctx, name.in(`SELECT secret FROM %L.lock_name`)).Scan(&kept)
	}
	if errorNumber(err) == errNoSuchTable {
		err = fmt.Errorf("repeat chainify install-mariadb: %w", err)
	}
	if err != nil {
		return "", fmt.Errorf("name the lock of this node: %w", err)
	}
	sum := sha256.Sum256(append([]byte(name.ledger()+" "), kept...)) // a copy of the ledger may be beside it
	return "chainify " + hex.EncodeToString(sum[:16]), nil
}

const errNoSuchTable = 1146

// drop ends the block connection; the server rolls back what was open. Called with mu held.
func (b *Backend) drop() {
	if b.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	_ = b.conn.Raw(func(any) error { return driver.ErrBadConn }) // so that the pool closes it
	_ = b.conn.Close()
	if b.id != 0 { // it may still work for us behind the closed socket
		_, _ = b.pool.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", b.id))
	}
	b.conn, b.open, b.id = nil, nil, 0
}

// ready makes sure of a connection without an open block. Called with mu held.
func (b *Backend) ready() error {
	if b.open != nil {
		b.undo()
	}
	if b.conn == nil {
		return errNotConnected
	}
	return nil
}

// xid names the transactions of one connection. Such names are the server's as well.
type xid string

func newXID() (xid, error) {
	var random [16]byte
	_, err := rand.Read(random[:])
	return xid(hexLiteral(random[:])), err
}

func (x xid) start() string    { return "XA START " + string(x) }
func (x xid) end() string      { return "XA END " + string(x) }
func (x xid) commit() string   { return "XA COMMIT " + string(x) + " ONE PHASE" }
func (x xid) rollback() string { return "XA ROLLBACK " + string(x) }

// Times of sessions that hold rows which a block needs.
const (
	conflictGrace = 500 * time.Millisecond // as PostgreSQL's chainify.conflict_grace
	conflictLook  = 200 * time.Millisecond
)

// watch ends sessions that hold up the block connection until its result is called.
func (b *Backend) watch() func() {
	ctx, cancel := context.WithCancel(context.Background())
	done, id := make(chan struct{}), b.id
	go func() {
		defer close(done)
		for sleep(ctx, conflictLook) {
			// An error is the server's, which the block meets too, or an old installation's.
			_, _ = b.pool.ExecContext(ctx, b.name.in("CALL %L.end_holders(?, ?)"), id, conflictGrace.Microseconds())
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// undo rolls back, by disconnecting when the server does not answer. Called with mu held.
func (b *Backend) undo() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	b.open = nil
	if b.conn == nil {
		return
	}
	_, err := b.conn.ExecContext(ctx, b.xid.end())
	if number := errorNumber(err); err == nil || number == 1402 || number == 1613 || number == 1614 || number == 1399 {
		_, err = b.conn.ExecContext(ctx, b.xid.rollback())
	}
	if err == nil {
		_, err = b.conn.ExecContext(ctx, "SET ROLE "+b.name.role())
	}
	if err == nil {
		err = checkAll.set(ctx, b.conn)
	}
	if err != nil {
		b.drop()
	}
}

// errorNumber is that of an error of the server, or 0.
func errorNumber(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}
