package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/pgbench"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/workload"
)

// The systems compared.
const (
	pgbenchOn       = "pgbench, sync on"
	pgbenchOff      = "pgbench, sync off"
	blockFunction   = "block, functions"
	blockParameters = "block, parameters"
	blockLiteral    = "block, literal"
	loopPlain       = "no ledger, loop"
	loopSubxact     = "no ledger, subtransactions"
)

// systems lists what is compared; the first is a pgbench.
func (s *sites) systems(cfg Config) []system {
	var out []system
	for _, clients := range cfg.Clients {
		out = append(out,
			system{pgbenchOn, float64(clients), s.plain, s.pgbench(cfg, clients, "on")},
			system{pgbenchOff, float64(clients), s.plain, s.pgbench(cfg, clients, "off")})
	}
	// One stream for all: the n-th block holds the same transactions in each of these systems.
	bank := func() *workload.Smallbank { return workload.NewSmallbank(cfg.Seed, 0, int64(cfg.Customers)) }
	out = append(out, s.scale(cfg)...)
	out = append(out, s.severalWorkers(cfg)...)
	return append(out,
		system{blockFunction, 0, s.ledger, measureBlocks(s.ledger, cfg, run{spelledBy(bank(), workload.Function), cfg.Block, 1})},
		system{blockParameters, 0, s.ledger, measureBlocks(s.ledger, cfg, run{spelledBy(bank(), workload.Parameters), cfg.Block, 1})},
		system{blockLiteral, 0, s.ledger, measureBlocks(s.ledger, cfg, run{spelledBy(bank(), workload.Literal), cfg.Block, 1})},
		system{loopPlain, 0, s.plain, s.loop(cfg.Seconds, bank(), cfg.Block, "run_block")},
		system{loopSubxact, 0, s.plain, s.loop(cfg.Seconds, bank(), cfg.Block, "run_block_subtransactions")})
}

// pgbench runs one call per transaction from some clients, each transaction committed by itself.
func (s *sites) pgbench(cfg Config, clients int, synchronousCommit string) func(context.Context, int) (report.Sample, error) {
	return func(ctx context.Context, repetition int) (report.Sample, error) {
		var led time.Duration
		var errLed error
		run := pgbench.Run{
			Cluster: s.plain.organisation.Cluster, Database: database, Role: role, Scripts: s.scripts, Clients: clients, Seconds: cfg.Seconds,
			Customers: cfg.Customers, Seed: cfg.Seed + uint64(repetition), SynchronousCommit: synchronousCommit,
			Led: func() { led, errLed = machine.TreeCPU(s.plain.postmaster) },
		}
		result, err := run.Do(ctx)
		if err := errors.Join(err, errLed); err != nil {
			return report.Sample{}, err
		}
		after, err := machine.TreeCPU(s.plain.postmaster)
		if err != nil {
			return report.Sample{}, err
		}
		return report.Sample{
			Value: result.Rate, Transactions: result.Processed, Seconds: float64(result.Processed) / result.Rate,
			ServerCPUUS: perTransaction(after-led, result.Processed), Detail: map[string]float64{"failed": float64(result.Failed)},
		}, nil
	}
}

func perTransaction(cpu time.Duration, transactions int) float64 {
	return float64(cpu.Microseconds()) / float64(transactions)
}

// run is how blocks are made and executed.
type run struct {
	next    func(n int) []workload.Statement
	block   int // transactions
	workers int
}

