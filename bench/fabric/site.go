package fabric

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/relay"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/workload"
)

const (
	database   = "bank"
	role       = "bank"
	readyLimit = time.Minute
	doneLimit  = 3 * time.Minute
	turns      = "chainify.debug_turns"
	socket     = "chainify.node_socket"
	roles      = "CREATE ROLE " + role + " LOGIN IN ROLE chainify_client, chainify_reader; CREATE ROLE dba LOGIN IN ROLE chainify_admin"
	customers  = 100_000
	accounts   = 10_000
	// accountsMore are those of the paper's appendix C. The smaller workload uses the first.
	accountsMore = 20_000
)

// settings of all clusters: no work for earlier transactions starts within a measurement.
var settings = map[string]string{
	"shared_buffers":               "'256MB'",
	"max_wal_size":                 "'16GB'",
	"checkpoint_timeout":           "'1h'",
	"autovacuum":                   "off",
	"chainify.checkpoint_interval": "1000000",
	"chainify.scrub_interval":      "'1d'",
}

// members are the four peers of the papers, each with one client.
var members = []string{"acme", "bolt", "cargo", "delta"}

// site is the network with its relays, and a session for each organisation's client.
type site struct {
	net    *harness.Network
	relays []*relay.Relay
	nodes  []*gateway.Client
	conns  []*pgx.Conn
	tables []string
	turns  bool
	order  atomic.Pointer[order] // of the run under way
	failed atomic.Pointer[error] // of a relay's transaction
	raise  atomic.Bool           // write sets claim to be new
}

