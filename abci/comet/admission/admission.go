// Package admission decides which nodes may connect with this one. decide.go decides;
// admission.go asks CometBFT's connections, and keeps whose node a configured peer is.
package admission

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	dbm "github.com/cometbft/cometbft-db"
	"github.com/cometbft/cometbft/mempool"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/comet/dial"
	"github.com/chainify-db/chainify/abci/comet/remote"
	"github.com/chainify-db/chainify/abci/wire"
)

// refusalsEvery is how often the log tells of nodes that were not let in.
const refusalsEvery = time.Minute

// peerKey is where the node's own store keeps the last valid vouch of a configured peer.
const peerKey = "node/peer/"

// Options is what a Door works with.
type Options struct {
	ChainID string
	Peers   []string // of the configuration, id@host:port
	// Registry is that in force, Waiting the one that an accepted change leads to; nil: none waits.
	Registry, Waiting func() *order.Registry
	// Behind tells that others are ahead of this node: it may not know the members of now.
	Behind func() bool
	Height func() int64                    // of the last block decided
	Named  func() (map[string]bool, error) // by the operator
	Stops  func() bool                     // the node does
	Store  dbm.DB
	Log    *slog.Logger
}

// Door lets nodes in. CometBFT gives a peer blocks as soon as it is a peer. It asks the door before
// that, by Filter. While peers are connected, Watch asks again about all of them.
type Door struct {
	opt        Options
	configured map[p2p.ID]bool

	mu       sync.Mutex // guards all below
	heard    map[p2p.ID]string
	told     time.Time // of nodes that were not let in
	untold   int
	toldFile time.Time // that the operator's file cannot be read

	ending map[p2p.ID]ending // of look alone
}

// New makes a door.
func New(opt Options) *Door {
	d := &Door{opt: opt, configured: map[p2p.ID]bool{}, heard: map[p2p.ID]string{}, ending: map[p2p.ID]ending{}}
	for _, peer := range opt.Peers {
		d.configured[dial.ID(peer)] = true
	}
	return d
}

// Filter is a p2p.PeerFilterFunc. A node that stops lets nobody in: its switch would leave the
// connection open, unread, and the other node would take this one for connected (addPeer of
// CometBFT v0.40.0).
func (d *Door) Filter(_ p2p.IPeerSet, peer p2p.Peer) error {
	if d.opt.Stops() {
		return errStops
	}
	err := d.check(peer)
	if err != nil {
		d.refused(err, peer.ID(), peer.SocketAddr().String())
	}
	return err
}

// refused says that a node is not let in, once in a while.
func (d *Door) refused(why error, id p2p.ID, address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.told) >= refusalsEvery {
		d.opt.Log.Warn("not let in: "+why.Error(), "node", id, "address", address, "not told of before", d.untold)
		d.told, d.untold = now, 0
	} else {
		d.untold++
	}
}

// check says why a node may not be connected; nil: it may.
func (d *Door) check(peer p2p.Peer) error {
	id := peer.ID()
	kept, err := d.kept(id)
	if err != nil {
		return err
	}
	vouch, err := d.question(id, shownBy(peer), d.heardOf(id), kept).judge()
	if err == nil && vouch != "" {
		return d.keep(id, kept, vouch)
	}
	return err
}

// AdmitsID is Filter for a CometBFT in a process of its own. That tells nothing but the id of a
// node before it is a peer, so a vouch lets nobody in: the operator names the nodes.
func (d *Door) AdmitsID(id p2p.ID) error {
	err := d.checkID(id)
	if err != nil {
		d.refused(err, id, "")
	}
	return err
}

func (d *Door) checkID(id p2p.ID) error {
	if d.opt.Stops() {
		return errStops
	}
	kept, err := d.kept(id)
	if err != nil {
		return err
	}
	return d.question(id, "", "", kept).judgeID()
}

// question is what decides about a node now.
func (d *Door) question(id p2p.ID, shown, heard, kept string) question {
	named, err := d.opt.Named()
	if err != nil {
		d.unnamed(err)
	}
	return question{
		chainID: d.opt.ChainID, id: string(id), shown: shown, heard: heard, kept: kept, registries: d.registries(),
		named: named[string(id)], configured: d.configured[id], behind: d.opt.Behind,
	}
}

// Learn keeps whose nodes are connected, by the vouches that they show.
func (d *Door) Learn(connected []remote.Peer) {
	for _, peer := range connected {
		id := p2p.ID(peer.ID)
		vouch, err := wire.ParseVouch(peer.Moniker)
		if err != nil || !d.configured[id] || !vouch.By(d.opt.Registry().Keys(vouch.Organisation), d.opt.ChainID, peer.ID) {
			continue
		}
		kept, err := d.kept(id)
		if err == nil {
			err = d.keep(id, kept, peer.Moniker)
		}
		if err != nil {
			d.opt.Log.Error("whose node a peer is cannot be kept", "node", id, "error", err)
		}
	}
}

// registries are that in force and that which an accepted change leads to.
func (d *Door) registries() []*order.Registry {
	all := []*order.Registry{d.opt.Registry()}
	if next := d.opt.Waiting(); next != nil {
		all = append(all, next)
	}
	return all
}

