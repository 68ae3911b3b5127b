package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	bytesMax    = 1_000_000   // of a block's transactions, which are one bundle
	wrapped     = 150         // bytes of a transaction around its write set, at most
	cutAfter    = time.Second // a block is cut then, however few wait (dissertation, table 3.6)
	blocksQueue = 4           // blocks' worth of transactions that wait to be cut; further ones are dropped
	ownPace     = 0           // in the place of a block's size: each transaction is submitted at once
	ownQueue    = 4096        // of one organisation at its own pace
	ownFlights  = 16          // submissions of one organisation without outcomes, at its own pace
	outcomeIn   = 2 * time.Minute
)

// order hands fired transactions to the nodes and counts their ends: in blocks as Fabric's ordering
// service cuts them, all to the first node, or at once, each to its organisation's.
type order struct {
	nodes  []*gateway.Client // by organisation
	size   int               // of a block; ownPace: no blocks are cut
	role   string
	meter  *meter
	queues []chan *wire.Statement // one where blocks are cut, else one for each organisation
}

func newOrder(nodes []*gateway.Client, role string, size int, m *meter) *order {
	o := &order{nodes: nodes, size: size, role: role, meter: m}
	if size > 0 {
		o.queues = []chan *wire.Statement{make(chan *wire.Statement, blocksQueue*size)}
		return o
	}
	for range nodes {
		o.queues = append(o.queues, make(chan *wire.Statement, ownQueue))
	}
	return o
}

// take queues a transaction, or drops it. Not to be called any more once end is.
func (o *order) take(of int, s *wire.Statement) {
	select {
	case o.queues[of%len(o.queues)] <- s:
	default:
		o.meter.end(time.Now(), dropped, 1)
	}
}

// end says that no more come: run returns when all have their outcome.
func (o *order) end() {
	for _, queue := range o.queues {
		close(queue)
	}
}

func (o *order) run(ctx context.Context) error {
	if o.size > 0 {
		return o.cutBlocks(ctx)
	}
	group, ctx := errgroup.WithContext(ctx)
	for of, queue := range o.queues {
		group.Go(func() error { return o.atOnce(ctx, of, queue) })
	}
	return group.Wait()
}

// cutBlocks cuts one block after the other. The next one is cut when the outcomes of the last are
// known, so that no two become one.
func (o *order) cutBlocks(ctx context.Context) error {
	for {
		block, more := o.cut(ctx)
		if len(block) > 0 {
			if err := o.submit(ctx, 0, block); err != nil {
				return err
			}
		}
		if !more {
			return ctx.Err()
		}
	}
}

// cut takes a block of the size, or what there is after a second or of a bundle's bytes.
func (o *order) cut(ctx context.Context) (block []*wire.Statement, more bool) {
	timer := time.NewTimer(cutAfter)
	defer timer.Stop()
	for bytes := 0; len(block) < o.size && bytes < bytesMax; {
		select {
		case s, more := <-o.queues[0]:
			if !more {
				return block, false
			}
			block = append(block, s)
			bytes += len(s.Effects) + wrapped
		case <-timer.C:
			return block, true
		case <-ctx.Done():
			return nil, false
		}
	}
	return block, true
}

// atOnce submits what there is of one organisation, over and over.
func (o *order) atOnce(ctx context.Context, of int, queue chan *wire.Statement) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(ownFlights)
	for first := range queue {
		statements := []*wire.Statement{first}
		for len(queue) > 0 {
			statements = append(statements, <-queue)
		}
		group.Go(func() error { return o.submit(ctx, of, statements) })
	}
	return group.Wait()
}

// submit submits some transactions of an organisation and waits for their outcomes.
func (o *order) submit(ctx context.Context, of int, statements []*wire.Statement) error {
	ids, err := o.nodes[of].Submit(ctx, o.role, statements...)
	var refused *gateway.Error
	if errors.As(err, &refused) && refused.SQLState == gateway.StateStale {
		o.meter.end(time.Now(), early, len(statements))
		return nil
	}
	if errors.As(err, &refused) && refused.SQLState == full {
		o.meter.end(time.Now(), dropped, len(statements))
		return nil
	}
	if err != nil {
		return fmt.Errorf("submit %d transactions: %w", len(statements), err)
	}
	for part := range slices.Chunk(ids, waitsAtOnce) {
		outcomes, err := o.nodes[of].Wait(ctx, uint32(outcomeIn.Milliseconds()), part...)
		if err != nil {
			return fmt.Errorf("wait for %d outcomes: %w", len(part), err)
		}
		if len(outcomes) != len(part) {
			return fmt.Errorf("%d of %d transactions have an outcome after %s", len(outcomes), len(part), outcomeIn)
		}
		at := time.Now()
		for _, outcome := range outcomes {
			o.meter.outcome(at, outcome)
		}
	}
	return nil
}

const (
	full        = "53400" // the node has no room
	waitsAtOnce = 1000
)
