package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/pgbench"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/server"
	"github.com/chainify-db/chainify/bench/workload"
)

const (
	database = "bank"
	role     = "bank" // of clients, in both clusters
)

// Settings are those of both clusters. Neither checkpoints nor autovacuum start within a
// measurement: whose they are would be chance. Each system is preceded by a VACUUM outside of the
// measured time.
var Settings = map[string]string{
	"shared_buffers":     "'512MB'",
	"max_wal_size":       "'16GB'",
	"checkpoint_timeout": "'1h'",
	"autovacuum":         "off",
}

// sites are the two clusters.
type sites struct {
	network       *harness.Network
	plain, ledger *site
	sized         map[int]*site // with other numbers of customers on the ledger
	scripts       []string      // of pgbench
}

// site is one cluster with its session.
type site struct {
	organisation *harness.Organisation
	conn         *pgx.Conn // the superuser's, for what is not measured
	postmaster   int
	tables       []string
	workers      bool // the executor takes a number of workers
	blocks       *chain
}

// open makes the clusters. The one with the ledger gets the tables of all workloads, the one
// without those of the first.
func open(ctx context.Context, cfg Config, r *report.Report, workloads ...workload.Schema) (s *sites, err error) {
	organisations := []string{"plain", "ledger"}
	for _, size := range cfg.otherSizes() {
		organisations = append(organisations, sizedName(size))
	}
	network, err := harness.New(ctx, harness.Config{Dir: cfg.Dir, PG: cfg.PG, Database: database, Organisations: organisations})
	if err != nil {
		return nil, err
	}
	s = &sites{network: network}
	defer func() {
		if err != nil {
			err = errors.Join(err, network.Close())
		}
	}()
	if err := network.Each(func(o *harness.Organisation) error { return o.Cluster.Configure(Settings) }); err != nil {
		return nil, err
	}
	for _, name := range organisations[1:] {
		if err := network.Organisation(name).Cluster.Configure(map[string]string{"shared_preload_libraries": "'chainify'"}); err != nil {
			return nil, err
		}
	}
	if err := network.StartDatabases(ctx); err != nil {
		return nil, err
	}
	if s.plain, err = prepare(ctx, network.Organisation("plain"), workloads[:1], "CREATE ROLE "+role+" LOGIN"); err != nil {
		return nil, err
	}
	if s.ledger, err = prepare(ctx, network.Organisation("ledger"), workloads, ledgerRoles); err != nil {
		return nil, err
	}
	s.sized = map[int]*site{cfg.Customers: s.ledger}
	for _, size := range cfg.otherSizes() {
		of := []workload.Schema{workload.SmallbankSchema(size)}
		if s.sized[size], err = prepare(ctx, network.Organisation(sizedName(size)), of, ledgerRoles); err != nil {
			return nil, err
		}
	}
	if s.scripts, err = pgbench.Scripts(network.Dir); err != nil {
		return nil, err
	}
	return s, s.describe(ctx, r)
}

// otherSizes are the sizes that want a cluster of their own.
func (c Config) otherSizes() []int {
	return slices.DeleteFunc(slices.Clone(c.Sizes), func(size int) bool { return size == c.Customers })
}

func sizedName(size int) string { return fmt.Sprintf("rows%d", size) }

const ledgerRoles = "CREATE EXTENSION chainify; CREATE ROLE " + role + " LOGIN IN ROLE chainify_client; CREATE ROLE dba IN ROLE chainify_admin; GRANT CREATE ON SCHEMA public TO dba;" +
	"CREATE ROLE " + harness.NodeRole + " LOGIN IN ROLE chainify_node"

// prepare makes roles, tables and functions of one cluster.
func prepare(ctx context.Context, o *harness.Organisation, workloads []workload.Schema, roles string) (*site, error) {
	conn, err := o.Connect(ctx)
	if err != nil {
		return nil, err
	}
	s := &site{organisation: o, conn: conn}
	if s.postmaster, err = machine.Parent(int(conn.PgConn().PID())); err != nil {
		return s, err
	}
	statements := []string{roles}
	for _, w := range workloads {
		s.tables = append(s.tables, w.Tables...)
		statements = append(statements, w.SQL, w.Fill,
			w.Grants(role))
	}
	for _, sql := range append(statements, "VACUUM ANALYZE", "CHECKPOINT") {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return s, fmt.Errorf("prepare cluster %s: %w", o.Name, err)
		}
	}
	err = conn.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_settings WHERE name = 'chainify.executor_workers'").Scan(&s.workers)
	return s, err
}

