package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

// Systems that make a table with partitions; the point is how many it has.
const (
	deployPartitioned = "DEPLOY of partitions"
	createPartitioned = "no ledger, CREATE of partitions"
)

// partitions of the table; a DEPLOY transaction has at most 100 statements.
const partitions = 80

// made is how many tables a measurement makes.
const made = 3

// Definitions measures what the ledger adds to statements that make a table with many partitions.
func Definitions(ctx context.Context, cfg Config, r *report.Report) (err error) {
	sites, err := open(ctx, cfg, r, workload.SmallbankSchema(cfg.Customers))
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, sites.close()); err == nil {
			err = sites.network.Remove()
		}
	}()
	systems := sites.partitioned()
	if err := machine.Settle(ctx, r, cfg.Settle, cfg.Progress); err != nil {
		return err
	}
	if err := warmUp(ctx, systems, cfg.Progress); err != nil {
		return err
	}
	for repetition := 1; repetition <= cfg.Repeat; repetition++ {
		if err := repeat(ctx, cfg, repetition, systems, r); err != nil {
			return err
		}
	}
	return errors.Join(machine.NoteDisk(r, sites.network.Dir), partitionFigures(r))
}

// partitioned lists a DEPLOY transaction that makes a table with its partitions, beside the same
// statements in one transaction of PostgreSQL alone.
func (s *sites) partitioned() []system {
	return []system{
		{deployPartitioned, partitions, s.ledger, func(ctx context.Context, repetition int) (report.Sample, error) {
			c, err := s.ledger.chain(ctx)
			if err != nil {
				return report.Sample{}, err
			}
			return makeTables(s.ledger, repetition, func(sql string) (time.Duration, error) { return c.deploy(ctx, sql) })
		}},
		{createPartitioned, partitions, s.plain, func(ctx context.Context, repetition int) (report.Sample, error) {
			return makeTables(s.plain, repetition, func(sql string) (time.Duration, error) {
				started := time.Now()
				_, err := s.plain.conn.Exec(ctx, sql) // several statements in one message: one transaction
				return time.Since(started), err
			})
		}},
	}
}

// deploy runs a block of one DEPLOY transaction, with its COMMIT.
func (c *chain) deploy(ctx context.Context, sql string) (time.Duration, error) {
	dba := c.author
	dba.Role = "dba"
	raw, err := dba.Transactions(wire.Kind_KIND_DEPLOY, c.nonce, []workload.Statement{{SQL: sql}})
	c.nonce++
	if err != nil {
		return 0, err
	}
	execute, commit, err := c.run(ctx, raw)
	return execute + commit, err
}

// makeTables makes tables and drops them. Processor time and rate are those of the making.
func makeTables(on *site, repetition int, run func(sql string) (time.Duration, error)) (report.Sample, error) {
	var busy time.Duration
	cpu, err := on.cpu(func() error {
		for i := range made {
			took, err := run(createTable(fmt.Sprintf("parted_%d_%d", repetition, i)))
			if err != nil {
				return err
			}
			busy += took
		}
		return nil
	})
	if err != nil {
		return report.Sample{}, err
	}
	for i := range made {
		if _, err := run(fmt.Sprintf("DROP TABLE parted_%d_%d", repetition, i)); err != nil {
			return report.Sample{}, err
		}
	}
	return report.Sample{
		Value: made / busy.Seconds(), Transactions: made, Seconds: busy.Seconds(), ServerCPUUS: perTransaction(cpu, made),
	}, nil
}

// createTable gives the statements of one table: a hundredth of its numbers in each partition.
func createTable(name string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "CREATE TABLE %s (id int PRIMARY KEY, amount int, note text) PARTITION BY RANGE (id)", name)
	for i := range partitions {
		fmt.Fprintf(&out, "; CREATE TABLE %[1]s_p%[2]d PARTITION OF %[1]s FOR VALUES FROM (%[3]d) TO (%[4]d)", name, i, i*100, (i+1)*100)
	}
	return out.String()
}

// partitionFigures states what the ledger adds to definitions.
func partitionFigures(r *report.Report) error {
	const id = "definitions.partitions"
	if err := r.AddRatio(id, r.Find(createPartitioned, partitions).Values(), r.Find(deployPartitioned, partitions).Values(), targets.Of(id),
		fmt.Sprintf("a DEPLOY transaction that makes a table with %d partitions / the same statements in a transaction without a ledger, by elapsed time with COMMIT", partitions)); err != nil {
		return err
	}
	return r.AddRatio(id+"_cpu", r.Find(deployPartitioned, partitions).CPUs(), r.Find(createPartitioned, partitions).CPUs(), targets.Of(id+"_cpu"), "the same by processor time of the server")
}
