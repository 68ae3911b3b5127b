package mariadb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

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
	var got sql.NullInt64
	err := b.conn.QueryRowContext(ctx, `SELECT GET_LOCK(?, ?), CONNECTION_ID()`, b.name.lock(), lockSeconds).Scan(&got, &b.id)
	if err != nil {
		return fmt.Errorf("lock the database for this node: %w", err)
	}
	if got.Int64 != 1 {
		return errors.New("another node works on this database: it holds its lock")
	}
	if err := claim(ctx, b.conn, b.name, b.cfg.ChainID, b.cfg.Organisation); err != nil {
		return err
	}
	if _, err := b.conn.ExecContext(ctx, b.name.in(captured)); err != nil {
		return fmt.Errorf("prepare to capture changes: %w", err)
	}
	b.known = map[string]*described{}
	if b.session, err = readSession(ctx, b.conn, b.name); err != nil {
		return err
	}
	return b.settleTriggers(ctx, nil)
}

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

const (
	beginBlock    = "XA START 'chainify'"
	endBlock      = "XA END 'chainify'"
	commitBlock   = "XA COMMIT 'chainify' ONE PHASE"
	rollbackBlock = "XA ROLLBACK 'chainify'"
)

// undo rolls back, by disconnecting when the server does not answer. Called with mu held.
func (b *Backend) undo() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	b.open = nil
	if b.conn == nil {
		return
	}
	_, err := b.conn.ExecContext(ctx, endBlock)
	if number := errorNumber(err); err == nil || number == 1402 || number == 1613 || number == 1614 || number == 1399 {
		_, err = b.conn.ExecContext(ctx, rollbackBlock)
	}
	if err == nil {
		_, err = b.conn.ExecContext(ctx, "SET ROLE "+b.name.role())
	}
	if err == nil {
		err = setChecks(ctx, b.conn, true)
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
