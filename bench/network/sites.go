package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/baseline"
	"github.com/chainify-db/chainify/bench/executor"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/pgbench"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/workload"
)

const (
	database = "bank"  // whose tables are on the ledger
	plain    = "plain" // the same tables, not on the ledger, for the baseline; and in a cluster without a trace of Chainify for PostgreSQL alone
	role     = "bank"  // of clients
)

// settings of all clusters. Work for earlier transactions does not start within a measurement:
// neither PostgreSQL's checkpoints and autovacuum nor the folding of history. Folding comes some
// checkpoints after its blocks (recovery/run measures it).
var settings = map[string]string{
	"max_connections":              "200", // tpccMany
	"shared_buffers":               "'256MB'",
	"max_wal_size":                 "'16GB'",
	"checkpoint_timeout":           "'1h'",
	"autovacuum":                   "off",
	"chainify.checkpoint_interval": "1000000",
	// Each node runs for seconds at a time, in which the tables would be scrubbed as often as
	// otherwise in hours.
	"chainify.scrub_interval": "'1d'",
}

// ofOne are those of the organisation that has the machine for itself: a core for each of two
// workers (docs/operator/execution.md).
func ofOne() map[string]string {
	out := maps.Clone(settings)
	out["chainify.executor_workers"] = "2"
	return out
}

// keptUp are the settings of clusters that run for long: both happen.
var keptUp = map[string]string{"shared_buffers": "'256MB'", "max_wal_size": "'512MB'", "checkpoint_timeout": "'5min'"}

// sites are what is measured: a network of four, one of one, and on the same clusters the
// baseline's.
type sites struct {
	four, one, seven      *harness.Network
	oursFour, oursOne     *ours
	oursSeven             *ours     // nil: not measured
	soon, much            *ours     // oursFour in the other modes
	dead, slow            *impaired // oursFour with one organisation that is
	unsealed              *ours     // four without cryptography; nil: not measured
	former                *ours     // four of the release before; nil: not measured
	server                *ours     // four whose CometBFT is a process of its own; nil: not measured
	tpccs                 *tpccs
	oneWorker             *oneWorker // oursOne otherwise set
	alone                 *alone
	aloneIn               *harness.Network // its cluster
	reading               reading          // at the one of oursOne
	readingAlone          reading
	pair, pairSoon        *pair // one network, in mode balanced and in mode latency
	theirsFour, theirsOne *theirs
	floor                 *theirs
	scripts               []string
}

