package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// The measures of retention; disks are of one organisation.
const (
	dropDisk     = "disk, old blocks dropped"
	keepDisk     = "disk, all kept"
	dropDatabase = "database, old blocks dropped"
	dropNode     = "node, old blocks dropped"
	archiveDisk  = "archive"
)

const (
	orderBlocks = 1000 // kept by a node: its least
	keptAMinute = 50   // blocks kept in a database, for each minute of the run
	dropRows    = 5000 // at a time, and
	dropPause   = 100 * time.Millisecond
	archiving   = "archiving" // detail of a sample: 1 when something was archived or dropped meanwhile
)

// Retention is years of operation in a short time. Clients of four organisations submit without a
// pause. Three organisations drop what is old: their nodes order blocks, their databases what was
// archived. The fourth archives too and drops nothing, so it has all rows that its archive has.
//
// In every other look the archives go on and the databases drop. So the looks between them show
// the throughput without.
func Retention(ctx context.Context, cfg SteadyConfig, r *report.Report) (err error) {
	cfg.Rate, cfg.founded = 0, retain
	net, err := openNetwork(ctx, cfg.Config, "retention", retentionSettings(cfg.Length), []string{"acme", "bolt", "cargo", "delta"})
	defer func() {
		if net == nil {
			return
		}
		if err = errors.Join(err, net.Close()); err == nil {
			err = net.Remove()
		}
	}()
	if err != nil {
		return err
	}
	if err := errors.Join(machine.Facts(r, net.Dir), describeServer(ctx, r, "clusters", net.Organisations[0]), describeNodes(r, cfg.Chainify, net, config.Balanced)); err != nil {
		return err
	}
	o := &ours{net, cfg.Config, config.Balanced, bankTables()}
	if err := o.start(ctx); err != nil {
		return err
	}
	run := &retention{steady: &steady{cfg: cfg, ours: o, report: r}, keep: blocksKept(cfg.Length)}
	run.steady.look = run.look
	if err := errors.Join(run.steady.run(ctx), run.ended(true)); err != nil {
		return err
	}
	if err := run.archive(ctx, run.keeper()); err != nil {
		return err
	}
	if err := run.archiveFigure(ctx); err != nil {
		return err
	}
	if err := o.stop(); err != nil {
		return err
	}
	return errors.Join(run.verifyFigure(ctx), retentionFigures(r), machine.NoteDisk(r, net.Dir))
}

type retention struct {
	steady *steady
	keep   int
	turns  chan error // the end of the turn that is under way; nil: none is
}

// droppers are the organisations that drop what is old, and keeper is the one that keeps all.
func (t *retention) droppers() members             { return t.steady.ours.members()[:3] }
func (t *retention) keeper() *harness.Organisation { return t.steady.ours.net.Organisations[3] }

// retentionSettings has the base of the checkpoints follow as closely as the blocks that are kept,
// and space reused soon after rows are dropped.
func retentionSettings(length time.Duration) map[string]string {
	out := map[string]string{
		"autovacuum_naptime": "'5s'", "chainify.checkpoints_kept": "2",
		"chainify.checkpoint_interval": fmt.Sprint(min(100, max(10, blocksKept(length)/2))),
	}
	for name, value := range keptUp {
		out[name] = value
	}
	return out
}

// blocksKept are the blocks that a database keeps: a small part of those of the run.
func blocksKept(length time.Duration) int { return max(20, int(length.Minutes()*keptAMinute)) }

// retain sets up what each node keeps and archives. The commands of the run archive: the schedule
// of the nodes never comes.
func retain(net *harness.Network) error {
	return net.Each(func(o *harness.Organisation) error {
		settings := map[string]any{"archive": "archive", "archive_every": "1000h"}
		if o != net.Organisations[3] {
			settings["order_blocks"] = orderBlocks
		}
		place := archiveOf(o)
		if err := os.Mkdir(place, 0o700); err != nil {
			return err
		}
		// The node may run as another user than this program.
		return errors.Join(os.Chmod(place, 0o777), o.Configure(settings), forgetEvidence(filepath.Join(o.Home(), "config", "genesis.json")))
	})
}

func archiveOf(o *harness.Organisation) string { return filepath.Join(o.Home(), "archive") }

