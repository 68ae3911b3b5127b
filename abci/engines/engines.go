// Package engines opens an organisation's database, PostgreSQL or MariaDB. It alone asks which
// engine that is. All other packages use the interfaces of package backend.
package engines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/mariadb"
	"github.com/chainify-db/chainify/abci/backend/postgres"
	"github.com/chainify-db/chainify/abci/backend/postgres/pages"
	"github.com/chainify-db/chainify/abci/explorer"
	"github.com/chainify-db/chainify/abci/wire"
)

// Options say which database, and for which chain. An engine ignores options of the other.
type Options struct {
	// DSN names the engine: mysql://… a MariaDB, everything else is libpq's.
	DSN                   string
	ChainID, Organisation string
	StuckAfter            time.Duration
	// SynchronousCommit, Registry, Environment, OnTheWay and Memory are PostgreSQL's
	// (postgres.Config).
	SynchronousCommit string
	Registry          func() (*wire.RegistryHistory, error)
	Environment       func(backend.Environment)
	OnTheWay          backend.OnTheWay
	Memory            postgres.Memory
	// Scrubbing and Checkpoints are MariaDB's; PostgreSQL does this work by itself, as its settings
	// say.
	Scrubbing   mariadb.Scrubbing
	Checkpoints mariadb.Checkpoints
}

// synchronousCommitDefault is the one value that a MariaDB takes.
const synchronousCommitDefault = "on"

// Open prepares the database; the first Position connects. Errors are about the options.
func Open(o Options) (backend.Backend, error) {
	if !isMariaDB(o.DSN) {
		return opened(postgres.New(postgres.Config{
			DSN: o.DSN, ChainID: o.ChainID, Organisation: o.Organisation, StuckAfter: o.StuckAfter,
			SynchronousCommit: o.SynchronousCommit, Memory: o.Memory, Registry: o.Registry, Environment: o.Environment, OnTheWay: o.OnTheWay,
		}))
	}
	if o.SynchronousCommit != synchronousCommitDefault {
		return nil, errors.New("database.synchronous_commit: is PostgreSQL's; for MariaDB leave it at \"on\", and set innodb_flush_log_at_trx_commit in the server")
	}
	return opened(mariadb.New(mariadb.Config{
		DSN: o.DSN, ChainID: o.ChainID, Organisation: o.Organisation, StuckAfter: o.StuckAfter, Scrubbing: o.Scrubbing, Checkpoints: o.Checkpoints,
	}))
}

// opened drops the pointer of a backend that is none.
func opened[B backend.Backend](b B, err error) (backend.Backend, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

func isMariaDB(dsn string) bool { return strings.HasPrefix(dsn, mariadb.Scheme) }

// HasStandbys says whether a DSN names several servers.
func HasStandbys(dsn string) bool { return !isMariaDB(dsn) && postgres.HasStandbys(dsn) }

// Needs is the error of something that the engine of a DSN does not offer; nil: it does.
// PostgreSQL offers everything.
func Needs(dsn, what string) error {
	if !isMariaDB(dsn) {
		return nil
	}
	return fmt.Errorf("%s needs PostgreSQL, and this organisation's database is a MariaDB", what)
}

// Offered are those of the configured steps of recovery that the engine of a DSN has; an error when
// there is none.
func Offered(dsn string, steps []backend.Step) ([]backend.Step, error) {
	if !isMariaDB(dsn) {
		return steps, nil
	}
	lacks := []backend.Step{backend.Reindex, backend.Full}
	offered := slices.DeleteFunc(slices.Clone(steps), func(s backend.Step) bool { return slices.Contains(lacks, s) })
	if len(offered) == 0 {
		return nil, errors.New("recovery.steps: MariaDB offers neither reindex nor full, so that nothing could be repaired")
	}
	return offered, nil
}

// Verify reads the whole ledger of a database and tells each what does not hold. authorities are
// whose votes count; nil: those of a MariaDB's certificates are not checked. PostgreSQL takes none:
// it checks votes itself, with the registry that its node told it.
func Verify(ctx context.Context, dsn string, authorities audit.Authorities, each func(backend.Finding) error) error {
	if isMariaDB(dsn) {
		return mariadb.Verify(ctx, dsn, authorities, each)
	}
	if authorities != nil {
		return errors.New("PostgreSQL checks votes with the registry that its node told it, and takes no genesis")
	}
	return postgres.Verify(ctx, dsn, each)
}

// Pages opens a database for the explorer; the first question connects. Errors are about the DSN.
func Pages(dsn string) (explorer.Ledger, error) {
	if isMariaDB(dsn) {
		return mariadb.OpenPages(dsn)
	}
	return pages.Open(dsn)
}

// ExaminePages checks for an operator that the explorer can read; false: the engine's checks are
// those of package doctor.
func ExaminePages(ctx context.Context, dsn string) (backend.Condition, bool) {
	if !isMariaDB(dsn) {
		return backend.Condition{}, false
	}
	return mariadb.ExaminePages(ctx, dsn), true
}

// Examine checks a database for its operator; false: the engine's checks are those of package
// doctor.
func Examine(ctx context.Context, dsn string) ([]backend.Condition, bool) {
	if !isMariaDB(dsn) {
		return nil, false
	}
	return mariadb.Examine(ctx, dsn), true
}
