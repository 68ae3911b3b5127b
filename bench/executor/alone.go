package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/workload"
)

// Alone is one executor with a cluster of its own. Nothing is ordered and nothing is agreed.
type Alone struct {
	network *harness.Network
	site    *site
}

// OpenAlone makes the cluster, with the workloads' tables on the ledger. The caller ends it with
// Close, also after an error.
func OpenAlone(ctx context.Context, dir, pg string, settings map[string]string, of ...workload.Schema) (*Alone, error) {
	network, err := harness.New(ctx, harness.Config{Dir: dir, PG: pg, Database: database, Organisations: []string{"alone"}})
	if err != nil {
		return nil, err
	}
	a := &Alone{network: network}
	alone := network.Organisations[0]
	if err := errors.Join(alone.Cluster.Configure(settings), alone.Cluster.Configure(map[string]string{"shared_preload_libraries": "'chainify'"})); err != nil {
		return a, err
	}
	if err := network.StartDatabases(ctx); err != nil {
		return a, err
	}
	if a.site, err = prepare(ctx, alone, of, ledgerRoles); err != nil {
		return a, err
	}
	_, err = a.site.chain(ctx)
	return a, err
}

// Renew begins another session for the blocks to come, as a node that starts does: what its plans
// are made for is what the tables hold now.
func (a *Alone) Renew(ctx context.Context) error {
	c, err := a.site.chain(ctx)
	if err != nil {
		return err
	}
	if err := c.conn.Close(ctx); err != nil {
		return err
	}
	if c.conn, err = a.site.organisation.Cluster.Connect(ctx, database, harness.NodeRole); err != nil {
		return err
	}
	// As nodes do, whose block store is what is durable.
	_, err = c.conn.Exec(ctx, "SET synchronous_commit = off")
	return err
}

// Maintain has the database's maintenance worker run beside the blocks, as it does beside a node.
// The session that it returns stands for the node: the worker ends after it.
func (a *Alone) Maintain(ctx context.Context) (*pgx.Conn, error) {
	c, err := a.site.chain(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := a.Connect(ctx, harness.NodeRole)
	if err != nil {
		return nil, err
	}
	var locked bool
	err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", nodeLock[0], nodeLock[1]).Scan(&locked)
	if err == nil && !locked {
		err = errors.New("the database has a node")
	}
	if err == nil {
		_, err = conn.Exec(ctx, "SELECT chainify_node.init($1, $2, NULL)", c.author.ChainID, c.author.Organisation)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("maintain the database: %w", err), conn.Close(ctx))
	}
	return conn, nil
}

// nodeLock is the advisory lock of a database's node (spec/sql-api.md).
var nodeLock = [2]int32{0x63686679, 1}

// Vacuum does, before a measurement, what autovacuum would have done since the last.
func (a *Alone) Vacuum(ctx context.Context) error {
	for _, table := range a.site.tables {
		if _, err := a.site.conn.Exec(ctx, "VACUUM (ANALYZE) "+table); err != nil {
			return fmt.Errorf("vacuum %s: %w", table, err)
		}
	}
	// History only grows: there is nothing to vacuum, but the planner has to know its size.
	return a.analyzeHistories(ctx)
}

func (a *Alone) analyzeHistories(ctx context.Context) error {
	rows, err := a.site.conn.Query(ctx, `SELECT format('%I.%I', relnamespace::regnamespace, relname) FROM pg_class WHERE relnamespace = 'chainify_history'::regnamespace AND relkind = 'r'`)
	if err != nil {
		return err
	}
	histories, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, history := range histories {
		if _, err := a.site.conn.Exec(ctx, "ANALYZE "+history); err != nil {
			return fmt.Errorf("analyze %s: %w", history, err)
		}
	}
	return nil
}

// Measure runs blocks of so many transactions for some seconds, one after the other. The caller
// begins each series of measurements with Renew.
func (a *Alone) Measure(ctx context.Context, seconds, block int, next func(n int) []workload.Statement) (report.Sample, error) {
	return measureBlocks(a.site, Config{Seconds: seconds}, run{next, block, 1})(ctx, 0)
}

// Block executes one block of these statements and commits it. It says how long both took together.
func (a *Alone) Block(ctx context.Context, statements []workload.Statement) (time.Duration, error) {
	c, err := a.site.chain(ctx)
	if err != nil {
		return 0, err
	}
	raw, err := c.encode(wire.Kind_KIND_SQL, statements)
	if err != nil {
		return 0, err
	}
	execute, commit, err := c.run(ctx, raw)
	return execute + commit, err
}

// Connect opens a session of a role. The superuser is postgres.
func (a *Alone) Connect(ctx context.Context, role string) (*pgx.Conn, error) {
	return a.site.organisation.Cluster.Connect(ctx, database, role)
}

// DSN is a role's connection string, through the Unix socket.
func (a *Alone) DSN(role string) string { return a.site.organisation.Cluster.DSN(database, role) }

// PID is that of the cluster.
func (a *Alone) PID() int { return a.site.postmaster }

// Close ends the cluster.
func (a *Alone) Close() error { return a.network.Close() }

// Remove deletes it after Close.
func (a *Alone) Remove() error { return a.network.Remove() }
