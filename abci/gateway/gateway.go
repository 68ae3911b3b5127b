// Package gateway is the door of an organisation's node. It takes statements from the
// organisation's own clients and makes them transactions. It packs what arrives within a few
// milliseconds into signed bundles and hands these to the order. It answers the clients when their
// organisation's database has committed the outcome.
//
// Invariants:
//
//   - G1: An accepted transaction is never lost silently while the node runs. It gets the outcome
//     of its block, or a refusal once no block can hold it any more.
//   - G2: A transaction gets the outcome "refused" only when no block holds it.
//   - G3: The number of transactions without outcome, their bytes, kept outcomes, waits and
//     connections are bounded.
//   - G4: The gateway refuses a transaction for a changed row only when the order would refuse it
//     too, after all decided blocks.
//
// It keeps nothing on disk. After a restart, transactions that were accepted and not yet ordered
// may still get into a block through another node that had received them. Then "wait" finds the
// outcome in the database as soon as there is one.
package gateway

import (
	"context"
	"crypto"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/fair"
	"github.com/chainify-db/chainify/abci/wire"
)

// ErrFull is the error that a Broadcaster wraps when the mempool has no room. The gateway offers
// the bundle again later.
var ErrFull = errors.New("mempool is full")

// ErrKnown is the error that a Broadcaster wraps when the mempool holds or held the bundle already.
var ErrKnown = errors.New("bundle is known to the mempool")

// RejectedError says that the order's CheckTx refused a bundle: it cannot be ordered.
type RejectedError struct {
	Code uint32
	Log  string
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("bundle refused with code %d: %s", e.Code, e.Log)
}

// Broadcaster hands an encoded OrderedTx to the order. nil means that it is in the mempool.
type Broadcaster interface {
	Broadcast(ctx context.Context, ordered []byte) error
}

// Outcomes finds outcomes that are in the database but no longer in memory.
type Outcomes interface {
	// Outcomes gives those that are there, in any order.
	Outcomes(ctx context.Context, ids []wire.TxID) ([]wire.TxResult, error)
}

// Watch receives the gateway's events, for metrics. The gateway calls it under its lock: its
// methods must not wait, nor call the gateway.
type Watch interface {
	// Bundled: a bundle was made.
	Bundled(transactions, bytes int)
	// Ordered: a transaction came into a block so long after the gateway accepted it.
	Ordered(after time.Duration)
	// Settled: a transaction had its outcome so long after the gateway accepted it.
	Settled(after time.Duration, r wire.TxResult)
}

// Limits bound and tune a gateway. Zero fields take their defaults (DefaultLimits).
type Limits struct {
	PendingMax         int           // transactions accepted and without outcome
	PendingBytesMax    int           // bytes of those not ordered yet
	BundleTransactions int           // a bundle closes at this many transactions,
	BundleBytes        int           // at this many bytes,
	BundleDelay        time.Duration // or when its oldest transaction waited this long; earlier when the gateway is idle, up to 10 times as long where blocks take long
	ValidityBlocks     uint64        // valid_until_height = height + this; at most 2,000 by spec/formats.md
	StallAfter         time.Duration // no block for this long while bundles wait: the node cannot order
	OutcomesKept       int           // outcomes remembered for late waits, at most
	WaitsMax           int           // concurrent waits
	Rebroadcast        time.Duration // a bundle not ordered for this long is offered to the mempool again
	ClientRate         float64       // transactions a second of one client; 0: as many as it can
	ClientBurst        int           // transactions at once after a pause, where ClientRate limits
}

// DefaultLimits are the values of a fresh chainify.toml.
func DefaultLimits() Limits {
	return Limits{
		PendingMax: 50_000, PendingBytesMax: 64 << 20,
		BundleTransactions: 1_000, BundleBytes: 512 << 10, BundleDelay: 5 * time.Millisecond,
		ValidityBlocks: 1_000, StallAfter: 3 * time.Second, OutcomesKept: 100_000, WaitsMax: 10_000,
		Rebroadcast: 5 * time.Second, ClientBurst: 1_000,
	}
}

