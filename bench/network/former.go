package network

import (
	"context"
	"path/filepath"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// The release before, in a network of its own (scripts/former-release).
const (
	formerFour = "release 0.1, 4 organisations"
	formerSync = "release 0.1, 4 organisations, waiting"
)

// openFormer makes its network, where it is measured.
func (s *sites) openFormer(ctx context.Context, cfg Config, organisations []string) error {
	if cfg.Former == "" || !cfg.wants(formerFour, formerSync, formerKept) {
		return nil
	}
	cfg.Chainify, cfg.PG = filepath.Join(cfg.Former, "build", "chainify"), cfg.FormerPG
	net, err := openNetwork(ctx, cfg, "former", settings, organisations)
	s.former = &ours{net, cfg, config.Balanced, bankTables()}
	return err
}

// formerFigures compare with the release before, and say nothing where either was not measured.
func formerFigures(r *report.Report) error {
	four, lone, crowd := r.Find(formerFour, 0), r.Find(formerSync, 1), r.Find(formerSync, many)
	now, nowLone, nowCrowd, soon := r.Find(chainifyFour, 0), r.Find(chainifySync, 1), r.Find(chainifySync, many), r.Find(latencyMode, 1)
	for _, f := range []struct {
		id, what    string
		now, former []float64
	}{
		{"waiting_one_p50", "latency of one client that waits", nowLone.Details("p50_ms"), lone.Details("p50_ms")},
		{"latency_waiting_one_p50", "the same in mode latency, over the release's balanced one", soon.Details("p50_ms"), lone.Details("p50_ms")},
		{"waiting_one_cpu", "processor time of its transaction, nodes and databases", nowLone.CPUs(), lone.CPUs()},
		{"waiting_one_bytes", "bytes kept of it", sums(details(r.Find(chainifyKept, 1)), kept), sums(details(r.Find(formerKept, 1)), kept)},
		{"waiting_one_bytes_ours", "bytes kept of it in the database and the order's state, so without CometBFT's block store", sums(details(r.Find(chainifyKept, 1)), ownKept), sums(details(r.Find(formerKept, 1)), ownKept)},
		{"waiting_many", "transactions a second of 32 clients that wait", nowCrowd.Values(), crowd.Values()},
		{"four", "transactions a second when nobody waits", now.Values(), four.Values()},
		{"cpu", "processor time of a transaction when nobody waits", now.CPUs(), four.CPUs()},
	} {
		if len(f.now) == 0 || len(f.former) == 0 {
			continue
		}
		id := "network.former_" + f.id
		if err := r.AddRatio(id, f.now, f.former, targets.Of(id), "this / release 0.1, four organisations: "+f.what); err != nil {
			return err
		}
	}
	return nil
}
