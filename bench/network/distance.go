package network

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
)

// The systems of distances; a series' point is the distance in milliseconds.
const (
	distantOne   = "4 organisations at a distance, one client that waits"
	distantMany  = "4 organisations at a distance, 32 clients that wait"
	distantFlood = "4 organisations at a distance, clients that do not wait"
)

// distances are from each organisation to each other one, one way.
var distances = []time.Duration{time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond}

// distantInFlight bundles of a client have no outcome: a block takes longer at a distance, and
// clients must not wait for it.
const distantInFlight = 4 * inFlight

// distant is a network whose organisations are at a distance from each other.
type distant struct {
	*ours
	oneWay time.Duration
}

func (d *distant) start(ctx context.Context) error {
	d.net.SetDistance(d.oneWay)
	return d.ours.start(ctx)
}

// Distance measures four organisations at growing distances, and adds series and figures.
func Distance(ctx context.Context, cfg Config, r *report.Report) (err error) {
	cfg.distant = true
	net, err := openNetwork(ctx, cfg, "distant", settings, []string{"acme", "bolt", "cargo", "delta"})
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
	systems := distantSystems(cfg, &ours{net, cfg, config.Balanced, bankTables()})
	for repetition := 1; repetition <= cfg.Repeat; repetition++ {
		if err := repeat(ctx, cfg, repetition, systems, r); err != nil {
			return err
		}
	}
	return errors.Join(machine.NoteDisk(r, net.Dir), distanceFigures(r))
}

func distantSystems(cfg Config, o *ours) (out []system) {
	at := o.members()[0]
	for _, oneWay := range distances {
		up, point := &distant{o, oneWay}, float64(oneWay.Milliseconds())
		for _, s := range []system{
			{distantOne, point, up, o.wait(1)},
			{distantMany, point, up, o.wait(many)},
			{distantFlood, point, up, o.members().flooded(cfg, pace{bundle, distantInFlight}, cfg.uniform)},
		} {
			s.load = phased(at, s.load)
			if cfg.wants(s.name) {
				out = append(out, s)
			}
		}
	}
	return out
}

// distanceFigures say what clients see, and how much pipelined blocks could gain at most. A block's
// cycle is three messages one after the other: proposal, prevote and precommit. The execution
// stands beside the second. A block that waits for no votes takes the longer one of its messages
// and of what the database does. The shortest cycle at the distance stands for the messages.
func distanceFigures(r *report.Report) error {
	for _, oneWay := range distances {
		point, name := float64(oneWay.Milliseconds()), fmt.Sprint(oneWay.Milliseconds())
		one, several, flood := r.Find(distantOne, point), r.Find(distantMany, point), r.Find(distantFlood, point)
		if one == nil || several == nil || flood == nil {
			continue
		}
		at := fmt.Sprintf("four organisations, %v from each other one way", oneWay)
		cycle, executes, commits, messages := flood.Details(blockCycle), flood.Details("execution"), flood.Details("commit"), several.Details(blockCycle)
		saves := make([]float64, len(cycle))
		for i := range cycle {
			saves[i] = max(1, cycle[i]/max(messages[i], executes[i]+commits[i]))
		}
		for _, err := range []error{
			r.AddFigure("distance.median_"+name, one.Details("p50_ms"), "ms", report.Target{}, at+": one client that waits for each answer, median"),
			r.AddFigure("distance.waiting_"+name, several.Values(), "tx/s", report.Target{}, at+": 32 clients that wait"),
			r.AddFigure("distance.flood_"+name, flood.Values(), "tx/s", report.Target{}, at+": clients that do not wait"),
			r.AddFigure("distance.cycle_"+name, cycle, "ms", report.Target{}, at+": from one block to the next, where clients do not wait"),
			r.AddFigure("distance.pipelined_at_most_"+name, saves, "ratio", report.Target{}, at+": that cycle / the longer one of a block's messages alone and of its execution and COMMIT: what blocks could gain that wait for no votes"),
		} {
			if err != nil {
				return err
			}
		}
	}
	near, far := r.Find(distantFlood, float64(distances[0].Milliseconds())), r.Find(distantFlood, float64(distances[len(distances)-1].Milliseconds()))
	if near == nil || far == nil {
		return nil
	}
	return r.AddRatio("distance.flood_far_over_near", far.Values(), near.Values(), report.Target{}, "clients that do not wait: the longest distance / the shortest")
}
