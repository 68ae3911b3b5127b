package engines

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/mariadb"
	"github.com/chainify-db/chainify/abci/backend/postgres"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/server"
)

const (
	chain     = "bench"
	plain     = "plain" // MariaDB's database without a ledger
	singleSQL = "UPDATE checking SET balance = balance + ? WHERE custid = ?"
)

// executors are a server of each engine without a network: blocks are made here and run as the node
// runs them.
type executors struct {
	net           *harness.Network
	cfg           Config
	postgres, mdb *executor
}

// executor is one engine's.
type executor struct {
	backend.Backend
	pid    int
	number uint64
	last   wire.Hash
	nonce  uint64
}

func openExecutors(ctx context.Context, cfg Config, dir string) (*executors, error) {
	names := []string{"postgres", "mariadb"}
	net, err := harness.New(ctx, harness.Config{
		Dir: filepath.Join(cfg.Dir, dir), PG: cfg.PG, Chainify: cfg.Chainify, Database: database, Organisations: names, MariaDB: names[1:],
	})
	if err != nil {
		return nil, err
	}
	e := &executors{net: net, cfg: cfg}
	s := bankSchema(cfg.Customers)
	for _, step := range []func() error{
		func() error { return net.Each(configure) },
		func() error { return net.StartDatabases(ctx) },
		func() error { return net.EnableChainify(ctx) },
		func() error { return net.Each(func(o *harness.Organisation) error { return fill(ctx, o, s) }) },
		func() error {
			return net.Organisations[1].MariaDB.Exec(ctx, "root", "", "CREATE DATABASE "+plain+" CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin; USE "+plain+"; "+s.mariaDB)
		},
		func() error {
			b, err := postgres.New(postgres.Config{DSN: net.Organisations[0].Cluster.DSN(database, harness.NodeRole), ChainID: chain, Organisation: names[0]})
			if err == nil {
				e.postgres, err = begin(ctx, b, net.Organisations[0].Cluster.PID())
			}
			return err
		},
		func() error {
			m := net.Organisations[1].MariaDB
			b, err := mariadb.New(mariadb.Config{DSN: m.DSN(database, harness.NodeRole), ChainID: chain, Organisation: names[1]})
			if err == nil {
				e.mdb, err = begin(ctx, b, m.PID())
			}
			return err
		},
	} {
		if err := step(); err != nil {
			return e, err
		}
	}
	return e, nil
}

func (e *executors) end(failure error) error {
	var errs []error
	for _, x := range []*executor{e.postgres, e.mdb} {
		if x != nil {
			errs = append(errs, x.Close())
		}
	}
	err := errors.Join(errs...)
	return errors.Join(err, end(e.net, errors.Join(failure, err)))
}

// begin connects, and attaches the tables in the first block.
func begin(ctx context.Context, b backend.Backend, pid int) (*executor, error) {
	x := &executor{Backend: b, pid: pid}
	err := harness.Poll(ctx, readyLimit, "connect to the database", func(ctx context.Context) (bool, string, error) {
		_, err := b.Position(ctx)
		return err == nil, fmt.Sprint(err), nil
	})
	if err == nil {
		err = x.run(ctx, operator, []*wire.Statement{{Kind: wire.Kind_KIND_DEPLOY, Sql: attach}})
	}
	return x, err
}

// run executes one block and commits it. A transaction that fails is an error.
func (x *executor) run(ctx context.Context, role string, statements []*wire.Statement) error {
	b := &wire.OrderedBlock{Number: x.number + 1, Height: int64(x.number + 1), TimeMicro: int64(x.number+1) * 1_000_000}
	raw := make([][]byte, len(statements))
	for i, s := range statements {
		x.nonce++
		encoded := wire.Encode(&wire.Proposal{
			ChainId: chain, Client: &wire.Client{Organisation: "acme", Role: role}, Nonce: x.nonce, ValidUntilHeight: 1,
			Kind: s.Kind, Sql: s.Sql, Parameters: s.Parameters,
		})
		b.IDs = append(b.IDs, wire.TxIDOf(encoded))
		raw[i] = wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: encoded}})
	}
	b.Transactions = wire.EncodeTransactions(raw)
	done, err := x.Execute(ctx, b, x.last)
	if err == nil {
		err = x.Commit(ctx)
	}
	if err != nil {
		return err
	}
	for i, result := range done.Results {
		if !result.Succeeded {
			return fmt.Errorf("block %d: transaction %d failed: %s (SQLSTATE %s)", b.Number, i, result.Message, result.SQLState)
		}
	}
	x.number, x.last = b.Number, done.Hash
	return nil
}

