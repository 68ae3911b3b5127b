package node

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/chainify-db/chainify/abci/comet/remote"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	// farewell bounds how long a node that has to go stays connected: it should get the block that
	// says so, or show its new keys.
	farewell = 5 * time.Second
	// refusalsEvery is how often the log tells of nodes that were not let in.
	refusalsEvery = time.Minute
)

// peerKey is where the node's own store keeps the last valid vouch of a configured peer.
const peerKey = "node/peer/"

// admission decides which nodes may connect with this one. CometBFT gives a peer blocks as soon as
// it is a peer. It asks admission before that, as a filter. While peers are connected, watch asks
// again about all of them.
//
// Invariant A8: a node is connected only with nodes that a member of the registry, or one that an
// accepted change adds, vouches for, and with those that its operator names. While it is behind,
// and may not know the members of now, it is also connected with the peers of its configuration,
// except those whose organisation it has seen leave.
type admission struct {
	chainID    string
	configured map[p2p.ID]bool
	registry   func() *order.Registry
	waiting    func() *order.Registry // that an accepted change leads to; nil: none waits
	behind     func() bool
	height     func() int64
	named      func() (map[string]bool, error) // by the operator
	stops      func() bool                     // the node does
	store      dbm.DB
	log        *slog.Logger

	mu       sync.Mutex // guards all below
	heard    map[p2p.ID]string
	told     time.Time // of nodes that were not let in
	untold   int
	toldFile time.Time // that the operator's file cannot be read

	ending map[p2p.ID]ending // of look alone
}

// ending is when it was found that a peer may not be connected any more, and at which height.
type ending struct {
	since  time.Time
	height int64
}

// errStops is why a node that stops lets nobody in.
var errStops = errors.New("this node stops")

// errLeft says that the organisation of a node takes no part.
var errLeft = errors.New("which is not a member")

func newAdmission(n *node, behind, stops func() bool) *admission {
	a := &admission{
		chainID: n.founded.ChainID(), configured: map[p2p.ID]bool{}, registry: n.registry, waiting: n.waitingRegistry,
		behind: behind, height: n.height.Load, store: n.store, log: n.log.With("part", "peers"),
		named: func() (map[string]bool, error) { return n.opt.Home.Admitted(n.opt.Config) },
		stops: stops,
		heard: map[p2p.ID]string{}, ending: map[p2p.ID]ending{},
	}
	for _, peer := range n.opt.Config.Network.Peers {
		a.configured[idOf(peer)] = true
	}
	return a
}

// waitingRegistry is the registry that the accepted change which waits leads to; nil: none waits.
func (n *node) waitingRegistry() *order.Registry {
	status, ok := n.app.Status()
	if !ok || status.Governance.Waiting == nil {
		return nil
	}
	change, err := wire.DecodeGovernanceChange(status.Governance.Waiting)
	if err != nil {
		return nil
	}
	next, err := n.registry().After(change)
	if err != nil { // it came into force just now
		return nil
	}
	return next
}

// filter is a p2p.PeerFilterFunc. A node that stops lets nobody in: its switch would leave the
// connection open, unread, and the other node would take this one for connected (addPeer of
// CometBFT v0.40.0).
func (a *admission) filter(_ p2p.IPeerSet, peer p2p.Peer) error {
	if a.stops() {
		return errStops
	}
	err := a.check(peer)
	if err != nil {
		a.refused(err, peer.ID(), peer.SocketAddr().String())
	}
	return err
}

// refused says that a node is not let in, once in a while.
func (a *admission) refused(why error, id p2p.ID, address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.told) >= refusalsEvery {
		a.log.Warn("not let in: "+why.Error(), "node", id, "address", address, "not told of before", a.untold)
		a.told, a.untold = now, 0
	} else {
		a.untold++
	}
}

