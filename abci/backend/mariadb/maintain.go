package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
)

// Scrubbing is how often everything is read, and how fast.
type Scrubbing struct {
	Every         time.Duration // each table once, then the kept blocks; 0: never
	RowsPerSecond int           // at most; 0: never
}

const (
	scrubRetry   = 10 * time.Second // after the database did not answer
	throttleRows = 1_000            // between two looks at the clock
	auditBlocks  = 100              // that are audited without a pause

	auditRests     = 9           // times the time of the piece before
	auditRestsMost = time.Minute // for a piece that waited for something else
)

// Maintain reads tables and kept blocks until ctx ends, as Config.Scrubbing says, and folds history
// as Config.Checkpoints says. Findings show in Position, and recovery puts them right.
func (b *Backend) Maintain(ctx context.Context, log *slog.Logger) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { b.keepFolding(ctx, log) })
	s := b.cfg.Scrubbing
	if s.Every <= 0 || s.RowsPerSecond <= 0 {
		log.Warn("the scrubber is off: rows that no block touches are never looked at")
		return
	}
	if !sleep(ctx, b.untilDue(ctx, s.Every)) {
		return
	}
	work.Go(func() { b.keep(ctx, log, "audit", b.auditAll) })
	b.keep(ctx, log, "scrubber", b.scrubAll)
}

