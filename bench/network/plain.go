package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/pgbench"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

const (
	plainClients   = 32 // of pgbench, a quarter at each organisation
	atEach         = plainClients / 4
	plainTries     = 1000 // of a transaction that loses against a block
	bySession      = ", plain SQL"
	bySerializable = ", plain SQL, SERIALIZABLE"
	byFunction     = ", a function by execute"
	byText         = ", a text by execute"
	retriesOfEach  = "retries_per_tx"
)

// plainTables give each client of pgbench a branch of its own, so that no two transactions meet.
var plainTables = workload.TPCB{Branches: plainClients, Tellers: 10, Accounts: 3000}

var plainMembers = []string{"acme", "bolt", "cargo", "delta"}

// Plain measures plain SQL through the ledger in a network of four. Transactions of pgbench and
// sysbench run as applications send them, and as one call of chainify.execute each. Other sessions
// meet at a few rows. The caller may add other parts to the report.
func Plain(ctx context.Context, cfg Config, r *report.Report) (err error) {
	cfg.Customers = 2 // of Smallbank, which is not measured here
	schemas := append([]workload.Schema{plainTables.Schema()}, cfg.terminalWorkloads()...)
	net, err := openNetwork(ctx, cfg, "plain", settings, plainMembers, schemas...)
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
	o := plainOurs(net, cfg, schemas)
	if err := errors.Join(machine.Facts(r, net.Dir), describeServer(ctx, r, "clusters of four", net.Organisations[0]), describeNodes(r, cfg.Chainify, net, o.mode)); err != nil {
		return err
	}
	var systems []system
	for _, s := range plainSystems(o) {
		if cfg.wants(s.name) {
			systems = append(systems, s)
		}
	}
	if err := machine.Settle(ctx, r, cfg.Settle, cfg.Progress); err != nil {
		return err
	}
	for repetition := 1; repetition <= cfg.Repeat; repetition++ {
		if err := repeat(ctx, cfg, repetition, systems, r); err != nil {
			return err
		}
	}
	return plainFigures(r)
}

// plainOurs is the network with the tables that its load changes.
func plainOurs(net *harness.Network, cfg Config, schemas []workload.Schema) *ours {
	return &ours{net, cfg, config.Balanced, append(bankTables(schemas...), workload.SequenceTable)}
}

func plainSystems(o *ours) []system {
	var out []system
	for _, script := range workload.Scripts() {
		out = append(out,
			system{script.Name + bySession, plainClients, o, o.byPgbench(script.Interactive, "effects", "")},
			system{script.Name + bySerializable, plainClients, o, o.byPgbench(script.Interactive, "effects", "serializable")},
			system{script.Name + byFunction, plainClients, o, o.byPgbench(script.Called, "", "")},
			system{script.Name + byText, plainClients, o, o.byPgbench(script.Together, "", "")})
	}
	out = append(out, tpccSystems(o)...)
	return append(out, system{hotRows, 1, o, o.contended(1)}, system{hotRows, hotClients, o, o.contended(hotClients)})
}

// byPgbench runs one pgbench at each organisation, all at once, each with branches of its own.
func (o *ours) byPgbench(script func(t workload.TPCB, first int) string, writes, isolation string) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (l load, err error) {
		before, err := cpuOf(o)
		if err != nil {
			return l, err
		}
		dir, err := os.MkdirTemp("", "chainify-bench-scripts.")
		if err != nil {
			return l, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		var after cpu // when the first one's lead is over
		var errLed error
		results := make([]pgbench.Result, len(o.members()))
		group, groupCtx := errgroup.WithContext(ctx)
		for i, member := range o.members() {
			path := filepath.Join(dir, member.Name+".sql")
			if err := os.WriteFile(path, []byte(script(plainTables, 1+i*atEach)), 0o600); err != nil {
				return l, err
			}
			run := pgbench.Run{
				Cluster: member.Cluster, Database: database, Role: role, Scripts: []string{path}, Clients: atEach, Seconds: o.cfg.Seconds,
				Seed: o.cfg.Seed + uint64(repetition*len(results)+i), SynchronousCommit: "on", Writes: writes, Isolation: isolation, Tries: plainTries,
			}
			if i == 0 {
				run.Led = func() { after, errLed = cpuOf(o) }
			}
			group.Go(func() (err error) {
				results[i], err = run.Do(groupCtx)
				return err
			})
		}
		if err := errors.Join(group.Wait(), errLed); err != nil {
			return l, err
		}
		l = ofAll(results)
		l.led.used = after.less(before)
		return l, o.same(ctx)
	}
}

// ofAll is what several runs of pgbench did beside each other: their rates add up.
func ofAll(results []pgbench.Result) (l load) {
	rate, retries, all := 0.0, 0, 0
	for _, result := range results {
		l.count += result.Processed
		l.led.count += result.Led
		rate += result.Rate
		retries += result.Retries
		all += result.Processed + result.Led
	}
	l.took = time.Duration(float64(l.count) / rate * float64(time.Second))
	l.more = map[string]float64{retriesOfEach: float64(retries) / float64(all)}
	return l
}

// same waits until all organisations have the same last block, so that nothing of a measurement is
// left for the next.
func (o *ours) same(ctx context.Context) error {
	_, err := harness.WaitSame(ctx, o.members(), 1, doneLimit)
	return err
}

// plainFigures compares plain SQL with the calls, where both were measured, and states what
// sessions that meet lose.
func plainFigures(r *report.Report) error {
	for _, script := range workload.Scripts() {
		session := r.Find(script.Name+bySession, plainClients)
		for _, beside := range []struct{ id, system, what string }{
			{"", byFunction, "one call of chainify.execute of a function with parameters"},
			{"_text", byText, "one call of chainify.execute with all statements in one text"},
		} {
			call := r.Find(script.Name+beside.system, plainClients)
			if session == nil || call == nil {
				continue
			}
			id := "plain." + script.ID() + "_over_execute" + beside.id
			how := fmt.Sprintf("%s, %d clients of pgbench at four organisations, each with rows of its own: BEGIN to COMMIT with chainify.writes = 'effects' / %s, by transactions a second", script.Name, plainClients, beside.what)
			if err := errors.Join(
				r.AddRatio(id, session.Values(), call.Values(), targets.Of(id), how),
				r.AddRatio(id+"_cpu", session.CPUs(), call.CPUs(), report.Target{}, "the same by processor time of nodes and databases, clients' backends included"),
			); err != nil {
				return err
			}
		}
	}
	return errors.Join(serializableFigures(r), tpccEffectsFigures(r), hotFigures(r))
}

// serializableFigures says what SERIALIZABLE costs a session of plain SQL beside READ COMMITTED.
func serializableFigures(r *report.Report) error {
	var errs []error
	for _, script := range workload.Scripts() {
		session, serializable := r.Find(script.Name+bySession, plainClients), r.Find(script.Name+bySerializable, plainClients)
		if session == nil || serializable == nil {
			continue
		}
		id, how := "plain."+script.ID()+"_serializable", script.Name+": SERIALIZABLE / READ COMMITTED, "
		errs = append(errs,
			r.AddRatio(id, serializable.Values(), session.Values(), report.Target{}, how+"by transactions a second"),
			r.AddRatio(id+"_cpu", serializable.CPUs(), session.CPUs(), report.Target{}, how+"by processor time of nodes and databases"),
			r.AddFigure(id+"_retries", serializable.Details(retriesOfEach), "tries/tx", report.Target{}, "attempts that got 40001 for each SERIALIZABLE transaction that committed"))
	}
	return errors.Join(errs...)
}
