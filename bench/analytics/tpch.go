package analytics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

// tpchTables in the order in which they are filled.
var tpchTables = []string{"region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"}

// foreignKeys are indexed, as TPC-H allows: without them PostgreSQL reads whole tables for each row
// of an outer query.
const foreignKeys = `CREATE INDEX ON lineitem (l_partkey, l_suppkey); CREATE INDEX ON orders (o_custkey); CREATE INDEX ON partsupp (ps_suppkey);
	CREATE INDEX ON customer (c_nationkey); CREATE INDEX ON supplier (s_nationkey)`

// data is where the rows are, as CSV files with names of columns. The server's user reads them.
func (c Config) data() string {
	return filepath.Join(filepath.Dir(c.Dir), fmt.Sprintf("tpch-%g", c.Scale))
}

// generate makes the rows by tpchgen-cli, where they are not yet, and gives the schema.
func generate(ctx context.Context, cfg Config) (s workload.Schema, err error) {
	text, err := os.ReadFile(cfg.TPCH)
	if err != nil {
		return s, err
	}
	done := filepath.Join(cfg.data(), "done")
	if _, err := os.Stat(done); err != nil {
		command := exec.CommandContext(ctx, cfg.Generator, "csv", "--scale-factor", fmt.Sprint(cfg.Scale), "--output-dir", cfg.data(), "--overwrite")
		if out, err := command.CombinedOutput(); err != nil {
			return s, fmt.Errorf("make the rows of TPC-H: %w: %s", err, out)
		}
		if err := os.WriteFile(done, nil, 0o644); err != nil {
			return s, err
		}
	}
	s = workload.Schema{Name: "tpch", SQL: "CREATE SCHEMA tpch; CREATE SCHEMA test; SET search_path = tpch;" + statements(string(text))}
	fill := []string{"SET search_path = tpch"}
	for _, table := range tpchTables {
		s.Tables = append(s.Tables, "tpch."+table)
		fill = append(fill, fmt.Sprintf("COPY %s FROM '%s' (FORMAT csv, HEADER)", table, cfg.file(table)))
	}
	s.Fill = strings.Join(append(fill, foreignKeys, "RESET search_path"), ";")
	return s, nil
}

func (c Config) file(table string) string { return filepath.Join(c.data(), table+".csv") }

// statements is a script without psql's own lines.
func statements(script string) string {
	lines := strings.Split(script, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, `\`) || strings.HasPrefix(line, "--") }), "\n")
}

// tpch compares the queries of TPC-H with PostgreSQL's own plans.
func (b *bench) tpch(ctx context.Context) error {
	if b.Generator == "" {
		b.report.Notes = append(b.report.Notes, "TPC-H was not measured: it needs what scripts/setup-tpch installs")
		return nil
	}
	var all []query
	rows, err := b.conn.Query(ctx, "SELECT number, query FROM test.tpch ORDER BY number")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var q query
		if err := rows.Scan(&q.number, &q.sql); err != nil {
			return err
		}
		all = append(all, q)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	s, closing, err := b.beside(ctx, "TPC-H", "tpch", all)
	if err != nil {
		return err
	}
	defer closing()
	if err := b.measure(ctx, s); err != nil {
		return err
	}
	return errors.Join(
		b.report.AddFigure("analytics.tpch_admitted", []float64{float64(len(s.queries))}, "queries", b.target(targets.Of("analytics.tpch_admitted")), "queries of TPC-H's 22 that the worker answers"),
		b.report.AddRatio("analytics.tpch_over_mirror", b.sums(s, postgresql), b.sums(s, mirrors), b.target(targets.Of("analytics.tpch_over_mirror")),
			fmt.Sprintf("sum of the times of TPC-H's queries at scale %g, PostgreSQL's own plan with indexes on foreign keys over the mirrors, one core each", b.Scale)))
}
