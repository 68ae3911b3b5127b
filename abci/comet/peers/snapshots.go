package peers

import (
	"log/slog"
	"sync"
	"time"

	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/proto/tendermint/statesync"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// SnapshotsName is that of CometBFT's own reactor, whose place a SnapshotDoor takes.
const SnapshotsName = "STATESYNC"

const (
	// unprovenMax is how many snapshots of an organisation one after the other may have no verified
	// header. The newest of a chain that waits for transactions has none.
	unprovenMax     = 3
	passedFirst     = time.Minute
	passedMax       = time.Hour
	offersPerSecond = 1  // of heights that were not offered before
	offersAtOnce    = 20 // a peer tells ten
	offeredKept     = 1 << 10
	offerVoicesKept = 1 << 10
)

// SnapshotsOptions configures a SnapshotDoor.
type SnapshotsOptions struct {
	// Voice returns the organisation for which a connected peer speaks.
	Voice func(peer p2p.Peer) string
	Peers func() []p2p.Peer // that are connected
	Log   *slog.Logger
}

// SnapshotDoor is CometBFT's state-sync reactor of a node that joins. CometBFT tries the highest
// snapshots first, and invented ones without end would keep it from the others.
type SnapshotDoor struct {
	p2p.Reactor
	opt SnapshotsOptions
	now func() time.Time

	mu sync.Mutex
	of *lru.Cache[string, *offers] // by voice
}

// offers is the record of the snapshots that one organisation offers.
type offers struct {
	heights  *lru.Cache[uint64, struct{}]
	pace     *rate.Limiter
	unproven int // since the last one with a verified header
	pause    time.Duration
	until    time.Time // they are passed over
}

// NewSnapshotDoor takes the place of a node's own state-sync reactor.
func NewSnapshotDoor(inner p2p.Reactor, opt SnapshotsOptions) *SnapshotDoor {
	d := &SnapshotDoor{Reactor: inner, opt: opt, now: time.Now}
	d.of, _ = lru.New[string, *offers](offerVoicesKept) // an error is that of a size below 1
	return d
}

// Receive implements p2p.Reactor.
func (d *SnapshotDoor) Receive(e p2p.Envelope) {
	if m, is := e.Message.(*statesync.SnapshotsResponse); is && !d.takes(d.opt.Voice(e.Src), m.Height) {
		return
	}
	d.Reactor.Receive(e)
}

// takes tells whether a snapshot may be tried.
func (d *SnapshotDoor) takes(voice string, height uint64) bool {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	o, known := d.of.Get(voice)
	if !known {
		o = &offers{pace: rate.NewLimiter(offersPerSecond, offersAtOnce)}
		o.heights, _ = lru.New[uint64, struct{}](offeredKept)
		d.of.Add(voice, o)
	}
	if now.Before(o.until) || !o.heights.Contains(height) && !o.pace.AllowN(now, 1) {
		return false
	}
	o.heights.Add(height, struct{}{})
	return true
}

// Tried is told of each height of a snapshot that was tried, and whether its headers were verified.
func (d *SnapshotDoor) Tried(height uint64, proven bool) {
	over := d.judge(height, proven)
	if len(over) == 0 {
		return
	}
	for _, peer := range d.opt.Peers() {
		if voice := d.opt.Voice(peer); over[voice] {
			d.opt.Log.Warn("no order block was found behind the snapshots that a node offers: they are passed over for a while", "organisation", voice, "node", peer.ID(), "height", height)
			d.RemovePeer(peer, nil) // its snapshots are not tried
		}
	}
}

// judge returns the voices that are passed over from now on.
func (d *SnapshotDoor) judge(height uint64, proven bool) map[string]bool {
	over := map[string]bool{}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, voice := range d.of.Keys() {
		o, _ := d.of.Peek(voice)
		if !o.heights.Contains(height) {
			continue
		}
		if o.unproven++; proven {
			o.unproven = 0
		}
		if o.unproven == unprovenMax {
			o.unproven, o.pause, over[voice] = 0, min(max(2*o.pause, passedFirst), passedMax), true
			o.until = d.now().Add(o.pause)
		}
	}
	return over
}
