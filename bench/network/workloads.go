package network

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chainify-db/chainify/bench/pgbench"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/workload"
)

const (
	zipf       = 1.1 // exponent by which customers are drawn
	aCall      = 10  // transactions that a client submits at once and waits for
	oneByOnes  = 16  // clients of PostgreSQL alone that commit each transaction by itself
	deadlocked = "40P01"
)

// transaction is one as a client submits it, and as a session of PostgreSQL prepares it.
type transaction struct {
	text      string
	statement workload.Statement
}

// stream gives a client's transactions, one after the other.
type stream func(repetition, client int) (next func() transaction)

// uniform are Smallbank's transactions.
func (c Config) uniform(repetition, client int) func() transaction {
	return spelled(c.stream(repetition, client))
}

// skewed are Smallbank's, of some customers far more often than of others.
func (c Config) skewed(repetition, client int) func() transaction {
	return spelled(workload.NewSkewedSmallbank(c.Seed, uint64(repetition)<<32|uint64(client), int64(c.Customers), zipf))
}

func spelled(bank *workload.Smallbank) func() transaction {
	return func() transaction {
		call := bank.Block(1)[0]
		return transaction{call.FunctionText(), call.Statement(workload.Function)}
	}
}

// mixed are those of Fabric++'s custom workload.
func (c Config) mixed(repetition, client int) func() transaction {
	next := workload.DefaultMix.Stream(c.Seed, uint64(repetition)<<32|uint64(client), workload.ReadWrite)
	return func() transaction {
		statement := next()
		return transaction{statement.Text(), statement}
	}
}

// mixWorkloads are the workloads beside Smallbank that the mix needs.
func (c Config) mixWorkloads() []workload.Schema {
	if !c.wants(mixFour, mixPlain) {
		return nil
	}
	return []workload.Schema{workload.DefaultMix.Schema()}
}

// oneByOne runs statements in sessions of PostgreSQL alone, each committed by itself and durably;
// one that ends in a deadlock is tried again, after a random pause.
func (a *alone) oneByOne(of stream) func(context.Context, int) (load, error) {
	return a.oneByOneOf(oneByOnes, of)
}

// oneByOneOf is oneByOne of a number of sessions.
func (a *alone) oneByOneOf(clients int, of stream) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (l load, err error) {
		var sessions sessions
		defer func() { err = errors.Join(err, sessions.close(ctx)) }()
		each, err := newClients(clients, func(i int) (func(context.Context) error, error) {
			conn, err := sessions.open(ctx, a.organisation, plain)
			if err != nil {
				return nil, err
			}
			next := of(repetition, i)
			return func(ctx context.Context) error {
				statement := next().statement
				for attempt := range hotTries {
					_, err := conn.Exec(ctx, statement.SQL, statement.Arguments()...)
					if err == nil || !retryable(err) {
						return err
					}
					if err := breathe(ctx, attempt); err != nil {
						return err
					}
				}
				return fmt.Errorf("%s did not commit in %d tries", statement.SQL, hotTries)
			}, nil
		})
		if err != nil {
			return l, err
		}
		return afterLead(ctx, a, each, a.cfg.Seconds)
	}
}

// afterLead lets sessions that are new make their plans before it counts what they do.
func afterLead(ctx context.Context, up running, each clients, seconds int) (l load, err error) {
	before, err := cpuOf(up)
	if err != nil {
		return l, err
	}
	first, err := each.wait(ctx, pgbench.Lead)
	if err != nil {
		return l, err
	}
	after, err := cpuOf(up)
	if err != nil {
		return l, err
	}
	l, err = each.wait(ctx, time.Duration(seconds)*time.Second)
	l.led = lead{first.count, after.less(before)}
	return l, err
}

// workloadFigures compares what conflicts cost an organisation of four with what they cost
// PostgreSQL alone, where both were measured.
func workloadFigures(r *report.Report) error {
	for _, f := range []struct{ id, ours, plain, how string }{
		{"zipf", zipfFour, zipfPlain, fmt.Sprintf("Smallbank, customers by Zipf's law with %g", zipf)},
		{"mix", mixFour, mixPlain, fmt.Sprintf("custom workload of Fabric++: %+v", workload.DefaultMix)},
	} {
		four, plain := r.Find(f.ours, 0), r.Find(f.plain, oneByOnes)
		if four == nil || plain == nil {
			continue
		}
		how := fmt.Sprintf("%s; four organisations that agree on all / PostgreSQL alone with %d sessions, each transaction committed by itself", f.how, oneByOnes)
		if err := r.AddRatio("network."+f.id+"_over_standalone", four.Values(), plain.Values(), report.Target{}, how); err != nil {
			return err
		}
	}
	return nil
}
