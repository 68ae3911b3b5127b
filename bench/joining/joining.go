// Package joining measures how long a further organisation takes until it follows the others: with
// an empty database that takes the ledger over, and by executing the chain.
package joining

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/report"
)

// DefaultRows and DefaultBlocks are those of the ledger; the short ones are for development.
const (
	DefaultRows   = 1_000_000
	DefaultBlocks = 100_000
	ShortRows     = 20_000
	ShortBlocks   = 200
)

const (
	database   = "bank"
	readyLimit = time.Minute
	joinLimit  = 6 * time.Hour
	clients    = 4      // of the others, while one joins
	insertMost = 50_000 // rows of a transaction
	behindMost = 5      // blocks: that far an organisation follows
	laterMost  = 90_000 // order blocks: so much later an organisation takes part
)

// Config is one run.
type Config struct {
	Dir, PG, Chainify string
	Rows, Blocks      int
	Window            time.Duration // of the others' load, before and while one joins
	Progress          io.Writer
}

var targets = map[string]report.Target{
	"joining.empty_s":     report.AtMost(120),
	"joining.others_loss": report.AtMost(0.1),
	"joining.execute_s":   {},
}

// Run measures and adds figures.
func Run(ctx context.Context, cfg Config, r *report.Report) (err error) {
	net, err := open(ctx, cfg)
	if net != nil {
		defer func() { err = errors.Join(err, net.Close()) }()
	}
	if err != nil {
		return err
	}
	empty, loss, err := measure(ctx, cfg, net, "echo", true)
	if err != nil {
		return err
	}
	executed, _, err := measure(ctx, cfg, net, "foxtrot", false)
	if err != nil {
		return err
	}
	of := fmt.Sprintf("of a ledger of %d rows and %d blocks, others under the load of %d clients", cfg.Rows, cfg.Blocks, clients)
	return errors.Join(
		r.AddFigure("joining.empty_s", []float64{empty.Seconds()}, "s", targets["joining.empty_s"],
			"from the start of the node with an empty database until it follows, "+of),
		r.AddFigure("joining.others_loss", []float64{loss}, "", targets["joining.others_loss"],
			"share of their throughput that the others' clients lost in that time"),
		r.AddFigure("joining.execute_s", []float64{executed.Seconds()}, "s", targets["joining.execute_s"],
			"the same for a node that executes all blocks, "+of))
}

func roles(ctx context.Context, o *harness.Organisation) error {
	return o.Exec(ctx, "postgres", `CREATE ROLE bank LOGIN IN ROLE chainify_client; CREATE ROLE dba LOGIN IN ROLE chainify_admin;
		GRANT CREATE ON SCHEMA public TO dba`)
}

// open makes four organisations with so many rows and blocks.
func open(ctx context.Context, cfg Config) (*harness.Network, error) {
	net, err := harness.New(ctx, harness.Config{
		Dir: filepath.Join(cfg.Dir, "joining"), PG: cfg.PG, Chainify: cfg.Chainify, Database: database,
		Organisations: []string{"acme", "bolt", "cargo", "delta"}, SnapshotEvery: max(10, min(1000, cfg.Blocks/10)),
	})
	if err != nil {
		return nil, err
	}
	acme := net.Organisations[0]
	for _, step := range []func() error{
		func() error { return net.StartDatabases(ctx) },
		func() error { return net.EnableChainify(ctx) },
		func() error { return net.Each(func(o *harness.Organisation) error { return roles(ctx, o) }) },
		func() error { return net.InitNodes(ctx) },
		func() error { return net.StartNodes(ctx, readyLimit) },
		func() error {
			return acme.Exec(ctx, "dba", `SELECT chainify.deploy('CREATE TABLE account (id int PRIMARY KEY, balance numeric NOT NULL, note text);
				GRANT ALL ON account TO bank')`)
		},
		func() error { return fill(ctx, cfg, acme) },
	} {
		if err := step(); err != nil {
			return net, err
		}
	}
	return net, nil
}

// fill makes rows, then blocks of a transaction each.
func fill(ctx context.Context, cfg Config, o *harness.Organisation) error {
	fmt.Fprintf(cfg.Progress, "%d rows, %d blocks\n", cfg.Rows, cfg.Blocks)
	for from := 1; from <= cfg.Rows; from += insertMost {
		insert := fmt.Sprintf("SELECT chainify.execute('INSERT INTO account SELECT n, n * 1.5, ''account of customer '' || n FROM generate_series(%d, %d) n')",
			from, min(cfg.Rows, from+insertMost-1))
		if err := o.Exec(ctx, "bank", "SET chainify.wait_timeout = '5min'; "+insert); err != nil {
			return err
		}
	}
	for {
		tip, err := o.Tip(ctx)
		if err != nil || tip.Number >= uint64(cfg.Blocks) {
			return err
		}
		if err := load(ctx, o, cfg.Rows, int(min(1000, uint64(cfg.Blocks)-tip.Number)), new(atomic.Int64)); err != nil {
			return err
		}
	}
}