// Options configures a Gateway.
type Options struct {
	ChainID      string
	Organisation string
	// Key gives the gateway key that counts for the organisation now; nil: none, and nothing is
	// submitted here.
	Key func() crypto.Signer
	// ClientRole gives the role that a client's key is registered for. nil: no key is.
	ClientRole func(key []byte) (string, bool)
	// Suspended gives until when the order refuses what a client of the organisation submits, who
	// signs itself or has no key. nil: never.
	Suspended func(role string, key []byte) time.Time
	// Refused says why no organisation will run a text, or gives nil. nil: texts are not judged.
	Refused func(kind wire.Kind, text string) *Error
	// Shares gives how many transactions of a client and of the organisation a block accepts; 0: as
	// many as it holds. nil: both.
	Shares func() (client, organisation int)
	// BlockKeys gives how many rows the EFFECTS transactions of a block name at most; 0: as many as
	// it holds. nil: that.
	BlockKeys func() int
	// OrderingOnly tells that the organisation has no database. nil: it has one.
	OrderingOnly func() bool
	Limits       Limits
	Height       int64 // height of the last decided block at start
	Broadcaster  Broadcaster
	Outcomes     Outcomes    // nil: this organisation's node has no database
	Agreements   *Agreements // nil: nobody is asked to agree
	Private      Private     // nil: this node takes no private values
	CatchingUp   func() bool // the node does not take part in consensus yet
	Watch        Watch       // nil: nobody measures
	Log          *slog.Logger
	Now          func() time.Time // nil: time.Now
}

// Gateway is safe for concurrent use. Run must be running for anything to be broadcast.
type Gateway struct {
	opt        Options
	rates      *rates
	signatures signatures
	waitShares *fair.Shares[string] // of waits, by client
	idShares   *fair.Shares[string] // of ids waited for
	deliveries *fair.Shares[string] // of submissions with private values under way, by role
	wake       chan struct{}        // buffered by one: there is something to do

	mu       sync.Mutex
	closed   bool
	nonce    uint64
	sequence uint64
	height   int64
	// lastBlock is when the last block was decided, or when transactions began to wait if that is
	// later.
	lastBlock time.Time
	entries   map[wire.TxID]*entry
	queue     *fairQueue
	// byExpiry holds entries in the order of acceptance, hence, but for the seconds that asking for
	// agreement takes, of valid_until_height; settled ones are dropped late.
	byExpiry []*entry
	// unordered and unorderedBytes count entries that are in no block yet, queued or broadcast.
	unordered      int
	unorderedBytes int
	shares         shares    // of entries
	inFlight       []*bundle // broadcast, with transactions not ordered
	flight         flight
	stale          *staleRows
	orderTook      time.Duration // from when the bundle ordered last was made until the block with it was decided
	retry          *bundle       // the mempool had no room for it
	recent         *recentOutcomes
	waiting        waiters
	waits          int
	answered       int         // waits that the last committed block answered
	lookups        []wire.TxID // ids in committed blocks whose results effects did not have
	lookupWake     chan struct{}
	stats          Stats
}

// Stats are counters since the start and current sizes.
type Stats struct {
	Accepted, Refused, Bundles uint64
	EarlyAborts                uint64 // EFFECTS transactions refused since a row that they saw had changed
	Pending, Unordered         int
	Stalled                    bool
}

