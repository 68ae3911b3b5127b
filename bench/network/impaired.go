package network

import (
	"context"
	"errors"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// impaired is a network of which the last organisation is dead or slow while the others' clients
// submit.
type impaired struct {
	*ours
	// impair begins it once all nodes serve; what it returns ends it.
	impair func(last *harness.Organisation) (end func() error, err error)
	end    func() error
}

func (i *impaired) well() members {
	all := i.members()
	return all[:len(all)-1]
}

func (i *impaired) last() *harness.Organisation { return i.members()[len(i.members())-1] }

func (i *impaired) start(ctx context.Context) error {
	if err := i.ours.start(ctx); err != nil {
		return err
	}
	var err error
	i.end, err = i.impair(i.last())
	return err
}

// stop waits until the last organisation has caught up: its work is no other measurement's.
func (i *impaired) stop() error {
	ctx := context.Background()
	if err := i.end(); err != nil {
		return err
	}
	if err := i.last().WaitServing(ctx, readyLimit); err != nil {
		return err
	}
	tip, err := i.members()[0].Tip(ctx)
	if err != nil {
		return err
	}
	_, err = harness.WaitSame(ctx, i.members(), tip.Number, doneLimit)
	return errors.Join(err, i.ours.stop())
}

// nodes are those of the well: of a dead one there is no processor time to read.
func (i *impaired) nodes() []int { return i.ours.nodes()[:len(i.well())] }

func (i *impaired) databases() []int { return postmasters(i.well()) }

// dead kills the node; its database has nothing to do then.
func dead(last *harness.Organisation) (end func() error, err error) {
	last.KillNode()
	return last.StartNode, nil
}

// A slow database runs for a quarter of the time.
const (
	slowRuns  = 50 * time.Millisecond
	slowWaits = 150 * time.Millisecond
)

// slow lets all processes of the organisation's PostgreSQL run and stand still by turns. The others
// may use the rest of the cores.
func slow(last *harness.Organisation) (end func() error, err error) {
	ended, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- turns(last.Cluster, ended) }()
	return func() error {
		close(ended)
		return <-done
	}, nil
}

func turns(c *harness.Cluster, ended <-chan struct{}) error {
	for {
		if err := c.Pause(); err != nil {
			return errors.Join(err, c.Resume())
		}
		time.Sleep(slowWaits)
		if err := c.Resume(); err != nil {
			return err
		}
		select {
		case <-ended:
			return nil
		case <-time.After(slowRuns):
		}
	}
}
