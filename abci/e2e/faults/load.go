package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// bank is the role of all clients.
const bank = "bank"

// callLimit ends a call that the server does not answer: a call itself waits 30 s at most.
const callLimit = 60 * time.Second

// Answer is the answer to a client about one transaction.
type Answer struct {
	Organisation string
	Client       int
	Attempt      int64 // at an EFFECTS transaction, by its client; 0: it is of another kind
	harness.Outcome
}

// Load is the knowledge of all clients at the end.
type Load struct {
	mix        []transaction
	customers  int
	effects    float64 // share of EFFECTS transactions
	mu         sync.Mutex
	Answers    []Answer
	Unanswered int     // calls without an answer: their outcome is unknown
	Learned    int     // of them, whose outcome was asked for later
	Unexpected []error // errors that no fault explains
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

func (l *Load) unexpected(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Unexpected = append(l.Unexpected, err)
}

// learned notes the outcome of a call that was not answered.
func (l *Load) learned(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Answers = append(l.Answers, a)
	l.Learned++
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

// client is one client of an organisation, and its sessions.
type client struct {
	*harness.Organisation
	number  int
	rng     *rand.Rand
	session *harness.Client
	plain   *pgx.Conn // nil: there is none
	last    int64     // attempt at an EFFECTS transaction
	unknown []Answer  // attempts whose outcome can be asked for
}

// run makes random transactions one after the other until ctx ends, through faults. Then it asks
// for the outcomes that it does not know.
func (c *client) run(ctx context.Context, l *Load) {
	defer c.close()
	for ctx.Err() == nil {
		if c.MariaDB == nil && c.rng.Float64() < l.effects {
			c.pay(ctx, l)
		} else if c.connect(ctx) {
			c.submit(ctx, l)
		}
	}
	c.learn(ctx, l)
}

// connect opens the session again where it was lost.
func (c *client) connect(ctx context.Context) bool {
	if c.session != nil && !c.session.Lost() {
		return true
	}
	var err error
	if c.session, err = c.Client(ctx, bank); err != nil {
		c.session = nil
		backOff(ctx)
	}
	return err == nil
}

func (c *client) close() {
	if c.session != nil {
		c.session.Close()
	}
	if c.plain != nil {
		_ = c.plain.Close(context.Background())
	}
}

// submit has one transaction executed by all.
func (c *client) submit(ctx context.Context, l *Load) {
	t := l.mix[c.rng.IntN(len(l.mix))]
	started := time.Now()
	calling, cancel := untilAnswered(ctx)
	defer cancel()
	outcome, err := c.session.Execute(calling, fmt.Sprintf(t.sql, c.number), t.args(c.rng, l.customers)...)
	if err != nil {
		l.failed(fmt.Errorf("%s: %w", c.Name, err))
		backOff(ctx)
		return
	}
	l.answered(Answer{c.Name, c.number, 0, outcome}, time.Since(started))
}

// untilAnswered bounds a call. It runs to its end also when the load is told to stop: its answer
// counts.
func untilAnswered(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), callLimit)
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
