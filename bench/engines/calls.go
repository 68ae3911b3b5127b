package engines

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/chainify-db/chainify/abci/backend/mariadb"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
)

// The systems whose ledger has procedures attached: the same statements are called, and submitted.
const (
	mixedCalls        = "CALL, 2 PostgreSQL and 2 MariaDB"
	mixedBeside       = "order-execute beside CALL, 2 PostgreSQL and 2 MariaDB"
	postgresCallBlock = "block executor, PostgreSQL, CALL"
	postgresBeside    = "block executor, PostgreSQL, beside CALL"
	mariaCallBlock    = "block executor, MariaDB, CALL"
	mariaBeside       = "block executor, MariaDB, beside CALL"
)

const procedureSignature = "(bigint, numeric)"

// procedures have the statements as bodies, one each: a customer and an amount. Their words are the
// same in both engines.
var procedures = []struct{ name, body string }{
	depositChecking: {"deposit_checking", "UPDATE checking SET balance = balance + amount WHERE custid = customer"},
	transactSavings: {"transact_savings", "UPDATE savings SET balance = balance + amount WHERE custid = customer AND balance >= - amount"},
	writeCheck:      {"write_check", "UPDATE checking SET balance = balance - amount WHERE custid = customer"},
}

// call draws the same transaction as statement, as the CALL of a procedure.
func call(random *rand.Rand, customers int) *wire.Statement {
	d := drawSingle(random, customers)
	return &wire.Statement{Kind: wire.Kind_KIND_SQL, Sql: "CALL " + procedures[d.kind].name + "($1, $2)", Parameters: []*wire.Parameter{
		{Text: fmt.Sprint(d.customer)}, {Text: fmt.Sprint(d.amount)},
	}}
}

// makeProcedures does what an organisation's administrator does before procedures are attached.
func makeProcedures(ctx context.Context, o *harness.Organisation) error {
	var errs []error
	for _, p := range procedures {
		if o.MariaDB == nil {
			errs = append(errs, o.Exec(ctx, "postgres", "CREATE PROCEDURE public."+p.name+"(customer bigint, amount numeric) LANGUAGE sql AS $$"+p.body+"$$"))
			continue
		}
		errs = append(errs, o.MariaDB.Exec(ctx, "root", database, mariadb.ProcedureSettings+
			"; CREATE PROCEDURE "+p.name+"(customer BIGINT, amount DECIMAL(65,38)) SQL SECURITY INVOKER "+p.body+
			"; GRANT EXECUTE ON PROCEDURE "+p.name+" TO "+role))
	}
	return errors.Join(errs...)
}

// attachments are the transactions that put the procedures on a ledger, in the words of two
// organisations.
func attachments(ctx context.Context, postgres, mariaDB *harness.Organisation) (out []*wire.Statement, err error) {
	for _, p := range procedures {
		var there, here string
		err := errors.Join(
			postgres.Scan(ctx, fmt.Sprintf("SELECT chainify.procedure_digest('public.%s%s')", p.name, procedureSignature), &there),
			mariaDB.MariaDB.Scan(ctx, database, fmt.Sprintf("SELECT %s_ledger.procedure_digest('%s')", database, p.name), &here),
		)
		if err != nil {
			return nil, err
		}
		out = append(out, &wire.Statement{
			Kind: wire.Kind_KIND_DEPLOY, Sql: fmt.Sprintf("ATTACH PROCEDURE public.%s %s ENCODING 2 MARIADB %s POSTGRESQL %s", p.name, procedureSignature, here, there),
		})
	}
	return out, nil
}

// calling measures procedures beside their statements, in a mixed network and in each engine's
// block executor. It has servers of its own: a ledger with procedures compares their words in each
// block.
func calling(ctx context.Context, cfg Config, r *report.Report) (err error) {
	bank, err := openBank(ctx, cfg, "calls", organisations[2:])
	if bank != nil {
		defer func() { err = errors.Join(err, bank.end(err)) }()
	}
	if err != nil {
		return err
	}
	alone, err := openExecutors(ctx, cfg, "call-executors")
	if alone != nil {
		defer func() { err = errors.Join(err, alone.end(err)) }()
	}
	if err != nil {
		return err
	}
	if err := errors.Join(bank.attachProcedures(ctx), alone.attachProcedures(ctx), machine.Facts(r, alone.net.Dir), describe(ctx, cfg, r, alone)); err != nil {
		return err
	}
	return repetitions(ctx, cfg, []system{
		{mixedCalls, 0, bank.calls},
		{mixedBeside, 0, bank.statements},
		{postgresCallBlock, 0, alone.blocks(alone.postgres, call)},
		{postgresBeside, 0, alone.blocks(alone.postgres, statement)},
		{mariaCallBlock, 0, alone.blocks(alone.mdb, call)},
		{mariaBeside, 0, alone.blocks(alone.mdb, statement)},
	}, r)
}

func (b *bank) attachProcedures(ctx context.Context) (err error) {
	if err := errors.Join(b.net.Each(func(o *harness.Organisation) error { return makeProcedures(ctx, o) }), b.net.StartNodes(ctx, readyLimit)); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, b.net.Each(func(o *harness.Organisation) error { return o.StopNode() }))
	}()
	deploys, err := attachments(ctx, b.net.Organisations[0], b.net.Organisations[2])
	if err != nil {
		return err
	}
	block, err := submit(ctx, b.net.Organisations[0], operator, deploys...)
	if err != nil {
		return err
	}
	_, err = harness.WaitSame(ctx, b.net.Organisations, block, doneLimit)
	return err
}

func (e *executors) attachProcedures(ctx context.Context) error {
	if err := e.net.Each(func(o *harness.Organisation) error { return makeProcedures(ctx, o) }); err != nil {
		return err
	}
	deploys, err := attachments(ctx, e.net.Organisations[0], e.net.Organisations[1])
	if err != nil {
		return err
	}
	return errors.Join(e.postgres.run(ctx, operator, deploys), e.mdb.run(ctx, operator, deploys))
}

// calls is the load of transactions that call procedures.
func (b *bank) calls(ctx context.Context, repetition int) (report.Sample, error) {
	return b.load(ctx, submitters, b.drawn(repetition, batchMost, inFlight, call))
}

// callFigures compares each CALL with its statement.
func callFigures(r *report.Report) error {
	const how = "Smallbank's transactions of one statement, each in a procedure / the same statements as transactions, on the same ledger; "
	called, beside := r.Find(mixedCalls, 0), r.Find(mixedBeside, 0)
	return addRatios(r, []ratio{
		{"engines.calls", called.Values(), beside.Values(), how + "two PostgreSQL and two MariaDB"},
		{"engines.calls_cpu", called.CPUs(), beside.CPUs(), how + "processor time of nodes and databases for each"},
		{"engines.calls_postgres", r.Find(postgresCallBlock, 0).Values(), r.Find(postgresBeside, 0).Values(), how + "block executor of PostgreSQL"},
		{"engines.calls_mariadb", r.Find(mariaCallBlock, 0).Values(), r.Find(mariaBeside, 0).Values(), how + "block executor of MariaDB, which runs up to 64 statements in one message and each CALL by itself"},
	})
}