// openSite makes the network with both workloads' tables on its ledger. The caller ends it with
// close.
func openSite(ctx context.Context, cfg Config) (s *site, err error) {
	s = &site{turns: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	s.net, err = harness.New(ctx, harness.Config{Dir: filepath.Join(cfg.Dir, "fabric"), PG: cfg.PG, Chainify: cfg.Chainify, Database: database, Organisations: members})
	if err != nil {
		return s, err
	}
	schemas := []workload.Schema{workload.FabricSchema(customers), mixOf(configuration{accounts: accountsMore}).Schema()}
	var lists []string
	for _, w := range schemas {
		lists = append(lists, w.TableList())
		s.tables = append(s.tables, w.Tables...)
	}
	fmt.Fprintf(cfg.Progress, "%d customers and %d accounts in each database of %v\n", customers, accountsMore, members)
	each := func(do func(o *harness.Organisation) error) func() error {
		return func() error { return s.net.Each(do) }
	}
	for _, step := range []func() error{
		each(func(o *harness.Organisation) error { return o.Cluster.Configure(settings) }),
		func() error { return s.net.StartDatabases(ctx) },
		func() error { return s.net.EnableChainify(ctx) },
		each(func(o *harness.Organisation) error { return o.Exec(ctx, "postgres", roles) }),
		each(func(o *harness.Organisation) error { return fill(ctx, o, schemas) }),
		func() error { return s.net.InitNodes(ctx) },
		each(func(o *harness.Organisation) error {
			return o.Configure(map[string]any{"bundle_transactions": bundleMax, "bundle_bytes": bundleBytes})
		}),
		func() error { return s.net.StartNodes(ctx, readyLimit) },
		func() error {
			return s.net.Organisations[0].Exec(ctx, "dba", "SELECT chainify.attach("+strings.Join(lists, ", ")+")")
		},
		func() error { return s.same(ctx) },
		func() error { return s.connect(ctx) },
	} {
		if err := step(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// A block of the largest size is one bundle.
const (
	bundleMax   = 2048
	bundleBytes = 1_048_000
)

// fill makes the tables in an organisation's database.
func fill(ctx context.Context, o *harness.Organisation, schemas []workload.Schema) error {
	for _, w := range schemas {
		for _, sql := range []string{w.SQL, w.Fill, w.Grants(role), w.Grants("dba")} {
			if err := o.Exec(ctx, "postgres", sql); err != nil {
				return fmt.Errorf("prepare %s: %w", o.Name, err)
			}
		}
	}
	for _, sql := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if err := o.Exec(ctx, "postgres", sql); err != nil {
			return err
		}
	}
	return nil
}

// connect puts a relay before each organisation's node, and opens its client's session.
func (s *site) connect(ctx context.Context) error {
	for i, o := range s.net.Organisations {
		node, err := gateway.Dial(ctx, o.Socket())
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, node)
		path := filepath.Join(s.net.Dir, "run", "relay"+o.Name)
		r, err := relay.New(path, func(set *wire.Statement) { s.relayed(i, set) })
		if err != nil {
			return err
		}
		s.relays = append(s.relays, r)
		if err := o.SetSystem(ctx, readyLimit, socket, path); err != nil {
			return err
		}
		conn, err := o.Cluster.Connect(ctx, database, role)
		if err != nil {
			return err
		}
		s.conns = append(s.conns, conn)
		if _, err := conn.Exec(ctx, "SET chainify.writes = 'effects'; SET chainify.statement_retries = 0"); err != nil {
			return err
		}
		err = harness.Poll(ctx, readyLimit, "the relay of "+o.Name, func(ctx context.Context) (bool, string, error) {
			var now string
			err := conn.QueryRow(ctx, "SHOW "+socket).Scan(&now)
			return now == path, now, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// relayed hands a simulated transaction on.
func (s *site) relayed(of int, set *wire.Statement) {
	if s.raise.Load() {
		if err := unaged(set); err != nil {
			s.failed.CompareAndSwap(nil, &err)
			return
		}
	}
	if o := s.order.Load(); o != nil {
		o.take(of, set)
	}
}

// unaged has a write set claim that it saw a block far ahead, so that no gateway finds it stale.
// Below SERIALIZABLE nothing else reads this claim.
func unaged(s *wire.Statement) error {
	set, err := wire.DecodeWriteSet(s.Effects)
	if err != nil {
		return err
	}
	if set.Isolation == wire.Serializable {
		return errors.New("what a SERIALIZABLE write set saw decides more than its early abort")
	}
	set.Snapshot = farAhead
	s.Effects = set.Encode()
	return nil
}

// farAhead is the number of a block that no benchmark comes to.
const farAhead = 1 << 40

// take sets whether blocks are reordered, everywhere, between two runs.
func (s *site) take(ctx context.Context, w way) error {
	s.raise.Store(w.kind == effects && !w.earlyAbort)
	if wanted := w.turns || w.kind == sql; wanted != s.turns {
		value := map[bool]string{true: "", false: "off"}[wanted]
		if err := s.net.Each(func(o *harness.Organisation) error { return o.SetSystem(ctx, readyLimit, turns, value) }); err != nil {
			return err
		}
		s.turns = wanted
	}
	return nil
}

// vacuum does what autovacuum would have done since the last run.
func (s *site) vacuum(ctx context.Context) error {
	return s.net.Each(func(o *harness.Organisation) error {
		return o.Exec(ctx, "postgres", "VACUUM "+strings.Join(s.tables, ", "))
	})
}

func (s *site) same(ctx context.Context) error {
	_, err := harness.WaitSame(ctx, s.net.Organisations, 1, doneLimit)
	return err
}

// run fires a workload at the four organisations in one way, for so many seconds or until some
// blocks have ended. The first part of the time does not count. It returns when every transaction
// has its outcome.
func (s *site) run(ctx context.Context, e experiment, w way, repetition, seconds, rate int) (report.Sample, error) {
	if err := errors.Join(s.take(ctx, w), s.vacuum(ctx)); err != nil {
		return report.Sample{}, err
	}
	tip, err := s.net.Organisations[0].Tip(ctx)
	if err != nil {
		return report.Sample{}, err
	}
	busy, before, started := machine.Load(), time.Duration(0), time.Now()
	if before, err = s.cpu(); err != nil {
		return report.Sample{}, err
	}
	m := &meter{from: started.Add(lead), until: started.Add(lead + time.Duration(seconds)*time.Second), before: started}
	o := newOrder(s.nodes, role, w.blocks(e), m)
	s.order.Store(o)
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return o.run(groupCtx) })
	group.Go(func() error {
		defer o.end()
		return s.fire(groupCtx, e, w, m, o, repetition, rate)
	})
	err = group.Wait()
	s.order.Store(nil)
	if failed := s.failed.Load(); failed != nil {
		err = errors.Join(err, *failed)
	}
	for _, r := range s.relays {
		err = errors.Join(err, r.Err())
	}
	if err := errors.Join(err, s.same(ctx)); err != nil {
		return report.Sample{}, err
	}
	after, err := s.cpu()
	if err != nil {
		return report.Sample{}, err
	}
	sample := m.sample(repetition)
	sample.Load = busy
	if n := sample.Transactions; n > 0 {
		// All that were fired cost, those of the lead and those that failed too.
		sample.ServerCPUUS = float64((after - before).Microseconds()) / float64(n) * sample.Seconds / m.until.Sub(started).Seconds()
	}
	var mean float64
	err = s.net.Organisations[0].Scan(ctx, fmt.Sprintf("SELECT coalesce(avg(tx_count), 0)::float8 FROM chainify.ledger WHERE number > %d", tip.Number), &mean)
	sample.Detail[perBlock] = mean
	return sample, err
}

const (
	lead     = time.Second // a block of the largest size ends in it
	perBlock = "transactions_per_block"
)

// fire has all clients fire until the meter's end.
func (s *site) fire(ctx context.Context, e experiment, w way, m *meter, o *order, repetition, rate int) error {
	group, ctx := errgroup.WithContext(ctx)
	for of, conn := range s.conns {
		next := e.stream(w, uint64(repetition)<<32|uint64(of))
		one := simulate(conn, m, func(set *wire.Statement) { s.relayed(of, set) })
		if w.kind == sql {
			one = func(_ context.Context, s workload.Statement) error {
				o.take(of, statement(s))
				return nil
			}
		}
		group.Go(func() error { return fire(ctx, m, rate, next, one) })
	}
	return group.Wait()
}

// cpu is the processor time of all nodes and databases.
func (s *site) cpu() (time.Duration, error) {
	var pids []int
	for _, o := range s.net.Organisations {
		pids = append(pids, o.NodePID(), o.Cluster.PID())
	}
	return machine.TreesCPU(pids)
}

func (s *site) close(ctx context.Context) error {
	var errs []error
	for _, conn := range s.conns {
		errs = append(errs, conn.Close(context.WithoutCancel(ctx)))
	}
	for _, node := range s.nodes {
		errs = append(errs, node.Close())
	}
	for _, r := range s.relays {
		errs = append(errs, r.Close())
	}
	if s.net != nil {
		errs = append(errs, s.net.Close())
	}
	return errors.Join(errs...)
}
