package network

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// lookEvery is how often the counter asks a database.
const lookEvery = 5 * time.Millisecond

// counter knows how many transactions of a measurement the baseline's databases have executed,
// and holds submitters back while too many have not been.
type counter struct {
	conns     []*pgx.Conn // the first is the watcher's until it ends
	before    []int64
	submitted atomic.Int64
	executed  atomic.Int64 // by the first database
	end       context.CancelFunc
	watched   chan error
}

func newCounter(ctx context.Context, databases []*harness.Organisation) (*counter, error) {
	c := &counter{watched: make(chan error, 1)}
	for _, o := range databases {
		conn, err := o.Cluster.Connect(ctx, plain, role)
		if err != nil {
			return nil, errors.Join(err, c.disconnect(ctx))
		}
		c.conns = append(c.conns, conn)
	}
	var err error
	if c.before, err = c.look(ctx, len(c.conns)); err != nil {
		return nil, errors.Join(err, c.disconnect(ctx))
	}
	watching, end := context.WithCancel(ctx)
	c.end = end
	go func() { c.watched <- c.watch(watching) }()
	return c, nil
}

// look asks the first n databases.
func (c *counter) look(ctx context.Context, n int) ([]int64, error) {
	out := make([]int64, n)
	for i := range out {
		if err := c.conns[i].QueryRow(ctx, "SELECT executed FROM baseline.state").Scan(&out[i]); err != nil {
			return nil, fmt.Errorf("count what was executed: %w", err)
		}
	}
	return out, nil
}

func (c *counter) watch(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := c.look(context.WithoutCancel(ctx), 1)
		if err != nil {
			return err
		}
		c.executed.Store(now[0] - c.before[0])
	}
}

// room waits until n transactions more may be in flight.
func (c *counter) room(ctx context.Context, n int) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for c.submitted.Add(int64(n))-c.executed.Load() > backlogMost {
		c.submitted.Add(-int64(n))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// waitFor waits until every database has executed so many.
func (c *counter) waitFor(ctx context.Context, count int) error {
	if err := c.stop(); err != nil {
		return err
	}
	return harness.Poll(ctx, doneLimit, "all transactions in all databases", func(ctx context.Context) (bool, string, error) {
		now, err := c.look(ctx, len(c.conns))
		if err != nil {
			return false, "", err
		}
		all := true
		for i := range now {
			all = all && now[i]-c.before[i] >= int64(count)
		}
		return all, fmt.Sprintf("%v after %v, want %d more", now, c.before, count), nil
	})
}

// stop ends the watcher.
func (c *counter) stop() error {
	if c.end == nil {
		return nil
	}
	c.end()
	c.end = nil
	return <-c.watched
}

func (c *counter) close(ctx context.Context) error { return errors.Join(c.stop(), c.disconnect(ctx)) }

func (c *counter) disconnect(ctx context.Context) error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close(context.WithoutCancel(ctx)))
	}
	return errors.Join(errs...)
}
