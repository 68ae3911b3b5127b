package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/smallbank"
)

// claims are statements about the network with the verdict of this run.
type claims []claim

type claim struct {
	held bool
	text string
}

func (c *claims) add(held bool, format string, args ...any) {
	*c = append(*c, claim{held, fmt.Sprintf(format, args...)})
}

// print shows all claims and says whether all held.
func (c claims) print(s screen) bool {
	all := true
	s.line("")
	s.title("Claims")
	for _, claim := range c {
		mark := s.good("✓")
		if !claim.held {
			mark, all = s.bad("✗"), false
		}
		s.line("  %s %s", mark, claim.text)
	}
	return all
}

// report collects what was measured.
type report struct {
	plain, executed            rate
	succeeded, refused         int // of those executed
	touched                    time.Time
	detection, repair, exposed time.Duration
}

// rate is the measurement of a load.
type rate struct {
	answered  int
	took      time.Duration
	latencies smallbank.Latencies
}

func (r rate) String() string {
	return fmt.Sprintf("%d in %s: %.0f tx/s", r.answered, seconds(r.took), float64(r.answered)/max(r.took.Seconds(), 0.001))
}

// tampering notes the times of a deviation. The end is when the cure was seen by polling, so
// detection and exposure are at most one poll too long.
func (r *report) tampering(v deviation, tampered time.Time) {
	r.detection = max(0, v.seen.Add(-v.took).Sub(r.touched))
	r.repair = v.took
	r.exposed = v.seen.Sub(tampered)
}

func (r *report) print(s screen) {
	r.rows(s, [][2]string{
		{"transactions of plain SQL", r.plain.String()},
		{"COMMIT with its statements, median", millis(r.plain.latencies.Quantile(0.5))},
		{"COMMIT with its statements, 95th percentile", millis(r.plain.latencies.Quantile(0.95))},
		{"transactions by chainify.execute", r.executed.String()},
		{"of these succeeded / failed their CHECK", fmt.Sprintf("%d / %d", r.succeeded, r.refused)},
		{"chainify.execute, median", millis(r.executed.latencies.Quantile(0.5))},
		{"chainify.execute, 95th percentile", millis(r.executed.latencies.Quantile(0.95))},
	})
}

// printMixed is print for two engines, which have no load of plain SQL in common.
func (r *report) printMixed(s screen) {
	r.rows(s, [][2]string{
		{"transactions by chainify.execute and chainify_execute", r.executed.String()},
		{"of these succeeded / found their key taken", fmt.Sprintf("%d / %d", r.succeeded, r.refused)},
		{"answer, median", millis(r.executed.latencies.Quantile(0.5))},
		{"answer, 95th percentile", millis(r.executed.latencies.Quantile(0.95))},
	})
}

func (r *report) rows(s screen, load [][2]string) {
	s.line("")
	s.title("Measured on this machine, four organisations together, fsync on")
	for _, row := range append(load, [][2]string{
		{"tampered row: from the touching transaction to its detection", millis(r.detection)},
		{"tampered row: repair and re-execution", millis(r.repair)},
		{"tampered row: visible in the one database for", millis(r.exposed)},
	}...) {
		s.line("  %-62s %s", row[0], row[1])
	}
}

// findings counts what an organisation finds in its own ledger and tables. It waits for nothing to
// be found: the scrubber comes by the triggers, which the cheat left otherwise than they were,
// after the row is right.
func (d *demo) findings(ctx context.Context, o *harness.Organisation) (found int, err error) {
	sql := "SELECT (SELECT count(*) FROM chainify.verify_ledger())"
	for _, t := range smallbank.Tables {
		sql += " + (SELECT count(*) FROM chainify.verify_table('" + t + "'))"
	}
	var failed error
	_ = harness.Poll(ctx, agreeLimit, "verification by "+o.Name, func(ctx context.Context) (bool, string, error) {
		failed = o.Scan(ctx, sql, &found)
		return found == 0, fmt.Sprintf("%d findings", found), failed
	})
	return found, failed
}

// verify has every organisation check its own ledger and tables in full.
func (d *demo) verify(ctx context.Context) error {
	done := d.out.step("every organisation verifies its ledger and rescans its tables")
	findings := make([]int, len(d.net.Organisations))
	sums := make([]string, len(d.net.Organisations))
	for i, o := range d.net.Organisations {
		var err error
		if findings[i], err = d.findings(ctx, o); err != nil {
			return err
		}
		if err := o.Scan(ctx, "SELECT (SELECT sum(balance) FROM savings)::text || ' + ' || (SELECT sum(balance) FROM checking)::text", &sums[i]); err != nil {
			return err
		}
	}
	done()
	total, same := 0, true
	for i := range findings {
		total += findings[i]
		same = same && sums[i] == sums[0]
	}
	d.claims.add(total == 0, "verify_ledger() and verify_table() of three tables: %d findings in four databases", total)
	d.claims.add(same, "savings + checking hold the same money everywhere: %s", sums[0])
	tip, err := harness.WaitSame(ctx, d.net.Organisations, 1, agreeLimit)
	if err != nil {
		return err
	}
	d.claims.add(true, "all four databases end at block %d, LedgerBlockHash %s", tip.Number, tip.Hash)
	return nil
}

// sqlState is the SQLSTATE of a PostgreSQL error, else what the error says.
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return fmt.Sprint(err)
}
