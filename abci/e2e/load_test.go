package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// answer is what chainify.execute returned for one transaction.
type answer struct {
	Organisation string
	ID           []byte
	Block        int64
	Index        int32
	Succeeded    bool
	SQLState     *string
}

// recorder collects the answers of all clients, and the errors that no fault explains.
type recorder struct {
	mu         sync.Mutex
	answers    []answer
	unanswered int
	unexpected []error
}

func (r *recorder) answered(a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, a)
}

// failed notes a call without an answer: its outcome is unknown, so nothing is claimed about it but that it
// happened at most once.
func (r *recorder) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unanswered++
	if !explained(err) {
		r.unexpected = append(r.unexpected, err)
	}
}

// explained says whether an error is one that a client must expect while servers are killed and restarted.
func explained(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return true // the connection was lost
	}
	switch pg.Code {
	case "08001", "08006", "53400", "57P01", "57P02", "57P03":
		return true
	}
	return false
}

// statement is one kind of transaction of the load.
type statement struct {
	sql  string
	args func(*rand.Rand) []any
}

const customers = 400

func customer(r *rand.Rand) int64 { return 1 + r.Int64N(customers) }

// mix holds statements that succeed, that break a constraint, that do not parse and that lack a right.
var mix = []statement{
	{"chainify.execute('UPDATE checking SET balance = balance + $2 WHERE custid = $1', $1::bigint, $2::numeric)", func(r *rand.Rand) []any {
		return []any{customer(r), 1 + r.Int64N(100)}
	}},
	{"chainify.execute('UPDATE savings SET balance = balance - $2 WHERE custid = $1', $1::bigint, $2::numeric)", func(r *rand.Rand) []any {
		return []any{customer(r), r.Int64N(9000)} // some break the CHECK
	}},
	{"chainify.execute('UPDATE checking SET balance = balance - $3 WHERE custid = $1; UPDATE checking SET balance = balance + $3 WHERE custid = $2', $1::bigint, $2::bigint, $3::numeric)", func(r *rand.Rand) []any {
		c := customer(r)
		return []any{c, 1 + c%customers, r.Int64N(700)}
	}},
	{"chainify.execute('UPDAT checking SET balance = 0')", none},
	{"chainify.execute('DELETE FROM accounts WHERE custid = 1')", none},
}

func none(*rand.Rand) []any { return nil }

const fields = "SELECT id, block, index, outcome, sqlstate FROM "

// client submits random transactions one after the other until ctx ends, through faults.
func client(ctx context.Context, o *harness.Organisation, rng *rand.Rand, r *recorder) {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
	}()
	for ctx.Err() == nil {
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = o.Cluster.Connect(ctx, database, "bank"); err != nil {
				backOff(ctx)
				continue
			}
		}
		s := mix[rng.IntN(len(mix))]
		a := answer{Organisation: o.Name}
		// A call runs to its end also when the load is told to stop: its answer counts.
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
		err := conn.QueryRow(call, fields+s.sql, s.args(rng)...).Scan(&a.ID, &a.Block, &a.Index, &a.Succeeded, &a.SQLState)
		cancel()
		if err != nil {
			r.failed(fmt.Errorf("%s: %w", o.Name, err))
			backOff(ctx)
			continue
		}
		r.answered(a)
	}
}

// backOff keeps a client from spinning on a server that is down.
func backOff(ctx context.Context) {
	t := time.NewTimer(100 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
