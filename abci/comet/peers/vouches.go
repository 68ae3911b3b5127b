package peers

import (
	"sync"

	"github.com/cometbft/cometbft/p2p"
	"github.com/cosmos/gogoproto/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// VouchesName is the reactor's in CometBFT's switch, VouchesChannel its channel.
const (
	VouchesName    = "CHAINIFY_VOUCHES"
	VouchesChannel = byte(0x73)
)

// VouchesOptions configures a vouches reactor.
type VouchesOptions struct {
	// Own is the vouch for this node, by the keys that its home holds now.
	Own func() string
	// Heard takes what a peer says of itself. It must not wait.
	Heard func(peer p2p.ID, vouch string)
}

// Vouches keeps vouches current on connections that are there. A node shows its vouch when it
// connects, and cannot change it while it runs. When keys of its organisation are replaced, it
// tells its peers the one by the new keys here.
type Vouches struct {
	p2p.BaseReactor
	opt VouchesOptions

	mu   sync.Mutex // guards told
	told map[p2p.Peer]string
}

var _ p2p.Reactor = (*Vouches)(nil)

// NewVouches makes a reactor, to be given to CometBFT's node.
func NewVouches(opt VouchesOptions) *Vouches {
	r := &Vouches{opt: opt, told: map[p2p.Peer]string{}}
	r.BaseReactor = *p2p.NewBaseReactor(VouchesName, r)
	return r
}

// GetChannels implements p2p.Reactor.
func (r *Vouches) GetChannels() []*p2p.ChannelDescriptor {
	return []*p2p.ChannelDescriptor{{
		ID: VouchesChannel, Priority: 1, SendQueueCapacity: 2,
		RecvMessageCapacity: wire.VouchBytesMax + envelopeMore, MessageType: &types.BytesValue{},
	}}
}

// Tell sends the own vouch to the peers that do not have it. It does not wait.
func (r *Vouches) Tell() {
	own := r.opt.Own()
	for _, peer := range r.Switch.Peers().Copy() {
		if r.toldLast(peer) != own && peer.TrySend(p2p.Envelope{ChannelID: VouchesChannel, Message: &types.BytesValue{Value: []byte(own)}}) {
			r.mu.Lock()
			r.told[peer] = own
			r.mu.Unlock()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for peer := range r.told { // one may have been removed while it was told
		if !peer.IsRunning() {
			delete(r.told, peer)
		}
	}
}

func (r *Vouches) toldLast(peer p2p.Peer) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told[peer]
}

// Receive implements p2p.Reactor.
func (r *Vouches) Receive(e p2p.Envelope) {
	raw, ok := e.Message.(*types.BytesValue)
	if !ok {
		return
	}
	if _, err := wire.ParseVouch(string(raw.Value)); err != nil {
		r.Switch.StopPeerForError(e.Src, err)
		return
	}
	r.opt.Heard(e.Src.ID(), string(raw.Value))
}
