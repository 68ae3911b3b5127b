package peers

import (
	"sync"
	"time"

	"github.com/cometbft/cometbft/mempool"
	"github.com/cometbft/cometbft/p2p"
	protomem "github.com/cometbft/cometbft/proto/tendermint/mempool"
	"github.com/cometbft/cometbft/types"
)

// BundlesName is the reactor's in CometBFT's switch.
const BundlesName = "CHAINIFY_BUNDLES"

// Bounds of what waits for one peer. The bytes are the mempool's, not copies.
const (
	lineMax      = 1024
	lineBytesMax = 64 << 20
)

const (
	// passBytesMax bounds what a node passes on at once, to one that connects or when the order
	// stands still.
	passBytesMax = 4 << 20
	// peerLook is how often serve looks whether a peer that lags has caught up.
	peerLook = 100 * time.Millisecond
	// standLook is how often watch looks whether the order stands still.
	standLook = 100 * time.Millisecond
	// standsAfter is how long no block comes, though transactions wait, until watch passes them on;
	// longer each time that it does not help.
	standsAfter, standsAfterMax = 2 * time.Second, 10 * time.Second
	// Once it helped, somebody has no connection to somebody: for some time watch does it sooner.
	knownStandsAfter, knownFor = 100 * time.Millisecond, time.Minute
)

// BundlesOptions configures a bundles reactor.
type BundlesOptions struct {
	// Waiting returns the bundles that wait for the order, in their order, at most bytesMax bytes.
	Waiting func(bytesMax int64) [][]byte
	// Height is that of the newest order block.
	Height func() int64
}

// Bundles brings what this node's gateway has ordered into the mempools of the nodes it is
// connected to. CometBFT's own gossip, in which everybody passes on to everybody what it received,
// brings each bundle n-1 times to each of n nodes; this brings it once.
//
// Invariant A6: bundles reach a peer in the order in which they were sent. Invariant A7: a node
// passes what waits on to each peer that connects, and everybody does so when no block comes
// although something waits. For a gateway need not be connected to the validator whose turn it is,
// which proposes nothing while it knows of no transaction.
type Bundles struct {
	p2p.BaseReactor
	opt BundlesOptions

	work  sync.WaitGroup
	mu    sync.Mutex // guards lines
	lines map[p2p.Peer]*line
}

var _ p2p.Reactor = (*Bundles)(nil)

// NewBundles makes a reactor, to be given to CometBFT's node, whose mempool must not gossip.
func NewBundles(opt BundlesOptions) *Bundles {
	r := &Bundles{opt: opt, lines: map[p2p.Peer]*line{}}
	r.BaseReactor = *p2p.NewBaseReactor(BundlesName, r)
	return r
}

// OnStart begins to look whether the order stands still.
func (r *Bundles) OnStart() error {
	r.work.Go(r.watch)
	return nil
}

// Join waits until nothing is sent any more. It comes after Stop, which CometBFT calls; a send
// under way may take it ten seconds.
func (r *Bundles) Join() {
	r.mu.Lock() // from here on no peer is added
	r.mu.Unlock()
	r.work.Wait()
}

// AddPeer implements p2p.Reactor.
func (r *Bundles) AddPeer(peer p2p.Peer) {
	l := &line{more: make(chan struct{}, 1)}
	r.mu.Lock() // what is sent meanwhile comes behind what waits already (A6)
	defer r.mu.Unlock()
	select {
	case <-r.Quit():
		return
	default:
	}
	for _, bundle := range r.opt.Waiting(passBytesMax) {
		l.add(bundle)
	}
	r.lines[peer] = l
	r.work.Go(func() { r.serve(peer, l) })
}

// RemovePeer implements p2p.Reactor.
func (r *Bundles) RemovePeer(peer p2p.Peer, _ any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lines, peer)
}

// Send lines bundles up for all peers. It does not wait: a peer for whom too much waits already
// does without them, until they are passed on.
func (r *Bundles) Send(bundles ...[]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines {
		for _, bundle := range bundles {
			l.add(bundle)
		}
	}
}

// serve sends one peer what is lined up for it.
func (r *Bundles) serve(peer p2p.Peer, l *line) {
	for {
		bundle := l.take()
		if bundle == nil {
			select {
			case <-l.more:
			case <-peer.Quit():
				return
			case <-r.Quit():
				return
			}
			continue
		}
		for r.lags(peer) { // it would ignore what it is sent
			select {
			case <-time.After(peerLook):
			case <-peer.Quit():
				return
			case <-r.Quit():
				return
			}
		}
		peer.Send(p2p.Envelope{ChannelID: mempool.MempoolChannel, Message: &protomem.Txs{Txs: [][]byte{bundle}}})
	}
}

// lags tells that a peer is still looking for blocks, or more than one behind, as CometBFT's own
// gossip asks.
func (r *Bundles) lags(peer p2p.Peer) bool {
	state, known := peer.Get(types.PeerStateKey).(mempool.PeerState)
	return !known || state.GetHeight() < max(r.opt.Height()-1, 1)
}

// watch passes on what waits when the order stands still (A7).
func (r *Bundles) watch() {
	tick := time.NewTicker(standLook)
	defer tick.Stop()
	s := newStandstill(r.opt.Height(), time.Now())
	for {
		select {
		case now := <-tick.C:
			if s.passes(r.opt.Height(), now) {
				waiting := r.opt.Waiting(passBytesMax)
				r.Send(waiting...)
				s.passed(len(waiting) > 0, now)
			}
		case <-r.Quit():
			return
		}
	}
}

// standstill decides when to pass on what waits.
type standstill struct {
	height     int64
	since      time.Time     // nothing has moved
	patience   time.Duration // with that
	helped     bool          // passed something on at this height
	knownUntil time.Time     // that somebody is not connected to somebody
}

func newStandstill(height int64, now time.Time) *standstill {
	return &standstill{height: height, since: now, patience: standsAfter}
}

// passes tells whether it is time to look for something that waits.
func (s *standstill) passes(height int64, now time.Time) bool {
	if height == s.height {
		return now.Sub(s.since) >= s.patience
	}
	if s.helped {
		s.knownUntil = now.Add(knownFor)
	}
	s.height, s.since, s.helped, s.patience = height, now, false, standsAfter
	if now.Before(s.knownUntil) {
		s.patience = knownStandsAfter
	}
	return false
}

// passed notes that it was time, and whether anything waited: a quiet network does not stand still.
func (s *standstill) passed(something bool, now time.Time) {
	s.since = now
	if something {
		s.helped, s.patience = true, min(2*max(s.patience, standsAfter), standsAfterMax)
	}
}

// line is the queue of bundles for one peer.
type line struct {
	more chan struct{} // has room for one

	mu      sync.Mutex // guards all below
	bundles [][]byte
	bytes   int
}

// add does nothing when too much waits already.
func (l *line) add(bundle []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.bundles) == lineMax || l.bytes+len(bundle) > lineBytesMax {
		return
	}
	l.bundles, l.bytes = append(l.bundles, bundle), l.bytes+len(bundle)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// take returns the first; nil when there is none.
func (l *line) take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.bundles) == 0 {
		return nil
	}
	first := l.bundles[0]
	l.bundles[0] = nil
	l.bundles, l.bytes = l.bundles[1:], l.bytes-len(first)
	return first
}