func openSites(ctx context.Context, cfg Config, r *report.Report) (s *sites, err error) {
	s = &sites{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	four := []string{"acme", "bolt", "cargo", "delta"}
	if s.four, err = openNetwork(ctx, cfg, "four", settings, four, slices.Concat(cfg.tpccWorkloads(), cfg.mixWorkloads())...); err != nil {
		return s, err
	}
	if err = errors.Join(s.openServer(ctx, cfg, four), s.openFormer(ctx, cfg, four)); err != nil {
		return s, err
	}
	if s.one, err = openNetwork(ctx, cfg, "one", ofOne(), []string{"solo"}, cfg.readWorkloads()...); err != nil {
		return s, err
	}
	if cfg.Unsealed != "" && cfg.wants(unsealed) {
		without := cfg
		without.Chainify = cfg.Unsealed
		net, err := openNetwork(ctx, without, "unsealed", settings, four)
		s.unsealed = &ours{net, cfg, config.Balanced, bankTables()}
		if err != nil {
			return s, err
		}
	}
	if cfg.wants(agreed, unasked, agreedSoon, unaskedSoon, checked) {
		if s.pair, err = openPair(ctx, cfg); err != nil {
			return s, err
		}
		s.pairSoon = s.pair.in(config.Latency)
	}
	if cfg.Sizes && cfg.wants(chainifySeven, sevenSync) {
		if s.seven, err = openNetwork(ctx, cfg, "seven", settings, []string{"acme", "bolt", "cargo", "delta", "echo", "fox", "gulf"}); err != nil {
			return s, err
		}
		s.oursSeven = &ours{s.seven, cfg, config.Balanced, bankTables()}
	}
	tablesOfFour, tablesOfOne := bankTables(slices.Concat(cfg.tpccWorkloads(), cfg.mixWorkloads())...), bankTables(cfg.readWorkloads()...)
	s.oursFour, s.oursOne = &ours{s.four, cfg, config.Balanced, tablesOfFour}, &ours{s.one, cfg, config.Balanced, tablesOfOne}
	s.oneWorker = &oneWorker{&ours{s.one, cfg, config.Balanced, tablesOfOne}}
	s.dead, s.slow = &impaired{ours: s.oursFour, impair: dead}, &impaired{ours: s.oursFour, impair: slow}
	if s.tpccs, err = openTPCC(ctx, cfg, s.oursFour); err != nil {
		return s, err
	}
	if err := s.openAlone(ctx, cfg); err != nil {
		return s, err
	}
	s.soon, s.much = &ours{s.four, cfg, config.Latency, tablesOfFour}, &ours{s.four, cfg, config.Throughput, tablesOfFour}
	if s.theirsFour, err = newTheirs(cfg, filepath.Join(cfg.Dir, "four", "baseline"), 4, s.four.Organisations); err != nil {
		return s, err
	}
	if s.theirsOne, err = newTheirs(cfg, filepath.Join(cfg.Dir, "one", "baseline"), 1, s.one.Organisations); err != nil {
		return s, err
	}
	if s.floor, err = newTheirs(cfg, filepath.Join(cfg.Dir, "four", "floor"), 4, nil); err != nil {
		return s, err
	}
	if err := machine.Facts(r, s.four.Dir); err != nil {
		return s, err
	}
	return s, s.describe(ctx, r)
}

// serverNet names the network whose CometBFT is a process of its own.
const serverNet = "server"

// openServer makes that network, where it is measured.
func (s *sites) openServer(ctx context.Context, cfg Config, four []string) error {
	if cfg.CometBFT == "" || !cfg.wants(serverFour, serverSync) {
		return nil
	}
	net, err := openNetwork(ctx, cfg, serverNet, settings, four)
	s.server = &ours{net, cfg, config.Balanced, bankTables()}
	return err
}

// openAlone makes the cluster of PostgreSQL alone, and what reads at it and at the one of oursOne.
func (s *sites) openAlone(ctx context.Context, cfg Config) (err error) {
	more := slices.Concat(cfg.mixWorkloads(), cfg.readWorkloads())
	if s.aloneIn, s.alone, err = openAlone(ctx, cfg, more...); err != nil {
		return err
	}
	s.scripts = s.alone.scripts
	reads, err := pgbench.Write(cfg.Dir, tpccSize.OrderStatusScripts())
	s.reading = reading{at: s.one.Organisations[0], cfg: cfg, scripts: reads, up: s.oursOne}
	s.readingAlone = reading{at: s.alone.organisation, cfg: cfg, scripts: reads, up: s.alone}
	return err
}

// openAlone makes the cluster of PostgreSQL alone, as package executor has it: the library is not
// loaded. Beside an error it returns the network, too, which the caller closes.
func openAlone(ctx context.Context, cfg Config, more ...workload.Schema) (*harness.Network, *alone, error) {
	net, err := harness.New(ctx, harness.Config{Dir: filepath.Join(cfg.Dir, "plain"), PG: cfg.PG, Database: plain, Organisations: []string{"plain"}})
	if err != nil {
		return net, nil, err
	}
	o := net.Organisations[0]
	if err := o.Cluster.Configure(executor.Settings); err != nil {
		return net, nil, err
	}
	if err := net.StartDatabases(ctx); err != nil {
		return net, nil, err
	}
	if err := o.Exec(ctx, "postgres", "CREATE ROLE "+role+" LOGIN; CREATE ROLE dba LOGIN"); err != nil {
		return net, nil, err
	}
	if err := fill(ctx, o, plain, slices.Concat([]workload.Schema{workload.SmallbankSchema(cfg.Customers)}, more)); err != nil {
		return net, nil, err
	}
	scripts, err := pgbench.Scripts(cfg.Dir)
	return net, &alone{o, cfg, scripts, bankTables(more...)}, err
}

// bankTables are those of Smallbank and of what there is beside it.
func bankTables(more ...workload.Schema) []string {
	var out []string
	for _, w := range append([]workload.Schema{workload.SmallbankSchema(2)}, more...) {
		out = append(out, w.Tables...)
	}
	return out
}

// describe records what runs and how it is set.
func (s *sites) describe(ctx context.Context, r *report.Report) error {
	for name, o := range map[string]*harness.Organisation{
		"clusters": s.four.Organisations[0], "cluster of one organisation": s.one.Organisations[0], "PostgreSQL alone": s.aloneIn.Organisations[0],
	} {
		if err := describeServer(ctx, r, name, o); err != nil {
			return err
		}
	}
	return describeOrder(r, s.oursFour, s.theirsFour, s.floor)
}

// openNetwork makes clusters with both databases and puts the tables of one on the ledger, more
// than Smallbank's if told. The nodes are stopped again.
func openNetwork(ctx context.Context, cfg Config, name string, settings map[string]string, organisations []string, more ...workload.Schema) (*harness.Network, error) {
	at := harness.Config{
		Dir: filepath.Join(cfg.Dir, name), PG: cfg.PG, Chainify: cfg.Chainify, Database: database, Organisations: organisations, Consent: cfg.consent, Distant: cfg.distant,
	}
	if name == serverNet {
		at.CometBFT = cfg.CometBFT
	}
	net, err := harness.New(ctx, at)
	if err != nil {
		return nil, err
	}
	bank := []workload.Schema{workload.SmallbankSchema(cfg.Customers)}
	workloads := slices.Concat(bank, more)
	var tables []string
	for _, w := range workloads {
		tables = append(tables, w.TableList())
	}
	fmt.Fprintf(cfg.Progress, "%d customers in each database of %v\n", cfg.Customers, organisations)
	for _, step := range []func() error{
		func() error {
			return net.Each(func(o *harness.Organisation) error { return o.Cluster.Configure(settings) })
		},
		func() error { return net.StartDatabases(ctx) },
		func() error { return net.EnableChainify(ctx) },
		func() error {
			return net.Each(func(o *harness.Organisation) error {
				return errors.Join(o.Exec(ctx, "postgres", roles), o.Exec(ctx, "postgres", "CREATE DATABASE "+plain))
			})
		},
		func() error {
			return net.Each(func(o *harness.Organisation) error { return fill(ctx, o, database, workloads) })
		},
		func() error {
			return net.Each(func(o *harness.Organisation) error { return fill(ctx, o, plain, bank, forBaseline) })
		},
		func() error { return net.InitNodes(ctx) },
		func() error {
			if cfg.founded == nil {
				return nil
			}
			return cfg.founded(net)
		},
		func() error { return net.StartNodes(ctx, readyLimit) },
		func() error {
			return net.Organisations[0].Exec(ctx, "dba", "SELECT chainify.attach("+strings.Join(tables, ", ")+")")
		},
		func() error {
			_, err := harness.WaitSame(ctx, net.Organisations, 1, doneLimit)
			return err
		},
		func() error { return registerClients(ctx, net) },
		func() error { return net.Each(func(o *harness.Organisation) error { return scrubbed(ctx, o) }) },
		func() error { return net.Each(func(o *harness.Organisation) error { return o.StopNode() }) },
	} {
		if err := step(); err != nil {
			return net, err
		}
	}
	return net, nil
}

// scrubbed has the scrubber read every table once, as fast as it can, and waits for it: it begins
// with tables that were just attached.
func scrubbed(ctx context.Context, o *harness.Organisation) error {
	const rate = "chainify.scrub_rate"
	if err := o.SetSystem(ctx, readyLimit, rate, "1000000000"); err != nil {
		return err
	}
	err := harness.Poll(ctx, doneLimit, "the first scrub at "+o.Name, func(ctx context.Context) (bool, string, error) {
		var left int
		err := o.Scan(ctx, "SELECT count(*) FROM chainify.stat_scrubber WHERE name IS NOT NULL AND read_at IS NULL", &left)
		return err == nil && left == 0, fmt.Sprintf("%d tables are left, %v", left, err), nil
	})
	return errors.Join(err, o.SetSystem(ctx, readyLimit, rate, ""))
}

const roles = "CREATE ROLE " + role + " LOGIN IN ROLE chainify_client; CREATE ROLE dba LOGIN IN ROLE chainify_admin"

// forBaseline makes what the baseline keeps in its database.
const forBaseline = baseline.StateSQL + "; GRANT USAGE ON SCHEMA baseline TO " + role + "; GRANT SELECT, UPDATE ON baseline.state TO " + role

// fill makes the tables of workloads in one of an organisation's databases, runs what more there
// is, and leaves the server nothing to do.
func fill(ctx context.Context, o *harness.Organisation, database string, workloads []workload.Schema, more ...string) (err error) {
	conn, err := o.Cluster.Connect(ctx, database, "postgres")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var statements []string
	for _, w := range workloads {
		statements = append(statements, w.SQL, w.Fill, w.Grants(role), w.Grants("dba"))
	}
	for _, sql := range slices.Concat(statements, more, []string{"VACUUM ANALYZE", "CHECKPOINT"}) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("prepare %s: %w", o.Name, err)
		}
	}
	return nil
}

