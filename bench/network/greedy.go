package network

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/greedy"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
)

// The systems of greedy; those of one kind alone are named by greedyOnly.
const (
	modest    = "5 organisations, nobody greedy"
	greedyAll = "5 organisations, three greedy, every kind"
)

func greedyOnly(kind greedy.Kind) string {
	return "5 organisations, three greedy, " + string(kind) + " alone"
}

const (
	honestOnes    = 2 // of the organisations, those whose clients wait; the others are greedy
	honestClients = 8
	// greedyRate is what each of a greedy member's connections sends at most, in bytes a second:
	// many times what any bound lets through.
	greedyRate = 8 << 20
)

// Details of a sample, in processors: of one honest node, of one honest organisation's database,
// and of the process of the greedy senders.
const (
	oneNode     = "one_node_processors"
	oneDatabase = "one_database_processors"
	ofSenders   = "senders_processors"
	// Of one honest node: what CometBFT wrote to the log of its consensus, and the node to its log.
	oneWAL = "one_node_consensus_log_bytes_per_second"
	oneLog = "one_node_log_bytes_per_second"
)

// besieged is a network of which some organisations send what has the others' nodes work in vain.
type besieged struct{ *ours }

func (b besieged) honest() members { return b.net.Organisations[:honestOnes] }
func (b besieged) greedy() members { return b.net.Organisations[honestOnes:] }

// nodes implements running: those of the greedy have no more to do than ever.
func (b besieged) nodes() (out []int) {
	for _, o := range b.honest() {
		out = append(out, o.PIDs()...)
	}
	return out
}

func (b besieged) databases() []int { return postmasters(b.honest()) }

// logged is how many bytes CometBFT's logs of its consensus have, and the nodes' own logs.
func (b besieged) logged() (consensus, own float64, err error) {
	for _, o := range b.honest() {
		files, failed := filepath.Glob(filepath.Join(o.Home(), "data", "cs.wal", "*"))
		err = errors.Join(err, failed)
		for i, file := range append(files, filepath.Join(b.net.Dir, o.Name, "node.log")) {
			s, failed := os.Stat(file)
			switch {
			case failed != nil:
				err = errors.Join(err, failed)
			case i < len(files):
				consensus += float64(s.Size())
			default:
				own += float64(s.Size())
			}
		}
	}
	return consensus, own, err
}

// Greedy measures clients of two organisations while the three others are greedy, with every kind
// at once and with each alone, and while nobody is.
func Greedy(ctx context.Context, cfg Config, r *report.Report) (err error) {
	net, err := openNetwork(ctx, cfg, "greedy", settings, []string{"acme", "bolt", "cargo", "delta", "echo"})
	if net != nil {
		defer func() {
			err = errors.Join(err, net.Close())
			if err == nil {
				err = net.Remove()
			}
		}()
	}
	if err != nil {
		return err
	}
	if err := errors.Join(machine.Facts(r, net.Dir), describeServer(ctx, r, "clusters", net.Organisations[0])); err != nil {
		return err
	}
	if err := machine.Settle(ctx, r, cfg.Settle, cfg.Progress); err != nil {
		return err
	}
	systems := greedySystems(cfg, besieged{&ours{net, cfg, config.Balanced, bankTables()}})
	for repetition := 1; repetition <= cfg.Repeat; repetition++ {
		if err := repeat(ctx, cfg, repetition, systems, r); err != nil {
			return err
		}
	}
	return errors.Join(machine.NoteDisk(r, net.Dir), greedyFigures(r))
}

func greedySystems(cfg Config, b besieged) (out []system) {
	add := func(name string, kinds ...greedy.Kind) {
		if cfg.wants(name) {
			out = append(out, system{name, 0, b, b.wait(kinds)})
		}
	}
	add(modest)
	add(greedyAll, greedy.Kinds...)
	for _, kind := range greedy.Kinds {
		add(greedyOnly(kind), kind)
	}
	return out
}

