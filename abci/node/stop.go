package node

import (
	"context"
	"errors"
	"time"
)

// stop ends the parts and waits for each. The doors end first, then CometBFT, which may still wait
// for a vote of the effect consensus. That consensus ends last, and rolls back what is open.
func (n *node) stop(r *running) error {
	defer r.endEffects()
	r.endParts()
	err := errors.Join(clean(r.parts.Wait()), n.order.Stop())
	r.endEffects()
	return errors.Join(err, clean(r.effects.Wait()))
}

// settle waits, bounded, until the database has committed what is ordered, so that waiting clients
// get their answer.
func (n *node) settle(ctx context.Context) {
	if n.backend == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for {
		s := n.effects.Status()
		if s.LastCommitted >= n.app.LastOrdered() || (s.State != "serving" && s.State != "executing") {
			return
		}
		select {
		case <-ctx.Done():
			n.log.Warn("a block is still open at the end and is rolled back; it is executed again at the next start",
				"ordered", n.app.LastOrdered(), "committed", s.LastCommitted)
			return
		case <-tick.C:
		}
	}
}

// close closes what assemble opened, however far it came.
func (n *node) close() error {
	var errs []error
	if n.order != nil {
		n.order.Close()
	}
	if n.keys != nil {
		errs = append(errs, n.keys.Close())
	}
	if n.backend != nil {
		errs = append(errs, n.backend.Close())
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}

// clean drops the error of a part that ended because it was told to.
func clean(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
