package peers

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/cometbft/cometbft/p2p"
	"github.com/cosmos/gogoproto/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// VersionsName is the reactor's in CometBFT's switch, VersionsChannel its channel.
const (
	VersionsName    = "CHAINIFY_VERSIONS"
	VersionsChannel = byte(0x75)
)

const versionBytes = 4 // u32

// Versions tells peers once which version of the protocol this node's program knows, and keeps what
// they tell. It is for people: nothing is decided by it. A peer that does not have the channel
// counts as one that knows the first version alone.
type Versions struct {
	p2p.BaseReactor
	known wire.Protocol

	mu    sync.Mutex // guards heard
	heard map[p2p.ID]wire.Protocol
}

var _ p2p.Reactor = (*Versions)(nil)

// NewVersions makes a reactor, to be given to CometBFT's node.
func NewVersions(known wire.Protocol) *Versions {
	r := &Versions{known: known, heard: map[p2p.ID]wire.Protocol{}}
	r.BaseReactor = *p2p.NewBaseReactor(VersionsName, r)
	return r
}

// GetChannels implements p2p.Reactor.
func (r *Versions) GetChannels() []*p2p.ChannelDescriptor {
	return []*p2p.ChannelDescriptor{{
		ID: VersionsChannel, Priority: 1, SendQueueCapacity: 1,
		RecvMessageCapacity: versionBytes + envelopeMore, MessageType: &types.BytesValue{},
	}}
}

// AddPeer implements p2p.Reactor.
func (r *Versions) AddPeer(peer p2p.Peer) {
	value := binary.BigEndian.AppendUint32(nil, r.known.Version())
	peer.TrySend(p2p.Envelope{ChannelID: VersionsChannel, Message: &types.BytesValue{Value: value}})
}

// RemovePeer implements p2p.Reactor.
func (r *Versions) RemovePeer(peer p2p.Peer, _ any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.heard, peer.ID())
}

// Receive implements p2p.Reactor. A peer tells once: a second message ends the connection.
func (r *Versions) Receive(e p2p.Envelope) {
	if err := r.hear(e); err != nil {
		r.Switch.StopPeerForError(e.Src, err)
	}
}

func (r *Versions) hear(e p2p.Envelope) error {
	raw, ok := e.Message.(*types.BytesValue)
	if !ok || len(raw.Value) != versionBytes {
		return fmt.Errorf("version of the protocol: want %d bytes", versionBytes)
	}
	v := binary.BigEndian.Uint32(raw.Value)
	if v == 0 || v > wire.ProtocolVersionMax {
		return fmt.Errorf("version of the protocol: %d, want 1 to %d", v, wire.ProtocolVersionMax)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, told := r.heard[e.Src.ID()]; told {
		return fmt.Errorf("version of the protocol: told twice")
	}
	r.heard[e.Src.ID()] = wire.Protocol(v)
	return nil
}

// Of returns the version that a connected node says its program knows, from 1.
func (r *Versions) Of(peer p2p.ID) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heard[peer].Version()
}
