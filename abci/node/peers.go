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
	// redialEvery is how often a peer that is not connected is looked at.
	redialEvery = 500 * time.Millisecond
	// otherSideDials is for how many looks a peer is left to dial us before we dial it: it may be behind an address
	// that reaches us and that we do not reach, or the other way round. Longer than dialling takes.
	otherSideDials = 20
	// lasts is after how many looks a connection has lasted, pauseMaxLog the logarithm of how many looks pass at most between two dials
	// of one that does not: 16 s.
	lasts, pauseMaxLog = 4, 5
)

// peering keeps a node connected with the peers of its configuration, instead of CometBFT's persistent peers.
//
// Those are dialled by both ends, again and again at the same time after a restart. When the two connections cross, the
// switch may remove the one that both keep: its set of peers removes by id whichever connection failed (PeerSet.Remove of
// CometBFT v0.40.0). Such a pair stays apart for good, and an organisation whose votes are needed with it. Besides, after
// 100 s it would dial ever more rarely, up to hours.
//
// Invariant: of two nodes one dials, that with the smaller id, unless it does not succeed for long.
type peering struct {
	own  p2p.ID
	net  p2p.Switcher
	log  *slog.Logger
	list []string // id@host:port
	// barred tells that a peer is to stay disconnected for a while.
	barred func(p2p.ID) bool
}

// run dials until ctx ends.
func (p *peering) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, peer := range p.list {
		all.Go(func() { p.keep(ctx, peer) })
	}
	all.Wait()
}

// keep is run for one peer. One that ends connections as soon as they are made, or that this node does not let in, is dialled less and
// less often.
func (p *peering) keep(ctx context.Context, peer string) {
	tick := time.NewTicker(redialEvery)
	defer tick.Stop()
	id, apart, said := idOf(peer), 0, false
	connected, short, pause := 0, 0, 0 // looks in a row; connections in a row that did not last; looks until it is dialled again
	for {
		switch {
		case p.net.Peers().Has(id):
			if apart, connected = 0, connected+1; connected >= lasts {
				said, short = false, 0
			}
		case pause > 0:
			apart, connected, pause = apart+1, 0, pause-1
		default:
			apart, connected = apart+1, 0
			if !dials(p.own, id, apart) || p.barred(id) {
				break
			}
			err := p.dial(ctx, peer)
			if ctx.Err() == nil && !said && (err != nil || short == lasts) {
				said = true
				p.log.Info("peer is not reached, or ends the connection; going on trying", "peer", peer, "error", err)
			}
			var rejected p2p.ErrRejected
			if err == nil || errors.As(err, &rejected) && rejected.IsFiltered() {
				short++
				pause = 1<<min(short, pauseMaxLog) - 2
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// dial connects to a peer, whose name is looked up every time, or waits until ctx ends.
func (p *peering) dial(ctx context.Context, peer string) error {
	done := make(chan error, 1)
	go func() {
		address, err := p2p.NewNetAddressString(peer)
		if err == nil {
			err = p.net.DialPeerWithAddress(address)
		}
		if errors.As(err, new(p2p.ErrCurrentlyDialingOrExistingAddress)) {
			err = nil
		}
		done <- err
	}()
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
