package gateway

import (
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

const (
	retryFirst     = 10 * time.Millisecond // back-off of a bundle the mempool has no room for, doubling
	retryMax       = time.Second
	rebroadcastMax = time.Minute

	// While bundles are on their way, the next one gathers for this part of the time that ordering
	// the last one took, at most so many times the delay set.
	gatherPart = 8
	gatherMost = 10
)

// bundle is a bundle that the gateway has submitted, or will submit, to the order.
type bundle struct {
	ordered   []byte             // the encoded OrderedTx, the same bytes at each try, unless the gateway key is replaced meanwhile
	key       *ed25519.PublicKey // of its signature; nil: it has none yet
	made      time.Time
	entries   []*entry
	unordered int  // of entries; 0: done with
	entered   bool // the mempool took it once
	next      time.Time
	pause     time.Duration
}

// Run broadcasts bundles until ctx ends, and looks up outcomes that the database has. It returns
// ctx's error.
func (g *Gateway) Run(ctx context.Context) error {
	var lookUp sync.WaitGroup
	lookUp.Go(func() { g.lookUp(ctx) })
	defer lookUp.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := g.step(ctx)
		wait := time.Hour
		if !next.IsZero() {
			wait = max(next.Sub(g.opt.Now()), 0)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.wake:
		case <-timer.C:
		}
	}
}

// step broadcasts whatever is due now and returns when the next thing is due; zero: when something
// happens.
func (g *Gateway) step(ctx context.Context) time.Time {
	for ctx.Err() == nil {
		b, next := g.dueBundle()
		if b == nil {
			return next
		}
		g.broadcast(ctx, b)
	}
	return time.Time{}
}

// dueBundle picks, in this order: the bundle the mempool had no room for, a bundle that waits for
// the order for too long, a new one. While the mempool has no room it makes no new one: the queue
// then says so to the clients.
func (g *Gateway) dueBundle() (*bundle, time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.opt.Now()
	if b := g.retry; b != nil {
		if now.Before(b.next) {
			return nil, b.next
		}
		return b, time.Time{}
	}
	var next time.Time
	for _, b := range g.inFlight {
		if !now.Before(b.next) {
			return b, time.Time{}
		}
		next = earlier(next, b.next)
	}
	due, at := g.bundleDue(now)
	if !due {
		return nil, earlier(next, at)
	}
	return g.newBundle(), next
}

// bundleDue tells whether a new bundle closes now, and otherwise when it will. An idle gateway
// (nothing broadcast and not ordered) sends as soon as it has as many transactions as clients got
// an answer from the last block. These clients are about to submit their next one, and a bundle of
// the first alone would let the others wait for a block more. A lone client never waits. Under load
// transactions gather until they reach a limit.
func (g *Gateway) bundleDue(now time.Time) (bool, time.Time) {
	if g.queue.count == 0 {
		return false, time.Time{}
	}
	l := g.opt.Limits
	idle := len(g.inFlight) == 0 && g.queue.count >= g.answered
	if idle || g.queue.count >= l.BundleTransactions || g.queue.bytes >= l.BundleBytes {
		return true, time.Time{}
	}
	at := g.queue.oldest().Add(g.bundleDelay())
	return !now.Before(at), at
}

// bundleDelay grows with the load. A bundle costs every node a signature and what a mempool does,
// however few transactions are in it. Where a block takes long, many small bundles do not bring
// transactions into it sooner.
func (g *Gateway) bundleDelay() time.Duration {
	delay := g.opt.Limits.BundleDelay
	if len(g.inFlight) == 0 {
		return delay
	}
	return min(max(delay, g.orderTook/gatherPart), gatherMost*delay)
}

// patience is how long the gateway gathers signatures of clients to verify them together: while the
// next bundle gathers anyway.
func (g *Gateway) patience() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.inFlight) == 0 {
		return 0
	}
	return g.bundleDelay() / 2
}

// newBundle packs and encodes. It cannot fail, because submissions are checked to be UTF-8.
// It returns nil when everything queued has its outcome already, or when as much is on its way as a
// block accepts.
func (g *Gateway) newBundle() *bundle {
	if g.opt.Key() == nil {
		return nil // they wait until they expire
	}
	room, ofRole := g.flight.room(g.opt.Shares())
	var entries []*entry
	for len(entries) == 0 {
		entries = g.queue.take(min(g.opt.Limits.BundleTransactions, room), g.opt.Limits.BundleBytes, g.opt.BlockKeys(), ofRole)
		if len(entries) == 0 {
			return nil
		}
		entries = g.dropStale(entries)
	}
	txs := make([]*wire.ChainedTx, len(entries))
	for i, e := range entries {
		txs[i] = e.tx
	}
	g.sequence++
	message := &wire.Bundle{
		ChainId: g.opt.ChainID, Organisation: g.opt.Organisation, Sequence: g.sequence, Transactions: txs,
	}
	b := &bundle{ordered: wire.EncodeBundle(message), made: g.opt.Now(), entries: entries, unordered: len(entries)}
	for _, e := range entries {
		g.flight.enter(e)
		e.bundle, e.tx = b, nil
	}
	g.stats.Bundles++
	if g.opt.Watch != nil {
		g.opt.Watch.Bundled(len(entries), len(b.ordered))
	}
	return b
}