// forgetEvidence has order blocks of a second ago go. By default CometBFT keeps those of two days,
// as evidence against validators.
func forgetEvidence(genesis string) error {
	raw, err := os.ReadFile(genesis)
	if err != nil {
		return err
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return err
	}
	parameters, ok := doc["consensus_params"].(map[string]any)
	if !ok {
		return fmt.Errorf("%s has no parameters", genesis)
	}
	parameters["evidence"] = map[string]any{"max_age_num_blocks": "10", "max_age_duration": "1000000000", "max_bytes": "1000"}
	if raw, err = json.Marshal(doc); err != nil {
		return err
	}
	return os.WriteFile(genesis, raw, 0o600)
}

// look measures, and begins a turn of the archives where it is due. A look has the mark archiving
// when a turn was under way in it.
func (t *retention) look(ctx context.Context, i int, l load) error {
	s, mark := t.steady, 0.0
	if t.turns != nil {
		mark = 1
	}
	if err := t.ended(false); err != nil {
		return err
	}
	values, err := t.disks(ctx)
	if err != nil {
		return err
	}
	values[rateDone] = l.rate()
	if l.count > 0 {
		values[latency50], values[latency99] = l.quantile(0.5), l.quantile(0.99)
	}
	for name, value := range values {
		s.report.Add(name, 0, retentionUnit(name), report.Sample{
			Repetition: i, Value: value, Transactions: l.count, Seconds: l.took.Seconds(), Load: machine.Load(), Detail: map[string]float64{archiving: mark},
		})
	}
	fmt.Fprintf(s.cfg.Progress, "%s of %s: %4.0f tx/s, p50 %6.1f ms, p99 %6.1f ms, disk %5.1f MB, all kept %5.1f MB, archive %5.1f MB\n",
		(l.took * time.Duration(i)).Round(time.Second), s.cfg.Length, l.rate(), l.quantile(0.5), l.quantile(0.99), values[dropDisk], values[keepDisk], values[archiveDisk])
	if i%2 == 1 && i > 1 && i < steadyLooks && t.turns == nil { // a node archives once as it starts
		done := make(chan error, 1)
		t.turns = done
		go func() { done <- t.turn(context.WithoutCancel(ctx)) }()
	}
	return nil
}

// ended takes the end of the turn that is under way, if there is one; it waits for it when told.
func (t *retention) ended(wait bool) (err error) {
	switch {
	case t.turns == nil:
		return nil
	case wait:
		err, t.turns = <-t.turns, nil
	default:
		select {
		case err = <-t.turns:
			t.turns = nil
		default:
		}
	}
	return err
}

func retentionUnit(name string) string {
	if unit := unitOf(name); unit != "" {
		return unit
	}
	return "MB"
}

// turn archives what is new, and drops what is old.
func (t *retention) turn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, doneLimit)
	defer cancel()
	return t.steady.ours.net.Each(func(o *harness.Organisation) error {
		if err := t.archive(ctx, o); err != nil || o == t.keeper() {
			return err
		}
		return drop(ctx, o, t.keep)
	})
}

func (t *retention) archive(ctx context.Context, o *harness.Organisation) error {
	_, err := o.Tool(ctx, "archive", "run", "--home", o.Home())
	return err
}

// drop does as the node does, which keeps 10,000 blocks at least. It drops the blocks that may go
// when it begins.
func drop(ctx context.Context, o *harness.Organisation, keep int) (err error) {
	conn, err := o.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var to int64
	if err := conn.QueryRow(ctx, "SELECT least(a.block, p.number - $1) FROM chainify_node.archived() a, chainify_node.position() p", keep).Scan(&to); err != nil {
		return err
	}
	for last := int64(0); last < to; {
		var block *int64
		if err := conn.QueryRow(ctx, "SELECT block FROM chainify_node.drop_archived($1, $2)", keep, dropRows).Scan(&block); err != nil || block == nil {
			return err
		}
		last = *block
		if err := until(ctx, time.Now().Add(dropPause)); err != nil {
			return err
		}
	}
	return nil
}

// disks are the bytes on disk of one organisation of each kind, in megabytes. PostgreSQL's log and
// that of the order's messages are not in it: both are bounded by themselves.
func (t *retention) disks(ctx context.Context) (map[string]float64, error) {
	dropping, err := diskOf(ctx, t.droppers())
	if err != nil {
		return nil, err
	}
	keeping, err := diskOf(ctx, members{t.keeper()})
	if err != nil {
		return nil, err
	}
	archived, err := machine.Size(archiveOf(t.keeper()))
	const mb = 1 << 20
	each := float64(len(t.droppers()) * mb)
	database, node := float64(dropping[databaseBytes])/each, float64(dropping[blockBytes]+dropping[stateBytes])/each
	return map[string]float64{
		dropDatabase: database, dropNode: node, dropDisk: database + node,
		keepDisk: float64(keeping[databaseBytes]+keeping[blockBytes]+keeping[stateBytes]) / mb, archiveDisk: float64(archived) / mb,
	}, err
}

