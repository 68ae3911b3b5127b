package mariadb

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
)

// Findings of scrubber and audit, which run on a schedule, show in Position, Inspect and the log.
func TestMaintenanceFindsWhatNoBlockTouches(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	c.commit(sqlOf("INSERT INTO items (id, name) VALUES (2, 'second')"))
	c.b.cfg.Scrubbing = Scrubbing{Every: 10 * time.Millisecond, RowsPerSecond: 1_000}
	ctx, cancel := context.WithCancel(t.Context())
	var log lines
	done := make(chan struct{})
	go func() { c.b.Maintain(ctx, slog.New(slog.NewTextHandler(&log, nil))); close(done) }()
	defer func() { cancel(); <-done }()
	sees := func(what string, holds func(backend.Position, backend.Health) bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			p, err := c.b.Position(ctx)
			h, inspect := c.b.Inspect(ctx)
			if err == nil && inspect == nil && holds(p, h) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v %+v %v %v", what, p, h, err, inspect)
			}
		}
	}
	sees("all is well", func(p backend.Position, h backend.Health) bool {
		return !p.Deviates && h.Deviations == 0 && h.ScrubAge < time.Second && h.ScrubInterval == 10*time.Millisecond
	})
	o.unguarded(t, "UPDATE %D.items SET name = 'tampered' WHERE id = 1")
	sees("a row", func(p backend.Position, h backend.Health) bool { return p.Deviates && h.Deviations > 0 })
	repair := func() ([]backend.RowDeviation, error) {
		return c.b.Repair(ctx, backend.Rows, c.at.Number, c.at.Hash, c.at.Number, c.at.Hash)
	}
	found, err := repair()
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	var by, cured, expected string
	row := o.root.QueryRow("SELECT found_by, cured_by, expected FROM " + o.name + "_ledger.deviation_row r JOIN (SELECT id, found_by, cured_by FROM " +
		o.name + "_ledger.deviation) d ON d.id = r.deviation ORDER BY d.id LIMIT 1")
	if err := row.Scan(&by, &cured, &expected); err != nil || by != "scrubber" || cured != "rows" || !strings.Contains(expected, "first") {
		t.Fatal(by, cured, expected, err)
	}
	// A pass that read the row before may tell of it after the repair. A node repairs again.
	sees("all is well again", func(p backend.Position, h backend.Health) bool {
		if p.Deviates {
			if _, err := repair(); err != nil {
				t.Fatal(err)
			}
		}
		return !p.Deviates && h.Deviations == 0
	})
	o.unguarded(t, "UPDATE %L.history SET row_bytes = x'0000' WHERE block = 2")
	sees("a block", func(p backend.Position, _ backend.Health) bool {
		return len(p.FalseBlocks) == 1 && p.FalseBlocks[0] == 2
	})
	cancel()
	<-done
	for _, want := range []string{"the rows are not those of the state", "block=2"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q: %s", want, log.String())
		}
	}
}

// lines are what is logged; read them when nothing logs any more.
type lines struct{ strings.Builder }

func TestTheScrubberKeepsToItsRate(t *testing.T) {
	if got := due(25_000, 50_000); got != 500*time.Millisecond {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if sleep(ctx, time.Hour) {
		t.Error("it goes on though it was ended")
	}
}

// A start does not bring the next pass forward, and a time of the database puts it off by an
// interval at most.
func TestTheNextPassIsDueAsWithoutAStart(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	const every = time.Hour
	for _, pass := range []struct {
		last             string
		earliest, latest time.Duration
	}{
		{"utc_timestamp(6) - INTERVAL 20 MINUTE", 39 * time.Minute, 40 * time.Minute},
		{"utc_timestamp(6) - INTERVAL 2 HOUR", -every - time.Minute, -every},
		{"utc_timestamp(6) + INTERVAL 2 HOUR", every, every},
	} {
		o.run(t, names{o.name}.in("UPDATE %L.scrub SET well_at = "+pass.last))
		if due := c.b.untilDue(t.Context(), every); due < pass.earliest || due > pass.latest {
			t.Errorf("last pass %s: due in %s, want %s to %s", pass.last, due, pass.earliest, pass.latest)
		}
	}
}

// An audit keeps the rate, takes a tenth of the time at most, and rests a minute at most for one
// piece.
func TestAnAuditRests(t *testing.T) {
	for _, c := range []struct {
		rows       int
		took, want time.Duration
	}{
		{rows: 1_000, took: 10 * time.Millisecond, want: 990 * time.Millisecond},
		{rows: 1_000, took: time.Second, want: 9 * time.Second},
		{rows: 0, took: time.Hour, want: time.Minute},
		{rows: 0, took: 0, want: 0},
	} {
		if got := auditPause(c.rows, 1_000, c.took); got != c.want {
			t.Errorf("%d rows in %s: rests %s, want %s", c.rows, c.took, got, c.want)
		}
	}
}

// An audit that a restart ends goes on with the next piece, and the pass after it reads all blocks.
func TestTheAuditGoesOnWhereItWas(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	c.commit(sqlOf("INSERT INTO items (id, name) VALUES (2, 'second')"))
	c.grow(auditBlocks)
	c.b.cfg.Scrubbing = Scrubbing{RowsPerSecond: 1} // it rests for long after a piece
	next := func() (next int) {
		_ = o.root.QueryRow("SELECT next FROM " + o.name + "_ledger.audited").Scan(&next) // 0: there is none yet
		return next
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- c.b.auditAll(ctx, slog.New(slog.DiscardHandler)) }()
	for next() == 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || next() != auditBlocks+1 {
		t.Fatal(err, next())
	}
	o.unguarded(t, "UPDATE %L.history SET row_bytes = x'0000' WHERE block = 2")
	c.b.cfg.Scrubbing = Scrubbing{RowsPerSecond: 1_000_000}
	for _, want := range [][]uint64{nil, {2}} {
		err := c.b.auditAll(t.Context(), slog.New(slog.DiscardHandler))
		if p := connected(t, c.b); err != nil || !slices.Equal(p.FalseBlocks, want) || next() != 0 {
			t.Errorf("%v, false blocks %v, want %v; next %d", err, p.FalseBlocks, want, next())
		}
	}
}
