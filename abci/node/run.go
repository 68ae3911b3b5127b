package node

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet"
)

// running owns the goroutines of a node's parts. Each part is waited for.
type running struct {
	// parts are all but the effect consensus, which lasts until CometBFT has stopped: CometBFT may
	// still wait for a vote of it.
	parts, effects       *errgroup.Group
	inner, lasting       context.Context
	endParts, endEffects context.CancelFunc
}

func newRunning(ctx context.Context) *running {
	r := &running{}
	lasting, endEffects := context.WithCancel(context.WithoutCancel(ctx))
	r.effects, r.lasting = errgroup.WithContext(lasting)
	inner, endParts := context.WithCancel(r.lasting)
	r.parts, r.inner = errgroup.WithContext(inner)
	r.endParts, r.endEffects = endParts, endEffects
	return r
}

// order is how the parts of the order run.
func (r *running) order() comet.Parts {
	return comet.Parts{
		Run: func(part func(context.Context)) {
			r.parts.Go(func() error { part(r.inner); return nil })
		},
		Lasting: r.lasting,
	}
}

// run starts everything, waits until ctx ends or a part fails, and stops everything.
func (n *node) run(ctx context.Context, d *doors) error {
	r := newRunning(ctx)
	err := n.start(r, d)
	if err == nil {
		err = n.wait(ctx, r)
	}
	return errors.Join(err, n.stop(r))
}

// start starts the effect consensus, the doors, the gateway and, last, CometBFT.
func (n *node) start(r *running, d *doors) error {
	r.effects.Go(func() error { return n.effects.Run(r.lasting) })
	r.parts.Go(func() error { return d.socket.Serve(r.inner) })
	if d.http != nil {
		r.parts.Go(func() error { return d.api.Serve(r.inner, d.http) })
	}
	if d.metrics != nil {
		r.parts.Go(func() error { return n.metrics.Serve(r.inner, d.metrics, n.log.With("part", "metrics")) })
	}
	if d.explorer != nil {
		r.parts.Go(func() error { return d.explorer.serve(r.inner) })
	}
	r.parts.Go(func() error { return n.gateway.Run(r.inner) })
	r.parts.Go(func() error {
		select {
		case <-r.inner.Done():
			return nil
		case why := <-n.failed:
			return fmt.Errorf("%w: %s", ErrConsensusFailed, why)
		}
	})
	anchored, err := n.anchor()
	var archived *archiving
	if err == nil {
		archived, err = n.archiving()
	}
	if err == nil {
		err = n.order.Start(r.order())
	}
	if err != nil {
		return err
	}
	if m, ok := n.backend.(backend.Maintainer); ok {
		r.parts.Go(func() error { m.Maintain(r.inner, n.log.With("part", "scrubber")); return nil })
	}
	if plans := n.plans(); plans != nil {
		r.parts.Go(func() error { plans.Run(r.inner); return nil })
	}
	r.parts.Go(func() error { n.private.Run(r.inner); return nil })
	if desk := n.desk(); desk != nil {
		r.parts.Go(func() error { desk.Run(r.inner); return nil })
	}
	if anchored != nil {
		r.parts.Go(func() error { anchored.Run(r.inner); return nil })
	}
	if archived != nil {
		r.parts.Go(func() error { archived.run(r.inner); return nil })
	}
	return nil
}

// wait says that the node runs, and waits. When ctx ends, or the program is too old, it refuses new
// transactions and lets the open block finish.
func (n *node) wait(ctx context.Context, r *running) error {
	n.log.Info("node runs", "organisation", n.opt.Config.Organisation, "chain", n.founded.ChainID(),
		"socket", n.opt.Home.Path(n.opt.Config.Clients.Socket), "http", n.opt.Config.HTTP.Listen, "explorer", n.opt.Config.Explorer.Listen, "height", n.height.Load())
	if n.opt.Ready != nil {
		n.opt.Ready()
	}
	select {
	case <-ctx.Done():
		n.log.Info("node stops")
		n.gateway.Close()
		n.settle(r.inner)
	case err := <-n.newer:
		n.log.Error("node stops: " + err.Error())
		n.gateway.Close()
		n.settle(r.inner)
		return err
	case <-r.inner.Done():
		n.log.Error("a part of the node failed; the node stops")
	}
	return nil
}
