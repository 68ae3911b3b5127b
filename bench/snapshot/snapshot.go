// Package snapshot measures the strategies of crates/snapshot: the creation of a snapshot, and the
// first write after it. It runs crates/snapshot/examples/cost.rs in a process for each strategy,
// and makes the report.
package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"

	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// The measurement of AnKer (SIGMOD 2018), table 1.
const (
	columnBytes      = 200 << 20 // of each column
	shortColumnBytes = 20 << 20
	inARow           = 5 // snapshots: their median is a sample

	written      = 50_000                  // the pages after which figures are taken
	shortWritten = shortColumnBytes / 4096 // all that there are

	notHere = 3 // exit code of the program for a strategy or an amount of memory that the machine lacks
)

var (
	strategies   = []string{"chunks", "copy", "fork", "rewire", "vm_snapshot"}
	columns      = []int{1, 25, 50}
	shortColumns = []int{1, 5}
)

// Config is one run.
type Config struct {
	Dir      string
	Program  string // of crates/snapshot/examples/cost.rs
	Seed     uint64
	Repeat   int
	Short    bool
	Progress io.Writer
}

// measured is the program's answer.
type measured struct {
	Strategy string  `json:"strategy"`
	Columns  int     `json:"columns"`
	Stages   []stage `json:"stages"`
}

// stage is the state after so many page writes. Times are in microseconds.
type stage struct {
	Written     int       `json:"written"`
	Create      []float64 `json:"create_us"`
	Release     []float64 `json:"release_us"`
	SparseWrite float64   `json:"sparse_write_us"`
	DenseWrite  float64   `json:"dense_write_us"`
}

// run is one process of the program.
type run struct {
	strategy string
	columns  int
}

// Run measures every strategy in every repetition, in an order drawn for it, and adds series and
// figures.
func Run(ctx context.Context, cfg Config, r *report.Report) error {
	if err := machine.Facts(r, cfg.Dir); err != nil {
		return err
	}
	sizes, bytes := cfg.sizes()
	r.Parameters["column_bytes"], r.Parameters["columns"] = bytes, sizes
	var runs []run
	for _, strategy := range strategies {
		for _, n := range sizes {
			runs = append(runs, run{strategy, n})
		}
	}
	draw, left := rand.New(rand.NewPCG(cfg.Seed, 0)), map[run]bool{}
	for repetition := range cfg.Repeat {
		draw.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		for _, one := range runs {
			if left[one] {
				continue
			}
			if err := sample(ctx, cfg, one, repetition, r, left); err != nil {
				return fmt.Errorf("%s of %d columns: %w", one.strategy, one.columns, err)
			}
		}
	}
	return figures(cfg, r)
}

func (c Config) sizes() ([]int, int) {
	if c.Short {
		return shortColumns, shortColumnBytes
	}
	return columns, columnBytes
}

// sample runs the program once. A run that the machine lacks something for is noted and left out.
func sample(ctx context.Context, cfg Config, one run, repetition int, r *report.Report, left map[run]bool) error {
	_, bytes := cfg.sizes()
	load := machine.Load()
	out, reason, err := measure(ctx, cfg, one, bytes)
	if reason != "" {
		left[one] = true
		r.Notes = append(r.Notes, fmt.Sprintf("%s: not measured: %s", system(one), reason))
		return nil
	}
	if err != nil {
		return err
	}
	for _, s := range out.Stages {
		created := report.Median(s.Create)
		r.Add(system(one), float64(s.Written), "µs", report.Sample{
			Repetition: repetition, Value: created, Load: load,
			Detail: map[string]float64{"release_us": report.Median(s.Release), "sparse_write_us": s.SparseWrite, "dense_write_us": s.DenseWrite},
		})
		fmt.Fprintf(cfg.Progress, "%s after %d page writes: %.2f µs; a write after it %.2f µs alone, %.2f among many\n",
			system(one), s.Written, created, s.SparseWrite, s.DenseWrite)
	}
	return nil
}

// measure runs the program. The reason says that the machine lacks something.
func measure(ctx context.Context, cfg Config, one run, bytesOfColumn int) (out measured, reason string, err error) {
	var told bytes.Buffer
	cmd := exec.CommandContext(ctx, cfg.Program, one.strategy, strconv.Itoa(one.columns), strconv.Itoa(bytesOfColumn),
		strconv.Itoa(inARow), strconv.FormatUint(cfg.Seed, 10))
	cmd.Stderr = &told
	answer, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == notHere {
		return out, strings.TrimSpace(strings.TrimPrefix(told.String(), "cost: ")), nil
	}
	if err != nil {
		return out, "", fmt.Errorf("%w: %s", err, strings.TrimSpace(told.String()))
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, "", fmt.Errorf("read the program's answer: %w", err)
	}
	if out.Strategy != one.strategy || out.Columns != one.columns || len(out.Stages) == 0 {
		return out, "", fmt.Errorf("the program measured %s of %d columns in %d stages", out.Strategy, out.Columns, len(out.Stages))
	}
	return out, "", nil
}

// system is the name of a series.
func system(one run) string {
	if one.columns == 1 {
		return one.strategy + ", 1 column"
	}
	return fmt.Sprintf("%s, %d columns", one.strategy, one.columns)
}

// figures are ratios within each repetition, after most pages were written.
func figures(cfg Config, r *report.Report) error {
	sizes, bytes := cfg.sizes()
	at := float64(written)
	if cfg.Short {
		at = shortWritten
	}
	var errs []error
	for _, n := range sizes {
		ours := r.Find(system(run{"chunks", n}), at)
		for _, other := range strategies[1:] {
			theirs := r.Find(system(run{other, n}), at)
			if ours == nil || theirs == nil || len(ours.Samples) != len(theirs.Samples) {
				continue
			}
			id := fmt.Sprintf("snapshot.%s_over_chunks_%d", other, n)
			promised := targets.Of(id)
			if cfg.Short {
				promised = report.Target{}
			}
			errs = append(errs, r.AddRatio(id, theirs.Values(), ours.Values(), promised,
				fmt.Sprintf("time of a snapshot of %d columns of %d MB by %s over that by chunks, after %g page writes in each", n, bytes>>20, other, at)))
		}
	}
	ours, forked := r.Find(system(run{"chunks", 1}), at), r.Find(system(run{"fork", 1}), at)
	if ours == nil || forked == nil {
		return errors.Join(append(errs, errors.New("chunks and fork of one column were not measured"))...)
	}
	for _, one := range []struct{ id, detail, how string }{
		{"sparse_write", "sparse_write_us", "a write that stands alone"},
		{"dense_write", "dense_write_us", "a write among those to every page"},
	} {
		errs = append(errs,
			r.AddFigure("snapshot."+one.id+"_us", ours.Details(one.detail), "µs", report.Target{}, "after a snapshot by chunks, the first write to a page: "+one.how),
			r.AddFigure("snapshot."+one.id+"_fork_us", forked.Details(one.detail), "µs", report.Target{}, "after a snapshot by fork, the first write to a page: "+one.how))
	}
	return errors.Join(errs...)
}
