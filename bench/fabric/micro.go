package fabric

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// point is one of a micro-benchmark: a block of transactions, reordered.
type point struct {
	workload                                string
	parameter, count, asTheyCome, reordered int
	us                                      float64 // that the reordering takes
}

// The workloads of the micro-benchmarks (dissertation, section 3.5.1) with what it says of them.
var workloads = map[string]struct{ parameter, published string }{
	"interleaved": {"readers first", "all 1,024 valid, in 1 to 2 ms"},
	"cycles":      {"transactions a cycle", "as they come half valid; reordered drawn in figure 3.7"},
}

// readPoints reads what the program prints (crates/sched/examples/fabric.rs).
func readPoints(text string) ([]point, error) {
	var out []point
	for line := range strings.Lines(text) {
		var p point
		if _, err := fmt.Sscanf(line, "%s\t%d\t%d\t%d\t%d\t%f\n", &p.workload, &p.parameter, &p.count, &p.asTheyCome, &p.reordered, &p.us); err != nil {
			return nil, fmt.Errorf("read %q of the reordering: %w", line, err)
		}
		if _, known := workloads[p.workload]; !known {
			return nil, fmt.Errorf("the reordering has a workload %q, which is not known", p.workload)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, errors.New("the reordering measured nothing")
	}
	return out, nil
}

// micro measures the reordering by itself and returns rows of the table.
func micro(ctx context.Context, cfg Config, r *report.Report) ([][]string, error) {
	var slowest, valid, cyclic []float64
	var rows [][]string
	for repetition := 1; repetition <= cfg.Repeat; repetition++ {
		text, err := exec.CommandContext(ctx, cfg.Reorderer).Output()
		if err != nil {
			return nil, fmt.Errorf("run %s (make bench BENCH=fabric builds it): %w", cfg.Reorderer, err)
		}
		points, err := readPoints(string(text))
		if err != nil {
			return nil, err
		}
		found := worst(points)
		slowest, valid, cyclic = append(slowest, found.ms), append(valid, found.valid), append(cyclic, found.cyclesMS)
		rows = microRows(points)
	}
	const apart = "the reordering alone, 1,024 transactions: "
	return rows, errors.Join(
		r.AddFigure("fabric.reorder", slowest, "ms", targets.Of("fabric.reorder"), apart+"512 writers and 512 readers, interleaved, the slowest of nine orders"),
		r.AddFigure("fabric.reorder_valid", valid, "transactions", targets.Of("fabric.reorder_valid"), "of reorder's transactions the valid ones, the fewest of nine orders"),
		r.AddFigure("fabric.reorder_cycles", cyclic, "ms", report.Target{}, apart+"cycles of 2 to 1,024, the slowest"),
	)
}

// worst is the slowest and the fewest valid of the first workload, and the slowest of the second.
func worst(points []point) (out struct{ ms, valid, cyclesMS float64 }) {
	for _, p := range points {
		if p.workload == "cycles" {
			out.cyclesMS = max(out.cyclesMS, p.us/1000)
			continue
		}
		if out.valid == 0 || float64(p.reordered) < out.valid {
			out.valid = float64(p.reordered)
		}
		out.ms = max(out.ms, p.us/1000)
	}
	return out
}

func microRows(points []point) [][]string {
	var rows [][]string
	for _, p := range points {
		of := workloads[p.workload]
		rows = append(rows, []string{
			fmt.Sprintf("%s %s, %d %s", Micro, p.workload, p.parameter, of.parameter), of.published,
			fmt.Sprintf("%d valid", p.asTheyCome), fmt.Sprintf("%d valid, %.3f ms", p.reordered, p.us/1000),
			fmt.Sprintf("%.2f ×", float64(p.reordered)/float64(p.asTheyCome)), "", "",
		})
	}
	return rows
}
