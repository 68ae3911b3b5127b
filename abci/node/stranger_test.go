package node

import (
	"fmt"
	"sync"
	"testing"

	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/consensus"
	"github.com/cometbft/cometbft/p2p"
	cons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/version"

	"github.com/chainify-db/chainify/abci/config"
)

// stranger speaks CometBFT's protocol between nodes and runs no node: it says that it stands where each of its peers stands, so that these
// tell it all votes, and it sends what a test wants. With the node key of a member it is one that attacks; with a new key, anybody.
type stranger struct {
	p2p.BaseReactor
	net *p2p.Switch

	mu     sync.Mutex
	height int64 // where the peers stand
	round  int32
	onVote func(v *cmtproto.Vote)
}

// strangersChannels are those of the consensus reactor.
var strangersChannels = []byte{consensus.StateChannel, consensus.DataChannel, consensus.VoteChannel, consensus.VoteSetBitsChannel}

// meet makes a stranger of a node key and connects it to these nodes.
func meet(t *testing.T, key *p2p.NodeKey, to ...*runner) *stranger {
	t.Helper()
	settings := comet.DefaultP2PConfig()
	settings.AllowDuplicateIP, settings.MaxPacketMsgPayloadSize = true, 16<<10 // as the nodes have it
	s := &stranger{}
	s.BaseReactor = *p2p.NewBaseReactor("stranger", s)
	info := p2p.DefaultNodeInfo{
		ProtocolVersion: p2p.NewProtocolVersion(version.P2PProtocol, version.BlockProtocol, 1), DefaultNodeID: key.ID(), Network: "test", Version: "0",
		Channels: strangersChannels, ListenAddr: "127.0.0.1:1", Moniker: "stranger", Other: p2p.DefaultNodeInfoOther{TxIndex: "off"},
	}
	s.net = p2p.NewSwitch(settings, p2p.NewMultiplexTransport(info, *key, p2p.MConnConfig(settings)))
	s.net.AddReactor("stranger", s)
	s.net.SetNodeInfo(info)
	s.net.SetNodeKey(key)
	if err := s.net.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.net.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, r := range to {
		if err := s.net.DialPeerWithAddress(addressOf(t, r)); err != nil {
			t.Fatalf("connect to %s: %v", r.home, err)
		}
	}
	return s
}

// addressOf is where a node listens for others.
func addressOf(t *testing.T, r *runner) *p2p.NetAddress {
	t.Helper()
	c, err := config.Load(string(r.home))
	if err != nil {
		t.Fatal(err)
	}
	address, err := p2p.NewNetAddressString(fmt.Sprintf("%s@%s", nodeKey(t, r).ID(), c.Network.Listen))
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func nodeKey(t *testing.T, r *runner) *p2p.NodeKey {
	t.Helper()
	key, err := r.home.NodeKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// GetChannels implements p2p.Reactor.
func (s *stranger) GetChannels() (out []*p2p.ChannelDescriptor) {
	for _, id := range strangersChannels {
		out = append(out, &p2p.ChannelDescriptor{ID: id, Priority: 5, SendQueueCapacity: 1000, RecvMessageCapacity: 10 << 20, MessageType: &cons.Message{}})
	}
	return out
}

// Receive implements p2p.Reactor.
func (s *stranger) Receive(e p2p.Envelope) {
	switch m := e.Message.(type) {
	case *cons.NewRoundStep:
		s.mu.Lock()
		s.height, s.round = m.Height, m.Round
		s.mu.Unlock()
		e.Src.TrySend(p2p.Envelope{ChannelID: consensus.StateChannel, Message: m})
	case *cons.Vote:
		s.mu.Lock()
		hears := s.onVote
		s.mu.Unlock()
		if hears != nil {
			hears(m.Vote)
		}
	}
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
		if p.Send(p2p.Envelope{ChannelID: consensus.VoteChannel, Message: &cons.Vote{Vote: v}}) {
			sent++
		}
	}
	return sent
}