// unnamed says once in a while that the node cannot read the operator's file: every look asks for
// it.
func (d *Door) unnamed(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.toldFile) >= refusalsEvery {
		d.toldFile = now
		d.opt.Log.Error("the nodes that the operator names are not let in", "error", err)
	}
}

// OrganisationOf is the member that vouches for a connected node; empty: none does.
func (d *Door) OrganisationOf(peer p2p.Peer) string {
	return d.vouchedBy(peer, []*order.Registry{d.opt.Registry()})
}

// OrganisationShown is the member that vouches for a node by what the node shows; empty: none does.
func (d *Door) OrganisationShown(peer remote.Peer) string {
	return d.vouchedIn([]string{peer.Moniker}, p2p.ID(peer.ID), []*order.Registry{d.opt.Registry()})
}

// VoiceOf is the organisation that vouches for a connected node, or the node itself: then its
// operator named it. So an organisation has one voice, however many nodes it vouches for.
func (d *Door) VoiceOf(peer p2p.Peer) string {
	return cmp.Or(d.vouchedBy(peer, d.registries()), string(peer.ID()))
}

// memberKey is where a connection keeps whose it is.
const memberKey = "CHAINIFY_MEMBER"

// MemberOf is VoiceOf, found out once for each connection: a signature is verified for it.
func (d *Door) MemberOf(peer p2p.Peer) string {
	if known, found := peer.Get(memberKey).(string); found {
		return known
	}
	voice := d.VoiceOf(peer)
	peer.Set(memberKey, voice)
	return voice
}

// vouchedBy is the organisation in one of the registries that vouches for a node; empty: none does.
func (d *Door) vouchedBy(peer p2p.Peer, registries []*order.Registry) string {
	return d.vouchedIn([]string{d.heardOf(peer.ID()), shownBy(peer)}, peer.ID(), registries)
}

func (d *Door) vouchedIn(texts []string, id p2p.ID, registries []*order.Registry) string {
	for _, text := range texts {
		vouch, err := wire.ParseVouch(text)
		if err != nil {
			continue
		}
		for _, r := range registries {
			if vouch.By(r.Keys(vouch.Organisation), d.opt.ChainID, string(id)) {
				return vouch.Organisation
			}
		}
	}
	return ""
}

// shownBy is the node statement that a node sends when it connects.
func shownBy(peer p2p.Peer) string {
	info, ok := peer.NodeInfo().(p2p.DefaultNodeInfo)
	if !ok {
		return ""
	}
	return info.Moniker
}

func (d *Door) kept(id p2p.ID) (string, error) {
	if !d.configured[id] {
		return "", nil
	}
	raw, err := d.opt.Store.Get([]byte(peerKey + string(id)))
	if err != nil {
		return "", fmt.Errorf("read whose node %s is: %w", id, err)
	}
	return string(raw), nil
}

// keep remembers the organisation of a configured peer, also when it has left, and the vouch by its
// newest keys.
func (d *Door) keep(id p2p.ID, before, vouch string) error {
	if !d.configured[id] || before == vouch {
		return nil
	}
	if err := d.opt.Store.SetSync([]byte(peerKey+string(id)), []byte(vouch)); err != nil {
		return fmt.Errorf("keep whose node %s is: %w", id, err)
	}
	return nil
}

// Hear takes a vouch that a peer sent. Each look decides whether it counts: the peer may be a block
// ahead.
func (d *Door) Hear(id p2p.ID, vouch string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard[id] = vouch
}

func (d *Door) heardOf(id p2p.ID) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.heard[id]
}

// Watch ends the connections with nodes that may not be connected any more, until ctx ends. each is
// called before each look.
func (d *Door) Watch(ctx context.Context, net p2p.Switcher, each func()) {
	tick := time.NewTicker(dial.Every)
	defer tick.Stop()
	for {
		each()
		d.look(net)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (d *Door) look(net p2p.Switcher) {
	connected := map[p2p.ID]bool{}
	for _, peer := range net.Peers().Copy() {
		connected[peer.ID()] = true
		err := d.check(peer)
		if err == nil {
			delete(d.ending, peer.ID())
		} else if d.ends(peer, err) {
			d.opt.Log.Warn("connection ended: "+err.Error(), "node", peer.ID(), "address", peer.SocketAddr())
			net.StopPeerGracefully(peer)
		}
	}
	maps.DeleteFunc(d.ending, func(id p2p.ID, _ ending) bool { return !connected[id] })
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.heard, func(id p2p.ID, _ string) bool { return !connected[id] })
}

// ends tells that it is time to end a connection.
func (d *Door) ends(peer p2p.Peer, why error) bool {
	e, known := d.ending[peer.ID()]
	if !known {
		e = ending{time.Now(), d.opt.Height()}
		d.ending[peer.ID()] = e
	}
	state, known := peer.Get(types.PeerStateKey).(mempool.PeerState)
	return e.over(time.Now(), why, known && state.GetHeight() > e.height)
}