// check says why a node may not be connected; nil: it may.
func (a *admission) check(peer p2p.Peer) error {
	id := peer.ID()
	named, err := a.named()
	if err != nil {
		a.unnamed(err)
	}
	if named[string(id)] {
		return nil
	}
	registries := a.registries()
	kept, err := a.kept(id)
	if err != nil {
		return err
	}
	refused := errors.New("a node that no member vouches for")
	for _, text := range []string{shownBy(peer), a.heardOf(id), kept} {
		vouch, err := wire.ParseVouch(text)
		if err != nil {
			continue
		}
		for _, r := range registries {
			keys := r.Keys(vouch.Organisation)
			if vouch.By(keys, a.chainID, string(id)) {
				return a.keep(id, kept, text)
			}
			if keys == nil {
				refused = fmt.Errorf("a node of %q, %w", vouch.Organisation, errLeft)
			} else {
				refused = fmt.Errorf("a node that shows no signature by a key of %q that counts", vouch.Organisation)
			}
		}
	}
	if a.configured[id] && a.behind() && !gone(kept, registries) {
		return nil
	}
	return refused
}

// errUnnamed refuses a node by its id alone.
var errUnnamed = errors.New("a node that neither network.peers nor network.admitted_file names")

// admitsID is check for a CometBFT in a process of its own. That tells nothing but the id of a node
// before it is a peer, so a vouch lets nobody in: the operator names the nodes.
func (a *admission) admitsID(id p2p.ID) error {
	err := a.checkID(id)
	if err != nil {
		a.refused(err, id, "")
	}
	return err
}

func (a *admission) checkID(id p2p.ID) error {
	named, err := a.named()
	if err != nil {
		a.unnamed(err)
	}
	switch {
	case a.stops():
		return errStops
	case named[string(id)]:
		return nil
	case !a.configured[id]:
		return errUnnamed
	}
	kept, err := a.kept(id)
	if err != nil {
		return err
	}
	if gone(kept, a.registries()) {
		return fmt.Errorf("a node of an organisation %w", errLeft)
	}
	return nil
}

// learn keeps whose nodes are connected, by the vouches that they show.
func (a *admission) learn(connected []remote.Peer) {
	for _, peer := range connected {
		id := p2p.ID(peer.ID)
		vouch, err := wire.ParseVouch(peer.Moniker)
		if err != nil || !a.configured[id] || !vouch.By(a.registry().Keys(vouch.Organisation), a.chainID, peer.ID) {
			continue
		}
		kept, err := a.kept(id)
		if err == nil {
			err = a.keep(id, kept, peer.Moniker)
		}
		if err != nil {
			a.log.Error("whose node a peer is cannot be kept", "node", id, "error", err)
		}
	}
}

// registries are that in force and that which an accepted change leads to.
func (a *admission) registries() []*order.Registry {
	all := []*order.Registry{a.registry()}
	if next := a.waiting(); next != nil {
		all = append(all, next)
	}
	return all
}

// unnamed says once in a while that the node cannot read the operator's file: every look asks for
// it.
func (a *admission) unnamed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.toldFile) >= refusalsEvery {
		a.toldFile = now
		a.log.Error("the nodes that the operator names are not let in", "error", err)
	}
}

// organisationOf is the member that vouches for a connected node; empty: none does.
func (a *admission) organisationOf(peer p2p.Peer) string {
	return a.vouchedBy(peer, []*order.Registry{a.registry()})
}

// organisationShown is the member that vouches for a node by what the node shows; empty: none does.
func (a *admission) organisationShown(peer remote.Peer) string {
	return a.vouchedIn([]string{peer.Moniker}, p2p.ID(peer.ID), []*order.Registry{a.registry()})
}

// voiceOf is the organisation that vouches for a connected node, or the node itself: then its
// operator named it. So an organisation has one voice, however many nodes it vouches for.
func (a *admission) voiceOf(peer p2p.Peer) string {
	return cmp.Or(a.vouchedBy(peer, a.registries()), string(peer.ID()))
}

