package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/smallbank"
)

const watchEvery = 250 * time.Millisecond

// loadPlain runs pgbench with plain SQL against all organisations at once.
func (d *demo) loadPlain(ctx context.Context) error {
	perClient := d.perClient()
	asked := perClient * d.clients * len(organisations)
	d.out.announce("%d Smallbank transactions in plain SQL: pgbench as Debian ships it, PGOPTIONS='%s', %d clients at each of the four",
		asked, smallbank.PlainOptions, d.clients)
	var mutex sync.Mutex
	var sum smallbank.PlainResult
	took, latencies, err := d.everywhere(ctx, "plain", func(o *harness.Organisation, run smallbank.Run) error {
		got, err := d.bank.LoadPlain(ctx, o, database, run)
		mutex.Lock()
		defer mutex.Unlock()
		sum.Processed, sum.Retried = sum.Processed+got.Processed, sum.Retried+got.Retried
		return err
	})
	if err != nil {
		return err
	}
	d.report.plain = rate{len(latencies), took, latencies}
	var recorded, first int
	same := true
	for i, o := range d.net.Organisations {
		if err := o.Scan(ctx, "SELECT count(*) FROM chainify.transactions WHERE outcome AND kind = 'effects' AND role = 'bank'", &recorded); err != nil {
			return err
		}
		if i == 0 {
			first = recorded
		}
		same = same && recorded == first
	}
	d.claims.add(sum.Processed == asked && same && first == asked,
		"pgbench's plain SQL: %d of %d transactions succeeded, %d after a conflict, and each is on the ledger once: %d", sum.Processed, asked, sum.Retried, first)
	return nil
}

// load submits SQL by chainify.execute, with pgbench, at all organisations at once.
func (d *demo) load(ctx context.Context) error {
	d.out.announce("%d Smallbank transactions by chainify.execute: pgbench with %d clients at each of the four", d.perClient()*d.clients*len(organisations), d.clients)
	asked := make(chan error, 1)
	askCtx, stopAsking := context.WithCancel(ctx)
	go func() { asked <- d.ask(askCtx) }()
	took, latencies, err := d.everywhere(ctx, "execute", func(o *harness.Organisation, run smallbank.Run) error {
		return d.bank.Load(ctx, o, database, run)
	})
	stopAsking()
	if err := errors.Join(err, <-asked); err != nil {
		return err
	}
	if err := d.claimAnswers(ctx); err != nil {
		return err
	}
	tip, err := harness.WaitSame(ctx, d.net.Organisations, 1, agreeLimit)
	if err != nil {
		return err
	}
	d.report.executed = rate{len(latencies), took, latencies}
	d.claims.add(true, "same LedgerBlockHash in all four databases after the load: block %d, %.16s…", tip.Number, tip.Hash)
	return d.claimOutcomes(ctx, len(latencies))
}

// perClient is the number of transactions of each client in each of the two loads.
func (d *demo) perClient() int { return max(1, d.transactions/(2*d.clients*len(organisations))) }

// everywhere runs a load at all organisations at once and shows the ledger grow meanwhile. It gives
// the time of the whole and of each transaction.
func (d *demo) everywhere(ctx context.Context, name string, load func(*harness.Organisation, smallbank.Run) error) (time.Duration, smallbank.Latencies, error) {
	watched := make(chan error, 1)
	watchCtx, stopWatching := context.WithCancel(ctx)
	go func() { watched <- d.watch(watchCtx) }()

	started := time.Now()
	prefix := filepath.Join(d.dir, "pgbench-"+name+"-")
	err := d.net.Each(func(o *harness.Organisation) error {
		return load(o, smallbank.Run{Clients: d.clients, Transactions: d.perClient(), Seed: d.seed + int64(o.Cluster.Port), LogPrefix: prefix + o.Name})
	})
	took := time.Since(started)
	stopWatching()
	if watchErr := <-watched; err == nil {
		err = watchErr
	}
	if err != nil {
		return 0, nil, err
	}
	if _, err := harness.WaitSame(ctx, d.net.Organisations, 1, agreeLimit); err != nil {
		return 0, nil, err
	}
	latencies, err := smallbank.ReadLatencies(prefix + "*")
	return took, latencies, err
}

