// Package joining measures how long a further organisation takes until it follows the others: with
// an empty database that takes the ledger over, and by executing the chain.
package joining

import (
	"context"
	"encoding/json"
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
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// DefaultRows and DefaultBlocks are those of the ledger; the short ones are for development.
const (
	DefaultRows   = 1_000_000
	DefaultBlocks = 100_000
	ShortRows     = 20_000
	ShortBlocks   = 200
)

const (
	database    = "bank"
	readyLimit  = time.Minute
	agreedLimit = 30 * time.Second
	joinLimit   = 6 * time.Hour
	clients     = 4               // of the others, while one joins
	insertMost  = 50_000          // rows of a transaction
	behindMost  = 5               // blocks: that far an organisation follows
	laterMost   = 90_000          // order blocks: so much later an organisation takes part
	executeMost = 5 * time.Minute // that a node is watched which executes the chain
	noticeEach  = 5_000           // blocks between two lines of progress
)

// joiners take the ledger over, one after the other; executor executes it.
var joiners = []string{"echo", "golf", "hotel"}

const executor = "foxtrot"

// Config is one run.
type Config struct {
	Dir, PG, Chainify string
	Rows, Blocks      int
	Window            time.Duration // of the others' load, before and while one joins
	Progress          io.Writer
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
	var empty, loss, beside, cpu []float64
	for _, name := range joiners {
		one, err := measure(ctx, cfg, net, name, true)
		if err != nil {
			return err
		}
		empty, loss = append(empty, one.took.Seconds()), append(loss, one.loss(one.before))
		if err := agree(ctx, cfg, net.Organisations[:4], false, "governance", "withdraw"); err != nil { // one change waits at a time
			return err
		}
		beside, cpu = append(beside, one.loss(one.after)), append(cpu, one.meanwhile.cpu/one.before.cpu)
	}
	executed, err := measure(ctx, cfg, net, executor, false)
	if err != nil {
		return err
	}
	of := fmt.Sprintf("of a ledger of %d rows and %d blocks, others under the load of %d clients", cfg.Rows, cfg.Blocks, clients)
	return errors.Join(
		r.AddFigure("joining.empty_s", empty, "s", targets.Of("joining.empty_s"),
			"from the start of the node with an empty database until it follows, "+of),
		r.AddFigure("joining.others_loss", loss, "", targets.Of("joining.others_loss"),
			"share of their throughput that the others' clients lost in that time; all share the processors of one machine"),
		r.AddFigure("joining.others_loss_beside", beside, "", targets.Of("joining.others_loss_beside"),
			"the same, of the throughput beside one organisation more that follows: what joining takes besides being there"),
		r.AddFigure("joining.others_cpu", cpu, "x", targets.Of("joining.others_cpu"),
			"processor time of the four others' nodes and databases for a transaction in that time, as a multiple of before"),
		r.AddFigure("joining.execute_rate", []float64{float64(executed.block) / executed.took.Seconds()}, "blocks/s", targets.Of("joining.execute_rate"),
			fmt.Sprintf("blocks that a node executes which begins with the first one, in %s, %s", executeMost, of)))
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
	for noticed := uint64(0); ; {
		tip, err := o.Tip(ctx)
		if err != nil || tip.Number >= uint64(cfg.Blocks) {
			return err
		}
		if tip.Number >= noticed+noticeEach {
			noticed = tip.Number
			fmt.Fprintf(cfg.Progress, "block %d of %d\n", tip.Number, cfg.Blocks)
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

// joined is how long an organisation took to join, or was watched as it executed, and the others'
// speed before, meanwhile and afterwards.
type joined struct {
	took                     time.Duration
	block                    uint64 // that it is at then
	before, meanwhile, after speed
}

// speed is of the others: transactions a second, and seconds of processor time for one.
type speed struct{ rate, cpu float64 }

// loss is the share of another throughput that the others lack while an organisation joins.
func (j joined) loss(of speed) float64 { return 1 - j.meanwhile.rate/of.rate }

// measure has a further organisation join under load.
func measure(ctx context.Context, cfg Config, net *harness.Network, name string, empty bool) (j joined, err error) {
	founders := net.Organisations[:4]
	o, part, err := net.Outsider(ctx, name, func(*harness.Organisation) error { return nil }, func(o *harness.Organisation) error { return roles(ctx, o) })
	if err != nil {
		return j, err
	}
	if empty {
		if err := accept(ctx, cfg, founders, part); err != nil {
			return j, err
		}
		trust, err := os.ReadFile(filepath.Join(founders[0].Home(), "data", "trust"))
		if err == nil {
			_, err = o.Run(ctx, "join", "--trust", strings.TrimSpace(string(trust)))
		}
		if err != nil {
			return j, err
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
	meter := &meter{founders: founders, done: &done}
	if j.before, err = meter.window(loadCtx, cfg.Window); err != nil {
		return j, err
	}
	began := time.Now()
	if err := o.StartNode(); err != nil {
		return j, err
	}
	err = harness.Poll(ctx, joinLimit, name+" follows", func(ctx context.Context) (bool, string, error) {
		here, err := o.Tip(ctx)
		if err != nil {
			return false, "", err
		}
		j.block, j.took = here.Number, time.Since(began)
		if !empty && j.took > executeMost {
			return true, "", nil
		}
		there, err := founders[0].Tip(ctx)
		return here.Number+behindMost >= there.Number, fmt.Sprintf("at block %d of %d", here.Number, there.Number), err
	})
	if err != nil {
		return j, err
	}
	if j.meanwhile, err = meter.read(); err != nil {
		return j, err
	}
	j.after, err = meter.window(loadCtx, cfg.Window)
	fmt.Fprintf(cfg.Progress, "%s is at block %d after %s; the others made %.0f transactions/s before, %.0f meanwhile, %.0f afterwards, for %.1f, %.1f and %.1f ms of processor time each\n",
		name, j.block, j.took.Round(time.Millisecond), j.before.rate, j.meanwhile.rate, j.after.rate, 1000*j.before.cpu, 1000*j.meanwhile.cpu, 1000*j.after.cpu)
	return j, err
}

// meter reads the speed since it was read last.
type meter struct {
	founders []*harness.Organisation
	done     *atomic.Int64
	at       time.Time
	had      int64
	cpu      time.Duration
}

func (m *meter) read() (s speed, err error) {
	var pids []int
	for _, o := range m.founders {
		pids = append(pids, o.NodePID(), o.Cluster.PID())
	}
	cpu, err := machine.TreesCPU(pids)
	now, did := time.Now(), m.done.Load()
	if n := float64(did - m.had); n > 0 {
		s = speed{n / now.Sub(m.at).Seconds(), (cpu - m.cpu).Seconds() / n}
	}
	m.at, m.had, m.cpu = now, did, cpu
	return s, err
}

// window is the speed of so long from now on.
func (m *meter) window(ctx context.Context, length time.Duration) (speed, error) {
	if _, err := m.read(); err != nil {
		return speed{}, err
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return speed{}, context.Cause(ctx)
	case <-timer.C:
		return m.read()
	}
}

// accept has the founders accept an organisation, which takes part much later: until then others
// tell it the ledger.
func accept(ctx context.Context, cfg Config, founders []*harness.Organisation, part string) error {
	path, err := write(cfg, "part", part)
	if err != nil {
		return err
	}
	var height int64
	if err := founders[0].Scan(ctx, "SELECT height FROM chainify.status", &height); err != nil {
		return err
	}
	return agree(ctx, cfg, founders, true, "org", "add", path, "--from-height", fmt.Sprint(height+laterMost))
}

// agree has the founders agree on what a command proposes, and waits until such a change waits to
// come into force, or none does.
func agree(ctx context.Context, cfg Config, founders []*harness.Organisation, waits bool, group string, args ...string) error {
	change, err := founders[0].Run(ctx, group, args...)
	if err != nil {
		return err
	}
	path, err := write(cfg, "change", change)
	approvals := []string{"submit"}
	for _, o := range founders[:3] {
		if err != nil {
			return err
		}
		var signed, at string
		if signed, err = o.Run(ctx, "governance", "sign", path); err == nil {
			at, err = write(cfg, "approval-"+o.Name, signed)
			approvals = append(approvals, at)
		}
	}
	if err == nil {
		_, err = founders[0].Run(ctx, "governance", approvals...)
	}
	if err != nil {
		return err
	}
	return harness.Poll(ctx, agreedLimit, group+" "+args[0]+" is agreed", func(ctx context.Context) (bool, string, error) {
		out, err := founders[0].Run(ctx, "governance", "status", "--json")
		var status struct{ Waiting *json.RawMessage }
		if err == nil {
			err = json.Unmarshal([]byte(out), &status)
		}
		return (status.Waiting != nil) == waits, out, err
	})
}

// write keeps what a command printed, without the remarks before it.
func write(cfg Config, name, text string) (path string, err error) {
	path = filepath.Join(cfg.Dir, name+".json")
	return path, os.WriteFile(path, []byte(text[max(0, strings.Index(text, "{")):]), 0o644)
}