// archivedRows is the size of what an archive has: blocks, certificates, transactions, changes.
const archivedRows = `SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind = 'r' AND (n.nspname = 'chainify_history' OR n.nspname = 'chainify_ledger' AND c.relname IN ('block', 'certificate', 'transaction'))`

// archiveFigure compares an archive with the same rows in the database, and says how much went
// elsewhere.
func (t *retention) archiveFigure(ctx context.Context) error {
	var rows, dropped, last int64
	if err := t.keeper().Scan(ctx, archivedRows, &rows); err != nil {
		return err
	}
	if err := t.droppers()[0].Scan(ctx, "SELECT dropped, block FROM chainify_ledger.archived", &dropped, &last); err != nil {
		return err
	}
	if dropped == 0 {
		return errors.New("no block was dropped: the run is too short")
	}
	archived, err := machine.Size(archiveOf(t.keeper()))
	if err != nil {
		return err
	}
	r := t.steady.report
	return errors.Join(
		r.AddFigure("retention.archive_over_database", []float64{float64(archived) / float64(rows)}, "ratio", targets.Of("retention.archive_over_database"),
			"bytes of the archive / bytes of the same rows in the database, with their indexes"),
		r.AddFigure("retention.dropped", []float64{float64(dropped) / float64(last)}, "ratio", report.Target{}, "blocks that a database dropped / archived blocks"),
	)
}

// verifyFigure verifies the archive, on a machine that does nothing else.
func (t *retention) verifyFigure(ctx context.Context) error {
	o := t.keeper()
	cmd := exec.CommandContext(ctx, t.steady.cfg.Chainify, "archive", "verify", archiveOf(o), "--genesis", filepath.Join(o.Home(), "config", "genesis.json"), "--json")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("verify the archive: %w\n%s", err, out)
	}
	var found struct {
		Changes float64 `json:"changes"`
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return err
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return t.steady.report.AddFigure("retention.verify_rate", []float64{found.Changes / used.Seconds()}, "changes/s", targets.Of("retention.verify_rate"),
		"changes that chainify archive verify checks in a second of processor time, with blocks, votes and transactions")
}

// retentionFigures are those of the samples.
func retentionFigures(r *report.Report) error {
	var errs []error
	for _, f := range []struct {
		id, measure string
	}{
		{"retention.disk_growth", dropDisk},
		{"retention.database_growth", dropDatabase},
		{"retention.node_growth", dropNode},
		{"retention.kept_growth", keepDisk},
	} {
		second, last := quarter(r, f.measure, 2), quarter(r, f.measure, quarters)
		errs = append(errs, r.AddFigure(f.id, []float64{report.Median(last) / report.Median(second)}, "ratio", targets.Of(f.id),
			f.measure+": median of the last quarter of the time / of the second"))
	}
	for _, f := range []struct {
		id, measure, how string
	}{
		{"retention.throughput", rateDone, "transactions answered, over a look with archiving and the next without / those of the second alone: median of the pairs"},
		{"retention.latency_p50", latency50, "median latency of both / of the second alone, the same pairs"},
		{"retention.latency_p99", latency99, "99th percentile of both, their mean / of the second alone, the same pairs"},
	} {
		errs = append(errs, r.AddFigure(f.id, shares(r.Find(f.measure, 0)), "ratio", targets.Of(f.id), f.how))
	}
	return errors.Join(errs...)
}

// shares gives for each look without archiving that follows one with it what both have on average,
// over the one without. The first quarter is left out: nothing is old yet.
func shares(s *report.Series) (out []float64) {
	if s == nil {
		return nil
	}
	for i := 1; i < len(s.Samples); i++ {
		with, without := s.Samples[i-1], s.Samples[i]
		if without.Repetition > steadyLooks/quarters && without.Repetition == with.Repetition+1 && with.Detail[archiving] == 1 && without.Detail[archiving] == 0 && without.Value > 0 {
			out = append(out, (with.Value+without.Value)/2/without.Value)
		}
	}
	return out
}
