package network

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/workload"
)

const (
	readyLimit = time.Minute
	doneLimit  = 3 * time.Minute // a block of thousands takes a minute where a processor is shared by many
	submitters = 8               // clients that do not wait, spread over the organisations
	inFlight   = 8               // bundles of one of them without an outcome
)

// ours is a network of Chainify: every organisation's database and node, in a mode.
type ours struct {
	net    *harness.Network
	cfg    Config
	mode   config.Mode
	tables []string
}

func (o *ours) vacuum(ctx context.Context) error {
	return o.net.Each(func(member *harness.Organisation) error { return vacuum(ctx, member, database, o.tables) })
}

// vacuum does, before a measurement, what autovacuum would have done since the last.
func vacuum(ctx context.Context, o *harness.Organisation, database string, tables []string) (err error) {
	conn, err := o.Cluster.Connect(ctx, database, "postgres")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for _, table := range tables {
		if _, err := conn.Exec(ctx, "VACUUM (ANALYZE) "+table); err != nil {
			return fmt.Errorf("vacuum %s of %s: %w", table, o.Name, err)
		}
	}
	return nil
}

// oneWorker is an organisation whose executor has one worker.
type oneWorker struct{ *ours }

const workersSetting = "chainify.executor_workers"

func (o *oneWorker) start(ctx context.Context) error {
	err := o.net.Each(func(member *harness.Organisation) error {
		return member.SetSystem(ctx, readyLimit, workersSetting, "1")
	})
	return errors.Join(err, o.ours.start(ctx))
}

func (o *oneWorker) stop() error {
	err := o.ours.stop()
	return errors.Join(err, o.net.Each(func(member *harness.Organisation) error {
		return member.SetSystem(context.Background(), readyLimit, workersSetting, "")
	}))
}

func (o *ours) start(ctx context.Context) error {
	err := o.net.Each(func(member *harness.Organisation) error {
		return member.Configure(map[string]any{"mode": string(o.mode)})
	})
	if err != nil {
		return err
	}
	return o.net.StartNodes(ctx, readyLimit)
}

func (o *ours) stop() error {
	return o.net.Each(func(o *harness.Organisation) error { return o.StopNode() })
}

func (o *ours) nodes() []int {
	var out []int
	for _, member := range o.net.Organisations {
		out = append(out, member.PIDs()...)
	}
	return out
}

func (o *ours) databases() []int { return postmasters(o.net.Organisations) }

func postmasters(organisations []*harness.Organisation) []int {
	var out []int
	for _, o := range organisations {
		out = append(out, o.Cluster.PID())
	}
	return out
}

// members are organisations at which clients submit.
type members []*harness.Organisation

func (o *ours) members() members { return o.net.Organisations }

func (o *ours) wait(clients int) func(context.Context, int) (load, error) {
	return o.members().wait(o.cfg, clients)
}

func (o *ours) asynchronous() func(context.Context, int) (load, error) {
	return o.members().asynchronous(o.cfg)
}

// weighed adds what the load puts on the organisations' disks.
func (o *ours) weighed(do func(context.Context, int) (load, error)) func(context.Context, int) (load, error) {
	return weighed(func(ctx context.Context) (disk, error) { return diskOf(ctx, o.members()) }, len(o.members()), do)
}

func (o *ours) committed(ctx context.Context) ([]int64, error) { return o.members().committed(ctx) }

func (o *ours) waitFor(ctx context.Context, before []int64, count int) error {
	return o.members().waitFor(ctx, before, count)
}

// stream is a stream of transactions of its own for each client and repetition.
func (c Config) stream(repetition, client int) *workload.Smallbank {
	return workload.NewSmallbank(c.Seed, uint64(repetition)<<32|uint64(client), int64(c.Customers))
}

// wait submits by chainify.execute from some clients, spread over the organisations, each waiting
// for its outcome.
func (m members) wait(cfg Config, clients int) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (l load, err error) {
		var sessions sessions
		defer func() { err = errors.Join(err, sessions.close(ctx)) }()
		return waiting(ctx, clients, cfg.patient(clients), func(i int) (func(context.Context) error, error) {
			conn, err := sessions.open(ctx, m[i%len(m)], database)
			if err != nil {
				return nil, err
			}
			calls := cfg.stream(repetition, i)
			return func(ctx context.Context) error {
				var outcome bool
				var text *string
				err := conn.QueryRow(ctx, "SELECT outcome, error FROM chainify.execute($1)", calls.Block(1)[0].FunctionText()).Scan(&outcome, &text)
				if err == nil && !outcome {
					return fmt.Errorf("a transaction failed: %s", *text)
				}
				return err
			}, nil
		})
	}
}

