package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

const (
	mirrorsLimit = 60 * time.Second
	workerLimit  = 10 * time.Second
	askEvery     = 500 * time.Millisecond
	total        = "SELECT count(*) AS n, sum(balance) AS total, max(balance) AS most FROM "
	atBlock      = "SELECT format('%s %s %s', n, total, most) FROM chainify.query_at($1, '" + total + "checking') AS t (n bigint, total numeric, most numeric)"
	asOf         = "SELECT format('%s %s %s', n, total, most) FROM (" + total + "chainify.as_of(NULL::checking, $1)) t"
)

// mirrors is the analytics worker beside the first organisation's database, and its answers during
// the load. Without a worker there is none.
type mirrors struct {
	command *exec.Cmd
	ended   chan error
	answers []answer
}

// answer of a query at a block.
type answer struct {
	block int64
	rows  string
	took  time.Duration
}

// mirror starts the worker, and waits until it serves the bank's tables.
func (d *demo) mirror(ctx context.Context) error {
	if d.analytics == "" {
		return nil
	}
	o := d.net.Organisations[0]
	done := d.out.step("an analytics worker at %s: SELECT chainify.mirror('accounts', 'savings', 'checking')", o.Name)
	socket := o.Cluster.SocketDir
	err := errors.Join(
		o.SetSystem(ctx, readyLimit, "chainify.analytics_socket", socket),
		o.Exec(ctx, "postgres", "CREATE ROLE analytics LOGIN IN ROLE chainify_reader; SELECT chainify.mirror('accounts', 'savings', 'checking')"))
	if err != nil {
		return err
	}
	config := filepath.Join(d.dir, "analytics.toml")
	// The socket is in a directory of this demo alone.
	text := fmt.Sprintf("[database]\nconnection = '%s'\n[socket]\ndirectory = '%s'\nmode = '0666'\n", o.Cluster.DSN(database, "analytics"), socket)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(d.dir, "analytics.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	d.mirrors.command = exec.Command(d.analytics, "run", "--config", config)
	d.mirrors.command.Stdout, d.mirrors.command.Stderr = log, log
	d.mirrors.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches the demo alone
	if err := d.mirrors.command.Start(); err != nil {
		return fmt.Errorf("start the analytics worker: %w", err)
	}
	d.mirrors.ended = make(chan error, 1)
	go func() { d.mirrors.ended <- d.mirrors.command.Wait() }()
	err = harness.Poll(ctx, mirrorsLimit, "wait for the mirrors", func(ctx context.Context) (bool, string, error) {
		var told string
		err := o.Scan(ctx, `SELECT coalesce(string_agg(format('%s %s', "table", state), ', '), '') FROM chainify.mirrors WHERE state <> 'serving'`, &told)
		return told == "", told, err
	})
	if err == nil {
		done()
	}
	return err
}

// stop ends the worker and waits for it.
func (m *mirrors) stop() {
	if m.ended == nil {
		return
	}
	_ = m.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.ended:
	case <-time.After(workerLimit):
		_ = m.command.Process.Kill()
		<-m.ended
	}
	m.ended = nil
}

// ask has the worker compute a query at the last block, again and again until ctx ends.
func (d *demo) ask(ctx context.Context) error {
	if d.analytics == "" {
		return nil
	}
	always := context.WithoutCancel(ctx) // a question that was begun is answered
	conn, err := d.net.Organisations[0].Connect(always)
	if err != nil {
		return err
	}
	defer conn.Close(always)
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		var a answer
		if err := conn.QueryRow(always, "SELECT max(number) FROM chainify.ledger").Scan(&a.block); err != nil {
			return err
		}
		started := time.Now()
		if err := conn.QueryRow(always, atBlock, pgx.QueryExecModeExec, a.block).Scan(&a.rows); err != nil {
			return fmt.Errorf("query at block %d: %w", a.block, err)
		}
		a.took = time.Since(started)
		d.mirrors.answers = append(d.mirrors.answers, a)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// claimAnswers compares the worker's answers with PostgreSQL's own at the same blocks.
func (d *demo) claimAnswers(ctx context.Context) error {
	answers := d.mirrors.answers
	if len(answers) == 0 {
		return nil
	}
	conn, err := d.net.Organisations[0].Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	same, times := 0, make([]time.Duration, len(answers))
	for i, a := range answers {
		var own string
		if err := conn.QueryRow(ctx, asOf, a.block).Scan(&own); err != nil {
			return fmt.Errorf("the same query by PostgreSQL at block %d: %w", a.block, err)
		}
		if own == a.rows {
			same++
		}
		times[i] = a.took
	}
	slices.Sort(times)
	d.claims.add(same == len(answers), "%d of %d queries at a block beside the load gave PostgreSQL's own rows, median %s; at block %d: %s",
		same, len(answers), millis(times[len(times)/2]), answers[len(answers)-1].block, answers[len(answers)-1].rows)
	return nil
}