// wait is the load of the honest clients while the others send. All messages are made, and the
// connections are there, before anything counts.
func (b besieged) wait(kinds []greedy.Kind) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (l load, err error) {
		first, err := cpuOf(b)
		if err != nil {
			return l, err
		}
		senders, err := startApart(ctx, greedy.Options{
			Members: homes(b.greedy()), Targets: homes(b.honest()), Kinds: kinds, Role: role, BytesPerSecond: greedyRate,
			SQL: "UPDATE checking SET balance = balance + 1",
		})
		if err != nil {
			return l, err
		}
		ended := false
		defer func() {
			if !ended {
				_, _, failed := senders.end()
				err = errors.Join(err, failed)
			}
		}()
		before, err := cpuOf(b)
		if err != nil {
			return l, err
		}
		walBefore, logBefore, err := b.logged()
		if err != nil {
			return l, err
		}
		if err := senders.begin(); err != nil {
			return l, err
		}
		if l, err = b.honest().wait(b.cfg, honestClients)(ctx, repetition); err != nil {
			return l, err
		}
		after, err := cpuOf(b)
		if err != nil {
			return l, err
		}
		wal, log, err := b.logged()
		if err != nil {
			return l, err
		}
		ended = true
		counts, sent, err := senders.end()
		if err != nil {
			return l, err
		}
		l.led.used = before.less(first)
		used, seconds := after.less(before), l.took.Seconds()
		l.more = map[string]float64{
			oneNode: used.nodes.Seconds() / seconds / honestOnes, oneDatabase: used.databases.Seconds() / seconds / honestOnes, ofSenders: sent.Seconds() / seconds,
			oneWAL: (wal - walBefore) / seconds / honestOnes, oneLog: (log - logBefore) / seconds / honestOnes,
		}
		for kind, c := range counts {
			l.more[string(kind)+"_messages"], l.more[string(kind)+"_mib"] = float64(c.Messages), float64(c.Bytes)/(1<<20)
			l.more[string(kind)+"_disconnected"] = float64(c.Disconnected)
		}
		return l, nil
	}
}

func homes(of members) (out []config.Home) {
	for _, o := range of {
		out = append(out, config.Home(o.Home()))
	}
	return out
}

// greedyFigures set each sample with greedy members beside that of the same repetition with nobody
// greedy.
func greedyFigures(r *report.Report) error {
	quiet := r.Find(modest, 0)
	if quiet == nil {
		return nil
	}
	names := map[string]string{"all": greedyAll}
	for _, kind := range greedy.Kinds {
		names[string(kind)] = greedyOnly(kind)
	}
	for _, id := range slices.Sorted(maps.Keys(names)) {
		s := r.Find(names[id], 0)
		if s == nil {
			continue
		}
		extra := func(detail string) []float64 {
			out := make([]float64, len(s.Samples))
			for i, busy := range s.Samples {
				rest := quiet.Samples[i]
				out[i] = (busy.Detail[detail] - rest.Detail[detail]*busy.Value/rest.Value) / 3
			}
			return out
		}
		most := report.Target{}
		if id == "all" {
			most = report.AtMost(1.2)
		}
		for _, err := range []error{
			r.AddFigure("greedy."+id+"_extra", extra(oneNode), "processors", report.AtMost(0.1), names[id]+": processors of one honest node for one greedy member, beyond those that its transactions take when nobody is greedy"),
			r.AddFigure("greedy."+id+"_consensus_log", extra(oneWAL), "B/s", report.Target{}, names[id]+": the same of bytes of CometBFT's log of its consensus"),
			r.AddFigure("greedy."+id+"_log", extra(oneLog), "B/s", report.Target{}, names[id]+": the same of bytes of the node's log"),
			r.AddFigure("greedy."+id+"_senders", s.Details(ofSenders), "processors", report.Target{}, names[id]+": processors of those who send, which take what is left of this machine"),
			r.AddRatio("greedy."+id+"_p50", s.Details("p50_ms"), quiet.Details("p50_ms"), most, names[id]+": median of honest clients that wait / when nobody is greedy"),
			r.AddRatio("greedy."+id+"_p99", s.Details("p99_ms"), quiet.Details("p99_ms"), report.Target{}, names[id]+": the same, 99th percentile"),
			r.AddRatio("greedy."+id+"_rate", s.Values(), quiet.Values(), report.Target{}, names[id]+": rate of honest clients that wait / when nobody is greedy"),
		} {
			if err != nil {
				return err
			}
		}
	}
	return nil
}