// asynchronous is flooded with Smallbank.
func (m members) asynchronous(cfg Config) func(context.Context, int) (load, error) {
	return m.flooded(cfg, pace{bundle, inFlight}, cfg.uniform)
}

// flooded is flood with the transactions of a stream.
func (m members) flooded(cfg Config, at pace, of stream) func(context.Context, int) (load, error) {
	return m.floodedBy(submitters, cfg, at, of)
}

// floodedBy is flooded by a number of clients.
func (m members) floodedBy(clients int, cfg Config, at pace, of stream) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (load, error) {
		return m.flood(ctx, clients, cfg, at, func(client int) func() string {
			next := of(repetition, client)
			return func() string { return next().text }
		})
	}
}

// flood submits by chainify.submit_batch from all members what each client's stream gives; it is
// done when all members have committed all.
func (m members) flood(ctx context.Context, clients int, cfg Config, at pace, stream func(client int) (next func() string)) (l load, err error) {
	var sessions sessions
	defer func() { err = errors.Join(err, sessions.close(ctx)) }()
	each := make([]submitter, clients)
	for i := range each {
		conn, err := sessions.open(ctx, m[i%len(m)], database)
		if err != nil {
			return l, err
		}
		each[i] = &session{conn: conn, next: stream(i), pace: at}
	}
	before, err := m.committed(ctx)
	if err != nil {
		return l, err
	}
	return flood(ctx, each, cfg.Seconds, func(ctx context.Context, count int) error { return m.waitFor(ctx, before, count) })
}

// pace is how many transactions a client submits at a time, and how many times at most without an
// outcome.
type pace struct{ size, most int }

// session is one client that submits bundles.
type session struct {
	conn *pgx.Conn
	next func() string // the next transaction
	pace
	last [][]byte // of each bundle that may have no outcome yet, the id of its last transaction
}

func (s *session) submit(ctx context.Context) (int, error) {
	if len(s.last) == s.most {
		if err := s.oldest(ctx); err != nil {
			return 0, err
		}
	}
	statements := make([]string, s.size)
	for i := range statements {
		statements[i] = s.next()
	}
	var ids [][]byte
	if err := s.conn.QueryRow(ctx, "SELECT chainify.submit_batch($1)", statements).Scan(&ids); err != nil {
		return 0, err
	}
	s.last = append(s.last, ids[len(ids)-1])
	return len(ids), nil
}

// oldest waits for the outcome of the oldest bundle.
func (s *session) oldest(ctx context.Context) error {
	var known, succeeded int
	if err := s.conn.QueryRow(ctx, "SELECT count(*), count(*) FILTER (WHERE outcome) FROM chainify.wait($1, $2)", s.last[0], doneLimit).Scan(&known, &succeeded); err != nil {
		return err
	}
	if known == 0 {
		return fmt.Errorf("a transaction has no outcome after %s", doneLimit)
	}
	if succeeded == 0 {
		return errors.New("a transaction failed")
	}
	s.last = s.last[1:]
	return nil
}

func (s *session) finish(ctx context.Context) error {
	for len(s.last) > 0 {
		if err := s.oldest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// committed counts each member's transactions.
func (m members) committed(ctx context.Context) ([]int64, error) {
	out := make([]int64, len(m))
	for i, member := range m {
		if err := member.Scan(ctx, "SELECT coalesce(sum(tx_count), 0) FROM chainify.ledger", &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (m members) waitFor(ctx context.Context, before []int64, count int) error {
	return harness.Poll(ctx, doneLimit, "all transactions in all databases", func(ctx context.Context) (bool, string, error) {
		now, err := m.committed(ctx)
		if err != nil {
			return false, "", err
		}
		all := true
		for i := range now {
			all = all && now[i]-before[i] >= int64(count)
		}
		return all, fmt.Sprintf("%v of %d after %v", now, count, before), nil
	})
}

// sessions are clients' connections.
type sessions []*pgx.Conn

func (s *sessions) open(ctx context.Context, o *harness.Organisation, database string) (*pgx.Conn, error) {
	conn, err := o.Cluster.Connect(ctx, database, role)
	if err == nil {
		*s = append(*s, conn)
	}
	return conn, err
}

func (s sessions) close(ctx context.Context) error {
	var errs []error
	for _, conn := range s {
		errs = append(errs, conn.Close(context.WithoutCancel(ctx)))
	}
	return errors.Join(errs...)
}