// load is one client that waits for each answer, so many times; 0: until the context ends.
func load(ctx context.Context, o *harness.Organisation, rows, times int, done *atomic.Int64) error {
	always := context.WithoutCancel(ctx)
	conn, err := o.Cluster.Connect(always, database, "bank")
	if err != nil {
		return err
	}
	defer conn.Close(always)
	for n := 0; ctx.Err() == nil && (times == 0 || n < times); n++ {
		if _, err := conn.Exec(always, "SELECT chainify.execute('UPDATE account SET balance = balance + 1 WHERE id = $1', $1::int)", 1+n%rows); err != nil {
			return err
		}
		done.Add(1)
	}
	return nil
}

// measure has a further organisation join under load. It returns how long that took, and the share
// that the others lost.
func measure(ctx context.Context, cfg Config, net *harness.Network, name string, empty bool) (took time.Duration, loss float64, err error) {
	founders := net.Organisations[:4]
	o, part, err := net.Outsider(ctx, name, func(*harness.Organisation) error { return nil }, func(o *harness.Organisation) error { return roles(ctx, o) })
	if err != nil {
		return 0, 0, err
	}
	if empty {
		if err := accept(ctx, cfg, founders, part); err != nil {
			return 0, 0, err
		}
		trust, err := os.ReadFile(filepath.Join(founders[0].Home(), "data", "trust"))
		if err == nil {
			_, err = o.Run(ctx, "join", "--trust", strings.TrimSpace(string(trust)))
		}
		if err != nil {
			return 0, 0, err
		}
	}
	var done atomic.Int64
	group, loadCtx := errgroup.WithContext(ctx)
	loadCtx, stop := context.WithCancel(loadCtx)
	for n := range clients {
		group.Go(func() error { return load(loadCtx, founders[n%len(founders)], cfg.Rows, 0, &done) })
	}
	defer func() {
		stop()
		err = errors.Join(err, group.Wait(), o.StopNode())
	}()
	before, err := rate(loadCtx, cfg.Window, &done)
	if err != nil {
		return 0, 0, err
	}
	began, had := time.Now(), done.Load()
	if err := o.StartNode(); err != nil {
		return 0, 0, err
	}
	err = harness.Poll(ctx, joinLimit, name+" follows", func(ctx context.Context) (bool, string, error) {
		here, err := o.Tip(ctx)
		if err != nil {
			return false, "", err
		}
		there, err := founders[0].Tip(ctx)
		return here.Number+behindMost >= there.Number, fmt.Sprintf("at block %d of %d", here.Number, there.Number), err
	})
	took = time.Since(began)
	during := float64(done.Load()-had) / took.Seconds()
	fmt.Fprintf(cfg.Progress, "%s follows after %s; the others made %.0f transactions/s before, %.0f meanwhile\n", name, took.Round(time.Millisecond), before, during)
	return took, 1 - during/before, err
}

// rate is what is done a second from now on.
func rate(ctx context.Context, window time.Duration, done *atomic.Int64) (float64, error) {
	had, timer := done.Load(), time.NewTimer(window)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-timer.C:
		return float64(done.Load()-had) / window.Seconds(), nil
	}
}

// accept has the founders accept an organisation, which takes part much later: until then others
// tell it the ledger.
func accept(ctx context.Context, cfg Config, founders []*harness.Organisation, part string) error {
	written := 0
	file := func(text string) (string, error) {
		written++
		path := filepath.Join(cfg.Dir, fmt.Sprintf("approval-%d.json", written))
		return path, os.WriteFile(path, []byte(text[max(0, strings.Index(text, "{")):]), 0o644) // remarks go before
	}
	path, err := file(part)
	if err != nil {
		return err
	}
	var height int64
	if err := founders[0].Scan(ctx, "SELECT height FROM chainify.status", &height); err != nil {
		return err
	}
	change, err := founders[0].Run(ctx, "org", "add", path, "--from-height", fmt.Sprint(height+laterMost))
	if err == nil {
		path, err = file(change)
	}
	approvals := []string{"submit"}
	for _, o := range founders[:3] {
		if err != nil {
			return err
		}
		var signed, at string
		if signed, err = o.Run(ctx, "governance", "sign", path); err == nil {
			at, err = file(signed)
			approvals = append(approvals, at)
		}
	}
	if err == nil {
		_, err = founders[0].Run(ctx, "governance", approvals...)
	}
	return err
}
