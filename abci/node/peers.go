package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cometbft/cometbft/p2p"
)

const (
	// redialEvery is how often we look at a peer without a connection.
	redialEvery = 500 * time.Millisecond
	// otherSideDials is for how many looks we leave a peer to dial us before we dial it. It may be
	// behind an address that reaches us and that we do not reach, or the other way round. The time
	// is longer than dialling takes.
	otherSideDials = 20
	// lasts is after how many looks a connection has lasted, pauseMaxLog the logarithm of how many
	// looks pass at most between two dials of one that does not: 7 s.
	lasts, pauseMaxLog = 4, 4
)

// peering keeps a node connected with the peers of its configuration, instead of CometBFT's
// persistent peers.
//
// Both ends dial those, again and again at the same time after a restart. When the two connections
// cross, the switch may remove the one that both keep: its set of peers removes by id whichever
// connection failed (PeerSet.Remove of CometBFT v0.40.0). Such a pair stays apart for good, and
// with it an organisation whose votes the others need. Besides, after 100 s it would dial ever more
// rarely, up to hours.
//
// Invariant: of two nodes one dials, that with the smaller id, unless it does not succeed for long.
type peering struct {
	own  p2p.ID
	net  p2p.Switcher
	log  *slog.Logger
	list []string // id@host:port
	// barred tells that a peer is to stay disconnected for a while.
	barred func(p2p.ID) bool
	// dials are connections under way: they do not end with ctx, but with CometBFT.
	dials sync.WaitGroup
}

// run dials until ctx ends.
func (p *peering) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, peer := range p.list {
		all.Go(func() { p.keep(ctx, peer) })
	}
	all.Wait()
}

// keep is run for one peer.
func (p *peering) keep(ctx context.Context, peer string) {
	tick := time.NewTicker(redialEvery)
	defer tick.Stop()
	id, said := idOf(peer), false
	var r redial
	for {
		if r.look(p.net.Peers().Has(id), p.own, id) && !p.barred(id) {
			err := p.dial(ctx, peer)
			if r.dialled(err); ctx.Err() == nil && !said && (err != nil || r.short > lasts) {
				said = true
				p.log.Info("peer is not reached, or ends the connection; going on trying", "peer", peer, "error", err)
			}
		} else if r.connected >= lasts {
			said = false
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// redial decides at every look whether to dial a peer. It dials ever more rarely one that ends
// connections as soon as they are made, or that this node does not let in.
type redial struct {
	connected, apart int // looks in a row that found it so
	short            int // connections in a row that did not last
	pause            int // looks until it is dialled again
}

// look tells whether the node own dials peer now.
func (r *redial) look(connected bool, own, peer p2p.ID) bool {
	if connected {
		r.apart = 0
		if r.connected++; r.connected >= lasts {
			r.short = 0
		}
		return false
	}
	r.connected, r.apart = 0, r.apart+1
	if r.pause > 0 {
		r.pause--
		return false
	}
	return dials(own, peer, r.apart)
}

// dialled takes the result of dialling: a connection has yet to last. When the peer is out of
// reach, the next look tries again.
func (r *redial) dialled(err error) {
	var rejected p2p.ErrRejected
	if err == nil || errors.As(err, &rejected) && rejected.IsFiltered() {
		r.short++
		r.pause = 1<<min(r.short, pauseMaxLog) - 2
	}
}

// dial connects to a peer, whose name is looked up every time, or waits until ctx ends.
func (p *peering) dial(ctx context.Context, peer string) error {
	done := make(chan error, 1)
	p.dials.Go(func() {
		address, err := p2p.NewNetAddressString(peer)
		if err == nil {
			err = p.net.DialPeerWithAddress(address)
		}
		if errors.As(err, new(p2p.ErrCurrentlyDialingOrExistingAddress)) {
			err = nil
		}
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dials says whether the node own dials peer when they were found apart at so many looks in a row.
func dials(own, peer p2p.ID, apart int) bool { return own < peer || apart > otherSideDials }

func idOf(peer string) p2p.ID { return p2p.ID(peer[:min(len(peer), 2*p2p.IDByteLength)]) }