// New makes a gateway. Nonces and bundle sequences start at random numbers, so that those of an
// earlier run are not used again.
func New(opt Options) (*Gateway, error) {
	if opt.Key == nil {
		return nil, errors.New("gateway: no key")
	}
	if opt.ClientRole == nil {
		opt.ClientRole = func([]byte) (string, bool) { return "", false }
	}
	if opt.Refused == nil {
		opt.Refused = func(wire.Kind, string) *Error { return nil }
	}
	if opt.Suspended == nil {
		opt.Suspended = func(string, []byte) time.Time { return time.Time{} }
	}
	if opt.Shares == nil {
		opt.Shares = func() (int, int) { return 0, 0 }
	}
	if opt.BlockKeys == nil {
		opt.BlockKeys = func() int { return 0 }
	}
	if opt.OrderingOnly == nil {
		opt.OrderingOnly = func() bool { return false }
	}
	opt.Limits = opt.Limits.withDefaults()
	if err := opt.Limits.Check(); err != nil {
		return nil, err
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.CatchingUp == nil {
		opt.CatchingUp = func() bool { return false }
	}
	rates, err := newRates(opt.Limits.ClientRate, opt.Limits.ClientBurst)
	if err != nil {
		return nil, fmt.Errorf("rates of clients: %w", err)
	}
	var seed [16]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("random nonce: %w", err)
	}
	g := &Gateway{
		opt: opt, rates: rates, waitShares: fair.New[string](opt.Limits.WaitsMax), idShares: fair.New[string](max(idsWaitedMax, opt.Limits.WaitsMax)), deliveries: fair.New[string](deliveriesMax), wake: make(chan struct{}, 1), lookupWake: make(chan struct{}, 1),
		nonce: binary.BigEndian.Uint64(seed[:8]), sequence: binary.BigEndian.Uint64(seed[8:]),
		height: opt.Height, lastBlock: opt.Now(),
		entries: map[wire.TxID]*entry{}, queue: newFairQueue(), shares: shares{}, flight: flight{roles: map[string]int{}}, stale: newStaleRows(),
		recent: newRecentOutcomes(opt.Limits.OutcomesKept), waiting: waiters{},
	}
	g.signatures = signatures{chainID: opt.ChainID, patience: g.patience}
	return g, nil
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	setDefault(&l.PendingMax, d.PendingMax)
	setDefault(&l.PendingBytesMax, d.PendingBytesMax)
	setDefault(&l.BundleTransactions, d.BundleTransactions)
	setDefault(&l.BundleBytes, d.BundleBytes)
	setDefault(&l.ValidityBlocks, d.ValidityBlocks)
	setDefault(&l.StallAfter, d.StallAfter)
	setDefault(&l.OutcomesKept, d.OutcomesKept)
	setDefault(&l.WaitsMax, d.WaitsMax)
	setDefault(&l.Rebroadcast, d.Rebroadcast)
	setDefault(&l.ClientBurst, d.ClientBurst)
	return l // BundleDelay 0 means what it says
}

func setDefault[T comparable](p *T, d T) {
	var zero T
	if *p == zero {
		*p = d
	}
}

// Check refuses limits that no gateway can work with.
func (l Limits) Check() error {
	switch {
	case l.PendingMax < 1 || l.PendingBytesMax < wire.ProposalBytesMax:
		return fmt.Errorf("pending limits are %d transactions and %d bytes, want at least 1 and %d",
			l.PendingMax, l.PendingBytesMax, wire.ProposalBytesMax)
	case l.BundleTransactions < 1 || l.BundleTransactions > wire.BundleTransactionsMax:
		return fmt.Errorf("bundle limit is %d transactions, want 1 to %d", l.BundleTransactions, wire.BundleTransactionsMax)
	case l.BundleBytes < 1 || l.BundleBytes > wire.BundleBytesMax-bundleOverhead:
		return fmt.Errorf("bundle limit is %d bytes, want 1 to %d", l.BundleBytes, wire.BundleBytesMax-bundleOverhead)
	case l.BundleDelay < 0 || l.StallAfter < 0 || l.OutcomesKept < 0 || l.WaitsMax < 0 || l.Rebroadcast < 0:
		return errors.New("gateway limits must not be negative")
	case !(l.ClientRate >= 0) || l.ClientBurst < 1:
		return fmt.Errorf("a client's rate is %g a second and %d at once, want at least 0 and 1", l.ClientRate, l.ClientBurst)
	case l.ValidityBlocks > wire.ValidityHeightsMax:
		return fmt.Errorf("validity is %d blocks, want at most %d", l.ValidityBlocks, wire.ValidityHeightsMax)
	}
	return nil
}

// Submit queues one transaction per statement, all or none, and returns their ids in the order of
// the statements. Errors are *Error with the SQLSTATEs of spec/node-socket.md. It does not wait for
// the order.
func (g *Gateway) Submit(role string, statements []*wire.Statement) ([]wire.TxID, error) {
	made, err := g.prepare(role, statements)
	if err != nil {
		return nil, err
	}
	return g.enqueue(role, made)
}

