package faults

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/smallbank"
)

// tables are those on the ledger.
var tables = append([]string{"counters"}, smallbank.Tables...)

const findingsMax = 5 // of one verification that are told

// findings says what the organisation's own verification finds.
func findings(ctx context.Context, o *harness.Organisation) ([]string, error) {
	checks := []string{"chainify.verify_ledger()"}
	for _, t := range tables {
		checks = append(checks, "chainify.verify_table('"+t+"')")
	}
	conn, err := o.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var all []string
	for _, check := range checks {
		rows, err := conn.Query(ctx, fmt.Sprintf("SELECT v::text FROM %s v LIMIT %d", check, findingsMax))
		if err != nil {
			return nil, err
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", check, err)
		}
		for _, f := range found {
			all = append(all, check+" finds "+f)
		}
	}
	return all, nil
}

// settled reads an organisation's evidence once nothing is found any more and nothing is being
// repaired. The scrubber finds tampered rows, history and checkpoints that no block touched since.
// When the limit passes it is as it was last.
func settled(ctx context.Context, o *harness.Organisation, money string, limit time.Duration) (last Evidence, err error) {
	err = harness.Poll(ctx, limit, "verify "+o.Name, func(ctx context.Context) (bool, string, error) {
		found, err := findings(ctx, o)
		if err != nil {
			return false, err.Error(), nil
		}
		e, err := collect(ctx, o, money)
		if err != nil {
			return false, err.Error(), nil
		}
		e.Findings = found
		last = e
		return len(e.Findings) == 0 && e.Open == 0 && e.goesOn(), strings.Join(e.Findings, "; "), nil
	})
	if last.Organisation != "" && ctx.Err() == nil {
		return last, nil
	}
	return last, err
}

// collect reads an organisation's evidence. The load must have ended.
func collect(ctx context.Context, o *harness.Organisation, money string) (Evidence, error) {
	e := Evidence{Organisation: o.Name, Hashes: map[int64]string{}, Counters: map[int]int64{}}
	conn, err := o.Connect(ctx)
	if err != nil {
		return e, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var number int64
	var hash string
	if err := each(ctx, conn, "SELECT number, encode(hash, 'hex') FROM chainify.ledger", []any{&number, &hash}, func() {
		e.Hashes[number] = hash
	}); err != nil {
		return e, err
	}
	var t Entry
	var id []byte
	if err := each(ctx, conn, `SELECT id, block, index, outcome, coalesce(sqlstate, ''), coalesce(substring(sql FROM 'client = (\d+)')::int, 0)
		FROM chainify.transactions`, []any{&id, &t.Block, &t.Index, &t.Succeeded, &t.SQLState, &t.Client}, func() {
		t.ID = string(id)
		e.Entries = append(e.Entries, t)
	}); err != nil {
		return e, err
	}
	var client int
	var n int64
	if err := each(ctx, conn, "SELECT client, n FROM counters", []any{&client, &n}, func() { e.Counters[client] = n }); err != nil {
		return e, err
	}
	err = conn.QueryRow(ctx, `SELECT (`+moneySQL+`)::text, ($1::numeric + (SELECT sum(deposited) FROM counters))::text,
		(SELECT md5(string_agg(x, ',' ORDER BY x)) FROM (
			SELECT concat_ws(' ', 's', custid, balance) FROM savings UNION ALL SELECT concat_ws(' ', 'c', custid, balance) FROM checking
			UNION ALL SELECT concat_ws(' ', 'n', client, n, deposited) FROM counters UNION ALL SELECT concat_ws(' ', 'a', custid, name) FROM accounts) AS r (x)),
		(SELECT coalesce(state, 'the node does not answer') FROM chainify.status),
		(SELECT count(*) FROM chainify.deviations), (SELECT count(*) FROM chainify.deviations WHERE cured_by IS NULL)`, money).
		Scan(&e.Money, &e.Expected, &e.Rows, &e.State, &e.Deviations, &e.Open)
	return e, err
}

// moneySQL sums up all accounts.
const moneySQL = "SELECT (SELECT sum(balance) FROM savings) + (SELECT sum(balance) FROM checking)"

// each calls do for every row, scanned into the variables.
func each(ctx context.Context, conn *pgx.Conn, sql string, into []any, do func()) error {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, func() error {
		do()
		return nil
	})
	return err
}

// watcher follows all chains while faults go on.
type watcher struct {
	chain   map[int64]string
	last    time.Time // when a block was first seen
	longest time.Duration
	broken  violations
	inParts map[string]int // blocks by organisation
}

// watchEvery is how often the chains are looked at.
const watchEvery = 250 * time.Millisecond

// watch reads new blocks of every organisation until ctx ends. A block of one number is the same
// everywhere and stays what it is.
func watch(ctx context.Context, organisations []*harness.Organisation) *watcher {
	w := &watcher{chain: map[int64]string{}, last: time.Now(), inParts: map[string]int{}}
	seen := make([]int64, len(organisations))
	conns := make([]*pgx.Conn, len(organisations))
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close(context.WithoutCancel(ctx))
			}
		}
	}()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return w
		case <-tick.C:
		}
		for i, o := range organisations {
			w.look(ctx, o, &conns[i], &seen[i])
		}
		w.longest = max(w.longest, time.Since(w.last))
	}
}

// lookLimit bounds one look: the server may be paused.
const lookLimit = time.Second

func (w *watcher) look(ctx context.Context, o *harness.Organisation, conn **pgx.Conn, seen *int64) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	if *conn == nil || (*conn).IsClosed() {
		var err error
		if *conn, err = o.Connect(ctx); err != nil {
			*conn = nil
			return
		}
	}
	w.countParts(ctx, o.Name, *conn, *seen)
	var number int64
	var hash string
	_ = each(ctx, *conn, fmt.Sprintf("SELECT number, encode(hash, 'hex') FROM chainify.ledger WHERE number > %d ORDER BY number LIMIT 1000", *seen),
		[]any{&number, &hash}, func() {
			*seen = number
			switch have, ok := w.chain[number]; {
			case !ok:
				w.chain[number] = hash
				w.last = time.Now()
			case have != hash:
				w.broken.add(Diverged, "block %d was %.16s, and is %.16s at %s", number, have, hash, o.Name)
			}
		})
}

// countParts counts the last block when it was executed in parts and is not among those seen. A
// change between two looks is not counted.
func (w *watcher) countParts(ctx context.Context, name string, conn *pgx.Conn, seen int64) {
	var blocks int
	err := conn.QueryRow(ctx, `SELECT count(DISTINCT block) FROM chainify_ledger.part
		WHERE block > $1 AND block <= (SELECT max(number) FROM chainify_ledger.block)`, seen).Scan(&blocks)
	if err == nil {
		w.inParts[name] += blocks
	}
}
