package faults

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// settled reads an organisation's evidence once nothing is found any more and nothing is being
// repaired. The scrubber finds tampered rows, history and checkpoints that no block touched since.
// When the limit passes it is as it was last.
func settled(ctx context.Context, o *harness.Organisation, money string, limit time.Duration) (last Evidence, err error) {
	err = harness.Poll(ctx, limit, "verify "+o.Name, func(ctx context.Context) (bool, string, error) {
		found, err := o.Verify(ctx)
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
	db, err := o.Superuser()
	if err != nil {
		return e, err
	}
	defer db.Close()
	w := wordsOf(o)
	var number, n int64
	var hash, row string
	var client int
	var t Entry
	var id, content []byte
	var rows []string
	for _, part := range []struct {
		query     string
		arguments []any
		into      []any
		do        func() error
	}{
		{w.heads, []any{0}, []any{&number, &hash}, func() error { e.Hashes[number] = hash; return nil }},
		{w.entries, nil, []any{&id, &t.Block, &t.Index, &t.Succeeded, &t.SQLState, &content}, func() error {
			var err error
			t.ID = string(id)
			t.Client, t.Attempt, err = authorOf(content)
			e.Entries = append(e.Entries, t)
			return err
		}},
		{"SELECT client, n FROM counters", nil, []any{&client, &n}, func() error { e.Counters[client] = n; return nil }},
		{rowsSQL, nil, []any{&row}, func() error { rows = append(rows, row); return nil }},
		{w.deviations, nil, []any{&e.Deviations, &e.Open}, func() error { return nil }},
		{"SELECT " + moneySQL + ", concat(" + money + " + (SELECT sum(deposited) FROM counters))", nil, []any{&e.Money, &e.Expected}, func() error { return nil }},
	} {
		if err := each(ctx, db, part.query, part.arguments, part.into, part.do); err != nil {
			return e, err
		}
	}
	slices.Sort(rows)
	e.Rows = fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(rows, "\n"))))
	if e.State, err = o.State(ctx); err != nil {
		e.State = "the node does not answer"
	}
	return e, nil
}

// moneySQL sums up all accounts, and rowsSQL writes all rows, as texts that engines have in common.
const (
	moneySQL = "concat((SELECT sum(balance) FROM savings) + (SELECT sum(balance) FROM checking))"
	rowsSQL  = `SELECT concat('savings ', custid, ' ', balance) FROM savings UNION ALL SELECT concat('checking ', custid, ' ', balance) FROM checking
		UNION ALL SELECT concat('counters ', client, ' ', n, ' ', deposited, ' ', attempt) FROM counters UNION ALL SELECT concat('accounts ', custid, ' ', name) FROM accounts`
)

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
	dbs := make([]*sql.DB, len(organisations))
	for i, o := range organisations {
		var err error
		if dbs[i], err = o.Superuser(); err != nil {
			w.broken.add(Unexpected, "%s: %v", o.Name, err)
			return w
		}
		defer dbs[i].Close()
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return w
		case <-tick.C:
		}
		for i, o := range organisations {
			w.look(ctx, o, dbs[i], &seen[i])
		}
		w.longest = max(w.longest, time.Since(w.last))
	}
}

// lookLimit bounds one look: the server may be paused.
const lookLimit = time.Second

func (w *watcher) look(ctx context.Context, o *harness.Organisation, db *sql.DB, seen *int64) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	if o.MariaDB == nil {
		w.countParts(ctx, o.Name, db, *seen)
	}
	var number int64
	var hash string
	_ = each(ctx, db, wordsOf(o).heads, []any{*seen}, []any{&number, &hash}, func() error {
		*seen = number
		switch have, ok := w.chain[number]; {
		case !ok:
			w.chain[number] = hash
			w.last = time.Now()
		case have != hash:
			w.broken.add(Diverged, "block %d was %.16s, and is %.16s at %s", number, have, hash, o.Name)
		}
		return nil
	})
}

// countParts counts the last block when it was executed in parts and is not among those seen. A
// change between two looks is not counted.
func (w *watcher) countParts(ctx context.Context, name string, db *sql.DB, seen int64) {
	var blocks int
	err := db.QueryRowContext(ctx, `SELECT count(DISTINCT block) FROM chainify_ledger.part
		WHERE block > $1 AND block <= (SELECT max(number) FROM chainify_ledger.block)`, seen).Scan(&blocks)
	if err == nil {
		w.inParts[name] += blocks
	}
}