// SubmitAgreed is Submit for clients: where tables have agreement policies, those who have to agree
// are asked first. A refusal is CH009.
func (g *Gateway) SubmitAgreed(ctx context.Context, role string, statements []*wire.Statement) ([]wire.TxID, error) {
	return g.submitAgreed(ctx, atOnce, role, statements)
}

// submitAgreed queues when turn is closed.
func (g *Gateway) submitAgreed(ctx context.Context, turn <-chan struct{}, role string, statements []*wire.Statement) ([]wire.TxID, error) {
	made, err := g.prepare(role, statements)
	if err != nil {
		return nil, err
	}
	if err := g.deliver(ctx, role, made, statements); err != nil { // who is asked to agree sees the values
		return nil, err
	}
	if a := g.opt.Agreements; a != nil {
		if err := a.gather(ctx, made); err != nil {
			return nil, err
		}
	}
	<-turn
	return g.enqueue(role, made)
}

// prepare makes transactions of statements, which nothing knows of yet.
func (g *Gateway) prepare(role string, statements []*wire.Statement) ([]*entry, error) {
	if err := checkStatements(role, statements); err != nil {
		return nil, err
	}
	if g.opt.OrderingOnly() {
		return nil, ordersOnly(g.opt.Organisation)
	}
	for i, s := range statements {
		if err := g.opt.Refused(s.GetKind(), s.GetSql()); err != nil {
			return nil, ofSeveral("statements", i, len(statements), err)
		}
	}
	if err := g.checkSuspended(role, nil); err != nil {
		return nil, err
	}
	catching := g.opt.CatchingUp()
	if !catching && g.opt.Key() == nil {
		return nil, noMember(g.opt.Organisation)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.opt.Now()
	if err := g.orderable(catching, now); err != nil {
		return nil, err
	}
	return g.propose(role, statements, now)
}

// checkSuspended refuses at once what the order would refuse.
func (g *Gateway) checkSuspended(role string, key []byte) error {
	if until := g.opt.Suspended(role, key); g.opt.Now().Before(until) {
		return suspended(until)
	}
	return nil
}

// enqueue takes prepared transactions, all or none. One with a nonce of the client's own, submitted
// again, is the same transaction.
func (g *Gateway) enqueue(role string, made []*entry) ([]wire.TxID, error) {
	catching := g.opt.CatchingUp()
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.opt.Now()
	if err := g.orderable(catching, now); err != nil {
		return nil, err
	}
	if len(made) == 1 && g.submitted(made[0].id) {
		return []wire.TxID{made[0].id}, nil
	}
	return g.accept(role, made, now)
}

// accept queues transactions, all or none. g.mu is held.
func (g *Gateway) accept(role string, made []*entry, now time.Time) ([]wire.TxID, error) {
	if err := g.staleError(made); err != nil {
		return nil, err
	}
	bytes := 0
	for _, e := range made {
		bytes += e.size
	}
	if err := g.room(role, len(made), bytes); err != nil {
		return nil, err
	}
	ids := make([]wire.TxID, len(made))
	for i, e := range made {
		ids[i] = e.id
		g.entries[e.id] = e
		g.queue.push(e)
		g.shares.accepted(e)
		g.keepByExpiry(e)
	}
	if g.unordered == 0 && g.lastBlock.Before(now) {
		g.lastBlock = now // a quiet network makes no blocks: the wait for one begins now
	}
	g.unordered += len(made)
	g.unorderedBytes += bytes
	g.stats.Accepted += uint64(len(made))
	signal(g.wake)
	return ids, nil
}

// orderable says why a transaction cannot be taken now, or nil. "Cannot order" means precisely: the
// node does not take part in consensus yet, or transactions wait and no block was decided for
// StallAfter.
func (g *Gateway) orderable(catching bool, now time.Time) error {
	switch {
	case g.closed:
		return stopping()
	case catching:
		return catchingUp()
	case g.isStalled(now):
		return stalled(now.Sub(g.lastBlock))
	}
	return nil
}

func (g *Gateway) isStalled(now time.Time) bool {
	return g.unordered > 0 && now.Sub(g.lastBlock) > g.opt.Limits.StallAfter
}

// Decided tells the gateway what a decided block did: its height and the ids it ordered (of any
// organisation). It must be called for every height, in order, before the outcomes of that block
// arrive.
func (g *Gateway) Decided(height int64, ordered []wire.TxID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.height, g.lastBlock = height, g.opt.Now()
	for _, id := range ordered {
		if e := g.entries[id]; e != nil && !e.ordered {
			g.markOrdered(e)
		}
	}
	g.expire()
	g.dropDone()
	g.signAgain()
	signal(g.wake)
}

func (g *Gateway) markOrdered(e *entry) {
	e.ordered, e.orderedAt = true, g.opt.Now()
	if e.bundle != nil {
		g.orderTook = e.orderedAt.Sub(e.bundle.made)
	}
	g.leaveUnordered(e)
	if g.opt.Watch != nil {
		g.opt.Watch.Ordered(e.orderedAt.Sub(e.queuedAt))
	}
}

func (g *Gateway) leaveUnordered(e *entry) {
	g.unordered--
	g.unorderedBytes -= e.size
	g.shares.leftUnordered(e)
	g.flight.leave(e)
	if e.bundle != nil {
		e.bundle.unordered--
	}
	e.tx = nil
}

// expire refuses what no block can hold any more: the next block's height is beyond
// valid_until_height (G2).
func (g *Gateway) expire() {
	for len(g.byExpiry) > 0 {
		e := g.byExpiry[0]
		if !e.ordered && !e.settled {
			if e.validUntil > uint64(g.height) {
				return
			}
			g.settle(expired(e.id, e.validUntil))
		}
		g.byExpiry[0] = nil
		g.byExpiry = g.byExpiry[1:]
	}
}

// Refused takes the order's refusals. Those of a transaction that is in a block (a second copy of
// it was refused as a replay) are not outcomes (G2).
func (g *Gateway) Refused(results []wire.TxResult) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range results {
		if e := g.entries[r.ID]; e != nil && !e.ordered {
			r.Block = 0
			g.settle(r)
		}
	}
	g.dropDone()
}

