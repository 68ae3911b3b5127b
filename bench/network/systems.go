package network

import (
	"context"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/pgbench"
)

// many is how many clients wait at once where several do.
const many = 32

// systems lists what is compared.
func (s *sites) systems(cfg Config) []system {
	out := []system{
		{chainifyFour, 0, s.oursFour, s.oursFour.weighed(s.oursFour.asynchronous())},
		{chainifySync, 1, s.oursFour, s.oursFour.weighed(s.oursFour.wait(1))},
		{chainifySync, many, s.oursFour, s.oursFour.weighed(s.oursFour.wait(many))},
		{deadOne, 0, s.dead, s.dead.well().asynchronous(cfg)},
		{deadOne, 1, s.dead, s.dead.well().wait(cfg, 1)},
		{slowOne, 0, s.slow, s.slow.well().asynchronous(cfg)},
		{slowOne, 1, s.slow, s.slow.well().wait(cfg, 1)},
		{baselineSingle, 0, s.theirsFour, s.theirsFour.asynchronous(1)},
		{baselineBundle, 0, s.theirsFour, s.theirsFour.asynchronous(bundle)},
		{baselineSync, many, s.theirsFour, s.theirsFour.wait(many)},
		{floorSync, 1, s.floor, s.floor.wait(1)},
		{tenACall, 0, s.oursFour, s.oursFour.members().flooded(cfg, pace{aCall, 1}, cfg.uniform)},
		{zipfFour, 0, s.oursFour, s.oursFour.members().flooded(cfg, pace{bundle, inFlight}, cfg.skewed)},
		{mixFour, 0, s.oursFour, s.oursFour.members().flooded(cfg, pace{bundle, inFlight}, cfg.mixed)},
		{vouched, 0, s.oursFour, s.oursFour.bySocket(1, false)},
		{signed, 0, s.oursFour, s.oursFour.bySocket(1, true)},
		{vouchedBatch, 0, s.oursFour, s.oursFour.bySocket(batch, false)},
		{signedBatch, 0, s.oursFour, s.oursFour.bySocket(batch, true)},
		{agreed, 1, s.pair, s.pair.submit("bolt")},
		{unasked, 1, s.pair, s.pair.submit("acme")},
		{agreedSoon, 1, s.pairSoon, s.pairSoon.submit("bolt")},
		{unaskedSoon, 1, s.pairSoon, s.pairSoon.submit("acme")},
		{checked, 1, s.pair, s.pair.check},
		{echoed, 1, s.pair, func(context.Context, int) (load, error) { return roundTrip(cfg) }},
		{tpccFour, 0, s.oursFour, s.tpccs.organisations},
		{tpccAlone, 0, single{s.tpccs}, single{s.tpccs}.load},
		{readsLedger, readers, s.oursOne, s.reading.load(database, s.reading.toLedger)},
		{chainifyOne, 0, s.oursOne, s.oursOne.asynchronous()},
		{baselineOne, 0, s.theirsOne, s.theirsOne.asynchronous(1)},
	}
	if s.seven != nil {
		out = append(out, system{chainifySeven, 0, s.oursSeven, s.oursSeven.asynchronous()}, system{sevenSync, 1, s.oursSeven, s.oursSeven.wait(1)})
	}
	if cfg.Sizes {
		out = append(out, system{oneSync, 1, s.oursOne, s.oursOne.wait(1)})
		for _, clients := range []int{8, 64} {
			out = append(out, system{chainifySync, float64(clients), s.oursFour, s.oursFour.wait(clients)})
		}
	}
	if cfg.Modes {
		out = append(out, inMode(latencyMode, s.soon)...)
		out = append(out, inMode(throughputMode, s.much)...)
	}
	if s.unsealed != nil {
		out = append(out, system{unsealed, 0, s.unsealed, s.unsealed.asynchronous()})
	}
	plainOne := &alone{s.one.Organisations[0], cfg, s.scripts}
	out = append(out, system{zipfPlain, oneByOnes, plainOne, plainOne.oneByOne(cfg.skewed)}, system{mixPlain, oneByOnes, plainOne, plainOne.oneByOne(cfg.mixed)})
	out = append(out, system{readsPlain, readers, plainOne, s.reading.load(plain, newOneByOne)})
	for _, clients := range cfg.PgbenchClients {
		out = append(out, system{standalone, float64(clients), plainOne, plainOne.load(clients)})
	}
	return out
}

// inMode is the same load of four organisations in another mode; at point 0 nobody waits.
func inMode(name string, up *ours) []system {
	return []system{{name, 0, up, up.asynchronous()}, {name, 1, up, up.wait(1)}, {name, many, up, up.wait(many)}}
}

// alone is one PostgreSQL, which runs already.
type alone struct {
	organisation *harness.Organisation
	cfg          Config
	scripts      []string
}

func (a *alone) start(context.Context) error { return nil }
func (a *alone) stop() error                 { return nil }
func (a *alone) nodes() []int                { return nil }
func (a *alone) databases() []int            { return []int{a.organisation.Cluster.PID()} }

// disk is that of the tables without a ledger.
func (a *alone) disk(ctx context.Context) (disk, error) {
	d := disk{}
	return d, d.addDatabase(ctx, a.organisation, plain)
}

// loadOf is what pgbench did.
func loadOf(r pgbench.Result) load {
	return load{count: r.Processed, took: time.Duration(float64(r.Processed) / r.Rate * float64(time.Second))}
}

// load commits every transaction by itself and durably.
func (a *alone) load(clients int) func(context.Context, int) (load, error) {
	return weighed(a.disk, 1, func(ctx context.Context, repetition int) (load, error) {
		result, err := pgbench.Run{
			Cluster: a.organisation.Cluster, Database: plain, Role: role, Scripts: a.scripts, Clients: clients, Seconds: a.cfg.Seconds,
			Customers: a.cfg.Customers, Seed: a.cfg.Seed + uint64(repetition), SynchronousCommit: "on",
		}.Do(ctx)
		if err != nil {
			return load{}, err
		}
		return loadOf(result), nil
	})
}
