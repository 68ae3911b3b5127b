package node

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"sync"
	"testing"

	"github.com/cometbft/cometbft/blocksync"
	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/consensus"
	"github.com/cometbft/cometbft/p2p"
	blocks "github.com/cometbft/cometbft/proto/tendermint/blocksync"
	votes "github.com/cometbft/cometbft/proto/tendermint/consensus"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/version"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// stranger speaks CometBFT's protocol between nodes and runs no node. It says that it stands where
// each of its peers stands, so that these tell it all votes. It keeps every block that it is given,
// and sends the votes that a test wants. With the keys of a member it is one that attacks.
type stranger struct {
	p2p.BaseReactor
	key p2p.NodeKey
	net *p2p.Switch

	mu     sync.Mutex
	blocks map[int64]*blocks.BlockResponse
	height int64 // where the peer stands that told last
	round  int32
	onVote func(v *cmtproto.Vote)
}

// newStranger makes a stranger with a node key; vouch gives what it shows of itself, its moniker.
func newStranger(t *testing.T, key p2p.NodeKey, vouch func(id p2p.ID) string) *stranger {
	t.Helper()
	s := &stranger{key: key, blocks: map[int64]*blocks.BlockResponse{}}
	s.BaseReactor = *p2p.NewBaseReactor("stranger", s)
	settings := comet.DefaultP2PConfig()
	settings.AllowDuplicateIP = true
	settings.MaxPacketMsgPayloadSize = 16 << 10
	var channels []byte
	for _, c := range s.GetChannels() {
		channels = append(channels, c.ID)
	}
	info := p2p.DefaultNodeInfo{
		ProtocolVersion: p2p.NewProtocolVersion(version.P2PProtocol, version.BlockProtocol, 1), DefaultNodeID: s.key.ID(),
		Network: "test", Version: "0", Channels: channels, ListenAddr: "127.0.0.1:1", Moniker: vouch(s.key.ID()),
		Other: p2p.DefaultNodeInfoOther{TxIndex: "off"},
	}
	s.net = p2p.NewSwitch(settings, p2p.NewMultiplexTransport(info, s.key, p2p.MConnConfig(settings)))
	s.net.AddReactor("stranger", s)
	s.net.SetNodeInfo(info)
	s.net.SetNodeKey(&s.key)
	must.Do(t, s.net.Start())
	t.Cleanup(func() { _ = s.net.Stop() })
	return s
}

// GetChannels implements p2p.Reactor.
func (s *stranger) GetChannels() []*p2p.ChannelDescriptor {
	var out []*p2p.ChannelDescriptor
	for _, id := range []byte{consensus.StateChannel, consensus.DataChannel, consensus.VoteChannel, consensus.VoteSetBitsChannel} {
		out = append(out, &p2p.ChannelDescriptor{ID: id, Priority: 5, SendQueueCapacity: 1000, RecvMessageCapacity: 10 << 20, MessageType: &votes.Message{}})
	}
	return append(out, &p2p.ChannelDescriptor{
		ID: blocksync.BlocksyncChannel, Priority: 5, SendQueueCapacity: 1000, RecvMessageCapacity: 10 << 20, MessageType: &blocks.Message{},
	})
}

// Receive implements p2p.Reactor.
func (s *stranger) Receive(e p2p.Envelope) {
	switch m := e.Message.(type) {
	case *votes.NewRoundStep:
		s.mu.Lock()
		s.height, s.round = m.Height, m.Round
		s.mu.Unlock()
		e.Src.TrySend(p2p.Envelope{ChannelID: consensus.StateChannel, Message: m})
	case *votes.Vote:
		s.mu.Lock()
		hears := s.onVote
		s.mu.Unlock()
		if hears != nil {
			hears(m.Vote)
		}
	case *blocks.StatusRequest:
		e.Src.TrySend(p2p.Envelope{ChannelID: blocksync.BlocksyncChannel, Message: &blocks.StatusResponse{}})
	case *blocks.BlockResponse:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.blocks[m.Block.Header.Height] = m
	}
}

// asks is for every block up to a height of each node it is connected with.
func (s *stranger) asks(height int64) {
	for _, peer := range s.net.Peers().Copy() {
		for h := int64(1); h <= height; h++ {
			peer.TrySend(p2p.Envelope{ChannelID: blocksync.BlocksyncChannel, Message: &blocks.BlockRequest{Height: h}})
		}
	}
}

// reads says whether a block that it was given holds a text.
func (s *stranger) reads(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.blocks {
		for _, tx := range b.Block.Data.Txs {
			if bytes.Contains(tx, []byte(text)) {
				return true
			}
		}
	}
	return false
}

// dials connects with a node; an error says that the node did not even answer the handshake.
func (s *stranger) dials(t *testing.T, r *runner) error {
	t.Helper()
	c, err := config.Load(string(r.home))
	must.Do(t, err)
	address, err := p2p.NewNetAddressString(fmt.Sprintf("%s@%s", nodeID(t, r), c.Network.Listen))
	if err != nil {
		t.Fatal(err)
	}
	return s.net.DialPeerWithAddress(address)
}

func nodeID(t *testing.T, r *runner) p2p.ID {
	t.Helper()
	key, err := r.home.NodeKey()
	must.Do(t, err)
	return key.ID()
}

// meet makes a stranger of a member's keys and connects it to these nodes.
func meet(t *testing.T, as *runner, to ...*runner) *stranger {
	t.Helper()
	node, err := as.home.NodeKey()
	must.Do(t, err)
	key, err := as.home.GatewayKey()
	if err != nil {
		t.Fatal(err)
	}
	s := newStranger(t, *node, func(id p2p.ID) string { return vouch(key, organisationOf(as), "test", id) })
	for _, r := range to {
		if err := s.dials(t, r); err != nil {
			t.Fatalf("connect to %s: %v", organisationOf(r), err)
		}
	}
	return s
}

// vouch is what a node shows whose organisation vouches for it with this key.
func vouch(key ed25519.PrivateKey, organisation, chainID string, id p2p.ID) string {
	v := &wire.Vouch{Organisation: organisation}
	v.Sign(key.Public().(ed25519.PublicKey), ed25519.Sign(key, wire.NodeSignBytes(chainID, organisation, string(id))))
	return v.String()
}

// hear has a test told of each vote that is heard. It comes from several goroutines.
func (s *stranger) hear(f func(v *cmtproto.Vote)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onVote = f
}

// stands is the height and round of the peer that told last.
func (s *stranger) stands() (height int64, round int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.height, s.round
}

// send sends a vote to all peers.
func (s *stranger) send(v *cmtproto.Vote) (sent int) {
	for _, p := range s.net.Peers().Copy() {
		if p.Send(p2p.Envelope{ChannelID: consensus.VoteChannel, Message: &votes.Vote{Vote: v}}) {
			sent++
		}
	}
	return sent
}
