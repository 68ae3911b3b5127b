package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

const (
	// plainWait is short, so that COMMIT ends without an outcome where a quorum is missing.
	plainWait   = "2s"
	learnWait   = time.Second // for an outcome that is asked for, at each transaction
	learnLimit  = time.Minute // for all of one client
	paymentTry  = 10          // times that a payment is tried while it conflicts with others
	payersCount = 12          // customers that payments choose from: enough conflict
	conflict    = "failed 40001"
)

// payment is a transaction of plain SQL. It reads balances, computes, and writes the results: an
// update that is lost changes the sum of all money.
type payment struct {
	isolation string
	legs      []leg // ascending by table and customer: no two payments wait for each other
	deposited int64 // money that comes in
	undone    bool  // it ends with ROLLBACK
}

// leg changes one balance.
type leg struct {
	table    string
	customer int64
	change   int64
}

var isolations = []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}

// drawPayment draws one: money moves between two customers, or between the accounts of one, or
// comes in.
func drawPayment(rng *rand.Rand, customers int) payment {
	payers := int64(min(customers, payersCount))
	from, amount := rng.Int64N(payers), 1+rng.Int64N(300)
	to := (from + 1 + rng.Int64N(payers-1)) % payers
	p := payment{isolation: isolations[rng.IntN(len(isolations))], undone: rng.IntN(10) == 0}
	switch rng.IntN(3) {
	case 0:
		p.legs = []leg{{"checking", 1 + from, -amount}, {"checking", 1 + to, amount}}
	case 1:
		p.legs = []leg{{"checking", 1 + from, amount}, {"savings", 1 + from, -amount}}
	default:
		p.legs, p.deposited = []leg{{"savings", 1 + from, amount}}, amount
	}
	slices.SortFunc(p.legs, func(a, b leg) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.customer, b.customer))
	})
	return p
}

// errUndone ends a payment that leaves nothing.
var errUndone = errors.New("rolled back")

// unknownError is a COMMIT that ended without an outcome.
type unknownError struct {
	id    []byte // nil: nobody told it
	cause error
}

func (e *unknownError) Error() string { return e.cause.Error() }
func (e *unknownError) Unwrap() error { return e.cause }

// run runs the payment once, as an attempt of a client.
func (p payment) run(ctx context.Context, conn *pgx.Conn, client int, attempt int64) error {
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL "+p.isolation); err != nil {
		return err
	}
	for _, leg := range p.legs {
		if err := leg.run(ctx, conn, p.isolation); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, "UPDATE counters SET n = n + 1, deposited = deposited + $2, attempt = $3 WHERE client = $1", client, p.deposited, attempt); err != nil {
		return err
	}
	if p.undone {
		return errUndone
	}
	tag, err := conn.Exec(ctx, "COMMIT")
	if err == nil && tag.String() != "COMMIT" {
		return fmt.Errorf("COMMIT ended with %s", tag)
	}
	if failed, id := harness.CommitFailed(err); err != nil && !failed {
		return &unknownError{id, err}
	}
	return err
}

func (g leg) run(ctx context.Context, conn *pgx.Conn, isolation string) error {
	lock := " FOR UPDATE"
	if isolation == "SERIALIZABLE" {
		lock = ""
	}
	var balance int64
	if err := conn.QueryRow(ctx, "SELECT balance::bigint FROM "+g.table+" WHERE custid = $1"+lock, g.customer).Scan(&balance); err != nil {
		return err
	}
	if balance += g.change; balance < 0 {
		return errUndone
	}
	_, err := conn.Exec(ctx, "UPDATE "+g.table+" SET balance = $2::bigint WHERE custid = $1", g.customer, balance)
	return err
}

// pay draws a payment and tries it while it conflicts with others.
func (c *client) pay(ctx context.Context, l *Load) {
	p := drawPayment(c.rng, l.customers)
	for range paymentTry {
		if ctx.Err() != nil || !c.connectPlain(ctx) {
			return
		}
		if !c.attempt(ctx, l, p) {
			return
		}
	}
}

// attempt tries a payment, notes what became of it, and says whether it may succeed the next time.
func (c *client) attempt(ctx context.Context, l *Load, p payment) (again bool) {
	c.last++
	started := time.Now()
	calling, cancel := untilAnswered(ctx)
	defer cancel()
	err := p.run(calling, c.plain, c.number, c.last)
	state := harness.SQLState(err)
	a := Answer{c.Name, c.number, c.last, harness.Outcome{Succeeded: err == nil, SQLState: state}}
	var unknown *unknownError
	if errors.As(err, &unknown) {
		l.failed(fmt.Errorf("%s: COMMIT: %w", c.Name, err))
		if a.ID = unknown.id; a.ID != nil {
			c.unknown = append(c.unknown, a)
		}
	} else {
		l.answered(a, time.Since(started))
		if err != nil && !errors.Is(err, errUndone) && !conflicts(state) && !explained(err) {
			l.unexpected(fmt.Errorf("%s: plain SQL: %w", c.Name, err))
		}
	}
	if err != nil {
		c.leave(calling)
	}
	if err != nil && !conflicts(state) && !errors.Is(err, errUndone) {
		backOff(ctx)
	}
	return conflicts(state)
}

// conflicts tells that a session lost against another transaction, or gave way to a block.
func conflicts(state string) bool { return slices.Contains([]string{"40001", "40P01", "CH007"}, state) }

// leave ends the session's transaction, or the session.
func (c *client) leave(ctx context.Context) {
	if c.plain.PgConn().TxStatus() != 'I' {
		_, _ = c.plain.Exec(ctx, "ROLLBACK")
	}
	if c.plain.PgConn().TxStatus() != 'I' {
		_ = c.plain.Close(ctx)
	}
}

// connectPlain opens the session of plain SQL again where it was lost.
func (c *client) connectPlain(ctx context.Context) bool {
	if c.plain != nil && !c.plain.IsClosed() {
		return true
	}
	var err error
	if c.plain, err = c.PlainSession(ctx, bank); err == nil {
		_, err = c.plain.Exec(ctx, "SET chainify.wait_timeout = '"+plainWait+"'")
	}
	if err != nil {
		if c.plain != nil {
			_ = c.plain.Close(ctx)
		}
		c.plain = nil
		backOff(ctx)
	}
	return err == nil
}

// learn asks for the outcomes of attempts whose COMMIT ended without one. Those that the server
// still does not know may have succeeded or not.
func (c *client) learn(ctx context.Context, l *Load) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), learnLimit)
	defer cancel()
	for _, a := range c.unknown {
		for !c.connect(ctx) {
			if ctx.Err() != nil {
				return
			}
		}
		outcome, err := c.session.Wait(ctx, a.ID, learnWait)
		if err == nil {
			a.Outcome = outcome
			l.learned(a)
		} else if !errors.Is(err, pgx.ErrNoRows) && !explained(err) {
			l.unexpected(fmt.Errorf("%s: chainify.wait: %w", c.Name, err))
		}
	}
}