// describe records machine, versions and settings.
func (s *sites) describe(ctx context.Context, r *report.Report) error {
	if err := machine.Facts(r, s.network.Dir); err != nil {
		return err
	}
	for _, site := range []*site{s.plain, s.ledger} {
		if err := server.Describe(ctx, r, site.organisation.Name, site.conn); err != nil {
			return err
		}
	}
	return nil
}

func (s *sites) close() error { return s.network.Close() }

func (s *site) vacuum(ctx context.Context) error {
	for _, table := range s.tables {
		if _, err := s.conn.Exec(ctx, "VACUUM "+table); err != nil {
			return fmt.Errorf("vacuum %s: %w", table, err)
		}
	}
	return nil
}

// cpu measures the cluster's processor time while do runs.
func (s *site) cpu(do func() error) (time.Duration, error) {
	before, err := machine.TreeCPU(s.postmaster)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := machine.TreeCPU(s.postmaster)
	return after - before, err
}

// chain drives execute_block as the node does: one session, one block at a time, committed durably.
type chain struct {
	conn     *pgx.Conn
	author   workload.Author
	number   int64
	previous []byte
	nonce    uint64
}

// chain of the site, begun when it is asked for first.
func (s *site) chain(ctx context.Context) (c *chain, err error) {
	if s.blocks == nil {
		s.blocks, err = newChain(ctx, s, nil)
	}
	return s.blocks, err
}

// newChain names the chain, with the validators that certify its blocks, if any do, and attaches
// the tables in its first block.
func newChain(ctx context.Context, s *site, validators []map[string]string) (*chain, error) {
	conn, err := s.organisation.Cluster.Connect(ctx, database, harness.NodeRole)
	if err != nil {
		return nil, err
	}
	c := &chain{conn: conn, author: workload.Author{ChainID: "bench", Organisation: "acme", Role: "dba"}, previous: make([]byte, 32)}
	if _, err := conn.Exec(ctx, `SELECT chainify_node.init($1, $2, $3)`, c.author.ChainID, c.author.Organisation, validators); err != nil {
		return nil, fmt.Errorf("name the chain: %w", err)
	}
	attach := "ATTACH TABLE "
	for i, table := range s.tables {
		if i > 0 {
			attach += ", "
		}
		attach += table
	}
	raw, err := c.encode(wire.Kind_KIND_DEPLOY, []workload.Statement{{SQL: attach}})
	if err != nil {
		return nil, err
	}
	if _, _, err := c.run(ctx, raw); err != nil {
		return nil, fmt.Errorf("attach the tables: %w", err)
	}
	c.author.Role = role
	return c, nil
}

func (c *chain) encode(kind wire.Kind, statements []workload.Statement) ([]byte, error) {
	raw, err := c.author.Transactions(kind, c.nonce, statements)
	c.nonce += uint64(len(statements))
	return raw, err
}

// run executes one block and commits it; a transaction that fails is an error. It says how long
// execution (with the way to the server) and the durable COMMIT took.
func (c *chain) run(ctx context.Context, transactions []byte) (execute, commit time.Duration, err error) {
	started := time.Now()
	number := c.number + 1
	var hash []byte
	var states, messages []*string
	together := &pgx.Batch{} // as the node does
	together.Queue("BEGIN")
	together.Queue(`SELECT hash, sqlstates, messages FROM chainify_node.execute_block($1, $2, $3, $4, $5)`,
		number, number, number*1_000_000, c.previous, transactions).QueryRow(func(row pgx.Row) error { return row.Scan(&hash, &states, &messages) })
	if err := c.conn.SendBatch(ctx, together).Close(); err != nil {
		return 0, 0, fmt.Errorf("execute block %d: %w", number, err)
	}
	executed := time.Now()
	if _, err := c.conn.Exec(ctx, "COMMIT"); err != nil {
		return 0, 0, fmt.Errorf("commit block %d: %w", number, err)
	}
	done := time.Now()
	c.number, c.previous = number, hash
	for i, state := range states {
		if state != nil {
			return 0, 0, fmt.Errorf("block %d: transaction %d failed: %s (SQLSTATE %s)", number, i, *messages[i], *state)
		}
	}
	return executed.Sub(started), done.Sub(executed), nil
}
