package faults

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// callLimit ends a call that the server does not answer: chainify.execute itself waits 30 s at
// most.
const callLimit = 60 * time.Second

// Answer is what chainify.execute returned for one transaction.
type Answer struct {
	Organisation string
	Client       int
	ID           []byte
	Block        int64
	Index        int32
	Succeeded    bool
	SQLState     string
}

// Load is what all clients know in the end.
type Load struct {
	mu         sync.Mutex
	Answers    []Answer
	Unanswered int     // calls without an answer: their outcome is unknown
	Unexpected []error // those of them that no fault explains
	Longest    time.Duration
}

func (l *Load) answered(a Answer, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Answers = append(l.Answers, a)
	l.Longest = max(l.Longest, took)
}

func (l *Load) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Unanswered++
	if !explained(err) {
		l.Unexpected = append(l.Unexpected, err)
	}
}

// explained says whether an error is one that a client must expect while servers and disks fail.
func explained(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return true // the connection was lost
	}
	switch pg.Code {
	case "08001", "08006", "53100", "53400", "57P01", "57P02", "57P03":
		return true
	}
	return false
}

// transaction is one kind of the load. Each adds 1 to its client's counter when it succeeds, so
// that the counter tells how often it was executed; money is only moved, or its increase is noted.
type transaction struct {
	sql  string // %[1]d is the client
	args func(*rand.Rand, int) []any
}

const counted = "UPDATE counters SET n = n + 1 WHERE client = %[1]d; "

// mix holds transactions that succeed, that break a constraint, that do not parse and that lack a
// right.
var mix = []transaction{
	{"UPDATE checking SET balance = balance + $2 WHERE custid = $1; UPDATE counters SET deposited = deposited + $2 WHERE client = %[1]d", func(r *rand.Rand, customers int) []any {
		return []any{customer(r, customers), 1 + r.Int64N(100)}
	}},
	{"UPDATE checking SET balance = balance - $3 WHERE custid = $1; UPDATE checking SET balance = balance + $3 WHERE custid = $2", func(r *rand.Rand, customers int) []any {
		c := customer(r, customers)
		return []any{c, 1 + c%int64(customers), r.Int64N(700)} // some break the CHECK
	}},
	{"UPDATE savings SET balance = balance - $2 WHERE custid = $1; UPDATE checking SET balance = balance + $2 WHERE custid = $1", func(r *rand.Rand, customers int) []any {
		return []any{customer(r, customers), r.Int64N(9000)} // some break the CHECK
	}},
	{"UPDAT checking SET balance = 0", nil},
	{"DELETE FROM accounts WHERE custid = 1", nil},
}

func customer(r *rand.Rand, customers int) int64 { return 1 + r.Int64N(int64(customers)) }

// client submits random transactions one after the other until ctx ends, through faults.
func (l *Load) client(ctx context.Context, o *harness.Organisation, number, customers int, rng *rand.Rand) {
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
		started := time.Now()
		a, err := submit(ctx, conn, number, customers, rng)
		if err != nil {
			l.failed(fmt.Errorf("%s: %w", o.Name, err))
			backOff(ctx)
			continue
		}
		a.Organisation = o.Name
		l.answered(a, time.Since(started))
	}
}

func submit(ctx context.Context, conn *pgx.Conn, number, customers int, rng *rand.Rand) (Answer, error) {
	t := mix[rng.IntN(len(mix))]
	args := []any{fmt.Sprintf(counted+t.sql, number)}
	call := "chainify.execute($1"
	if t.args != nil {
		for i, a := range t.args(rng, customers) {
			args = append(args, a)
			call += fmt.Sprintf(", $%d::bigint", i+2)
		}
	}
	a := Answer{Client: number}
	var state *string
	// A call runs to its end also when the load is told to stop: its answer counts.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	defer cancel()
	const row = "SELECT id, block, index, outcome, sqlstate FROM "
	err := conn.QueryRow(ctx, row+call+")", args...).Scan(&a.ID, &a.Block, &a.Index, &a.Succeeded, &state)
	if id := taken(err); id != nil {
		err = conn.QueryRow(ctx, row+"chainify.wait($1)", id).Scan(&a.ID, &a.Block, &a.Index, &a.Succeeded, &state)
	}
	if state != nil {
		a.SQLState = *state
	}
	return a, err
}

// notInTime says in its detail which transaction was taken in and has no outcome yet.
var notInTime = regexp.MustCompile(`[0-9a-f]{64}`)

// taken is the id of a transaction whose outcome can be asked for, as the error's hint says; nil
// when there is none.
func taken(err error) []byte {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || !strings.Contains(pg.Hint, "chainify.wait") {
		return nil
	}
	id, err := hex.DecodeString(notInTime.FindString(pg.Detail))
	if err != nil || len(id) == 0 {
		return nil
	}
	return id
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
