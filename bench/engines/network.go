package engines

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
)

const (
	database   = "bank"
	role       = "clerk" // of clients
	operator   = "dba"   // attaches tables
	readyLimit = 2 * time.Minute
	doneLimit  = 5 * time.Minute // a million rows are attached, by four organisations at once

	submitters = 8   // clients that do not wait for each transaction, two at each organisation
	batchMost  = 100 // transactions of one submission
	inFlight   = 8   // submissions of one client without outcomes
)

var organisations = []string{"acme", "bolt", "cargo", "delta"}

// postgresSettings and mariaOptions hold for all servers. The scrubber reads nothing while others
// are measured, and would find the tampered row before it is touched.
var (
	postgresSettings = map[string]string{
		"shared_buffers": "'256MB'", "max_wal_size": "'4GB'", "checkpoint_timeout": "'1h'", "autovacuum": "off", "chainify.scrub_rate": "0",
	}
	mariaOptions = []string{"--innodb-buffer-pool-size=256M", "--innodb-log-file-size=1G"}
)

const scrubInterval = "24h"

// schema words the tables of one engine.
type schema struct {
	postgres, mariaDB string
	tables            []string
}

// bankSchema has Smallbank's balances.
func bankSchema(customers int) schema {
	return schema{
		postgres: fmt.Sprintf(`CREATE TABLE checking (custid bigint PRIMARY KEY, balance numeric(14,2) NOT NULL);
			CREATE TABLE savings (custid bigint PRIMARY KEY, balance numeric(14,2) NOT NULL);
			INSERT INTO checking SELECT c, %[2]d FROM generate_series(1, %[1]d) c; INSERT INTO savings SELECT c, %[3]d FROM generate_series(1, %[1]d) c`,
			customers, checkingStart, savingsStart),
		mariaDB: fmt.Sprintf(`CREATE TABLE checking (custid BIGINT PRIMARY KEY, balance DECIMAL(14,2) NOT NULL);
			CREATE TABLE savings (custid BIGINT PRIMARY KEY, balance DECIMAL(14,2) NOT NULL);
			INSERT INTO checking SELECT seq, %[2]d FROM seq_1_to_%[1]d; INSERT INTO savings SELECT seq, %[3]d FROM seq_1_to_%[1]d`,
			customers, checkingStart, savingsStart),
		tables: tables,
	}
}

// open makes a network of four whose tables are on the ledger and whose nodes run. MariaDB names
// the organisations with one.
func open(ctx context.Context, cfg Config, dir string, mariaDB []string, s schema, attach string) (*harness.Network, error) {
	return found(ctx, harness.Config{
		Dir: filepath.Join(cfg.Dir, dir), PG: cfg.PG, Chainify: cfg.Chainify, Database: database, Organisations: organisations, MariaDB: mariaDB,
	}, s, attach)
}

// found makes a network with tables on the ledger, whose nodes run.
func found(ctx context.Context, cfg harness.Config, s schema, attach string) (*harness.Network, error) {
	cfg.Settings = map[string]any{"scrub_interval": scrubInterval}
	net, err := harness.New(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return net.Each(configure) },
		func() error { return net.StartDatabases(ctx) },
		func() error { return net.EnableChainify(ctx) },
		func() error { return net.Each(func(o *harness.Organisation) error { return fill(ctx, o, s) }) },
		func() error { return net.InitNodes(ctx) },
		func() error { return net.StartNodes(ctx, readyLimit) },
		func() error {
			_, err := submit(ctx, net.Organisations[0], operator, &wire.Statement{Kind: wire.Kind_KIND_DEPLOY, Sql: attach})
			return err
		},
		func() error {
			_, err := harness.WaitSame(ctx, net.Organisations, 1, doneLimit)
			return err
		},
	} {
		if err := step(); err != nil {
			return net, err
		}
	}
	return net, nil
}

func configure(o *harness.Organisation) error {
	if o.MariaDB != nil {
		o.MariaDB.Options = mariaOptions
		return nil
	}
	return o.Cluster.Configure(postgresSettings)
}

// fill makes tables and roles of clients, in a database with the ledger.
func fill(ctx context.Context, o *harness.Organisation, s schema) error {
	if o.MariaDB == nil {
		sql := s.postgres + "; CREATE ROLE " + role + " LOGIN IN ROLE chainify_client; CREATE ROLE " + operator + " LOGIN IN ROLE chainify_admin"
		for _, table := range s.tables {
			sql += fmt.Sprintf("; GRANT SELECT, INSERT, UPDATE, DELETE ON %[1]s TO %[2]s; ALTER TABLE %[1]s OWNER TO %[3]s", table, role, operator)
		}
		return o.Exec(ctx, "postgres", sql)
	}
	if err := o.InstallMariaDB(ctx, role, operator); err != nil {
		return err
	}
	sql := s.mariaDB + "; GRANT " + database + "_admin TO " + operator
	for _, table := range s.tables {
		sql += fmt.Sprintf("; GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %s", table, role)
	}
	return o.MariaDB.Exec(ctx, "root", database, sql)
}

