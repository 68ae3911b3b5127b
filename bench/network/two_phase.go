package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/workload"
)

// preparedMost is how many transactions a server may hold prepared: one for each client.
const preparedMost = 64

// withTwoPhase are the settings of servers that take part in two-phase commits.
func withTwoPhase() map[string]string {
	out := maps.Clone(settings)
	out["max_prepared_transactions"] = fmt.Sprint(preparedMost)
	return out
}

// twoPhase are four PostgreSQL that clients keep alike by two-phase commit, as Citus does with a
// reference table: a trusted coordinator, and no ledger. The servers are those of a network whose
// nodes do not run meanwhile.
type twoPhase struct {
	net    *harness.Network
	cfg    Config
	tables []string
	named  atomic.Int64 // prepared transactions
}

func (p *twoPhase) start(context.Context) error { return nil }
func (p *twoPhase) stop() error                 { return nil }
func (p *twoPhase) nodes() []int                { return nil }

func (p *twoPhase) databases() []int {
	var out []int
	for _, o := range p.net.Organisations {
		out = append(out, o.Cluster.PID())
	}
	return out
}

func (p *twoPhase) vacuum(ctx context.Context) error {
	return p.net.Each(func(o *harness.Organisation) error { return vacuum(ctx, o, plain, p.tables) })
}

// load has clients commit one transaction after the other in all four databases. One that loses is
// begun again.
func (p *twoPhase) load(clients int, of stream) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (l load, err error) {
		var sessions sessions
		defer func() { err = errors.Join(err, sessions.close(ctx)) }()
		each, err := newClients(clients, func(i int) (func(context.Context) error, error) {
			var own []*pgx.Conn
			for _, o := range p.net.Organisations {
				conn, err := sessions.open(ctx, o, plain)
				if err != nil {
					return nil, err
				}
				own = append(own, conn)
			}
			next := of(repetition, i)
			return func(ctx context.Context) error { return p.commit(ctx, own, next().statement) }, nil
		})
		if err != nil {
			return l, err
		}
		return afterLead(ctx, p, each, p.cfg.Seconds)
	}
}

// commit executes a statement in all databases and commits it there, again when it lost.
func (p *twoPhase) commit(ctx context.Context, at []*pgx.Conn, s workload.Statement) error {
	name := fmt.Sprintf("'t%d'", p.named.Add(1))
	for attempt := range hotTries {
		err := p.prepare(ctx, at, name, s)
		if err == nil {
			return everywhere(at, func(conn *pgx.Conn) error { return statement(ctx, conn, "COMMIT PREPARED "+name) })
		}
		if !retryable(err) {
			return err
		}
		if err := breathe(ctx, attempt); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s did not commit in %d tries", s.SQL, hotTries)
}

// prepare has the databases promise to commit: the first alone, and the others then at once. Rows
// are locked there in the first one's order, so that no two clients wait for each other in two
// databases. After a failure nothing is left.
func (p *twoPhase) prepare(ctx context.Context, at []*pgx.Conn, name string, s workload.Statement) error {
	promise := func(conn *pgx.Conn) error {
		if err := statement(ctx, conn, "BEGIN"); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, s.SQL, s.Arguments()...); err != nil {
			return errors.Join(err, statement(ctx, conn, "ROLLBACK"))
		}
		return nil
	}
	if err := promise(at[0]); err != nil {
		return err
	}
	if err := everywhere(at[1:], promise); err != nil {
		return errors.Join(err, everywhere(at, func(conn *pgx.Conn) error { return statement(ctx, conn, "ROLLBACK") }))
	}
	if err := everywhere(at, func(conn *pgx.Conn) error { return statement(ctx, conn, "PREPARE TRANSACTION "+name) }); err != nil {
		for _, conn := range at {
			_ = statement(ctx, conn, "ROLLBACK PREPARED "+name) // where it was not prepared there is nothing to undo
		}
		return err
	}
	return nil
}

func statement(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.Exec(ctx, sql)
	return err
}

// everywhere does the same in several sessions at once.
func everywhere(at []*pgx.Conn, do func(*pgx.Conn) error) error {
	var group errgroup.Group
	for _, conn := range at {
		group.Go(func() error { return do(conn) })
	}
	return group.Wait()
}

// twoPhaseFigures compare it with the clients of a ledger.
func twoPhaseFigures(r *report.Report, sessions []int) error {
	var errs []error
	for _, n := range slices.Compact([]int{sessions[0], sessions[len(sessions)-1]}) {
		errs = append(errs, ratio(r, fmt.Sprintf("two_phase_over_ledger_%d", n), byTwoPhase, float64(n), byClients, float64(n),
			fmt.Sprintf("BTW 2023, figure 12, which draws it for Citus: four PostgreSQL with two-phase commit / four organisations, %d clients that wait", n)))
	}
	return errors.Join(errs...)
}