// broadcast signs a bundle and offers it to the mempool, outside the lock: CheckTx verifies a
// signature, and a key may be in another process.
func (g *Gateway) broadcast(ctx context.Context, b *bundle) {
	ordered, key, err := g.signed(b)
	if err == nil {
		err = g.opt.Broadcaster.Broadcast(ctx, ordered)
	} else {
		g.opt.Log.Warn("cannot sign: transactions wait", "transactions", len(b.entries), "error", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.dropDone()
	if key != b.key {
		return // signed again meanwhile, and due at once
	}
	now := g.opt.Now()
	var rejected *RejectedError
	switch {
	case err == nil, errors.Is(err, ErrKnown):
		if g.retry == b {
			g.retry = nil
		}
		b.entered = true
		b.pause = min(max(2*b.pause, g.opt.Limits.Rebroadcast), rebroadcastMax)
	case errors.As(err, &rejected) && g.renew(b):
		return // signed with a key that was replaced a moment ago
	case errors.As(err, &rejected) && b.entered:
		// Refused as a replay, most likely: it is in a block of which Decided has not told yet.
		// Expiry decides (G2).
		g.retry = nil
		b.pause = min(max(2*b.pause, g.opt.Limits.Rebroadcast), rebroadcastMax)
	case errors.As(err, &rejected):
		if g.retry == b {
			g.retry = nil
		}
		g.refuse(b, rejected)
	default: // no room, or the node is not ready: it stays ours until it is in a block or expires
		if g.retry != b {
			b.pause = 0
		}
		g.retry = b
		b.pause = min(max(2*b.pause, retryFirst), retryMax)
		g.opt.Log.Debug("bundle waits for room", "transactions", b.unordered, "err", err)
	}
	b.next = now.Add(b.pause)
}

// signAgain signs the bundles on their way with the gateway key that counts now, when it is another
// one: the order takes them no more as they are. g.mu is held.
func (g *Gateway) signAgain() {
	for _, b := range g.inFlight {
		g.renew(b)
	}
}

// renew has a bundle signed anew when the key that counts now is another one, and reports whether
// it is; the bundle is due at once. g.mu is held.
func (g *Gateway) renew(b *bundle) bool {
	key := g.opt.Key()
	if key == nil || b.key == nil || b.key.Equal(key.Public()) {
		return false
	}
	b.key = nil
	b.entered, b.next, b.pause = false, time.Time{}, 0
	return true
}

// signed is the bundle with its signature, by the key that counts where it has none yet.
func (g *Gateway) signed(b *bundle) (ordered []byte, key *ed25519.PublicKey, err error) {
	ordered, key = g.enterFlight(b)
	if key != nil {
		return ordered, key, nil
	}
	by := g.opt.Key()
	if by == nil {
		return nil, nil, errors.New("no gateway key of this node counts")
	}
	if ordered, err = wire.SignEncoded(by, g.opt.ChainID, ordered); err != nil {
		return nil, nil, err
	}
	public := by.Public().(ed25519.PublicKey)
	g.mu.Lock()
	defer g.mu.Unlock()
	b.ordered, b.key = ordered, &public
	return ordered, b.key, nil
}

// enterFlight lists the bundle before it is offered: it may be ordered before Broadcast returns.
func (g *Gateway) enterFlight(b *bundle) (ordered []byte, key *ed25519.PublicKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.inFlight, b) {
		g.inFlight = append(g.inFlight, b)
	}
	return b.ordered, b.key
}

// refuse gives the outcome "refused" to a bundle's transactions that are in no block.
func (g *Gateway) refuse(b *bundle, why *RejectedError) {
	if b.unordered > 0 {
		g.opt.Log.Warn("the order refused a bundle", "transactions", b.unordered, "code", why.Code, "log", why.Log)
	}
	for _, e := range b.entries {
		if !e.ordered && !e.settled {
			g.settle(wire.TxResult{ID: e.id, SQLState: StateRefused, Message: "the order refused the transaction: " + why.Log})
		}
	}
}

// dropDone forgets bundles whose transactions are all ordered or refused.
func (g *Gateway) dropDone() {
	kept := g.inFlight[:0]
	for _, b := range g.inFlight {
		if b.unordered > 0 {
			kept = append(kept, b)
		}
	}
	clear(g.inFlight[len(kept):])
	g.inFlight = kept
	if g.retry != nil && g.retry.unordered == 0 {
		g.retry = nil
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