// bank is a network with Smallbank.
type bank struct {
	net *harness.Network
	cfg Config
}

func openBank(ctx context.Context, cfg Config, dir string, mariaDB []string) (*bank, error) {
	fmt.Fprintf(cfg.Progress, "%d customers in each database of %v, of which %v keep a MariaDB\n", cfg.Customers, organisations, mariaDB)
	net, err := open(ctx, cfg, dir, mariaDB, bankSchema(cfg.Customers), attach)
	if net == nil {
		return nil, err
	}
	if err == nil {
		err = net.Each(func(o *harness.Organisation) error { return o.StopNode() })
	}
	return &bank{net, cfg}, err
}

func (b *bank) end(failure error) error { return end(b.net, failure) }

// end keeps the logs of a failure.
func end(net *harness.Network, failure error) error {
	if err := net.Close(); err != nil || failure != nil {
		return err
	}
	return net.Remove()
}

// batch is transactions that a client submits at once.
type batch struct {
	statements []*wire.Statement
	ids        [][]byte
	customers  []int64
}

// client submits batches until its time is over, and waits for all outcomes.
type client struct {
	at     *gateway.Client
	next   func() (batch, error) // without statements: an outcome has to come first
	done   func(batch)
	ahead  int // submissions without outcomes, at most
	flying []batch
	count  int
	block  uint64 // the last of its outcomes
}

