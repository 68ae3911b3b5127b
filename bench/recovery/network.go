package recovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

const (
	database   = "bank"
	readyLimit = time.Minute
	// putLimit bounds the scan of a large table by four organisations at once.
	putLimit   = 5 * time.Minute
	cureLimit  = time.Minute
	clientEach = 2
	settle     = 2 * time.Second // of load before a repetition begins
	// windowSeconds are compared: those before the tampering, and those from the touch on.
	windowSeconds = 3
)

var organisations = []string{"acme", "bolt", "cargo", "delta"}

// open makes four organisations with one large table on the ledger.
func open(ctx context.Context, cfg Config) (*harness.Network, error) {
	net, err := harness.New(ctx, harness.Config{
		Dir: filepath.Join(cfg.Dir, "recovery"), PG: cfg.PG, Chainify: cfg.Chainify, Database: database, Organisations: organisations,
	})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(cfg.Progress, "%d rows in each database of %v\n", cfg.Rows, organisations)
	for _, step := range []func() error{
		func() error {
			return net.Each(func(o *harness.Organisation) error { return o.Cluster.Configure(settings) })
		},
		func() error { return net.StartDatabases(ctx) },
		func() error { return net.EnableChainify(ctx) },
		func() error { return net.Each(func(o *harness.Organisation) error { return fill(ctx, o, cfg.Rows) }) },
		func() error { return net.InitNodes(ctx) },
		func() error { return net.StartNodes(ctx, readyLimit) },
		func() error {
			return net.Organisations[0].Exec(ctx, "dba", "SET chainify.wait_timeout = '5min'; SELECT chainify.attach('account')")
		},
		func() error {
			_, err := harness.WaitSame(ctx, net.Organisations, 1, putLimit)
			return err
		},
	} {
		if err := step(); err != nil {
			return net, err
		}
	}
	return net, nil
}

// settings of all clusters: the scrubber would find the row before it is touched.
var settings = map[string]string{"shared_buffers": "'128MB'", "max_wal_size": "'4GB'", "autovacuum": "off", "chainify.scrub_rate": "0"}

func fill(ctx context.Context, o *harness.Organisation, rows int) error {
	return o.Exec(ctx, "postgres", fmt.Sprintf(`CREATE ROLE bank LOGIN IN ROLE chainify_client; CREATE ROLE dba LOGIN IN ROLE chainify_admin;
		CREATE TABLE account (id int PRIMARY KEY, balance numeric NOT NULL, note text);
		INSERT INTO account SELECT i, i * 1.5, 'account of customer ' || i FROM generate_series(1, %d) i;
		GRANT SELECT, UPDATE ON account TO bank, dba`, rows))
}

// incident is what one tampered row cost.
type incident struct {
	cured  time.Duration // from the touch until its organisation has the block, the record, and serves
	before []int64       // what the other organisations' clients did in each second
	during []int64
}

// loss is the share of their throughput that the others lost.
func (i incident) loss() float64 { return 1 - mean(i.during)/mean(i.before) }

func mean(seconds []int64) float64 {
	var sum int64
	for _, n := range seconds {
		sum += n
	}
	return float64(sum) / float64(len(seconds))
}

// tamper changes a row of the last organisation while clients of the others load all, has one of
// them touch it, and measures.
func tamper(ctx context.Context, cfg Config, net *harness.Network, repetition int) (i incident, err error) {
	others, odd := net.Organisations[:len(net.Organisations)-1], net.Organisations[len(net.Organisations)-1]
	var done atomic.Int64
	group, loadCtx := errgroup.WithContext(ctx)
	loadCtx, stop := context.WithCancel(loadCtx)
	for n := range clientEach * len(others) {
		rng := rand.New(rand.NewPCG(cfg.Seed, uint64(repetition)<<32|uint64(n)))
		group.Go(func() error { return load(loadCtx, others[n%len(others)], cfg.Rows, rng, &done) })
	}
	defer func() {
		stop()
		err = errors.Join(err, group.Wait())
	}()
	row := cfg.Rows - repetition // clients leave the last rows alone
	if err := pause(loadCtx, settle); err != nil {
		return i, err
	}
	if i.before, err = watch(loadCtx, &done); err != nil {
		return i, err
	}
	if err := odd.Exec(ctx, "postgres", fmt.Sprintf("SET chainify.guard = off; SET session_replication_role = replica; UPDATE account SET balance = balance + 1000000 WHERE id = %d", row)); err != nil {
		return i, err
	}
	measured := make(chan error, 1)
	go func() {
		var err error
		i.during, err = watch(loadCtx, &done)
		measured <- err
	}()
	started := time.Now()
	err = touch(ctx, others[0], odd, row)
	i.cured = time.Since(started)
	return i, errors.Join(err, <-measured)
}

// watch counts what is done in each second from now on.
func watch(ctx context.Context, done *atomic.Int64) ([]int64, error) {
	var counts []int64
	before, started := done.Load(), time.Now()
	for n := range windowSeconds {
		if err := pause(ctx, time.Until(started.Add(time.Duration(n+1)*time.Second))); err != nil {
			return nil, err
		}
		now := done.Load()
		counts = append(counts, now-before)
		before = now
	}
	return counts, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// load is one client that waits for each answer.
func load(ctx context.Context, o *harness.Organisation, rows int, rng *rand.Rand, done *atomic.Int64) error {
	conn, err := o.Cluster.Connect(context.WithoutCancel(ctx), database, "bank")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		if _, err := change(context.WithoutCancel(ctx), conn, 1+rng.IntN(rows-rowsKept)); err != nil {
			return err
		}
		done.Add(1)
	}
	return nil
}

// change submits one transaction and waits for the number of its block.
func change(ctx context.Context, conn *pgx.Conn, row int) (block uint64, err error) {
	var outcome bool
	err = conn.QueryRow(ctx, "SELECT block, outcome FROM chainify.execute('UPDATE account SET balance = balance + 1 WHERE id = $1', $1::int)", row).Scan(&block, &outcome)
	if err == nil && !outcome {
		err = fmt.Errorf("the change of row %d failed", row)
	}
	return block, err
}

// touch changes the row by the ledger and waits until its organisation is back: it has the block,
// what was found is cured, the node takes part.
func touch(ctx context.Context, other, odd *harness.Organisation, row int) error {
	conn, err := other.Cluster.Connect(ctx, database, "bank")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	block, err := change(ctx, conn, row)
	if err != nil {
		return err
	}
	home, err := odd.Connect(ctx)
	if err != nil {
		return err
	}
	defer home.Close(context.WithoutCancel(ctx))
	return harness.Poll(ctx, cureLimit, "recovery of "+odd.Name, func(ctx context.Context) (bool, string, error) {
		var position uint64
		var open, cured int
		var state string
		err := home.QueryRow(ctx, `SELECT last_block, coalesce(state, '') FROM chainify.status`).Scan(&position, &state)
		if err == nil {
			err = home.QueryRow(ctx, `SELECT count(*) FILTER (WHERE cured_by IS NULL), count(*) FILTER (WHERE (key ->> 'id')::int = $1 AND cured_by IS NOT NULL)
				FROM chainify.deviations`, row).Scan(&open, &cured)
		}
		back := position >= block && open == 0 && cured > 0 && (state == "serving" || state == "executing")
		return back, fmt.Sprintf("at block %d of %d, %d open, %d cured, %s", position, block, open, cured, state), err
	})
}
