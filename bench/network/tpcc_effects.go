package network

import (
	"context"
	"errors"
	"fmt"

	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

const (
	tpccByEffects  = "TPC-C, by effects"
	tpccEverywhere = "TPC-C, by effects at all four"
	tpccByExecute  = "TPC-C, by execute"
	tpccAllExecute = "TPC-C, executed everywhere"
	tpccTerminals  = 64
	tpccMany       = 128 // sessions, each at a warehouse of its own as well
)

// terminalsSize gives each terminal a warehouse, as the specification does.
var terminalsSize = workload.TPCCSize{Warehouses: tpccMany, Items: 1_000, Customers: 30}

// terminal is the stream of one, which stays at its warehouse.
func (c Config) terminal(repetition, client int) *workload.TPCC {
	return workload.NewTPCC(c.Seed, uint64(repetition)<<32|uint64(client), terminalsSize, workload.ByTheBook).At(1 + client%tpccMany)
}

// terminalWorkloads is TPC-C on the ledger of the network of plain SQL.
func (c Config) terminalWorkloads() []workload.Schema {
	if !c.wants(tpccByEffects, tpccEverywhere, tpccByExecute, tpccAllExecute) {
		return nil
	}
	return []workload.Schema{terminalsSize.Ordered()}
}

// tpccSystems are NewOrder and Payment. By effects, sessions at one organisation run them there,
// and four apply the changes. By execute, the same sessions have four execute them. Executed
// everywhere, clients of all four submit without waiting.
func tpccSystems(o *ours) []system {
	flood := func(ctx context.Context, repetition int) (load, error) {
		return o.members().flood(ctx, submitters, o.cfg, tpccPace, func(client int) func() string {
			// Each stands for some terminals: a batch would otherwise be of one warehouse.
			var each []*workload.TPCC
			for terminal := client; terminal < tpccMany; terminal += submitters {
				each = append(each, o.cfg.terminal(repetition, terminal))
			}
			n := 0
			return func() string {
				n++
				return each[n%len(each)].Block(1)[0].Text()
			}
		})
	}
	return []system{
		{tpccByEffects, tpccTerminals, o, o.terminals("effects", tpccTerminals, 1)},
		{tpccByEffects, tpccMany, o, o.terminals("effects", tpccMany, 1)},
		{tpccEverywhere, tpccTerminals, o, o.terminals("effects", tpccTerminals, len(o.members()))},
		{tpccByExecute, tpccTerminals, o, o.terminals("", tpccTerminals, 1)},
		{tpccAllExecute, 0, o, flood},
	}
}

// terminals run transactions in sessions of the first organisations, each when the one before is
// answered. With writes set to effects the sessions run the functions themselves, and begin again
// what loses.
func (o *ours) terminals(writes string, count, organisations int) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (l load, err error) {
		var sessions sessions
		defer func() { err = errors.Join(err, sessions.close(ctx)) }()
		retries := make([]int, count)
		each, err := newClients(count, func(i int) (func(context.Context) error, error) {
			conn, err := sessions.open(ctx, o.members()[i%organisations], database)
			if err != nil {
				return nil, err
			}
			calls := o.cfg.terminal(repetition, i)
			if writes == "" {
				return func(ctx context.Context) error {
					_, err := conn.Exec(ctx, "SELECT chainify.execute($1)", calls.Block(1)[0].Text())
					return err
				}, nil
			}
			if _, err := conn.Exec(ctx, "SET chainify.statement_retries = 0; SET chainify.writes = '"+writes+"'"); err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				call := calls.Block(1)[0]
				for range plainTries {
					_, err := conn.Exec(ctx, call.SQL, call.Arguments()...)
					if err == nil || !retryable(err) {
						return err
					}
					retries[i]++
				}
				return fmt.Errorf("%s did not commit in %d tries", call.SQL, plainTries)
			}, nil
		})
		if err != nil {
			return l, err
		}
		if l, err = afterLead(ctx, o, each, o.cfg.Seconds); err != nil {
			return l, err
		}
		sum := 0
		for _, n := range retries {
			sum += n
		}
		l.more = map[string]float64{retriesOfEach: float64(sum) / float64(max(1, l.count+l.led.count))}
		return l, o.same(ctx)
	}
}

// tpccEffectsFigures compares them, where all were measured.
func tpccEffectsFigures(r *report.Report) error {
	applied, waited, flooded := r.Find(tpccByEffects, tpccTerminals), r.Find(tpccByExecute, tpccTerminals), r.Find(tpccAllExecute, 0)
	if applied == nil || waited == nil || flooded == nil {
		return nil
	}
	how := fmt.Sprintf("TPC-C NewOrder and Payment, %d sessions at one organisation, a warehouse each: four apply what it executed / ", tpccTerminals)
	other := func(id, system string, sessions int, what string) error {
		measured := r.Find(system, float64(sessions))
		if measured == nil {
			return nil
		}
		return r.AddRatio(id, measured.Values(), flooded.Values(), report.Target{}, "plain.tpcc_effects with "+what)
	}
	return errors.Join(
		r.AddRatio("plain.tpcc_effects", applied.Values(), flooded.Values(), targets.Of("plain.tpcc_effects"), how+"four execute what clients of all submit without waiting, by transactions a second"),
		r.AddRatio("plain.tpcc_effects_waiting", applied.Values(), waited.Values(), report.Target{}, how+"the same sessions wait for chainify.execute, by transactions a second"),
		other("plain.tpcc_effects_everywhere", tpccEverywhere, tpccTerminals, "a quarter of the sessions at each organisation"),
		other("plain.tpcc_effects_many", tpccByEffects, tpccMany, fmt.Sprintf("%d sessions", tpccMany)),
		r.AddRatio("plain.tpcc_effects_cpu", applied.CPUs(), flooded.CPUs(), report.Target{}, how+"four execute, by processor time of a transaction"),
		r.AddFigure("plain.tpcc_effects_retries", applied.Details(retriesOfEach), "tries/tx", report.Target{}, "attempts that got 40001 for each transaction by effects that committed"),
	)
}
