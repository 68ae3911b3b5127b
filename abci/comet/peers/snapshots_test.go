package peers

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/proto/tendermint/statesync"
)

// pooled stands for CometBFT's reactor: the heights of the snapshots that each peer offers.
type pooled struct {
	p2p.Reactor
	of map[p2p.ID][]uint64
}

func (p *pooled) Receive(e p2p.Envelope) {
	p.of[e.Src.ID()] = append(p.of[e.Src.ID()], e.Message.(*statesync.SnapshotsResponse).Height)
}

func (p *pooled) RemovePeer(peer p2p.Peer, _ any) { delete(p.of, peer.ID()) }

// Snapshots that an organisation's nodes invent are tried some times, and then passed over, those
// of its other nodes too. Those of others stay.
func TestInventedSnapshotsArePassedOver(t *testing.T) {
	pool := &pooled{of: map[p2p.ID][]uint64{}}
	now := time.Unix(1_700_000_000, 0)
	all := []p2p.Peer{named{id: "bolt 1"}, named{id: "bolt 2"}, named{id: "acme 1"}}
	d := NewSnapshotDoor(pool, SnapshotsOptions{
		Voice: func(peer p2p.Peer) string { return strings.Fields(string(peer.ID()))[0] }, Peers: func() []p2p.Peer { return all },
		Log: slog.New(slog.DiscardHandler),
	})
	d.now = func() time.Time { return now }
	offer := func(peer p2p.Peer, heights ...uint64) {
		for _, height := range heights {
			d.Receive(p2p.Envelope{Src: peer, Message: &statesync.SnapshotsResponse{Height: height}})
		}
	}
	has := func(what string, bolt1, bolt2, acme int) {
		t.Helper()
		if len(pool.of["bolt 1"]) != bolt1 || len(pool.of["bolt 2"]) != bolt2 || len(pool.of["acme 1"]) != acme {
			t.Errorf("%s: %v", what, pool.of)
		}
	}
	offer(all[0], 1001, 1002)
	offer(all[1], 1003, 1004)
	offer(all[2], 90, 100)
	d.Tried(1004, false)
	d.Tried(1003, false)
	d.Tried(100, false) // there are no order blocks after it yet
	has("two are unproven", 2, 2, 2)
	d.Tried(1002, false)
	has("three are", 0, 0, 2)
	offer(all[1], 1005)
	has("offered once more", 0, 0, 2)
	if now = now.Add(passedFirst + time.Second); true {
		offer(all[0], 2001, 2002, 2003, 99)
	}
	has("after a while", 4, 0, 2)
	d.Tried(2003, false)
	d.Tried(2002, false)
	d.Tried(99, true)
	d.Tried(2001, false)
	has("one of them is proven", 4, 0, 2)
	d.Tried(2002, false)
	d.Tried(2003, false)
	if now = now.Add(passedFirst + time.Second); true {
		offer(all[0], 3001)
	}
	has("the second time it is for longer", 0, 0, 2)
	d.Tried(100, false)
	d.Tried(90, true)
	has("the newest alone is unproven", 0, 0, 2)
}

// A peer that offers snapshots without end is heard now and then; what it offered before may be
// offered again.
func TestSnapshotsAreTakenAtAPace(t *testing.T) {
	pool := &pooled{of: map[p2p.ID][]uint64{}}
	d := NewSnapshotDoor(pool, SnapshotsOptions{Voice: func(peer p2p.Peer) string { return string(peer.ID()) }})
	now := time.Unix(1_700_000_000, 0)
	d.now = func() time.Time { return now }
	peer := named{id: "bolt"}
	for height := range uint64(10 * offersAtOnce) {
		d.Receive(p2p.Envelope{Src: peer, Message: &statesync.SnapshotsResponse{Height: height}})
	}
	if n := len(pool.of["bolt"]); n != offersAtOnce {
		t.Errorf("%d are taken at once", n)
	}
	d.Receive(p2p.Envelope{Src: peer, Message: &statesync.SnapshotsResponse{Height: 0}})
	now = now.Add(time.Second)
	d.Receive(p2p.Envelope{Src: peer, Message: &statesync.SnapshotsResponse{Height: 1 << 40}})
	if n := len(pool.of["bolt"]); n != offersAtOnce+2 {
		t.Errorf("%d are taken a second later", n)
	}
}
