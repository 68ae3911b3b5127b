package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// callLimit ends a call that the server does not answer: a call itself waits 30 s at most.
const callLimit = 60 * time.Second

// Answer is what a client was told of one transaction.
type Answer struct {
	Organisation string
	Client       int
	harness.Outcome
}

// Load is what all clients know in the end.
type Load struct {
	mix        []transaction
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
	switch harness.SQLState(err) {
	case "": // the connection was lost
		return true
	case "08001", "08006", "53100", "53400", "57P01", "57P02", "57P03":
		return true
	case "08S01", "70100": // a MariaDB ends, or the session does
		return true
	}
	return false
}

// transaction is one kind of the load. Each adds 1 to its client's counter when it succeeds, so
// that the counter tells how often it was executed; money is only moved, or its increase is noted.
type transaction struct {
	sql  string // %[1]d is the client
	args func(*rand.Rand, int) []int64
	ends string // one way in which some of the kind end
}

const (
	counted   = "UPDATE counters SET n = n + 1 WHERE client = %[1]d; "
	succeeded = "succeeded"
)

// postgresMix holds transactions that succeed, that break a constraint, that do not parse and that
// lack a right.
var postgresMix = []transaction{
	{counted + "UPDATE checking SET balance = balance + $2 WHERE custid = $1; UPDATE counters SET deposited = deposited + $2 WHERE client = %[1]d", deposits, succeeded},
	{counted + "UPDATE checking SET balance = balance - $3 WHERE custid = $1; UPDATE checking SET balance = balance + $3 WHERE custid = $2", func(r *rand.Rand, customers int) []int64 {
		c := customer(r, customers)
		return []int64{c, 1 + c%int64(customers), r.Int64N(700)}
	}, "failed 23514"},
	{counted + "UPDATE savings SET balance = balance - $2 WHERE custid = $1; UPDATE checking SET balance = balance + $2 WHERE custid = $1", func(r *rand.Rand, customers int) []int64 {
		return []int64{customer(r, customers), r.Int64N(9000)}
	}, "failed 23514"},
	{counted + "UPDAT checking SET balance = 0", none, "failed 42601"},
	{counted + "DELETE FROM accounts WHERE custid = 1", none, "failed 42501"},
}

// enginesMix holds transactions that all engines execute alike: procedures (see portable.go), and
// statements that succeed, that meet a key, lack a right, or are refused.
var enginesMix = []transaction{
	{"CALL deposit(%[1]d, $1, $2)", deposits, succeeded},
	{"CALL pay(%[1]d, $1, $2, $3)", func(r *rand.Rand, customers int) []int64 {
		return []int64{customer(r, customers), customer(r, customers), r.Int64N(9000)}
	}, "failed P0001"},
	{"UPDATE counters SET n = n + 1 WHERE client = %[1]d", none, succeeded},
	{"INSERT INTO accounts (custid, name) VALUES (1, 'client = %[1]d')", none, "failed 23505"},
	{"DELETE FROM accounts WHERE name = 'client = %[1]d'", none, "failed 42501"},
	{"UPDATE counters SET client = n WHERE client = %[1]d", none, "failed CH011"},
}

func none(*rand.Rand, int) []int64 { return nil }

func deposits(r *rand.Rand, customers int) []int64 {
	return []int64{customer(r, customers), 1 + r.Int64N(100)}
}

func customer(r *rand.Rand, customers int) int64 { return 1 + r.Int64N(int64(customers)) }

// client submits random transactions one after the other until ctx ends, through faults.
func (l *Load) client(ctx context.Context, o *harness.Organisation, number, customers int, rng *rand.Rand) {
	var session *harness.Client
	defer func() {
		if session != nil {
			session.Close()
		}
	}()
	for ctx.Err() == nil {
		if session == nil || session.Lost() {
			var err error
			if session, err = o.Client(ctx, "bank"); err != nil {
				session = nil
				backOff(ctx)
				continue
			}
		}
		started := time.Now()
		outcome, err := l.submit(ctx, session, number, customers, rng)
		if err != nil {
			l.failed(fmt.Errorf("%s: %w", o.Name, err))
			backOff(ctx)
			continue
		}
		l.answered(Answer{o.Name, number, outcome}, time.Since(started))
	}
}

func (l *Load) submit(ctx context.Context, session *harness.Client, number, customers int, rng *rand.Rand) (harness.Outcome, error) {
	t := l.mix[rng.IntN(len(l.mix))]
	// A call runs to its end also when the load is told to stop: its answer counts.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	defer cancel()
	return session.Execute(ctx, fmt.Sprintf(t.sql, number), t.args(rng, customers)...)
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
