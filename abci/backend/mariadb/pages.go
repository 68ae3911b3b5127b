package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/explorer"
)

const (
	pagesConns          = 4
	pagesIdle           = 5 * time.Minute
	pagesSeconds        = "5" // for which one statement may run
	certificatesCounted = 100 // in which organisations are looked for
)

// Pages is the ledger as the explorer reads it: as the reader's role, in read-only transactions
// with limits. Safe for concurrent use.
type Pages struct {
	pool *sql.DB
	name names
}

var _ explorer.Ledger = (*Pages)(nil)

// OpenPages prepares it; the first question connects. dsn is of a user with the role NAME_reader:
// all is read with the rights of that role alone. Errors are about dsn.
func OpenPages(dsn string) (*Pages, error) {
	c, name, err := parseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("configure the explorer's database: %w", err)
	}
	c.DBName = ""
	c.ParseTime = true
	c.Params = maps.Clone(sessionSettings)
	maps.Copy(c.Params, map[string]string{"max_statement_time": pagesSeconds, "innodb_lock_wait_timeout": "1", "lock_wait_timeout": "1"})
	_ = c.Apply(mysql.Charset("utf8mb4", ""))
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("configure the explorer's database: %w", err)
	}
	pool := sql.OpenDB(roleConnector{connector, name.reader(), "READ ONLY"})
	pool.SetMaxOpenConns(pagesConns)
	pool.SetConnMaxIdleTime(pagesIdle)
	return &Pages{pool, name}, nil
}

// Offers implements [explorer.Ledger]: no receipts, no list of members, no analytics worker.
func (p *Pages) Offers() explorer.Offers { return explorer.Offers{} }

// Close disconnects.
func (p *Pages) Close() { _ = p.pool.Close() }

// Read implements [explorer.Ledger]. look sees one snapshot.
func (p *Pages) Read(ctx context.Context, look func(explorer.Moment) error) error {
	tx, err := p.pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err == nil {
		err = look(&pagesMoment{tx, p.name})
		_ = tx.Rollback() // it wrote nothing
	}
	return p.refusalOf(err)
}

// refusalOf words an error of the server; other errors stay.
func (p *Pages) refusalOf(err error) error {
	var server *mysql.MySQLError
	if !errors.As(err, &server) {
		return err
	}
	r := &explorer.Refusal{Said: server.Message + "."}
	switch server.Number {
	case 1969, 1205, 1213: // the limit of a statement, a lock, a deadlock
		r.Reason = explorer.TooSlow
	case 1044, 1045, 1142, 1143, 1698, 1959:
		r.Reason = explorer.NoRight
		r.Said += " The user that explorer.dsn logs in as has to have the role " + p.name.reader() + ": chainify install-mariadb makes it."
	}
	return r
}

// ExaminePages checks for an operator that pages can read. It changes nothing.
func ExaminePages(ctx context.Context, dsn string) backend.Condition {
	const check = "explorer"
	p, err := OpenPages(dsn)
	if err != nil {
		return backend.Condition{Level: backend.Bad, Check: check, Found: reason(err), Mend: "Correct explorer.dsn: docs/operator/mariadb.md."}
	}
	defer p.Close()
	err = p.Read(ctx, func(m explorer.Moment) error {
		_, err := m.Blocks(ctx, 0, 1)
		return err
	})
	var refused *explorer.Refusal
	switch {
	case errors.As(err, &refused):
		return backend.Condition{Level: backend.Bad, Check: check, Found: refused.Said, Mend: "As an administrator: chainify install-mariadb, and GRANT " + p.name.reader() + " to the user of explorer.dsn."}
	case err != nil:
		return backend.Condition{Level: backend.Bad, Check: check, Found: reason(err), Mend: mendOf(err)}
	}
	return backend.Condition{Level: backend.Good, Check: check, Found: "reads as " + p.name.reader()}
}
