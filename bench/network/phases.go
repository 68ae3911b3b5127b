package network

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/report"
)

// phasesOf is one waiting client whose blocks' phases are told.
const phasesOf = "4 organisations, one client that waits, by phase"

// phaseSizes are how many transactions it submits at once.
var phaseSizes = []int{1, 10, 100, 1000}

// scrapeLimit bounds asking a node for its metrics.
const scrapeLimit = 5 * time.Second

// phase is a part of a block's time: what a node's metrics sum up under some label.
type phase struct {
	name, metric, label string
	values              []string
	says                string
}

// phases are those of BTW 2023, figure 8. A node executes a block before it precommits the next
// order block, so that its consensus contains some of the execution.
var phases = []phase{
	{"proposal", "cometbft_consensus_step_duration_seconds", "step", []string{"NewHeight", "NewRound", "Propose"}, "until a proposal is there"},
	{"consensus", "cometbft_consensus_step_duration_seconds", "step", []string{"Prevote", "PrevoteWait", "Precommit", "PrecommitWait", "Commit"}, "the two rounds of votes, and CometBFT's commit"},
	{"execution", "chainify_operation_seconds", "operation", []string{"execute"}, "in the database"},
	{"commit", "chainify_operation_seconds", "operation", []string{"commit"}, "COMMIT in the database"},
}

// phased adds to the load's details what a ledger block had at one organisation's node: how many
// milliseconds of each phase and up to the next block, and how many transactions.
func phased(o *harness.Organisation, of func(context.Context, int) (load, error)) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (load, error) {
		before, err := ledgerBlocks(ctx, o)
		if err != nil {
			return load{}, err
		}
		l, spent, err := phasesDuring(ctx, o, func(ctx context.Context) (load, error) { return of(ctx, repetition) })
		if err != nil {
			return l, err
		}
		after, err := ledgerBlocks(ctx, o)
		blocks := float64(max(1, after-before))
		l.more = map[string]float64{sizeOfBlocks: float64(l.count) / blocks, blockCycle: float64(l.took.Milliseconds()) / blocks}
		for name, milliseconds := range spent {
			l.more[name] = milliseconds / blocks
		}
		return l, err
	}
}

// blockCycle is a detail of a sample: milliseconds from one ledger block to the next.
const blockCycle = "block_cycle_ms"

// phasesDuring runs a load, and gives how many milliseconds of each phase one organisation's node
// spent meanwhile.
func phasesDuring(ctx context.Context, o *harness.Organisation, of func(context.Context) (load, error)) (l load, spent map[string]float64, err error) {
	before, err := scrape(ctx, o)
	if err != nil {
		return l, nil, err
	}
	if l, err = of(ctx); err != nil {
		return l, nil, err
	}
	after, err := scrape(ctx, o)
	if err != nil {
		return l, nil, err
	}
	spent = map[string]float64{}
	for i, p := range phases {
		spent[p.name] = (after[i] - before[i]) * 1000
	}
	return l, spent, nil
}

// ledgerBlocks counts an organisation's ledger blocks that hold transactions.
func ledgerBlocks(ctx context.Context, o *harness.Organisation) (n int64, err error) {
	err = o.Scan(ctx, "SELECT count(*) FROM chainify.ledger WHERE tx_count > 0", &n)
	return n, err
}

// scrape reads the sums of the phases, in seconds, from a node's metrics.
func scrape(ctx context.Context, o *harness.Organisation) ([]float64, error) {
	c, err := config.Load(o.Home())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, scrapeLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Metrics.Listen+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DialContext: o.Dial, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", o.Name, err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", o.Name, err)
	}
	sums := make([]float64, len(phases))
	for i, p := range phases {
		for _, m := range families[p.metric].GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == p.label && slices.Contains(p.values, label.GetValue()) {
					sums[i] += m.GetHistogram().GetSampleSum()
				}
			}
		}
	}
	return sums, nil
}

// phaseFigures are the phases of a block, by how many transactions its one client submits at once.
func phaseFigures(r *report.Report) error {
	for _, size := range phaseSizes {
		s := r.Find(phasesOf, float64(size))
		if s == nil {
			continue
		}
		for _, p := range phases {
			id, how := "papers.phase_"+p.name, "BTW 2023, figure 8, which draws it: a block of one waiting client of four organisations, %s; published: consensus is by far the longest"
			if size > 1 {
				id, how = fmt.Sprintf("%s_%d", id, size), fmt.Sprintf("StreamChain, by block size: the same with %d transactions at once, %%s", size)
			}
			if err := r.AddFigure(id, s.Details(p.name), "ms", report.Target{}, fmt.Sprintf(how, p.says)); err != nil {
				return err
			}
		}
	}
	return nil
}
