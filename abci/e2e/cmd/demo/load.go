package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/smallbank"
)

const watchEvery = 250 * time.Millisecond

// load runs pgbench against all organisations at once and shows the ledger grow meanwhile.
func (d *demo) load(ctx context.Context) error {
	perClient := max(1, d.transactions/(d.clients*len(organisations)))
	d.out.announce("%d Smallbank transactions by SQL: pgbench with %d clients at each of the four", perClient*d.clients*len(organisations), d.clients)
	watched := make(chan error, 1)
	watchCtx, stopWatching := context.WithCancel(ctx)
	go func() { watched <- d.watch(watchCtx) }()

	started := time.Now()
	prefix := filepath.Join(d.dir, "pgbench-")
	err := d.net.Each(func(o *harness.Organisation) error {
		return d.bank.Load(ctx, o, database, smallbank.Run{
			Clients: d.clients, Transactions: perClient, Seed: d.seed + int64(o.Cluster.Port), LogPrefix: prefix + o.Name,
		})
	})
	took := time.Since(started)
	stopWatching()
	if watchErr := <-watched; err == nil {
		err = watchErr
	}
	if err != nil {
		return err
	}
	tip, err := harness.WaitSame(ctx, d.net.Organisations, 1, agreeLimit)
	if err != nil {
		return err
	}
	latencies, err := smallbank.ReadLatencies(prefix + "*")
	if err != nil {
		return err
	}
	d.report.load(len(latencies), took, latencies)
	d.claims.add(true, "same LedgerBlockHash in all four databases after the load: block %d, %.16s…", tip.Number, tip.Hash)
	return d.claimOutcomes(ctx, len(latencies))
}

// claimOutcomes compares what became of every transaction in all databases with what was answered.
func (d *demo) claimOutcomes(ctx context.Context, answered int) error {
	const text = `SELECT count(*) FILTER (WHERE outcome), count(*) FILTER (WHERE sqlstate = '23514'), count(*),
		md5(string_agg(encode(id, 'hex') || outcome::text, ',' ORDER BY block, index))
		FROM chainify.transactions WHERE role = 'bank'`
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

// view is what the progress line shows.
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