func (c *client) run(ctx context.Context, end time.Time) error {
	for time.Now().Before(end) {
		if len(c.flying) == c.ahead {
			if err := c.oldest(ctx); err != nil {
				return err
			}
		}
		b, err := c.next()
		if err == nil && len(b.statements) == 0 {
			err = c.oldest(ctx)
		} else if err == nil {
			b.ids, err = c.at.Submit(ctx, role, b.statements...)
			c.flying = append(c.flying, b)
		}
		if err != nil {
			return err
		}
	}
	for len(c.flying) > 0 {
		if err := c.oldest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// oldest waits for the outcomes of the oldest batch.
func (c *client) oldest(ctx context.Context) error {
	if len(c.flying) == 0 {
		return errors.New("a client has too few customers")
	}
	b := c.flying[0]
	c.flying = c.flying[1:]
	block, err := outcomes(ctx, c.at, b.ids)
	c.block, c.count = max(c.block, block), c.count+len(b.ids)
	c.done(b)
	return err
}

// outcomes waits until all of some transactions have succeeded, and gives the last of their blocks.
func outcomes(ctx context.Context, at *gateway.Client, ids [][]byte) (block uint64, err error) {
	found, err := at.Wait(ctx, uint32(doneLimit.Milliseconds()), ids...)
	if err != nil {
		return 0, err
	}
	if len(found) < len(ids) {
		return 0, fmt.Errorf("%d of %d transactions have an outcome after %s", len(found), len(ids), doneLimit)
	}
	for _, o := range found {
		if !o.Succeeded {
			return 0, fmt.Errorf("a transaction failed: %s (SQLSTATE %s)", o.Message, o.Sqlstate)
		}
		block = max(block, o.Block)
	}
	return block, nil
}

// submit has statements executed at an organisation, and gives their last block.
func submit(ctx context.Context, o *harness.Organisation, role string, statements ...*wire.Statement) (uint64, error) {
	c, err := gateway.Dial(ctx, o.Socket())
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ids, err := c.Submit(ctx, role, statements...)
	if err != nil {
		return 0, err
	}
	return outcomes(ctx, c, ids)
}

// statements is the load of transactions that all organisations execute.
func (b *bank) statements(ctx context.Context, repetition int) (report.Sample, error) {
	return b.load(ctx, submitters, b.drawn(repetition, batchMost, inFlight, statement))
}

// waited is the load of one client that submits one transaction after the other, each when the one
// before has its outcome.
func (b *bank) waited(ctx context.Context, repetition int) (report.Sample, error) {
	return b.load(ctx, 1, b.drawn(repetition, 1, 1, statement))
}

// drawer draws the next transaction of a client.
type drawer func(random *rand.Rand, customers int) *wire.Statement

// drawn prepares clients that submit so many transactions at once, and are so many submissions
// ahead of their outcomes.
func (b *bank) drawn(repetition, size, ahead int, draw drawer) func(n int) *client {
	return func(n int) *client {
		random := rand.New(rand.NewPCG(b.cfg.Seed, uint64(repetition)<<32|uint64(n)))
		return &client{ahead: ahead, done: func(batch) {}, next: func() (out batch, err error) {
			for range size {
				out.statements = append(out.statements, draw(random, b.cfg.Customers))
			}
			return out, nil
		}}
	}
}

// effects is the load of write sets, made by clients from the balances that they know.
func (b *bank) effects(ctx context.Context, repetition int) (report.Sample, error) {
	known, err := b.known(ctx)
	if err != nil {
		return report.Sample{}, err
	}
	return b.load(ctx, submitters, func(n int) *client {
		t := newTill(rand.New(rand.NewPCG(b.cfg.Seed, uint64(repetition)<<32|uint64(n))), known[n])
		size := min(batchMost, max(len(t.free)/8, 1))
		return &client{ahead: inFlight, done: func(b batch) { t.free = append(t.free, b.customers...) }, next: func() (out batch, err error) {
			for len(out.statements) < size && len(t.free) > 1 {
				s, customers, err := t.next()
				if err != nil {
					return out, err
				}
				out.statements, out.customers = append(out.statements, s), append(out.customers, customers...)
			}
			return out, nil
		}}
	})
}

// known reads all balances, for each client those of its customers. The first organisation keeps a
// PostgreSQL, and all have the same rows.
func (b *bank) known(ctx context.Context) ([]map[int64]balances, error) {
	conn, err := b.net.Organisations[0].Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, "SELECT custid, k.balance::bigint, s.balance::bigint FROM checking k JOIN savings s USING (custid)")
	if err != nil {
		return nil, err
	}
	out := make([]map[int64]balances, submitters)
	for i := range out {
		out[i] = map[int64]balances{}
	}
	var customer int64
	var now balances
	_, err = pgx.ForEachRow(rows, []any{&customer, &now[checking], &now[savings]}, func() error {
		out[customer%submitters][customer] = now
		return nil
	})
	return out, err
}

// load starts the nodes and lets so many clients submit for the seconds. It ends when all
// organisations have committed all.
func (b *bank) load(ctx context.Context, number int, prepare func(n int) *client) (s report.Sample, err error) {
	if err := b.net.StartNodes(ctx, readyLimit); err != nil {
		return s, err
	}
	defer func() {
		err = errors.Join(err, b.net.Each(func(o *harness.Organisation) error { return o.StopNode() }))
	}()
	if err := b.net.Each(func(o *harness.Organisation) error { return vacuum(ctx, o) }); err != nil {
		return s, err
	}
	clients := make([]*client, number)
	for i := range clients {
		at, err := gateway.Dial(ctx, b.net.Organisations[i%len(b.net.Organisations)].Socket())
		if err != nil {
			return s, err
		}
		defer at.Close()
		clients[i] = prepare(i)
		clients[i].at = at
	}
	before, err := machine.TreesCPU(b.processes())
	if err != nil {
		return s, err
	}
	started := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	for _, c := range clients {
		group.Go(func() error { return c.run(groupCtx, started.Add(time.Duration(b.cfg.Seconds)*time.Second)) })
	}
	if err := group.Wait(); err != nil {
		return s, err
	}
	var last uint64
	for _, c := range clients {
		last, s.Transactions = max(last, c.block), s.Transactions+c.count
	}
	if _, err := harness.WaitSame(ctx, b.net.Organisations, last, doneLimit); err != nil {
		return s, err
	}
	s.Seconds = time.Since(started).Seconds()
	after, err := machine.TreesCPU(b.processes())
	if err != nil {
		return s, err
	}
	if s.Transactions == 0 {
		return s, errors.New("no transaction was answered")
	}
	s.Value = float64(s.Transactions) / s.Seconds
	s.ServerCPUUS = float64((after - before).Microseconds()) / float64(s.Transactions)
	return s, nil
}

// vacuum does what autovacuum would have done. MariaDB purges by itself.
func vacuum(ctx context.Context, o *harness.Organisation) error {
	if o.MariaDB != nil {
		return nil
	}
	for _, table := range tables {
		if err := o.Exec(ctx, "postgres", "VACUUM (ANALYZE) "+table); err != nil {
			return err
		}
	}
	return nil
}

// processes are those of nodes and databases.
func (b *bank) processes() (out []int) {
	for _, o := range b.net.Organisations {
		out = append(out, o.NodePID())
		if o.MariaDB != nil {
			out = append(out, o.MariaDB.PID())
		} else {
			out = append(out, o.Cluster.PID())
		}
	}
	return out
}
