package analytics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

const (
	workerRole  = "analytics" // what the worker connects as
	servingMax  = 20 * time.Minute
	stoppingMax = 10 * time.Second
)

// worker is a process of chainify-analytics.
type worker struct {
	command *exec.Cmd
	ended   chan error
	log     *os.File
}

// configuration has one thread for a query, as the other systems have.
const configuration = `[database]
connection = '%s'
[socket]
directory = '%s'
mode = '0666'
[memory]
mirrors = '16GiB'
queries = '4GiB'
[queries]
threads = 1
`

// start begins a worker, ending the one before.
func (b *bench) start() error {
	if err := b.worker.stop(); err != nil {
		return err
	}
	path := filepath.Join(b.Dir, "analytics.toml")
	if err := os.WriteFile(path, fmt.Appendf(nil, configuration, b.DSN(workerRole), b.socketDir()), 0o644); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(b.Dir, "analytics.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	w := &worker{command: exec.Command(b.Worker, "run", "--config", path), ended: make(chan error, 1), log: log}
	w.command.Dir, w.command.Stdout, w.command.Stderr = b.Dir, log, log
	if err := w.command.Start(); err != nil {
		return errors.Join(fmt.Errorf("start the worker: %w", err), log.Close())
	}
	go func() { w.ended <- w.command.Wait() }()
	b.worker = w
	return nil
}

// stop ends the worker as an operator would, and waits for it. A worker that is nil has ended.
func (w *worker) stop() error {
	if w == nil || w.command == nil {
		return nil
	}
	_ = w.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-w.ended:
	case <-time.After(stoppingMax):
		_ = w.command.Process.Kill()
		<-w.ended
	}
	w.command = nil
	return w.log.Close()
}

// serving waits until every mirror serves.
func (b *bench) serving(ctx context.Context) error {
	return harness.Poll(ctx, servingMax, "wait for the mirrors", func(ctx context.Context) (bool, string, error) {
		select {
		case err := <-b.worker.ended:
			b.worker.ended <- err
			return false, "", fmt.Errorf("the worker ended (%w); its log is %s", err, b.worker.log.Name())
		default:
		}
		var told string
		err := b.conn.QueryRow(ctx, `SELECT coalesce(string_agg(format('%s %s %s', "table", state, error), ', '), '') FROM chainify.mirrors WHERE state <> 'serving'`).Scan(&told)
		if err == nil && strings.Contains(told, " failed ") {
			err = errors.New(told)
		}
		return told == "", told, err
	})
}

// resident is how many bytes the process holds in memory, and how many it held at most.
func (w *worker) resident() (now, most float64, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.command.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		kilobytes, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch name {
		case "VmRSS":
			now = kilobytes * 1024
		case "VmHWM":
			most = kilobytes * 1024
		}
	}
	return now, most, nil
}

// columnBytes counts the bytes of the values that are mirrored, as Arrow has them: fixed widths, 16
// for a text, and what a text has beyond 12 bytes.
const columnBytes = `SELECT format('SELECT count(*), coalesce(sum(%s), 0)::float8 FROM %s', string_agg(CASE
	WHEN t IN ('bool') THEN '1' WHEN t = 'int2' THEN '2' WHEN t IN ('int4', 'float4', 'date') THEN '4'
	WHEN t IN ('int8', 'float8', 'time', 'timestamp', 'timestamptz') THEN '8' WHEN t IN ('numeric', 'uuid') THEN '16'
	WHEN t IN ('text', 'varchar', 'bpchar', 'bytea') THEN format('16 + CASE WHEN octet_length(%1$I) > 12 THEN octet_length(%1$I) ELSE 0 END', name)
	ELSE format('16 + pg_column_size(%I)', name) END, ' + '), c)
	FROM (SELECT m."table" AS c, a.attname AS name, y.typname AS t FROM chainify.mirrors m JOIN pg_attribute a ON a.attrelid = m."table"::regclass
		JOIN pg_type y ON y.oid = a.atttypid WHERE a.attnum > 0 AND NOT a.attisdropped) columns GROUP BY c`

// columns gives the rows of all mirrors and the bytes of their values.
func (b *bench) columns(ctx context.Context) (rows, bytes float64, err error) {
	found, err := b.conn.Query(ctx, columnBytes)
	if err != nil {
		return 0, 0, err
	}
	defer found.Close()
	var queries []string
	for found.Next() {
		var query string
		if err := found.Scan(&query); err != nil {
			return 0, 0, err
		}
		queries = append(queries, query)
	}
	if err := found.Err(); err != nil {
		return 0, 0, err
	}
	for _, query := range queries {
		var n, size float64
		if err := b.conn.QueryRow(ctx, query).Scan(&n, &size); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", query, err)
		}
		rows, bytes = rows+n, bytes+size
	}
	return rows, bytes, nil
}

// bootstrap starts a worker in each repetition, and measures until all mirrors serve.
func (b *bench) bootstrap(ctx context.Context) error {
	rows, bytes, err := b.columns(ctx)
	if err != nil {
		return err
	}
	var rates, held []float64
	for repetition := range b.Repeat {
		load, started := machine.Load(), time.Now()
		before, err := machine.TreeCPU(b.PID())
		if err != nil {
			return err
		}
		if err := errors.Join(b.start(), b.serving(ctx)); err != nil {
			return err
		}
		took := time.Since(started)
		after, err := machine.TreeCPU(b.PID())
		if err != nil {
			return err
		}
		own, err := machine.TreeCPU(b.worker.command.Process.Pid)
		if err != nil {
			return err
		}
		now, most, err := b.worker.resident()
		if err != nil {
			return err
		}
		rates, held = append(rates, rows/took.Seconds()), append(held, now/bytes)
		b.report.Add("bootstrap", 0, "rows/s", report.Sample{
			Repetition: repetition, Value: rows / took.Seconds(), Seconds: took.Seconds(), Load: load,
			Detail: map[string]float64{
				"rows": rows, "column_bytes": bytes, "resident": now, "resident_at_most": most, "worker_cpu_s": own.Seconds(), "server_cpu_s": (after - before).Seconds(),
			},
		})
		fmt.Fprintf(b.Progress, "bootstrap: %.0f rows in %.1f s (the worker's processor %.1f s, the server's %.1f s), %.0f MB of values, %.0f MB held, %.0f at most\n",
			rows, took.Seconds(), own.Seconds(), (after - before).Seconds(), bytes/1e6, now/1e6, most/1e6)
	}
	return errors.Join(
		b.report.AddFigure("analytics.bootstrap_rate", rates, "rows/s", b.target(targets.Of("analytics.bootstrap_rate")), "rows of all tables over the time from the worker's start until all mirrors serve; its digests and the database's reading included"),
		b.report.AddFigure("analytics.memory_over_columns", held, "ratio", b.target(targets.Of("analytics.memory_over_columns")), "memory of the worker's process, its index of keys included, over the bytes of the columns' values"))
}