// memberKey is where a connection keeps whose it is.
const memberKey = "CHAINIFY_MEMBER"

// memberOf is voiceOf, found out once for each connection: a signature is verified for it.
func (a *admission) memberOf(peer p2p.Peer) string {
	if known, found := peer.Get(memberKey).(string); found {
		return known
	}
	voice := a.voiceOf(peer)
	peer.Set(memberKey, voice)
	return voice
}

// vouchedBy is the organisation in one of the registries that vouches for a node; empty: none does.
func (a *admission) vouchedBy(peer p2p.Peer, registries []*order.Registry) string {
	return a.vouchedIn([]string{a.heardOf(peer.ID()), shownBy(peer)}, peer.ID(), registries)
}

func (a *admission) vouchedIn(texts []string, id p2p.ID, registries []*order.Registry) string {
	for _, text := range texts {
		vouch, err := wire.ParseVouch(text)
		if err != nil {
			continue
		}
		for _, r := range registries {
			if vouch.By(r.Keys(vouch.Organisation), a.chainID, string(id)) {
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

// gone tells that the organisation of a vouch is in none of the registries.
func gone(kept string, registries []*order.Registry) bool {
	vouch, err := wire.ParseVouch(kept)
	if err != nil {
		return false
	}
	for _, r := range registries {
		if known, _ := r.Knows(vouch.Organisation); known {
			return false
		}
	}
	return true
}

func (a *admission) kept(id p2p.ID) (string, error) {
	if !a.configured[id] {
		return "", nil
	}
	raw, err := a.store.Get([]byte(peerKey + string(id)))
	if err != nil {
		return "", fmt.Errorf("read whose node %s is: %w", id, err)
	}
	return string(raw), nil
}

// keep remembers the organisation of a configured peer, also when it has left, and the vouch by its
// newest keys.
func (a *admission) keep(id p2p.ID, before, vouch string) error {
	if !a.configured[id] || before == vouch {
		return nil
	}
	if err := a.store.SetSync([]byte(peerKey+string(id)), []byte(vouch)); err != nil {
		return fmt.Errorf("keep whose node %s is: %w", id, err)
	}
	return nil
}

// hear takes a vouch that a peer sent. Each look decides whether it counts: the peer may be a block
// ahead.
func (a *admission) hear(id p2p.ID, vouch string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard[id] = vouch
}

func (a *admission) heardOf(id p2p.ID) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard[id]
}

// watch ends the connections with nodes that may not be connected any more, until ctx ends. each is
// called before each look.
func (a *admission) watch(ctx context.Context, net p2p.Switcher, each func()) {
	tick := time.NewTicker(redialEvery)
	defer tick.Stop()
	for {
		each()
		a.look(net)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (a *admission) look(net p2p.Switcher) {
	connected := map[p2p.ID]bool{}
	for _, peer := range net.Peers().Copy() {
		connected[peer.ID()] = true
		err := a.check(peer)
		if err == nil {
			delete(a.ending, peer.ID())
		} else if a.ends(peer, err) {
			a.log.Warn("connection ended: "+err.Error(), "node", peer.ID(), "address", peer.SocketAddr())
			net.StopPeerGracefully(peer)
		}
	}
	maps.DeleteFunc(a.ending, func(id p2p.ID, _ ending) bool { return !connected[id] })
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.heard, func(id p2p.ID, _ string) bool { return !connected[id] })
}

// ends tells that it is time to end a connection: a node whose organisation left has the block that
// says so, or the farewell is over.
func (a *admission) ends(peer p2p.Peer, why error) bool {
	e, known := a.ending[peer.ID()]
	if !known {
		e = ending{time.Now(), a.height()}
		a.ending[peer.ID()] = e
	}
	if time.Since(e.since) >= farewell {
		return true
	}
	state, known := peer.Get(types.PeerStateKey).(mempool.PeerState)
	return errors.Is(why, errLeft) && known && state.GetHeight() > e.height
}
