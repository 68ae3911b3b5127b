package network

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

const (
	hotRows    = "hot rows, interactive"
	hotClients = 16
	hotTries   = 10_000 // of one transaction
	thinks     = 3 * time.Millisecond
	looksEvery = 5 * time.Millisecond

	lostSessions = "lost_sessions"
	longestWait  = "longest_wait_ms"
)

// contended lets clients change one of a few rows each, and think meanwhile. A transaction that
// loses is begun again. Only those that commit count.
func (o *ours) contended(clients int) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (l load, err error) {
		meeting := &meeting{o: o}
		var each []*hotClient
		defer func() {
			for _, c := range each {
				err = errors.Join(err, c.conn.Close(context.WithoutCancel(ctx)))
			}
		}()
		waits, end, err := watchWaits(ctx, o.members())
		if err != nil {
			return l, err
		}
		l, err = waiting(ctx, clients, o.cfg.patient(clients), func(i int) (func(context.Context) error, error) {
			c := &hotClient{meeting: meeting, at: o.members()[i%len(o.members())], random: rand.New(rand.NewPCG(o.cfg.Seed, uint64(repetition)<<32|uint64(i)))}
			if err := c.connect(ctx); err != nil {
				return nil, err
			}
			each = append(each, c)
			return c.commit, nil
		})
		if err := errors.Join(err, end()); err != nil {
			return l, err
		}
		l.more = map[string]float64{
			retriesOfEach: float64(meeting.retries.Load()) / float64(max(1, l.count)), lostSessions: float64(meeting.lost.Load()),
			longestWait: float64(time.Duration(waits.Load()).Microseconds()) / 1000,
		}
		return l, o.same(ctx)
	}
}

// meeting counts what clients of one measurement lost against each other.
type meeting struct {
	o             *ours
	retries, lost atomic.Int64
}

// hotClient is one of them.
type hotClient struct {
	meeting *meeting
	at      *harness.Organisation
	conn    *pgx.Conn
	random  *rand.Rand
}

func (c *hotClient) connect(ctx context.Context) (err error) {
	if c.conn, err = c.at.Cluster.Connect(ctx, database, role); err != nil {
		return err
	}
	_, err = c.conn.Exec(ctx, "SET chainify.writes = 'effects'")
	return err
}

// commit tries one transaction until it commits.
func (c *hotClient) commit(ctx context.Context) error {
	id := 1 + c.random.IntN(workload.HotRows)
	for range hotTries {
		err := c.try(ctx, id)
		if err == nil {
			return nil
		}
		if c.conn.IsClosed() {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c.meeting.lost.Add(1)
			if err := c.connect(ctx); err != nil {
				return err
			}
			continue
		}
		if !retryable(err) {
			return err
		}
		c.meeting.retries.Add(1)
		if _, err := c.conn.Exec(ctx, "ROLLBACK"); err != nil {
			return err
		}
	}
	return fmt.Errorf("a transaction did not commit in %d tries", hotTries)
}

// try reads a row, thinks, changes it, thinks and commits.
func (c *hotClient) try(ctx context.Context, id int) error {
	if _, err := c.conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	var v int64
	if err := c.conn.QueryRow(ctx, "SELECT v FROM tpcb.hot WHERE id = $1", id).Scan(&v); err != nil {
		return err
	}
	if err := until(ctx, time.Now().Add(thinks)); err != nil {
		return err
	}
	if _, err := c.conn.Exec(ctx, "UPDATE tpcb.hot SET v = v + 1 WHERE id = $1", id); err != nil {
		return err
	}
	if err := until(ctx, time.Now().Add(thinks)); err != nil {
		return err
	}
	tag, err := c.conn.Exec(ctx, "COMMIT")
	if err == nil && tag.String() != "COMMIT" {
		err = fmt.Errorf("COMMIT gave %s", tag)
	}
	return err
}

// retryable are a transaction that lost, and a deadlock.
func retryable(err error) bool {
	var failed *pgconn.PgError
	return errors.As(err, &failed) && (failed.Code == "40001" || failed.Code == deadlocked)
}

// breathe waits before a transaction that lost is tried again, a random time of up to 2^attempt
// half milliseconds, at most 32 ms: those that met do not all meet again.
func breathe(ctx context.Context, attempt int) error {
	most := 500 * time.Microsecond << min(attempt, 6)
	return until(ctx, time.Now().Add(rand.N(most)))
}

// watchWaits looks, every few milliseconds at every organisation, for how long a session that
// executes a block has waited for a lock. The longest wait found is at most that much too short.
// end ends it.
func watchWaits(ctx context.Context, at members) (longest *atomic.Int64, end func() error, err error) {
	watched, cancel := context.WithCancel(ctx)
	var open sessions
	defer func() {
		if err != nil {
			cancel()
			err = errors.Join(err, open.close(ctx))
		}
	}()
	longest = &atomic.Int64{}
	group := &errgroup.Group{}
	for _, o := range at {
		conn, err := o.Connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		open = append(open, conn)
	}
	for _, conn := range open {
		group.Go(func() error {
			tick := time.NewTicker(looksEvery)
			defer tick.Stop()
			for {
				select {
				case <-watched.Done():
					return nil
				case <-tick.C:
				}
				var us int64
				// The look under way is let end, so that the session is left whole.
				if err := conn.QueryRow(context.WithoutCancel(ctx), waitSQL).Scan(&us); err != nil {
					return fmt.Errorf("look for waits of a block: %w", err)
				}
				for seen := longest.Load(); us*1000 > seen && !longest.CompareAndSwap(seen, us*1000); seen = longest.Load() {
				}
			}
		})
	}
	return longest, func() error {
		cancel()
		return errors.Join(group.Wait(), open.close(ctx))
	}, nil
}

// waitSQL is the longest wait of now, in microseconds.
const waitSQL = `SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart) * 1000000), 0)::bigint
	FROM pg_locks WHERE NOT granted AND waitstart IS NOT NULL
	AND pid IN (SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()
		AND (query LIKE '%execute_block(%' OR query LIKE 'chainify block%' OR application_name LIKE 'chainify block%'))`

// hotFigures says what sessions that meet do beside one alone, where both were measured.
func hotFigures(r *report.Report) error {
	alone, crowd := r.Find(hotRows, 1), r.Find(hotRows, hotClients)
	if alone == nil || crowd == nil {
		return nil
	}
	what := fmt.Sprintf("%d sessions at four organisations change %d rows in transactions that think %s twice", hotClients, workload.HotRows, thinks)
	lost, waits := crowd.Details(lostSessions), crowd.Details(longestWait)
	sum, longest := 0.0, 0.0
	for i := range lost {
		sum, longest = sum+lost[i], max(longest, waits[i])
	}
	return errors.Join(
		r.AddRatio("plain.hot_rows", crowd.Values(), alone.Values(), targets.Of("plain.hot_rows"), what+" / one session alone: transactions committed a second"),
		r.AddFigure("plain.hot_rows_retries", crowd.Details(retriesOfEach), "tries/tx", report.Target{}, "attempts that got 40001 for each transaction that committed"),
		r.AddPooled("plain.hot_rows_lost", sum, 0, lost, "sessions", targets.Of("plain.hot_rows_lost"), "sessions that lost their connection, in all repetitions"),
		r.AddPooled("plain.hot_rows_longest_wait", longest, 0, waits, "ms", targets.Of("plain.hot_rows_longest_wait"),
			fmt.Sprintf("the longest wait of a block for a lock, in all repetitions; looked for every %s", looksEvery)),
	)
}
