package network

import (
	"errors"
	"fmt"

	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// floorReference is the latency of CometBFT alone on four nodes with the baseline's settings, in
// milliseconds, measured before Chainify was begun; what better settings are worth is said
// against it.
const floorReference = 53

// unmeasured are figures of systems that were left out by name.
func (cfg Config) unmeasured(values []float64) bool { return len(cfg.Only) > 0 && len(values) == 0 }

// figures states what the run says about the network.
func figures(r *report.Report, cfg Config) error {
	four, alone := r.Find(chainifyFour, 0), r.Best(standalone)
	if alone == nil {
		alone = &report.Series{}
	}
	if err := errors.Join(absoluteFigures(r, cfg, alone), agreementFigures(r, cfg), ratioFigures(r, cfg, alone)); err != nil {
		return err
	}
	if err := errors.Join(
		tailFigures(r, r.Find(chainifySync, 1)),
		impairedFigures(r, "network.one_dead", deadOne, "the fourth node killed"),
		impairedFigures(r, "network.one_slow", slowOne, "the fourth database runs a quarter of the time"),
		tpccFigures(r), readFigures(r), workloadFigures(r), serverFigures(r), keptFigures(r), formerFigures(r),
	); err != nil {
		return err
	}
	if without := r.Find(unsealed, 0); without != nil && four != nil {
		if err := sealFigures(r, four, without); err != nil {
			return err
		}
	}
	if four != nil {
		if err := diskFigures(r, "network", details(four), details(alone)); err != nil {
			return err
		}
	}
	if cfg.Modes && len(cfg.Only) == 0 {
		return errors.Join(modeFigures(r, "latency", latencyMode), modeFigures(r, "throughput", throughputMode))
	}
	return nil
}

// absoluteFigures are those with a unit.
func absoluteFigures(r *report.Report, cfg Config, alone *report.Series) error {
	four, one := r.Find(chainifyFour, 0), r.Find(chainifyOne, 0)
	lone, crowd, floor := r.Find(chainifySync, 1), r.Find(chainifySync, many), r.Find(floorSync, 1)
	const all = "Smallbank, uniform; every organisation has executed, agreed and committed all"
	for _, f := range []struct {
		id     string
		values []float64
		unit   string
		how    string
	}{
		{"network.four", four.Values(), "tx/s", all + "; chainify.submit_batch of 100 from all four"},
		{"network.one", one.Values(), "tx/s", all + "; one organisation, two workers"},
		{"network.four_cpu", four.CPUs(), "us/tx", "processor time of four nodes and four PostgreSQL servers, backends of clients included"},
		{"network.standalone", alone.Values(), "tx/s", fmt.Sprintf("pgbench -M prepared, synchronous_commit=on, best of the client counts: %g", alone.Point)},
		{"network.waiting_one_p50", lone.Details("p50_ms"), "ms", "one client, chainify.execute"},
		{"network.waiting_many", crowd.Values(), "tx/s", fmt.Sprintf("%d clients, chainify.execute", many)},
		{"network.waiting_many_p50", crowd.Details("p50_ms"), "ms", fmt.Sprintf("%d clients, chainify.execute", many)},
		{"network.floor_p50", floor.Details("p50_ms"), "ms", "one client, broadcast_tx_commit, CometBFT alone with our nodes' settings"},
	} {
		if cfg.unmeasured(f.values) {
			continue
		}
		if err := r.AddFigure(f.id, f.values, f.unit, targets.Of(f.id), f.how); err != nil {
			return err
		}
	}
	return nil
}

// agreementFigures say how long another organisation's agreement takes.
func agreementFigures(r *report.Report, cfg Config) error {
	round, roundCheck, _ := agreementRound(r, agreed, unasked)
	soon, _, _ := agreementRound(r, agreedSoon, unaskedSoon)
	for _, f := range []struct {
		id     string
		values []float64
		how    string
	}{
		{"network.agreement_round", round, "chainify.submit with another organisation's agreement, less the same with nobody asked"},
		{"network.latency_agreement_round", soon, "the same in mode latency"},
		{"network.agreement_check", roundCheck, "what that organisation asks its database: the transaction, its check, undone"},
	} {
		if cfg.unmeasured(f.values) {
			continue
		}
		if err := r.AddFigure(f.id, f.values, "ms", report.Target{}, f.how); err != nil {
			return err
		}
	}
	return nil
}

// ratioFigures compare two systems each.
func ratioFigures(r *report.Report, cfg Config, alone *report.Series) error {
	four, one := r.Find(chainifyFour, 0), r.Find(chainifyOne, 0)
	lone, crowd := r.Find(chainifySync, 1), r.Find(chainifySync, many)
	floor, crowdBaseline := r.Find(floorSync, 1), r.Find(baselineSync, many)
	single, bundled, oneBaseline := r.Find(baselineSingle, 0), r.Find(baselineBundle, 0), r.Find(baselineOne, 0)
	reference := make([]float64, len(floor.Values()))
	for i := range reference {
		reference[i] = floorReference
	}
	byClients, byGateways := r.Find(signed, 0), r.Find(vouched, 0)
	round, _, allowed := agreementRound(r, agreed, unasked)
	soon, _, soonAllowed := agreementRound(r, agreedSoon, unaskedSoon)
	for _, f := range []struct {
		id   string
		a, b []float64
		how  string
	}{
		{"network.signed_over_vouched", byClients.Values(), byGateways.Values(), "clients sign each transaction / gateways vouch; one transaction a request at the nodes' sockets, signed beforehand"},
		{"network.pipelined_over_connections", r.Find(pipelined, 0).Values(), byGateways.Values(), "the latter with each client's sixteen requests under way on one connection / on sixteen"},
		{"network.signed_batch_over_vouched", r.Find(signedBatch, 0).Values(), r.Find(vouchedBatch, 0).Values(), "clients sign eight transactions at once / gateways vouch; 64 a request at the nodes' sockets, signed beforehand"},
		{"network.agreement_over_check", round, allowed, "agreement_round / a round trip over TCP and the check"},
		{"network.latency_agreement_over_check", soon, soonAllowed, "latency_agreement_round / a round trip over TCP and the check"},
		{"network.four_over_baseline", four.Values(), single.Values(), "four organisations / baseline with one transaction each"},
		{"network.four_over_baseline_bundled", four.Values(), bundled.Values(), "four organisations / baseline with 100 in each of its transactions"},
		{"network.one_over_baseline", one.Values(), oneBaseline.Values(), "one organisation / baseline with one"},
		{"network.one_over_standalone", one.Values(), alone.Values(), "one organisation / PostgreSQL's best durable throughput"},
		{"network.waiting_many_over_baseline", crowd.Values(), crowdBaseline.Values(), "32 waiting clients / the same of the baseline"},
		{"network.waiting_one_over_floor", lone.Details("p50_ms"), floor.Details("p50_ms"), "latency of one client: chainify.execute / CometBFT alone"},
		{"network.floor_over_reference", floor.Details("p50_ms"), reference, "latency of CometBFT alone / that of the baseline's settings, 53 ms"},
	} {
		if cfg.unmeasured(f.a) || cfg.unmeasured(f.b) {
			continue
		}
		if err := r.AddRatio(f.id, f.a, f.b, targets.Of(f.id), f.how); err != nil {
			return err
		}
	}
	return nil
}

// tailFigures says how long one client waits at worst, and nothing where that was not measured. One
// client sees few answers in a repetition: of thirty, the 99th percentile is the longest. So it is
// taken of those of all repetitions together.
func tailFigures(r *report.Report, lone *report.Series) error {
	all := lone.Latencies()
	if len(all) == 0 {
		return nil
	}
	p50, p99 := report.Quantile(all, 0.5), report.Quantile(all, 0.99)
	r.Notes = append(r.Notes, fmt.Sprintf("99th percentiles of one client that waits are of the answers of all repetitions together: %d of %s", len(all), lone.System))
	tails, err := report.Ratios(lone.Details("p99_ms"), lone.Details("p50_ms"))
	if err != nil {
		return err
	}
	return errors.Join(
		r.AddPooled("network.waiting_one_p99", p99, len(all), lone.Details("p99_ms"), "ms", report.Target{}, fmt.Sprintf("one client, chainify.execute, of %d answers in all repetitions", len(all))),
		r.AddPooled("network.waiting_one_tail", p99/p50, len(all), tails, "ratio", targets.Of("network.waiting_one_tail"),
			fmt.Sprintf("one client: 99th percentile / median, of %d answers in all repetitions", len(all))))
}

// impairedTail is tailFigures of three beside a fourth that is impaired, in proportion to all well.
func impairedTail(r *report.Report, id, system, how string) error {
	with, well := r.Find(system, 1), r.Find(chainifySync, 1)
	answers, usual := with.Latencies(), well.Latencies()
	if len(answers) == 0 || len(usual) == 0 {
		return nil
	}
	each, err := report.Ratios(with.Details("p99_ms"), well.Details("p99_ms"))
	if err != nil {
		return err
	}
	r.Notes = append(r.Notes, fmt.Sprintf("of %s these were %d", system, len(answers)))
	return r.AddPooled(id+"_p99", report.Quantile(answers, 0.99)/report.Quantile(usual, 0.99), len(answers), each, "ratio", report.Target{},
		fmt.Sprintf("%s / all well: latency of one client, 99th percentile, of %d answers in all repetitions", how, len(answers)))
}

// impairedFigures says what three organisations do beside a fourth that is impaired, and nothing
// where either was not measured.
func impairedFigures(r *report.Report, id, system, how string) error {
	for _, f := range []struct {
		id, what   string
		with, well []float64
	}{
		{"", "transactions a second of the other three's clients, done when these three have committed all", r.Find(system, 0).Values(), r.Find(chainifyFour, 0).Values()},
		{"_p50", "latency of one client, median", r.Find(system, 1).Details("p50_ms"), r.Find(chainifySync, 1).Details("p50_ms")},
	} {
		if len(f.with) == 0 || len(f.well) == 0 {
			continue
		}
		if err := r.AddRatio(id+f.id, f.with, f.well, report.Target{}, how+" / all well: "+f.what); err != nil {
			return err
		}
	}
	return impairedTail(r, id, system, how)
}

// sealFigures says what cryptography between organisations costs: what part of it goes when
// signatures and encryption do.
func sealFigures(r *report.Report, with, without *report.Series) error {
	const off = "without (signatures are zeros and not checked, connections not encrypted; hashes stay)"
	cpu, err := report.Ratios(without.CPUs(), with.CPUs())
	if err != nil {
		return err
	}
	for i := range cpu {
		cpu[i] = 1 - cpu[i]
	}
	return errors.Join(
		r.AddFigure("network.cryptography", cpu, "share", targets.Of("network.cryptography"), "of the processor time of a transaction, nodes and databases, what goes "+off),
		r.AddRatio("network.cryptography_rate", without.Values(), with.Values(), report.Target{}, "transactions a second "+off+" / with"))
}

// serverFigures says what CometBFT in a process of its own costs, and nothing where either was not
// measured.
func serverFigures(r *report.Report) error {
	four, lone, crowd := r.Find(serverFour, 0), r.Find(serverSync, 1), r.Find(serverSync, many)
	builtin := r.Find(chainifyFour, 0)
	for _, f := range []struct {
		id, what        string
		server, builtin []float64
	}{
		{"four", "transactions a second when nobody waits", four.Values(), builtin.Values()},
		{"waiting_one_p50", "latency of one client that waits", lone.Details("p50_ms"), r.Find(chainifySync, 1).Details("p50_ms")},
		{"waiting_many", fmt.Sprintf("transactions a second of %d clients that wait", many), crowd.Values(), r.Find(chainifySync, many).Values()},
		{"cpu", "processor time of a transaction when nobody waits", four.CPUs(), builtin.CPUs()},
	} {
		if len(f.server) == 0 || len(f.builtin) == 0 {
			continue
		}
		if err := r.AddRatio("network.server_"+f.id, f.server, f.builtin, report.Target{}, "CometBFT's own program beside chainify app / CometBFT in the node's process: "+f.what); err != nil {
			return err
		}
	}
	return nil
}

// modeFigures says what a mode gives and costs beside the one that is balanced.
func modeFigures(r *report.Report, id, system string) error {
	const how = "four organisations in mode %s / balanced: %s"
	for _, f := range []struct {
		id, what string
		a, b     []float64
	}{
		{"four", "transactions a second when nobody waits", r.Find(system, 0).Values(), r.Find(chainifyFour, 0).Values()},
		{"waiting_one_p50", "latency of one client that waits", r.Find(system, 1).Details("p50_ms"), r.Find(chainifySync, 1).Details("p50_ms")},
		{"waiting_many", fmt.Sprintf("transactions a second of %d clients that wait", many), r.Find(system, many).Values(), r.Find(chainifySync, many).Values()},
		{"cpu", "processor time of a transaction when nobody waits", r.Find(system, 0).CPUs(), r.Find(chainifyFour, 0).CPUs()},
	} {
		if err := r.AddRatio("network."+id+"_"+f.id, f.a, f.b, report.Target{}, fmt.Sprintf(how, id, f.what)); err != nil {
			return err
		}
	}
	return nil
}

// agreementRound is, for each repetition, how long asking another organisation takes, how long
// its check does, and the check with a round trip.
func agreementRound(r *report.Report, asked, alone string) (round, check, allowed []float64) {
	with, without := r.Find(asked, 1).Details("p50_ms"), r.Find(alone, 1).Details("p50_ms")
	check, trip := r.Find(checked, 1).Details("p50_ms"), r.Find(echoed, 1).Details("p50_ms")
	for i := range min(len(with), len(without), len(check), len(trip)) {
		round, allowed = append(round, with[i]-without[i]), append(allowed, check[i]+trip[i])
	}
	return round, check, allowed
}