// systems are the executors, and sessions that commit single statements.
func (e *executors) systems(cfg Config) []system {
	out := []system{{postgresBlock, 0, e.blocks(e.postgres, statement)}, {mariaBlock, 0, e.blocks(e.mdb, statement)}}
	for _, sessions := range cfg.Clients {
		out = append(out, system{mariaSingle, float64(sessions), e.single(sessions)})
	}
	return out
}

// blocks runs blocks for the seconds.
func (e *executors) blocks(x *executor, draw drawer) func(context.Context, int) (report.Sample, error) {
	return func(ctx context.Context, repetition int) (s report.Sample, err error) {
		random := rand.New(rand.NewPCG(e.cfg.Seed, uint64(repetition)))
		before, err := machine.TreeCPU(x.pid)
		if err != nil {
			return s, err
		}
		for s.Seconds < float64(e.cfg.Seconds) {
			statements := make([]*wire.Statement, e.cfg.Block)
			for i := range statements {
				statements[i] = draw(random, e.cfg.Customers)
			}
			started := time.Now()
			if err := x.run(ctx, role, statements); err != nil {
				return s, err
			}
			s.Seconds += time.Since(started).Seconds()
			s.Transactions += len(statements)
		}
		return sampled(s, before, x.pid)
	}
}

// sampled completes a sample with rate and processor time.
func sampled(s report.Sample, before time.Duration, pid int) (report.Sample, error) {
	after, err := machine.TreeCPU(pid)
	if err != nil {
		return s, err
	}
	s.Value = float64(s.Transactions) / s.Seconds
	s.ServerCPUUS = float64((after - before).Microseconds()) / float64(s.Transactions)
	return s, nil
}

// single lets sessions commit statements one by one, each durably, in the database without a
// ledger.
func (e *executors) single(sessions int) func(context.Context, int) (report.Sample, error) {
	return func(ctx context.Context, repetition int) (s report.Sample, err error) {
		m := e.net.Organisations[1].MariaDB
		db, err := m.Open(plain, "root")
		if err != nil {
			return s, err
		}
		defer db.Close()
		db.SetMaxIdleConns(sessions)
		prepared := make([]*sql.Stmt, sessions)
		for i := range prepared {
			conn, err := db.Conn(ctx)
			if err != nil {
				return s, err
			}
			defer conn.Close()
			if prepared[i], err = conn.PrepareContext(ctx, singleSQL); err != nil {
				return s, err
			}
		}
		before, err := machine.TreeCPU(m.PID())
		if err != nil {
			return s, err
		}
		counts := make([]int, sessions)
		started := time.Now()
		group, groupCtx := errgroup.WithContext(ctx)
		for i, one := range prepared {
			random := rand.New(rand.NewPCG(e.cfg.Seed, uint64(repetition)<<32|uint64(i)))
			group.Go(func() error {
				for time.Since(started) < time.Duration(e.cfg.Seconds)*time.Second {
					if _, err := one.ExecContext(groupCtx, 1+random.IntN(500), 1+random.IntN(e.cfg.Customers)); err != nil {
						return err
					}
					counts[i]++
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return s, err
		}
		s.Seconds = time.Since(started).Seconds()
		for _, n := range counts {
			s.Transactions += n
		}
		return sampled(s, before, m.PID())
	}
}

// describe records versions and settings.
func describe(ctx context.Context, cfg Config, r *report.Report, e *executors) (err error) {
	if r.Versions["cometbft"], err = machine.BuiltWith(cfg.Chainify, "github.com/cometbft/cometbft"); err != nil {
		return err
	}
	var version string
	if err := e.net.Organisations[1].MariaDB.Scan(ctx, "", "SELECT version()", &version); err != nil {
		return err
	}
	r.Versions["mariadb"], r.Settings["mariadb"] = version, mariaOptions
	conn, err := e.net.Organisations[0].Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return server.Describe(ctx, r, "postgresql", conn)
}
