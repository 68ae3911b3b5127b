package analytics

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// query is one of a set, by its number.
type query struct {
	number int
	sql    string
}

// ankerQueries are those of AnKer (SIGMOD 2018, figure 5), over the tables of workload/tpcc.sql.
var ankerQueries = []query{
	{1, "SELECT w_id, count(*) FROM warehouse, stock WHERE w_id = s_w_id GROUP BY w_id"},
	{2, "SELECT ol_d_id, avg(ol_amount) FROM order_line GROUP BY ol_d_id"},
	{3, "SELECT ol_w_id, sum(ol_quantity), avg(ol_amount) FROM order_line GROUP BY ol_w_id"},
	{4, "SELECT * FROM orders"},
	{5, "SELECT * FROM new_orders"},
	{6, "SELECT avg(d_tax), avg(d_ytd) FROM district"},
	{7, "SELECT avg(ol_amount) FROM order_line"},
	{8, "SELECT avg(s_quantity) FROM stock"},
}

// system answers queries: their rows as text, and how long that took.
type system struct {
	name string
	ask  func(ctx context.Context, sql string) (rows []string, took time.Duration, err error)
}

// set is a set of queries over the tables of a schema, and who answers them.
type set struct {
	name    string
	queries []query
	systems []system
}

// session opens a session that asks the mirrors, or PostgreSQL.
func (b *bench) session(ctx context.Context, schema string, mirrors bool) (*pgx.Conn, error) {
	conn, err := b.Connect(ctx, "postgres")
	if err != nil {
		return nil, err
	}
	setting := map[bool]string{true: "on", false: "off"}[mirrors]
	if _, err := conn.Exec(ctx, fmt.Sprintf("SET search_path = %s; SET TimeZone = 'UTC'; SET chainify.analytics = %s", schema, setting)); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// asked runs a query in a session.
func asked(conn *pgx.Conn) func(context.Context, string) ([]string, time.Duration, error) {
	return func(ctx context.Context, sql string) (rows []string, took time.Duration, err error) {
		started := time.Now()
		results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
		took = time.Since(started)
		if err != nil {
			return nil, took, err
		}
		for _, result := range results {
			for _, row := range result.Rows {
				values := make([]string, len(row))
				for i, value := range row {
					values[i] = string(value)
				}
				rows = append(rows, strings.Join(values, "|"))
			}
		}
		slices.Sort(rows) // queries without an order have none
		return rows, took, nil
	}
}

const (
	mirrors    = "mirrors"
	postgresql = "PostgreSQL"
)

// admitted keeps the queries that the worker answers, and notes the reasons of the others.
func (b *bench) admitted(ctx context.Context, conn *pgx.Conn, name string, all []query) ([]query, error) {
	var kept []query
	for _, q := range all {
		rows, _, err := asked(conn)(ctx, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "+q.sql)
		if err != nil {
			return nil, fmt.Errorf("%s %d: %w", name, q.number, err)
		}
		plan := strings.Join(rows, "\n")
		if strings.Contains(plan, "Answered By: the worker") {
			kept = append(kept, q)
			continue
		}
		reason := "PostgreSQL keeps it"
		for _, row := range rows {
			if strings.Contains(row, "Answered By") || strings.Contains(row, "Reason") {
				reason = strings.TrimSpace(row)
			}
		}
		b.report.Notes = append(b.report.Notes, fmt.Sprintf("%s %d is not answered by the worker: %s", name, q.number, reason))
	}
	return kept, nil
}

// measure asks every system every query in each repetition, in an order drawn for it. Answers that
// differ from PostgreSQL's are an error.
func (b *bench) measure(ctx context.Context, s set) error {
	for repetition := range b.Repeat + 1 { // the first one warms up
		draw := rand.New(rand.NewPCG(b.Seed, uint64(repetition)))
		for _, at := range draw.Perm(len(s.queries)) {
			q, answers := s.queries[at], map[string][]string{}
			for _, i := range draw.Perm(len(s.systems)) {
				system, load := s.systems[i], machine.Load()
				rows, took, err := system.ask(ctx, q.sql)
				if err != nil {
					return fmt.Errorf("%s %d by %s: %w", s.name, q.number, system.name, err)
				}
				answers[system.name] = rows
				if repetition > 0 {
					b.report.Add(s.name+", "+system.name, float64(q.number), "ms", report.Sample{Repetition: repetition, Value: ms(took), Seconds: took.Seconds(), Load: load})
				}
			}
			if !slices.Equal(answers[mirrors], answers[postgresql]) {
				return fmt.Errorf("%s %d: the mirrors answer %.300q, PostgreSQL %.300q", s.name, q.number, answers[mirrors], answers[postgresql])
			}
		}
		b.tell(s, repetition)
	}
	return nil
}

// tell prints what each system took in a repetition.
func (b *bench) tell(s set, repetition int) {
	for _, system := range s.systems {
		if sums := b.sums(s, system.name); repetition > 0 && len(sums) >= repetition {
			fmt.Fprintf(b.Progress, "%s, repetition %d: %.1f ms by %s\n", s.name, repetition, sums[repetition-1], system.name)
		}
	}
}

// sums adds up the times of all queries by repetition, in milliseconds.
func (b *bench) sums(s set, system string) []float64 {
	var out []float64
	for i, q := range s.queries {
		values := b.report.Find(s.name+", "+system, float64(q.number)).Values()
		if i == 0 {
			out = make([]float64, len(values))
		}
		for at := range min(len(out), len(values)) {
			out[at] += values[at]
		}
	}
	return out
}

func ms(took time.Duration) float64 { return took.Seconds() * 1000 }

// anker compares AnKer's queries with PostgreSQL's own plans.
func (b *bench) anker(ctx context.Context) error {
	s, closing, err := b.beside(ctx, "AnKer", "tpcc", ankerQueries)
	if err != nil {
		return err
	}
	defer closing()
	if err := b.measure(ctx, s); err != nil {
		return err
	}
	const over = "sum of the times of AnKer's queries, PostgreSQL's own plan over the mirrors, one core each, rows sent to the client"
	return errors.Join(
		b.report.AddFigure("analytics.anker_admitted", []float64{float64(len(s.queries))}, "queries", b.target(targets.Of("analytics.anker_admitted")), "queries of AnKer's eight that the worker answers"),
		b.report.AddRatio("analytics.anker_over_mirror", b.sums(s, postgresql), b.sums(s, mirrors), report.Target{}, over),
		b.computing(s))
}

// manyRows is how many rows an answer has whose time is that of sending it.
var manyRows = []int{4, 5}

// computing compares those of AnKer's queries that compute.
func (b *bench) computing(s set) error {
	some := set{s.name, slices.DeleteFunc(slices.Clone(s.queries), func(q query) bool { return slices.Contains(manyRows, q.number) }), s.systems}
	return b.report.AddRatio("analytics.anker_computing_over_mirror", b.sums(some, postgresql), b.sums(some, mirrors), b.target(targets.Of("analytics.anker_computing_over_mirror")),
		"anker_over_mirror without queries 4 and 5, which hand whole tables to the client")
}

// beside opens a session of each side, and keeps the queries that the worker answers.
func (b *bench) beside(ctx context.Context, name, schema string, queries []query) (s set, closing func(), err error) {
	fast, err := b.session(ctx, schema, true)
	if err != nil {
		return s, nil, err
	}
	slow, err := b.session(ctx, schema, false)
	if err != nil {
		return s, nil, errors.Join(err, fast.Close(ctx))
	}
	closing = func() { _, _ = fast.Close(ctx), slow.Close(ctx) }
	kept, err := b.admitted(ctx, fast, name, queries)
	if err != nil {
		closing()
		return s, nil, err
	}
	return set{name, kept, []system{{mirrors, asked(fast)}, {postgresql, asked(slow)}}}, closing, nil
}