// Committed takes the outcomes of a block that this organisation's database committed. Results may
// be missing for a block that was executed by an earlier process: those are looked up in the
// database.
func (g *Gateway) Committed(block *wire.OrderedBlock, results []wire.TxResult) {
	if g.opt.Agreements != nil {
		g.opt.Agreements.committed(block)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answered = 0
	g.learn(block, results)
	for _, r := range results {
		g.answered += g.settle(r)
	}
	for _, id := range block.IDs {
		if _, known := g.recent.get(id); !known && g.wanted(id) {
			g.lookups = append(g.lookups, id)
		}
	}
	if len(g.lookups) > 0 {
		signal(g.lookupWake)
	}
	g.dropDone()
}

func (g *Gateway) wanted(id wire.TxID) bool {
	return g.entries[id] != nil || g.waiting[id] != nil
}

// settle records an outcome and wakes its waiters. The first outcome stands. It returns how many
// waits it ended.
func (g *Gateway) settle(r wire.TxResult) (ended int) {
	if _, known := g.recent.get(r.ID); known {
		return 0
	}
	g.recent.add(r)
	if e := g.entries[r.ID]; e != nil {
		if !e.ordered {
			g.leaveUnordered(e)
		}
		e.settled = true
		delete(g.entries, r.ID)
		g.shares.settled(e)
		if g.opt.Watch != nil {
			g.opt.Watch.Settled(g.opt.Now().Sub(e.queuedAt), r)
		}
	}
	if r.Block == 0 {
		g.stats.Refused++
	}
	return g.waiting.settle(r.ID)
}

// Stats returns counters and sizes.
func (g *Gateway) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Pending, s.Unordered, s.Stalled = len(g.entries), g.unordered, g.isStalled(g.opt.Now())
	return s
}

// Close refuses new submissions from now on; waits go on until their limit or their context ends.
func (g *Gateway) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