// keep does such passes one after the other.
func (b *Backend) keep(ctx context.Context, log *slog.Logger, name string, pass func(context.Context, *slog.Logger) error) {
	for {
		pause := b.cfg.Scrubbing.Every
		if err := pass(ctx, log); err != nil {
			if ctx.Err() != nil {
				return
			}
			log.Warn(name, "error", err)
			pause = min(pause, scrubRetry)
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// untilDue returns when the next pass is due after a start: at the time that it would have had
// without a restart, at most a whole interval.
func (b *Backend) untilDue(ctx context.Context, every time.Duration) time.Duration {
	h, err := b.Inspect(ctx)
	if err != nil {
		return 0
	}
	return min(every-h.ScrubAge, every)
}

// scrubAll is one pass over all tables.
func (b *Backend) scrubAll(ctx context.Context, log *slog.Logger) error {
	found, err := b.scrub(ctx, b.cfg.Scrubbing.RowsPerSecond)
	for _, f := range found {
		log.Warn("scrubber found a table that is not as certified", "table", f.Table, "finding", f.What)
	}
	return err
}

// auditAll is one pass over all stored blocks, or the rest of a pass that a restart interrupted.
// The number of blocks grows, so the pass takes a tenth of the time at most, and tables are
// scrubbed meanwhile.
func (b *Backend) auditAll(ctx context.Context, log *slog.Logger) error {
	var next uint64
	err := b.pool.QueryRowContext(ctx, b.name.in(`SELECT coalesce(max(next), 0) FROM %L.audited`)).Scan(&next)
	if err != nil {
		return fmt.Errorf("audit: where it was: %w", err)
	}
	for more := true; more; {
		began := time.Now()
		var changes audited
		if next, changes, err = b.auditFrom(ctx, next, auditBlocks); err != nil {
			return err
		}
		if _, err := b.pool.ExecContext(ctx, b.name.in(`REPLACE INTO %L.audited (only_one, next) VALUES (1, ?)`), next); err != nil {
			return fmt.Errorf("audit: keep its place: %w", err)
		}
		for number := range changes.noted {
			log.Warn("audit found a block that is not kept as agreed", "block", number)
		}
		if !sleep(ctx, auditPause(changes.read, b.cfg.Scrubbing.RowsPerSecond, time.Since(began))) {
			return ctx.Err()
		}
		more = next > 0
	}
	return nil
}

// auditPause is how long an audit rests after a piece of so many rows, which took so long.
func auditPause(rows, perSecond int, took time.Duration) time.Duration {
	return max(due(rows, perSecond)-took, min(auditRests*took, auditRestsMost))
}

// due is how long so many rows take at a rate.
func due(rows, perSecond int) time.Duration {
	return time.Duration(float64(rows) / float64(perSecond) * float64(time.Second))
}

// sleep waits; false: ctx ended.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(max(pause, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// scrubbed is a finding in a table or a procedure.
type scrubbed struct{ Table, What string }

// Scrub compares the tables with their running states, and definitions and procedures with those
// attached. A difference shows in the position until a repair. Cost: a read of all tables.
func (b *Backend) Scrub(ctx context.Context) error {
	_, err := b.scrub(ctx, 0)
	return err
}

func (b *Backend) scrub(ctx context.Context, perSecond int) ([]scrubbed, error) {
	tables, err := readTables(ctx, b.pool, b.name, maxBlock, map[string]*described{})
	if err != nil {
		return nil, fmt.Errorf("scrub: %w", err)
	}
	var found []scrubbed
	procedures, err := readProcedures(ctx, b.pool, b.pool, b.name, maxBlock)
	if err != nil {
		return nil, fmt.Errorf("scrub procedures: %w", err)
	}
	for _, name := range procedures.altered() {
		found = append(found, scrubbed{"procedure " + name, "its words are not those agreed"})
		if _, err := b.pool.ExecContext(ctx, b.name.in(`UPDATE %L.chain SET deviates = TRUE`)); err != nil {
			return nil, fmt.Errorf("scrub procedures: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		what, err := b.scrubTable(ctx, name, perSecond)
		switch {
		case err != nil:
			return nil, fmt.Errorf("scrub %s: %w", name, err)
		case what == "":
			_, err = b.pool.ExecContext(ctx, b.name.in(`REPLACE INTO %L.scrub (table_id, well_at) VALUES (?, utc_timestamp(6))`), tables[name].id)
		default:
			found = append(found, scrubbed{name, what})
			_, err = b.pool.ExecContext(ctx, b.name.in(`UPDATE %L.chain SET deviates = TRUE`))
		}
		if err != nil {
			return nil, fmt.Errorf("scrub %s: %w", name, err)
		}
	}
	return found, nil
}

// scrubTable checks one table in a snapshot of its own. It returns "" when the table is as agreed,
// or was detached meanwhile.
func (b *Backend) scrubTable(ctx context.Context, name string, perSecond int) (string, error) {
	conn, err := b.pool.Conn(ctx)
	if err != nil {
		return "", err
	}
	r := &reading{conn: conn, name: b.name}
	defer r.Close()
	if err := r.snapshot(ctx); err != nil {
		return "", err
	}
	tables, err := readTables(ctx, conn, b.name, maxBlock, map[string]*described{})
	t := tables[name]
	if err != nil || t == nil {
		return "", err
	}
	if t.altered {
		return "the definition is not the attached one", nil
	}
	if what, err := r.triggersOf(ctx, t, tables); what != "" || err != nil {
		return what, err
	}
	state, err := t.read(ctx, conn, b.name, perSecond)
	if errors.Is(err, canonical.ErrValue) {
		return "a row cannot be encoded: " + err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	if canonical.TableState(t.Name, canonical.SchemaHash2(t.text), &state) != t.stateHash() {
		return fmt.Sprintf("the rows are not those of the state: %d, want %d", state.Rows, t.state.Rows), nil
	}
	return "", nil
}

// triggersOf checks that a table has exactly the ledger's triggers under the ledger's names.
func (r *reading) triggersOf(ctx context.Context, t *table, tables map[string]*table) (string, error) {
	found, err := readTriggers(ctx, r.conn, r.name)
	if err != nil {
		return "", err
	}
	for _, want := range t.triggers(tables, r.name) {
		if have := found[want.name]; want.body != have.body || want.when != have.when {
			return "trigger " + want.name + " is not the ledger's", nil
		}
		delete(found, want.name)
	}
	for _, have := range found {
		if have.table == t.Name {
			return "trigger " + have.name + " is not the ledger's", nil
		}
	}
	return "", nil
}

// read sums a table row by row, holding one at a time, at most so many a second; 0: without limit.
func (t *table) read(ctx context.Context, q querier, name names, perSecond int) (canonical.State, error) {
	var s canonical.State
	rows, err := q.QueryContext(ctx, "SELECT "+t.serialized("t")+" FROM "+t.quoted(name)+" AS t")
	if err != nil {
		return s, err
	}
	return s, throttled(ctx, rows, perSecond, func(raw sql.RawBytes) error {
		row, _, err := t.encode(raw)
		if err == nil {
			t.hasher.Add(&s, row)
		}
		return err
	})
}

// throttled gives rows of one column one by one, at most so many a second; 0: without limit.
func throttled(ctx context.Context, rows *sql.Rows, perSecond int, f func(sql.RawBytes) error) error {
	began, count := time.Now(), 0
	return each(rows, func() error {
		var raw sql.RawBytes
		err := rows.Scan(&raw)
		if err == nil {
			err = f(raw)
		}
		if count++; err == nil && perSecond > 0 && count%throttleRows == 0 && !sleep(ctx, due(count, perSecond)-time.Since(began)) {
			err = ctx.Err()
		}
		return err
	})
}

// Inspect tells the database's health.
func (b *Backend) Inspect(ctx context.Context) (backend.Health, error) {
	var h backend.Health
	var micros int64
	err := b.pool.QueryRowContext(ctx, b.name.in(`SELECT (SELECT deviates FROM %L.chain) + (SELECT count(*) FROM %L.false_block)
			+ (SELECT count(*) FROM %L.deviation WHERE cured_by IS NULL),
		coalesce((SELECT timestampdiff(MICROSECOND, min(s.well_at), utc_timestamp(6)) FROM %L.scrub s
			JOIN %L.ledger_table t ON t.id = s.table_id WHERE t.detached_at IS NULL), 0)`)).Scan(&h.Deviations, &micros)
	if err != nil {
		return h, fmt.Errorf("inspect database: %w", err)
	}
	h.ScrubAge = time.Duration(micros) * time.Microsecond
	if s := b.cfg.Scrubbing; s.RowsPerSecond > 0 {
		h.ScrubInterval = s.Every
	}
	return h, nil
}

// Servers implements [backend.Inspector]: a MariaDB is one server.
func (b *Backend) Servers() backend.Servers { return backend.Servers{} }

// Mirrors implements [backend.Inspector]: the analytics worker mirrors no MariaDB.
func (b *Backend) Mirrors(context.Context) (backend.Mirrors, error) { return backend.Mirrors{}, nil }
