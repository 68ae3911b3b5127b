// Package fabric repeats the experiments of Fabric++ (Sharma et al., SIGMOD 2019, section 5 and the
// appendices; Sharma, dissertation, section 3.6). Four organisations stand for the four peers, each
// with a client that fires transactions at a steady rate and tries none again. It counts the
// transactions that succeed, with and without the reordering of a block and the early abort. Beside
// both run the same transactions executed everywhere.
package fabric

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
)

// Config is one run.
type Config struct {
	Dir, PG, Chainify, Reorderer string // Reorderer is the program of the micro-benchmark
	Seed                         uint64
	Repeat, Seconds              int
	Rate                         int           // transactions a second that each of the four clients fires
	Only                         []string      // parts of the experiments' names; empty: all
	Settle                       time.Duration // how long the load of the set-up is waited for at most
	Progress                     io.Writer
}

// Rate is that of each client in the papers.
const Rate = 512

// Micro names the micro-benchmark of the reordering.
const Micro = "micro"

func (c Config) wants(name string) bool {
	return len(c.Only) == 0 || slices.ContainsFunc(c.Only, func(part string) bool { return strings.Contains(name, part) })
}

// Run measures all experiments and adds samples, figures and the table. The headlines are measured
// in every repetition, the rest once.
func Run(ctx context.Context, cfg Config, r *report.Report) error {
	r.Parameters["rate"] = cfg.Rate * len(members)
	var rows [][]string
	if cfg.wants(Micro) {
		found, err := micro(ctx, cfg, r)
		if err != nil {
			return err
		}
		rows = found
	}
	list := experiments(cfg)
	if len(list) == 0 && rows == nil {
		return fmt.Errorf("no experiment is named like one of %q", cfg.Only)
	}
	if len(list) > 0 {
		if err := throughput(ctx, cfg, list, r); err != nil {
			return err
		}
		rows = append(rows, tableOf(r, list)...)
	}
	r.Table = &report.Table{Head: tableHead, Rows: rows}
	return figures(r, list)
}

// throughput runs the experiments in a network.
func throughput(ctx context.Context, cfg Config, list []experiment, r *report.Report) (err error) {
	s, err := openSite(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, s.close(ctx)); err == nil {
			err = s.net.Remove() // after a failure the logs are worth keeping
		}
	}()
	if err := errors.Join(machine.Facts(r, s.net.Dir), machine.Settle(ctx, r, cfg.Settle, cfg.Progress)); err != nil {
		return err
	}
	if _, err := s.run(ctx, list[0], with, cfg.Repeat+1, 1, cfg.Rate); err != nil { // to warm up
		return err
	}
	for repetition := 1; repetition <= cfg.Repeat; repetition++ {
		if err := repeat(ctx, cfg, s, list, repetition, r); err != nil {
			return err
		}
	}
	return machine.NoteDisk(r, s.net.Dir)
}

// headlineLonger is how many times longer the headlines are measured than other points.
const headlineLonger = 4

// repeat runs what a repetition has, in an order drawn for it. The ways of an experiment run one
// after the other, so that a busy moment of the machine meets all of them.
func repeat(ctx context.Context, cfg Config, s *site, list []experiment, repetition int, r *report.Report) error {
	random := rand.New(rand.NewPCG(cfg.Seed, uint64(repetition)))
	due := slices.DeleteFunc(slices.Clone(list), func(e experiment) bool { return repetition > 1 && !e.headline })
	for done, i := range random.Perm(len(due)) {
		e := due[i]
		for _, j := range random.Perm(len(e.ways)) {
			w := e.ways[j]
			seconds := cfg.Seconds
			if e.headline {
				seconds *= headlineLonger
			}
			sample, err := s.run(ctx, e, w, repetition, seconds, cfg.Rate)
			if err != nil {
				return fmt.Errorf("%s, repetition %d: %w", e.series(w), repetition, err)
			}
			d := sample.Detail
			fmt.Fprintf(cfg.Progress, "repetition %d/%d, %d/%d: %-62s %5.0f of %5.0f tx/s succeeded, %5.0f conflicted, %5.0f stale, %4.0f lost, %4.0f dropped, blocks of %.0f, load %.1f\n",
				repetition, cfg.Repeat, done+1, len(due), e.series(w), sample.Value, d[firedDetail], d[fateNames[conflicted]], d[fateNames[early]], d[fateNames[simulated]], d[fateNames[dropped]], d[perBlock], sample.Load)
			r.Add(e.series(w), float64(w.blocks(e)), "tx/s", sample)
		}
	}
	return nil
}
