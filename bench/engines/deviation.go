package engines

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/report"
)

const (
	clientEach = 2   // at each of the other organisations
	rowsKept   = 100 // at the end of the table, which the load leaves alone; repetitions at most
	cureLimit  = time.Minute
)

// accountSchema is one large table.
func accountSchema(rows int) schema {
	return schema{
		postgres: fmt.Sprintf(`CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL, note varchar(40));
			INSERT INTO account SELECT i, i, 'account of customer ' || i FROM generate_series(1, %d) i`, rows),
		mariaDB: fmt.Sprintf(`CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL, note VARCHAR(40));
			INSERT INTO account SELECT seq, seq, concat('account of customer ', seq) FROM seq_1_to_%d`, rows),
		tables: []string{"account"},
	}
}

// tampering measures how soon an organisation with a MariaDB is back.
func tampering(ctx context.Context, cfg Config, r *report.Report) (err error) {
	if cfg.Repeat >= rowsKept || cfg.Rows <= rowsKept {
		return fmt.Errorf("%d repetitions on %d rows, want fewer than %d on more", cfg.Repeat, cfg.Rows, rowsKept)
	}
	fmt.Fprintf(cfg.Progress, "%d rows in each database\n", cfg.Rows)
	net, err := open(ctx, cfg, "tampered", organisations[2:], accountSchema(cfg.Rows), "ATTACH TABLE public.account ENCODING 2")
	if net != nil {
		defer func() { err = errors.Join(err, end(net, err)) }()
	}
	if err != nil {
		return err
	}
	others, odd := net.Organisations[:3], net.Organisations[3]
	for repetition := 1; repetition <= cfg.Repeat; repetition++ {
		took, err := tamper(ctx, cfg, others, odd, repetition)
		if err != nil {
			return fmt.Errorf("%s, repetition %d: %w", tamperedRow, repetition, err)
		}
		r.Add(tamperedRow, 0, "s", report.Sample{Repetition: repetition, Value: took.Seconds()})
		fmt.Fprintf(cfg.Progress, "repetition %d/%d: back after %.3f s\n", repetition, cfg.Repeat, took.Seconds())
	}
	_, err = harness.WaitSame(ctx, net.Organisations, 1, doneLimit)
	return err
}

// tamper changes a row behind the ledger of odd while clients load the others. One of them touches
// the row by the ledger.
func tamper(ctx context.Context, cfg Config, others []*harness.Organisation, odd *harness.Organisation, repetition int) (took time.Duration, err error) {
	group, loadCtx := errgroup.WithContext(ctx)
	loadCtx, stop := context.WithCancel(loadCtx)
	for n := range clientEach * len(others) {
		random := rand.New(rand.NewPCG(cfg.Seed, uint64(repetition)<<32|uint64(n)))
		group.Go(func() error { return clientOf(loadCtx, others[n%len(others)], cfg.Rows-rowsKept, random, func() {}) })
	}
	defer func() {
		stop()
		err = errors.Join(err, group.Wait())
	}()
	row := cfg.Rows - repetition
	// As root, with a list of changes of the session's own: triggers refuse nothing.
	if err := odd.MariaDB.Exec(loadCtx, "root", database, fmt.Sprintf(`CREATE TEMPORARY TABLE bank_ledger.captured (name TEXT, op TEXT, before_row LONGBLOB, after_row LONGBLOB);
		UPDATE account SET balance = balance + 1000000 WHERE id = %d`, row)); err != nil {
		return 0, err
	}
	started := time.Now()
	block, err := submit(loadCtx, others[0], role, deposit(row))
	if err != nil {
		return 0, err
	}
	err = harness.Poll(loadCtx, cureLimit, "recovery of "+odd.Name, func(ctx context.Context) (bool, string, error) {
		tip, err := odd.Tip(ctx)
		if err != nil {
			return false, err.Error(), nil
		}
		var cured int
		var right bool
		if err := odd.MariaDB.Scan(ctx, database+"_ledger", fmt.Sprintf("SELECT count(*) FROM deviation WHERE block = %d AND cured_by IS NOT NULL", block), &cured); err != nil {
			return false, err.Error(), nil
		}
		if err := odd.MariaDB.Scan(ctx, database, fmt.Sprintf("SELECT balance = id + 1 FROM account WHERE id = %d", row), &right); err != nil {
			return false, err.Error(), nil
		}
		state, err := odd.State(ctx)
		back := err == nil && tip.Number >= block && cured > 0 && right && (state == "serving" || state == "executing")
		return back, fmt.Sprintf("at block %d of %d, %d cured, row right: %t, %s", tip.Number, block, cured, right, state), nil
	})
	return time.Since(started), err
}

func deposit(row int) *wire.Statement {
	return &wire.Statement{
		Kind: wire.Kind_KIND_SQL, Sql: "UPDATE account SET balance = balance + 1 WHERE id = $1",
		Parameters: []*wire.Parameter{{Type: "bigint", Text: fmt.Sprint(row)}},
	}
}

// clientOf submits one transaction after the other, each when the one before has its outcome, and
// tells each that succeeded.
func clientOf(ctx context.Context, o *harness.Organisation, rows int, random *rand.Rand, answered func()) error {
	work := context.WithoutCancel(ctx)
	c, err := gateway.Dial(work, o.Socket())
	if err != nil {
		return err
	}
	defer c.Close()
	for ctx.Err() == nil {
		ids, err := c.Submit(work, role, deposit(1+random.IntN(rows)))
		if err == nil {
			_, err = outcomes(work, c, ids)
		}
		if err != nil {
			return err
		}
		answered()
	}
	return nil
}
