// Command faults runs networks of real processes through faults and checks that nothing is lost,
// executed twice or different, and that everybody goes on. Its faults are manifests that are given
// (run), or drawn from seeds for some minutes (soak). The exit code says whether all held.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/faults"
)

const usage = `usage: faults run  [flags] MANIFEST.toml...    run these
       faults soak [flags] -minutes N           run random ones for so long
       faults show -seed N                      print the manifest of a seed
       faults overlay DIR                       make what "go build -overlay" needs for a node whose clock can be set
`

// options are the flags; make knows the paths.
type options struct {
	faults.Options
	seed    uint64
	minutes float64
	runs    int
	length  time.Duration
	json    string
	verbose bool
	report  string // of the one manifest that an isolated child runs
}

var errFailed = errors.New("not all runs passed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "faults: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	var o options
	fs := flag.NewFlagSet(args[0], flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(os.Stderr, usage); fs.PrintDefaults() }
	fs.StringVar(&o.PG, "pg", "", "prefix of a PostgreSQL tree with the extension")
	fs.StringVar(&o.Chainify, "chainify", "", "the node's binary")
	fs.StringVar(&o.ChainifyClock, "chainify-clock", "", "the node's binary built with what `overlay` makes; empty: no clock jumps")
	fs.StringVar(&o.Scripts, "scripts", "", "directory of the Smallbank scripts")
	fs.StringVar(&o.Dir, "dir", "", "directory under which the networks are; those of failed runs stay")
	fs.DurationVar(&o.Settle, "settle", 3*time.Minute, "how long everybody may take to go on after the last fault")
	fs.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "of the first random manifest; the next has the next seed")
	fs.Float64Var(&o.minutes, "minutes", 5, "begin no further random run after so many minutes")
	fs.IntVar(&o.runs, "runs", 0, "how many random runs; 0: as many as the minutes allow")
	fs.DurationVar(&o.length, "length", time.Minute, "of a random run's load")
	fs.StringVar(&o.json, "json", "", "write the report of all runs to this file")
	fs.BoolVar(&o.Keep, "keep", false, "keep data and logs of runs that passed, too")
	fs.BoolVar(&o.verbose, "v", false, "tell what happens")
	fs.StringVar(&o.report, "child-report", "", "for this program's own use")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "show":
		text, err := faults.Random(o.seed, o.length).Format()
		fmt.Print(string(text))
		return err
	case "run":
		return o.runFiles(ctx, fs.Args())
	case "soak":
		return o.soak(ctx)
	case "overlay":
		return writeOverlay(fs.Arg(0))
	case childCommand:
		return o.child(ctx, fs.Arg(0))
	}
	return errors.New(usage)
}

// runFiles runs manifests one after the other.
func (o options) runFiles(ctx context.Context, paths []string) error {
	var manifests []faults.Manifest
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		m, err := faults.Parse(text)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		manifests = append(manifests, m)
	}
	next := func() (m faults.Manifest, ok bool) {
		if ok = len(manifests) > 0; ok {
			m, manifests = manifests[0], manifests[1:]
		}
		return m, ok
	}
	return o.all(ctx, next)
}

// soak runs random manifests.
func (o options) soak(ctx context.Context) error {
	end, seed, runs := time.Now().Add(time.Duration(o.minutes*float64(time.Minute))), o.seed, 0
	fmt.Printf("seed %d\n", seed)
	return o.all(ctx, func() (faults.Manifest, bool) {
		if o.runs > 0 && runs == o.runs || o.runs == 0 && time.Now().After(end) {
			return faults.Manifest{}, false
		}
		m := faults.Random(seed, o.length)
		seed++
		runs++
		return m, true
	})
}

// all runs what next gives, and reports.
func (o options) all(ctx context.Context, next func() (faults.Manifest, bool)) error {
	if o.PG == "" || o.Chainify == "" || o.Dir == "" || o.Scripts == "" {
		return errors.New("-pg, -chainify, -scripts and -dir are needed (make soak knows them)")
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	var s summary
	fmt.Println(faults.Header)
	for m, ok := next(); ok && ctx.Err() == nil; m, ok = next() {
		report := o.one(ctx, m)
		if ctx.Err() != nil {
			break // ended by hand: says nothing about the network
		}
		fmt.Println(report.Line())
		if !report.Passed || o.verbose {
			fmt.Print(report.Details())
		}
		if !report.Passed {
			fmt.Printf("  seed %d; repeat with: %s\n  data and logs: %s\n", m.Seed, report.Repeat, filepath.Join(o.Dir, m.Name))
		}
		s.add(report)
	}
	s.print()
	if o.json != "" {
		if err := s.write(o.json); err != nil {
			return err
		}
	}
	if s.Passed != len(s.Runs) {
		return errFailed
	}
	return ctx.Err()
}