func (s *sites) networks() []*harness.Network {
	var out []*harness.Network
	for _, net := range []*harness.Network{s.four, s.one, s.seven, s.aloneIn} {
		if net != nil {
			out = append(out, net)
		}
	}
	if s.unsealed != nil && s.unsealed.net != nil {
		out = append(out, s.unsealed.net)
	}
	for _, o := range []*ours{s.server, s.former} {
		if o != nil && o.net != nil {
			out = append(out, o.net)
		}
	}
	if s.pair != nil && s.pair.net != nil {
		out = append(out, s.pair.net)
	}
	return out
}

func (s *sites) close() error {
	var errs []error
	for _, net := range s.networks() {
		errs = append(errs, net.Close())
	}
	if s.tpccs != nil && s.tpccs.alone != nil {
		errs = append(errs, s.tpccs.alone.Close())
	}
	return errors.Join(errs...)
}

func (s *sites) remove() error {
	var errs []error
	for _, net := range s.networks() {
		errs = append(errs, net.Remove())
	}
	if s.tpccs.alone != nil {
		errs = append(errs, s.tpccs.alone.Remove())
	}
	for _, script := range slices.Concat(s.scripts, s.reading.scripts) {
		script, _, _ = strings.Cut(script, "@")
		errs = append(errs, os.Remove(script))
	}
	return errors.Join(errs...)
}
