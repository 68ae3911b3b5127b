// Package dial keeps a node connected with the peers of its configuration.
package dial

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cometbft/cometbft/p2p"
)

// Every is how often a node looks at a peer without a connection.
const Every = 500 * time.Millisecond

const (
	// otherSideDials is for how many looks we leave a peer to dial us before we dial it. It may be
	// behind an address that reaches us and that we do not reach, or the other way round. The time
	// is longer than dialling takes.
	otherSideDials = 20
	// lasts is after how many looks a connection has lasted, pauseMaxLog the logarithm of how many
	// looks pass at most between two dials of one that does not: 7 s.
	lasts, pauseMaxLog = 4, 4
)

// Keeper keeps a node connected with the peers of its configuration, instead of CometBFT's
// persistent peers.
//
// Both ends dial those, again and again at the same time after a restart. When the two connections
// cross, the switch may remove the one that both keep: its set of peers removes by id whichever
// connection failed (PeerSet.Remove of CometBFT v0.40.0). Such a pair stays apart for good, and
// with it an organisation whose votes the others need. Besides, after 100 s it would dial ever more
// rarely, up to hours.
//
// Invariant: of two nodes one dials, that with the smaller id, unless it does not succeed for long.
type Keeper struct {
	Own   p2p.ID
	Net   p2p.Switcher
	Log   *slog.Logger
	Peers []string // id@host:port
	// Barred tells that a peer is to stay disconnected for a while.
	Barred func(p2p.ID) bool
	// dials are connections under way: they do not end with ctx, but with CometBFT.
	dials sync.WaitGroup
}

// Run dials until ctx ends.
func (p *Keeper) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, peer := range p.Peers {
		all.Go(func() { p.keep(ctx, peer) })
	}
	all.Wait()
}

// Wait waits until no connection is being made any more. It comes after Run and the end of
// CometBFT.
func (p *Keeper) Wait() { p.dials.Wait() }

// keep is Run for one peer.
func (p *Keeper) keep(ctx context.Context, peer string) {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	id, said := ID(peer), false
	var r Redial
	for {
		if r.Look(p.Net.Peers().Has(id), p.Own, id) && !p.Barred(id) {
			err := p.dial(ctx, peer)
			if r.Dialled(err); ctx.Err() == nil && !said && (err != nil || r.short > lasts) {
				said = true
				p.Log.Info("peer is not reached, or ends the connection; going on trying", "peer", peer, "error", err)
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

// Redial decides at every look whether to dial a peer. It dials ever more rarely one that ends
// connections as soon as they are made, or that this node does not let in.
type Redial struct {
	connected, apart int // looks in a row that found it so
	short            int // connections in a row that did not last
	pause            int // looks until it is dialled again
}

// Look tells whether the node own dials peer now.
func (r *Redial) Look(connected bool, own, peer p2p.ID) bool {
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

// Dialled takes the result of dialling: a connection has yet to last. When the peer is out of
// reach, the next look tries again.
func (r *Redial) Dialled(err error) {
	var rejected p2p.ErrRejected
	if err == nil || errors.As(err, &rejected) && rejected.IsFiltered() {
		r.short++
		r.pause = 1<<min(r.short, pauseMaxLog) - 2
	}
}

// Rest has the peer not dialled for so many looks.
func (r *Redial) Rest(looks int) { r.pause = looks }

// dial connects to a peer, whose name is looked up every time, or waits until ctx ends.
func (p *Keeper) dial(ctx context.Context, peer string) error {
	done := make(chan error, 1)
	p.dials.Go(func() {
		address, err := p2p.NewNetAddressString(peer)
		if err == nil {
			err = p.Net.DialPeerWithAddress(address)
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

// ID is the node id of id@host:port.
func ID(peer string) p2p.ID { return p2p.ID(peer[:min(len(peer), 2*p2p.IDByteLength)]) }