// claimOutcomes compares what became of every transaction in all databases with what was answered.
func (d *demo) claimOutcomes(ctx context.Context, answered int) error {
	const text = `SELECT count(*) FILTER (WHERE outcome), count(*) FILTER (WHERE sqlstate = '23514'), count(*),
		md5(string_agg(encode(id, 'hex') || outcome::text, ',' ORDER BY block, index))
		FROM chainify.transactions WHERE role = 'bank' AND kind = 'sql'`
	type outcomes struct {
		succeeded, check, all int
		digest                string
	}
	var first outcomes
	same := true
	for i, o := range d.net.Organisations {
		var got outcomes
		if err := o.Scan(ctx, text, &got.succeeded, &got.check, &got.all, &got.digest); err != nil {
			return err
		}
		if i == 0 {
			first = got
		}
		same = same && got == first
	}
	d.report.succeeded, d.report.refused = first.succeeded, first.all-first.succeeded
	d.claims.add(same && first.all == answered, "each of %d answered transactions is on the ledger once, with the same outcome everywhere: %d of %d succeeded",
		answered, first.succeeded, first.all)
	d.claims.add(first.check > 0 && first.succeeded+first.check == first.all,
		"the other %d broke a CHECK (SQLSTATE 23514): undone alone, recorded everywhere, their blocks went on", first.check)
	return nil
}

// watch shows block, rate and agreement until ctx ends. It looks through connections of its own, as
// a reader would.
func (d *demo) watch(ctx context.Context) error {
	conns := make([]*pgx.Conn, len(d.net.Organisations))
	for i, o := range d.net.Organisations {
		conn, err := o.Connect(ctx)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		conns[i] = conn
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	started := time.Now()
	v := view{}
	for {
		if err := v.look(ctx, conns); err != nil && ctx.Err() == nil {
			return err
		}
		text := v.text(d.out, time.Since(started))
		select {
		case <-ctx.Done():
			d.out.progressEnd(text)
			return nil
		case <-tick.C:
			d.out.progress(text)
		}
	}
}

// view is the contents of the progress line.
type view struct {
	common       uint64 // highest block that all have
	transactions int64  // in blocks up to it
	agrees       []bool // whose hash of that block is the first organisation's
}

func (v *view) look(ctx context.Context, conns []*pgx.Conn) error {
	var lowest uint64
	for i, conn := range conns {
		tip, err := harness.ReadTip(ctx, conn)
		if err != nil {
			return err
		}
		if i == 0 || tip.Number < lowest {
			lowest = tip.Number
		}
	}
	var more int64
	if err := conns[0].QueryRow(ctx, "SELECT coalesce(sum(tx_count), 0) FROM chainify.ledger WHERE number > $1 AND number <= $2",
		int64(v.common), int64(lowest)).Scan(&more); err != nil {
		return err
	}
	agrees := make([]bool, len(conns))
	var first []byte
	for i, conn := range conns {
		var hash []byte
		if err := conn.QueryRow(ctx, "SELECT hash FROM chainify.ledger WHERE number = $1", int64(lowest)).Scan(&hash); err != nil {
			return err
		}
		if i == 0 {
			first = hash
		}
		agrees[i] = string(hash) == string(first)
	}
	v.common, v.transactions, v.agrees = lowest, v.transactions+more, agrees
	return nil
}

func (v *view) text(s screen, since time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "block %-5d %6d transactions %6.0f tx/s  ", v.common, v.transactions, float64(v.transactions)/max(since.Seconds(), 0.001))
	for i, agrees := range v.agrees {
		mark := s.good("✓")
		if !agrees {
			mark = s.bad("✗")
		}
		fmt.Fprintf(&b, " %s %s", organisations[i], mark)
	}
	return b.String()
}