// measureBlocks runs blocks on the ledger; what is measured at one site shares its chain.
func measureBlocks(on *site, cfg Config, how run) func(context.Context, int) (report.Sample, error) {
	return func(ctx context.Context, _ int) (sample report.Sample, err error) {
		c, err := on.chain(ctx)
		if err != nil {
			return sample, err
		}
		if on.workers {
			if _, err := c.conn.Exec(ctx, fmt.Sprintf("SET chainify.executor_workers = %d", how.workers)); err != nil {
				return sample, err
			}
		}
		var executing, committing time.Duration
		inParts := 0
		sample, err = blocks(on, cfg.Seconds, how.block, func() (time.Duration, error) {
			raw, err := c.encode(wire.Kind_KIND_SQL, how.next(how.block))
			if err != nil {
				return 0, err
			}
			execute, commit, err := c.run(ctx, raw)
			executing, committing = executing+execute, committing+commit
			if err == nil && how.workers > 1 {
				inParts, err = on.countParts(ctx, c.number, inParts)
			}
			return execute + commit, err
		})
		if err != nil {
			return sample, err
		}
		count := float64(sample.Transactions / how.block)
		sample.Detail = map[string]float64{
			"execute_ms_per_block": executing.Seconds() * 1000 / count,
			"commit_ms_per_block":  committing.Seconds() * 1000 / count,
		}
		if how.workers > 1 {
			sample.Detail[allBlocks], sample.Detail[blocksInParts] = count, float64(inParts)
		}
		return sample, nil
	}
}

// countParts adds to a number of blocks this one if a worker executed some of it
// (spec/parallel.md). It is not counted.
func (s *site) countParts(ctx context.Context, number int64, sum int) (int, error) {
	var parts bool
	if err := s.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM chainify_ledger.part WHERE block = $1)", number).Scan(&parts); err != nil {
		return sum, fmt.Errorf("count parts of block %d: %w", number, err)
	}
	if parts {
		sum++
	}
	return sum, nil
}

// spelledBy draws Smallbank's calls in one form.
func spelledBy(bank *workload.Smallbank, form workload.Form) func(n int) []workload.Statement {
	return func(n int) []workload.Statement { return spelled(bank.Block(n), form) }
}

// spelled gives the statements of calls in one form.
func spelled(calls []workload.Call, form workload.Form) []workload.Statement {
	out := make([]workload.Statement, len(calls))
	for i, call := range calls {
		out[i] = call.Statement(form)
	}
	return out
}

// blocks runs one block after the other until they took the seconds of a measurement. Making a
// block is not counted: one gives the time that counts.
func blocks(s *site, seconds, block int, one func() (time.Duration, error)) (report.Sample, error) {
	var busy time.Duration
	transactions := 0
	cpu, err := s.cpu(func() error {
		for busy < time.Duration(seconds)*time.Second {
			took, err := one()
			if err != nil {
				return err
			}
			busy += took
			transactions += block
		}
		return nil
	})
	if err != nil {
		return report.Sample{}, err
	}
	return report.Sample{
		Value: float64(transactions) / busy.Seconds(), Transactions: transactions, Seconds: busy.Seconds(),
		ServerCPUUS: perTransaction(cpu, transactions),
	}, nil
}

// loop runs the calls of a block by a PL/pgSQL loop in one transaction without a ledger.
func (s *sites) loop(seconds int, bank *workload.Smallbank, block int, function string) func(context.Context, int) (report.Sample, error) {
	var conn *pgx.Conn
	return func(ctx context.Context, _ int) (sample report.Sample, err error) {
		if conn == nil {
			if conn, err = s.plain.organisation.Cluster.Connect(ctx, database, role); err != nil {
				return sample, err
			}
		}
		return blocks(s.plain, seconds, block, func() (time.Duration, error) {
			calls := bank.Block(block)
			started := time.Now()
			err := runLoop(ctx, conn, function, calls)
			return time.Since(started), err
		})
	}
}

// runLoop runs calls by one of the PL/pgSQL loops, in one transaction.
func runLoop(ctx context.Context, conn *pgx.Conn, function string, calls []workload.Call) error {
	kinds, c, d, v := make([]int32, len(calls)), make([]int64, len(calls)), make([]int64, len(calls)), make([]int64, len(calls))
	for i, call := range calls {
		kinds[i], c[i], d[i], v[i] = int32(call.Kind), call.C, call.D, call.V
	}
	_, err := conn.Exec(ctx, "SELECT smallbank."+function+"($1::int[], $2::bigint[], $3::bigint[], $4::bigint[]::numeric[])", kinds, c, d, v)
	return err
}
