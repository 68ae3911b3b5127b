// Package analytics measures the analytics worker: queries of AnKer and of TPC-H beside PostgreSQL,
// and what the worker costs transactions. One database executes blocks that are made here. Nothing
// is ordered, and one worker mirrors the tables.
package analytics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/bench/executor"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/server"
	"github.com/chainify-db/chainify/bench/workload"
)

// Config is one run.
type Config struct {
	Dir, PG, Out string
	Worker       string // chainify-analytics
	TPCH         string // sql/analytics/tpch.sql: tables and queries
	Generator    string // tpchgen-cli (scripts/setup-tpch); empty: TPC-H is not measured
	Seed         uint64
	Repeat       int
	Seconds      int      // of each measurement under load
	Scale        float64  // of TPC-H and TPC-C; 1 is the specification's size
	Short        bool     // targets are left out
	Only         []string // of the parts; none: all of them
	Progress     io.Writer
}

// size is TPC-C of the scale, of ten warehouses: 100,000 items, and 3,000 customers in each
// district, at 1.
func (c Config) size() workload.TPCCSize {
	if c.Short {
		return workload.TPCCSize{Warehouses: 2, Items: 100, Customers: 30}
	}
	return workload.TPCCSize{Warehouses: 10, Items: int(100_000 * c.Scale), Customers: int(3_000 * c.Scale)}
}

// customers of Smallbank, whose transactions are as dear for every number of them.
func (c Config) customers() int {
	if c.Short {
		return 1_000
	}
	return 100_000
}

// settings are the server's: one process for each query, on both sides.
func (c Config) settings() map[string]string {
	return map[string]string{
		"shared_buffers": "'2GB'", "work_mem": "'256MB'", "max_wal_size": "'16GB'", "checkpoint_timeout": "'1h'", "autovacuum": "off",
		"max_parallel_workers_per_gather": "0", "statement_timeout": "'10min'",
		"chainify.analytics_socket": "'" + c.socketDir() + "'", "chainify.analytics_timeout": "'10min'",
	}
}

func (c Config) socketDir() string { return filepath.Join(c.Dir, "run") }

// bench is what all parts share.
type bench struct {
	Config
	*executor.Alone
	report *report.Report
	conn   *pgx.Conn // the superuser's
	worker *worker
}

// target is a promise, which a short run does not make.
func (b *bench) target(t report.Target) report.Target {
	if b.Short {
		return report.Target{}
	}
	return t
}

// Run measures everything and adds series and figures.
func Run(ctx context.Context, cfg Config, r *report.Report) (err error) {
	schemas := []workload.Schema{cfg.size().Ordered(), workload.SmallbankSchema(cfg.customers())}
	if cfg.Generator != "" {
		tables, err := generate(ctx, cfg)
		if err != nil {
			return err
		}
		schemas = append(schemas, tables)
	}
	r.Parameters["scale"], r.Parameters["tpcc"] = cfg.Scale, cfg.size()
	alone, err := executor.OpenAlone(ctx, cfg.Dir, cfg.PG, cfg.settings(), schemas...)
	if alone != nil {
		defer func() {
			if err = errors.Join(err, alone.Close()); err == nil {
				err = alone.Remove()
			}
		}()
	}
	if err != nil {
		return err
	}
	b := &bench{Config: cfg, Alone: alone, report: r}
	node, err := alone.Maintain(ctx)
	if err != nil {
		return err
	}
	defer node.Close(ctx)
	if b.conn, err = alone.Connect(ctx, "postgres"); err != nil {
		return err
	}
	defer b.conn.Close(ctx)
	if err := errors.Join(machine.Facts(r, cfg.Dir), server.Describe(ctx, r, "database", b.conn)); err != nil {
		return err
	}
	if _, err := b.conn.Exec(ctx, "CREATE ROLE "+workerRole+" LOGIN IN ROLE chainify_reader"); err != nil {
		return err
	}
	// Nothing serves twice: each part that has to begins with a worker of its own.
	defer func() { err = errors.Join(err, b.worker.stop()) }()
	return b.parts(ctx, schemas)
}

// parts measures each subject in turn.
func (b *bench) parts(ctx context.Context, schemas []workload.Schema) error {
	if err := b.mirror(ctx, schemas); err != nil {
		return err
	}
	parts := []struct {
		name    string
		measure func(context.Context) error
	}{{"bootstrap", b.bootstrap}, {"anker", b.anker}, {"tpch", b.tpch}, {"latest", b.fresh}, {"load", b.load}}
	for _, part := range parts {
		if len(b.Only) > 0 && !slices.Contains(b.Only, part.name) {
			continue
		}
		if part.name != "bootstrap" && b.worker == nil { // the first part would have started it
			if err := errors.Join(b.start(), b.serving(ctx)); err != nil {
				return err
			}
		}
		if err := part.measure(ctx); err != nil {
			return err
		}
	}
	return machine.NoteDisk(b.report, b.Dir)
}

// mirror names the tables to mirror.
func (b *bench) mirror(ctx context.Context, schemas []workload.Schema) error {
	for _, schema := range schemas {
		if _, err := b.conn.Exec(ctx, "SELECT chainify.mirror("+schema.TableList()+")"); err != nil {
			return fmt.Errorf("mirror the tables of %s: %w", schema.Name, err)
		}
	}
	return nil
}
