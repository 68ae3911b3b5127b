package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/fair"
)

const (
	rehearsalConns    = 8       // groups at once, of one alone half of them
	rehearsalsMax     = 16      // in a group; each waits for those before it
	rehearsalBytesMax = 1 << 20 // of the transactions in a group of several

	rehearseSQL = `SELECT coalesce(wanted, '{}'), coalesce(refusal, ''), coalesce(sqlstate, ''), coalesce(message, '') FROM chainify_node.rehearse($1, $2)`
)

var (
	errClosed   = errors.New("the database is closed")
	errNoAnswer = errors.New("the database gives no answer")
)

// rehearsals runs transactions and undoes them. Rehearsals that gather while all connections are at
// work go to the database together, in one round trip. Each has a transaction of its own, so that
// neither an error nor a lock of one is another's.
type rehearsals struct {
	pool   *pgxpool.Pool // of connections that roll back everything
	limit  time.Duration // within which each has its answer while the database is there
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	shares *fair.Shares[string] // of connections, by whom something is rehearsed for

	mu      sync.Mutex
	waiting []*rehearsal // bounded by those who call: each adds at most rehearsalsMax
}

// rehearsal is one transaction; shown and err are written before done is closed.
type rehearsal struct {
	ctx   context.Context // of who waits
	whom  string          // it is for
	tx    []byte
	shown backend.Rehearsal
	err   error
	done  chan struct{}
	// allowed is for how long the database may work for it.
	allowed *backend.Allowance
}

