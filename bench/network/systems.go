package network

import (
	"context"
	"errors"
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
		{chainifyKept, 1, rested{s.oursFour}, rested{s.oursFour}.waited},
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
		{vouched, 0, s.oursFour, s.oursFour.bySocket(1, requestsEach, false)},
		{pipelined, 0, s.oursFour, s.oursFour.bySocket(1, 1, false)},
		{signed, 0, s.oursFour, s.oursFour.bySocket(1, requestsEach, true)},
		{vouchedBatch, 0, s.oursFour, s.oursFour.bySocket(batch, 1, false)},
		{signedBatch, 0, s.oursFour, s.oursFour.bySocket(batch, 1, true)},
		{agreed, 1, s.pair, s.pair.submit("bolt")},
		{unasked, 1, s.pair, s.pair.submit("acme")},
		{agreedSoon, 1, s.pairSoon, s.pairSoon.submit("bolt")},
		{unaskedSoon, 1, s.pairSoon, s.pairSoon.submit("acme")},
		{checked, 1, s.pair, s.pair.check},
		{echoed, 1, s.pair, func(context.Context, int) (load, error) { return roundTrip(cfg) }},
		{tpccFour, 0, s.oursFour, s.tpccs.organisations},
		{tpccAlone, 0, single{s.tpccs}, single{s.tpccs}.load},
		{readsLedger, readers, s.oursOne, s.reading.load(database, s.reading.toLedger)},
		{chainifyOne, 0, s.oursOne, s.oursOne.weighed(s.oursOne.asynchronous())},
		{baselineOne, 0, s.theirsOne, s.theirsOne.asynchronous(1)},
	}
	if s.seven != nil {
		out = append(out, bothWays(chainifySeven, sevenSync, s.oursSeven, s.oursSeven)...)
	}
	if cfg.Sizes {
		out = append(out, bothWays(chainifyOneWorker, oneWorkerSync, s.oneWorker, s.oneWorker.ours)...)
		for _, clients := range []int{8, 64} {
			out = append(out, system{chainifySync, float64(clients), s.oursFour, s.oursFour.wait(clients)})
		}
	}
	if cfg.Modes {
		out = append(out, inMode(latencyMode, s.soon)...)
		out = append(out, inMode(throughputMode, s.much)...)
	}
	if s.server != nil {
		out = append(out, bothWays(serverFour, serverSync, s.server, s.server)...)
		out = append(out, system{serverSync, many, s.server, s.server.wait(many)})
	}
	if s.former != nil {
		out = append(out, bothWays(formerFour, formerSync, s.former, s.former)...)
		out = append(out, system{formerSync, many, s.former, s.former.wait(many)}, system{formerKept, 1, rested{s.former}, rested{s.former}.waited})
	}
	if s.unsealed != nil {
		out = append(out, system{unsealed, 0, s.unsealed, s.unsealed.asynchronous()})
	}
	out = append(out, system{zipfPlain, oneByOnes, s.alone, s.alone.oneByOne(cfg.skewed)}, system{mixPlain, oneByOnes, s.alone, s.alone.oneByOne(cfg.mixed)})
	out = append(out, system{readsPlain, readers, s.alone, s.readingAlone.load(plain, newOneByOne)})
	for _, clients := range cfg.PgbenchClients {
		out = append(out, system{standalone, float64(clients), s.alone, s.alone.load(clients)})
	}
	return out
}

// bothWays is a network when nobody waits and when one client does, and what either puts on its
// disks.
func bothWays(many, one string, up running, o *ours) []system {
	return []system{{many, 0, up, o.weighed(o.asynchronous())}, {one, 1, up, o.weighed(o.wait(1))}}
}

// inMode is the same load of four organisations in another mode; at point 0 nobody waits.
func inMode(name string, up *ours) []system {
	return []system{{name, 0, up, up.asynchronous()}, {name, 1, up, up.wait(1)}, {name, many, up, up.wait(many)}}
}

// alone is PostgreSQL without the library, in a cluster of its own that runs already.
type alone struct {
	organisation *harness.Organisation
	cfg          Config
	scripts      []string
	tables       []string
}

func (a *alone) start(context.Context) error { return nil }
func (a *alone) stop() error                 { return nil }
func (a *alone) nodes() []int                { return nil }
func (a *alone) databases() []int            { return []int{a.organisation.Cluster.PID()} }

func (a *alone) vacuum(ctx context.Context) error {
	return vacuum(ctx, a.organisation, plain, a.tables)
}

// disk is that of the tables without a ledger.
func (a *alone) disk(ctx context.Context) (disk, error) {
	d := disk{}
	return d, d.addDatabase(ctx, a.organisation, plain)
}

// runPgbench knows what the lead of pgbench did.
func runPgbench(ctx context.Context, up running, run pgbench.Run) (l load, err error) {
	before, err := cpuOf(up)
	if err != nil {
		return l, err
	}
	var after cpu
	var errLed error
	run.Led = func() { after, errLed = cpuOf(up) }
	result, err := run.Do(ctx)
	if err := errors.Join(err, errLed); err != nil {
		return l, err
	}
	return load{
		count: result.Processed, took: time.Duration(float64(result.Processed) / result.Rate * float64(time.Second)),
		led: lead{result.Led, after.less(before)},
	}, nil
}

// load commits every transaction by itself and durably.
func (a *alone) load(clients int) func(context.Context, int) (load, error) {
	return weighed(a.disk, 1, func(ctx context.Context, repetition int) (load, error) {
		return runPgbench(ctx, a, pgbench.Run{
			Cluster: a.organisation.Cluster, Database: plain, Role: role, Scripts: a.scripts, Clients: clients, Seconds: a.cfg.Seconds,
			Customers: a.cfg.Customers, Seed: a.cfg.Seed + uint64(repetition), SynchronousCommit: "on",
		})
	})
}
