package network

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// The parts of what an organisation has on disk. The first three are kept and grow with every
// transaction; logs are used again.
const (
	databaseBytes = "database_bytes_per_tx" // tables, ledger, history, checkpoints
	blockBytes    = "blocks_bytes_per_tx"   // CometBFT's block store: bundles, certificates, votes
	stateBytes    = "state_bytes_per_tx"    // the node's own store and CometBFT's state
	walBytes      = "wal_bytes_per_tx"      // written to PostgreSQL's log
	orderLogBytes = "order_log_bytes_per_tx"
)

// files of a node's data directory in each part.
var nodeParts = map[string][]string{
	blockBytes: {"blockstore.db"}, stateBytes: {"chainify.db", "state.db", "evidence.db"}, orderLogBytes: {"cs.wal"},
}

// disk is the bytes of each part, of several organisations together.
type disk map[string]int64

func diskOf(ctx context.Context, organisations members) (disk, error) {
	return diskBy(ctx, organisations, machine.Size)
}

// diskBy weighs each file or directory of a node by a measure.
func diskBy(ctx context.Context, organisations members, measure func(path string) (int64, error)) (disk, error) {
	d := disk{}
	for _, o := range organisations {
		if err := d.addDatabase(ctx, o, database); err != nil {
			return nil, err
		}
		for part, files := range nodeParts {
			for _, file := range files {
				size, err := measure(filepath.Join(o.Home(), "data", file))
				if err != nil {
					return nil, err
				}
				d[part] += size
			}
		}
	}
	return d, nil
}

func (d disk) addDatabase(ctx context.Context, o *harness.Organisation, name string) error {
	var size, written int64
	err := o.Scan(ctx, "SELECT pg_database_size('"+name+"'), pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint", &size, &written)
	d[databaseBytes] += size
	d[walBytes] += written
	return err
}

// each is what one transaction added to each part of one organisation.
func (d disk) each(before disk, transactions, organisations int) map[string]float64 {
	out := map[string]float64{}
	for part := range d {
		out[part] = float64(d[part]-before[part]) / float64(transactions*organisations)
	}
	return out
}

// kept are the parts that grow with every transaction.
var kept = []string{databaseBytes, blockBytes, stateBytes}

// ownKept are those of them that Chainify writes, not CometBFT.
var ownKept = []string{databaseBytes, stateBytes}

// details are those of each repetition; none of what was not measured.
func details(s *report.Series) (out []map[string]float64) {
	if s == nil {
		return nil
	}
	for _, sample := range s.Samples {
		out = append(out, sample.Detail)
	}
	return out
}

// weighed adds to a load's details what it put on disk, in each part.
func weighed(look func(context.Context) (disk, error), organisations int, do func(context.Context, int) (load, error)) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (load, error) {
		before, err := look(ctx)
		if err != nil {
			return load{}, err
		}
		l, err := do(ctx, repetition)
		if err != nil {
			return l, err
		}
		after, err := look(ctx)
		l.more = after.each(before, max(1, l.led.count+l.count), organisations)
		return l, err
	}
}

// sums adds up some parts of each repetition.
func sums(each []map[string]float64, parts []string) (out []float64) {
	for _, one := range each {
		sum := 0.0
		for _, part := range parts {
			sum += one[part]
		}
		out = append(out, sum)
	}
	return out
}

// diskFigures says what a transaction costs on disk, where, and beside PostgreSQL alone; a
// transaction's bytes are given for each repetition.
func diskFigures(r *report.Report, id string, ours, alone []map[string]float64) error {
	var errs []error
	for _, f := range []struct {
		id    string
		parts []string
		how   string
	}{
		{"bytes_per_transaction", kept, "what one organisation keeps of a transaction: ledger, history and tables, blocks, the order's state"},
		{"bytes_database", []string{databaseBytes}, "of that, growth of the database: tables, ledger, history, checkpoints"},
		{"bytes_blocks", []string{blockBytes}, "of that, CometBFT's block store: bundles, certificates, and the votes of each order block three times"},
		{"bytes_state", []string{stateBytes}, "of that, the order's state: ids that cannot be ordered again, certificates, validators"},
		{"bytes_logs", []string{walBytes, orderLogBytes}, "written beside it to logs that are used again: PostgreSQL's, and CometBFT's of its messages"},
	} {
		errs = append(errs, r.AddFigure(id+"."+f.id, sums(ours, f.parts), "bytes/tx", report.Target{}, f.how))
	}
	written := sums(alone, []string{databaseBytes, walBytes})
	if len(written) == 0 { // left out by name
		return errors.Join(errs...)
	}
	return errors.Join(append(errs,
		r.AddFigure(id+".bytes_standalone", written, "bytes/tx", report.Target{}, "PostgreSQL alone: its log and growth of the tables (pgbench, one commit each)"),
		r.AddRatio(id+".bytes_over_standalone", sums(ours, kept), written, report.Target{}, fmt.Sprintf("%s.bytes_per_transaction / PostgreSQL alone", id)),
		r.AddRatio(id+".bytes_ours_over_standalone", sums(ours, ownKept), written, targets.Of(id+".bytes_ours_over_standalone"), "database and order's state, so without CometBFT's block store / PostgreSQL alone"),
	)...)
}
