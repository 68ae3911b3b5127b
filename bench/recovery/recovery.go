// Package recovery measures the cost of checkpoints, the scrubber and recovery. On one server alone
// it measures processor time (recovery.sql). In a network under load it measures by the clock: the
// time for which an organisation is away, and the loss of the others.
package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/server"
	"github.com/chainify-db/chainify/bench/targets"
)

// DefaultRows are those of the table; ShortRows are for development.
const (
	DefaultRows = 1_000_000
	ShortRows   = 50_000
	rowsKept    = 1_000 // at the end of the table, which the load leaves alone; repetitions at most
)

// Config is one run.
type Config struct {
	Dir, PG, Chainify, Out string
	Script                 string // bench/recovery/run
	Seed                   uint64
	Repeat, Rows           int
	Progress               io.Writer
}

// The systems of the series.
const (
	cured  = "tampered row: from its touch until its organisation is back"
	before = "the other organisations' clients, before"
	during = "the other organisations' clients, from the touch on"
)

// Run measures both and adds series and figures.
func Run(ctx context.Context, cfg Config, r *report.Report) error {
	if cfg.Repeat >= rowsKept {
		return fmt.Errorf("%d repetitions, want fewer than %d", cfg.Repeat, rowsKept)
	}
	return errors.Join(alone(ctx, cfg, r), together(ctx, cfg, r))
}

// result is a line of recovery.sql.
type result struct {
	What    string   `json:"what"`
	Samples int      `json:"samples"`
	MS      float64  `json:"ms"`
	Rate    *float64 `json:"rows_per_second"`
}

// alone measures on one server.
func alone(ctx context.Context, cfg Config, r *report.Report) error {
	file := filepath.Join(cfg.Out, "recovery-alone.json")
	cmd := exec.CommandContext(ctx, cfg.Script, cfg.PG, "--json", file, fmt.Sprint(cfg.Rows), fmt.Sprint(cfg.Repeat))
	cmd.Stdout, cmd.Stderr = cfg.Progress, cfg.Progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("measure one server: %w", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var results struct {
		Results  []result       `json:"results"`
		Settings map[string]any `json:"settings"`
	}
	if err := json.Unmarshal(text, &results); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	by := map[string]result{}
	for _, one := range results.Results {
		by[one.What] = one
	}
	r.Settings["one server"] = results.Settings
	scrubbed := by["scrub, table and base"]
	if scrubbed.Rate == nil || by["checkpoint"].Samples == 0 || by["repair at the next touch"].Samples == 0 {
		return fmt.Errorf("%s lacks a measurement", file)
	}
	rows, replay := by["500 blocks, rows"], by["500 blocks, replay"]
	if rows.Samples == 0 || replay.Samples == 0 {
		return fmt.Errorf("%s lacks a long replay", file)
	}
	return errors.Join(
		r.AddFigure("recovery.long_rows_ms", []float64{rows.MS}, "ms", report.Target{},
			fmt.Sprintf("500 blocks that change the same 100 rows of a table of %d, which are wrong then: step rows writes the last version of each, processor time, median of %d", cfg.Rows, rows.Samples)),
		r.AddFigure("recovery.long_replay_ms", []float64{replay.MS}, "ms", report.Target{},
			fmt.Sprintf("the same, step replay: the table reset to the checkpoint before them, and all executed again, median of %d", replay.Samples)),
		r.AddFigure("recovery.checkpoint_ms", []float64{by["checkpoint"].MS}, "ms", targets.Of("recovery.checkpoint_ms"),
			fmt.Sprintf("a checkpoint of a table of %d rows, by the clock, median of %d", cfg.Rows, by["checkpoint"].Samples)),
		r.AddFigure("recovery.scrub_rate", []float64{*scrubbed.Rate}, "rows/s", targets.Of("recovery.scrub_rate"),
			fmt.Sprintf("rows of table and base that the scrubber reads a second of processor time, unthrottled, median of %d", scrubbed.Samples)),
		r.AddFigure("recovery.touch_repair_ms", []float64{by["repair at the next touch"].MS}, "ms", targets.Of("recovery.touch_repair_ms"),
			fmt.Sprintf("a block that changes a tampered row, the row looked up and put right, by the clock, median of %d", by["repair at the next touch"].Samples)))
}

// together measures in a network under load.
func together(ctx context.Context, cfg Config, r *report.Report) (err error) {
	net, err := open(ctx, cfg)
	if net != nil {
		defer func() { err = errors.Join(err, end(net, err)) }()
	}
	if err != nil {
		return err
	}
	if err := errors.Join(machine.Facts(r, net.Dir), describe(ctx, cfg, r, net.Organisations[0])); err != nil {
		return err
	}
	var back, loss []float64
	for repetition := range cfg.Repeat {
		i, err := tamper(ctx, cfg, net, repetition)
		if err != nil {
			return err
		}
		r.Add(cured, 0, "s", report.Sample{Value: i.cured.Seconds()})
		r.Add(before, 0, "tx/s", report.Sample{Value: mean(i.before), Detail: bySecond(i.before)})
		r.Add(during, 0, "tx/s", report.Sample{Value: mean(i.during), Detail: bySecond(i.during)})
		back, loss = append(back, i.cured.Seconds()), append(loss, i.loss())
		fmt.Fprintf(cfg.Progress, "back after %.3f s; the others' transactions in the seconds before %v, from then on %v\n", i.cured.Seconds(), i.before, i.during)
	}
	if err := machine.NoteDisk(r, net.Dir); err != nil {
		return err
	}
	return errors.Join(
		r.AddFigure("recovery.back_s", back, "s", targets.Of("recovery.back_s"),
			"from the submission of a transaction that changes a tampered row until its organisation has the block, recorded the cure and serves; four organisations under load"),
		r.AddFigure("recovery.others_loss", loss, "share", targets.Of("recovery.others_loss"),
			fmt.Sprintf("throughput that clients of the other three lost in the %d s from then on, of that in the %d s before the tampering", windowSeconds, windowSeconds)))
}

func bySecond(counts []int64) map[string]float64 {
	out := map[string]float64{}
	for n, count := range counts {
		out[fmt.Sprintf("second_%d", n+1)] = float64(count)
	}
	return out
}

// describe records the version and the settings of an organisation's PostgreSQL, and the CometBFT
// of its node.
func describe(ctx context.Context, cfg Config, r *report.Report, o *harness.Organisation) (err error) {
	if r.Versions["cometbft"], err = machine.BuiltWith(cfg.Chainify, "github.com/cometbft/cometbft"); err != nil {
		return err
	}
	conn, err := o.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return server.Describe(ctx, r, "clusters", conn)
}

// end keeps the logs of a failure.
func end(net *harness.Network, failure error) error {
	if err := net.Close(); err != nil || failure != nil {
		return err
	}
	return net.Remove()
}