// newRehearsals prepares connections on which a transaction ends after limit.
func newRehearsals(like *pgxpool.Config, limit time.Duration) (*rehearsals, error) {
	config := like.Copy()
	config.MaxConns = rehearsalConns
	config.ConnConfig.RuntimeParams["statement_timeout"] = strconv.FormatInt(limit.Milliseconds(), 10)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	r := &rehearsals{pool: pool, limit: limit + cleanupLimit, shares: fair.New[string](rehearsalConns)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// close ends groups under way, and disconnects.
func (r *rehearsals) close() {
	r.mu.Lock()
	r.cancel() // from here on none begins
	r.mu.Unlock()
	r.work.Wait()
	r.pool.Close()
}

// add lets at most rehearsalsMax transactions wait for the next group.
func (r *rehearsals) add(ctx context.Context, txs ...[]byte) []*rehearsal {
	added := make([]*rehearsal, len(txs))
	for i, tx := range txs {
		added[i] = &rehearsal{ctx: ctx, whom: backend.Whom(ctx), tx: tx, done: make(chan struct{}), allowed: backend.Allowed(ctx)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		end(added, errClosed)
		return added
	}
	r.waiting = append(r.waiting, added...)
	if len(added) > 0 && r.shares.Take(added[0].whom, 1) {
		r.work.Go(func() { r.groups(added[0].whom) })
	}
	return added
}

// wait returns what became of it, unless ctx ends before.
func (one *rehearsal) wait(ctx context.Context) (backend.Rehearsal, error) {
	select {
	case <-one.done:
		return one.shown, one.err
	case <-ctx.Done():
		return backend.Rehearsal{}, ctx.Err()
	}
}

func (one *rehearsal) wanted() bool { return one.ctx.Err() == nil }

// end answers all waiting callers; err, if any, is the error for all of them.
func end(list []*rehearsal, err error) {
	for _, one := range list {
		if err != nil {
			one.err = err
		}
		close(one.done)
	}
}

// groups runs one group after the other, until nobody waits who may have a connection. The last of
// a group is told when its connection is free: whoever asks for one after the other has one
// connection.
func (r *rehearsals) groups(whom string) {
	for group := r.next(whom); len(group) > 0; {
		last := group[len(group)-1:]
		err := r.run(group)
		group = r.next(group[0].whom)
		end(last, err)
	}
}

// next gives back the connection of one and takes it for the one that waits with fewest of them, of
// several the one that waited longest: those of its rehearsals that did. Whom nobody waits for any
// more is left out.
func (r *rehearsals) next(whom string) (group []*rehearsal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shares.Give(whom, 1)
	r.waiting = slices.DeleteFunc(r.waiting, func(one *rehearsal) bool { return !one.wanted() })
	var turn *rehearsal
	for _, one := range r.waiting {
		if turn == nil || one.whom != turn.whom && r.shares.Held(one.whom) < r.shares.Held(turn.whom) {
			turn = one
		}
	}
	if turn == nil || !r.shares.Take(turn.whom, 1) {
		return nil
	}
	bytes := 0
	r.waiting = slices.DeleteFunc(r.waiting, func(one *rehearsal) bool {
		if one.whom != turn.whom || len(group) == rehearsalsMax || len(group) > 0 && bytes+len(one.tx) > rehearsalBytesMax {
			return false
		}
		bytes += len(one.tx)
		group = append(group, one)
		return true
	})
	return group
}

// run has a group rehearsed, and tells all but the last. An error is that of all.
func (r *rehearsals) run(group []*rehearsal) error {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	gone := time.AfterFunc(r.limit, cancel)
	defer gone.Stop()
	conn, err := r.pool.Acquire(ctx)
	if err == nil {
		defer conn.Release() // closes one that is still in a transaction, which undoes as well
		err = exchange(ctx, conn.Conn(), group, func(i int) {
			gone.Reset(r.limit)
			if i > 0 {
				end(group[i-1:i], nil)
			}
			if !slices.ContainsFunc(group[i:], (*rehearsal).wanted) {
				cancel()
			}
		})
	}
	if err != nil {
		end(group[:len(group)-1], err)
	}
	return err
}

// exchange sends a group and reads what became of each; before is called before each is read. When
// ctx ends, the connection does: cancelling what runs would let the server go on with the next one.
func exchange(ctx context.Context, conn *pgx.Conn, group []*rehearsal, before func(i int)) error {
	p, err := send(ctx, conn, group)
	if err != nil {
		return err
	}
	socket := conn.PgConn().Conn()
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	begun := time.Now()
	for i, one := range group {
		before(i)
		one.shown, one.err = readOne(p, conn.TypeMap())
		ended := time.Now()
		one.allowed.Spend(ended.Sub(begun))
		begun = ended
	}
	_ = p.Close() // an error closes the connection
	if !stop() {
		_ = conn.Close(ctx)
	} else if conn.PgConn().TxStatus() != 'I' {
		_, _ = conn.Exec(ctx, "ROLLBACK")
	}
	return nil
}

// send begins, rehearses and rolls back each, all in one round trip. An error skips what comes
// before the next synchronisation alone: the next one begins anew, after ROLLBACK.
func send(ctx context.Context, conn *pgx.Conn, group []*rehearsal) (*pgconn.Pipeline, error) {
	var prepared [3]*pgconn.StatementDescription // on each connection once
	for i, sql := range []string{"BEGIN", rehearseSQL, "ROLLBACK"} {
		var err error
		if prepared[i], err = conn.Prepare(ctx, sql, sql); err != nil {
			return nil, err
		}
	}
	begin, rehearse, rollback := prepared[0], prepared[1], prepared[2]
	p := conn.PgConn().StartPipeline(ctx)
	for i, one := range group {
		if i > 0 {
			p.SendPipelineSync()
			p.SendQueryStatement(rollback, nil, nil, nil)
		}
		p.SendQueryStatement(begin, nil, nil, nil)
		if left, bounded := one.allowed.Left(); bounded {
			p.SendQueryParams(fmt.Sprintf("SET LOCAL statement_timeout = %d", max(min(left, rehearsalLimit).Milliseconds(), 1)), nil, nil, nil, nil)
		}
		now := strconv.FormatInt(time.Now().UnixMicro(), 10)
		p.SendQueryStatement(rehearse, [][]byte{one.tx, []byte(now)}, []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode}, nil)
	}
	p.SendQueryStatement(rollback, nil, nil, nil) // skipped when the last one fails
	if err := p.Sync(); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// readOne reads up to the synchronisation behind one rehearsal. A transaction that failed for what
// was in its way has that as its error.
func readOne(p *pgconn.Pipeline, types *pgtype.Map) (shown backend.Rehearsal, err error) {
	err = errNoAnswer
	for {
		results, failed := p.GetResults()
		switch results := results.(type) {
		case *pgconn.PipelineSync:
			if err == nil && passing(shown.SQLState) {
				err = &pgconn.PgError{Severity: "ERROR", Code: shown.SQLState, Message: shown.Message}
			}
			return shown, err
		case *pgconn.ResultReader:
			rows := pgx.RowsFromResultReader(types, results)
			for rows.Next() {
				err = rows.Scan(&shown.Wanted, &shown.Refusal, &shown.SQLState, &shown.Message)
			}
			failed = rows.Err()
		}
		if failed != nil && sqlState(err) == "" {
			err = failed
		}
		if results == nil && sqlState(failed) == "" {
			return shown, err
		}
	}
}
