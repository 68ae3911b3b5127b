package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cometbft/cometbft/light/provider"
	"github.com/cometbft/cometbft/p2p"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"
	gogo "github.com/cosmos/gogoproto/types"
	"golang.org/x/time/rate"
)

// HeadersName is the reactor's in CometBFT's switch, HeadersChannel its channel.
const (
	HeadersName    = "CHAINIFY_HEADERS"
	HeadersChannel = byte(0x74)
)

// Answers to one peer: loading validators may take a good part of a second.
const (
	headersPerSecond = 10
	headersAtOnce    = 20
)

// headerBytesMax bounds a header with its commit and the validators.
const headerBytesMax = 1 << 20

// The first byte of a message.
const (
	asksHeader  = byte(0)
	tellsHeader = byte(1)
)

// HeadersOptions configures a headers reactor.
type HeadersOptions struct {
	// Load returns the header of a height with its commit and validators, height 0 for the newest;
	// nil: this node does not have it.
	Load    func(height int64) *types.LightBlock
	Conduct *Conduct
}

// Headers sends certified headers of the order to other nodes, and asks them for theirs
// (spec/snapshot.md). The asking node verifies the headers.
type Headers struct {
	p2p.BaseReactor
	opt HeadersOptions

	mu      sync.Mutex // guards waiting and pace
	waiting map[p2p.ID]headerQuestion
	pace    map[p2p.ID]*rate.Limiter // of answers

	loading sync.Mutex // one header at a time
}

// headerQuestion is one that a peer has not answered.
type headerQuestion struct {
	height int64
	answer chan *types.LightBlock // holds one; nil: the peer has none
}

var _ p2p.Reactor = (*Headers)(nil)

// NewHeaders makes a reactor, to be given to CometBFT's node.
func NewHeaders(opt HeadersOptions) *Headers {
	r := &Headers{opt: opt, waiting: map[p2p.ID]headerQuestion{}, pace: map[p2p.ID]*rate.Limiter{}}
	r.BaseReactor = *p2p.NewBaseReactor(HeadersName, r)
	return r
}

// GetChannels implements p2p.Reactor.
func (r *Headers) GetChannels() []*p2p.ChannelDescriptor {
	return []*p2p.ChannelDescriptor{{
		ID: HeadersChannel, Priority: 1, SendQueueCapacity: 10,
		RecvMessageCapacity: headerBytesMax + envelopeMore, MessageType: &gogo.BytesValue{},
	}}
}

// Peers are the connected ones.
func (r *Headers) Peers() (out []p2p.ID) {
	for _, peer := range r.Switch.Peers().Copy() {
		out = append(out, peer.ID())
	}
	return out
}

// Ask asks a peer for the header of a height, 0 for its newest, and waits at most as long as ctx
// allows. One question to a peer at a time is answered: a newer one takes its place. The answer is
// that of a peer, and not verified.
func (r *Headers) Ask(ctx context.Context, id p2p.ID, height int64) (*types.LightBlock, error) {
	peer := r.Switch.Peers().Get(id)
	if peer == nil {
		return nil, provider.ErrNoResponse
	}
	q := headerQuestion{height: height, answer: make(chan *types.LightBlock, 1)}
	r.mu.Lock()
	r.waiting[id] = q
	r.mu.Unlock()
	if !peer.Send(headerEnvelope(asksHeader, height, nil)) {
		return nil, provider.ErrNoResponse
	}
	select {
	case told := <-q.answer:
		if told == nil {
			return nil, provider.ErrLightBlockNotFound
		}
		return told, nil
	case <-ctx.Done():
		return nil, provider.ErrNoResponse
	}
}

func headerEnvelope(kind byte, height int64, block []byte) p2p.Envelope {
	raw := binary.BigEndian.AppendUint64([]byte{kind}, uint64(height))
	return p2p.Envelope{ChannelID: HeadersChannel, Message: &gogo.BytesValue{Value: append(raw, block...)}}
}

// RemovePeer implements p2p.Reactor.
func (r *Headers) RemovePeer(peer p2p.Peer, _ any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, peer.ID())
	delete(r.pace, peer.ID())
}

// Receive implements p2p.Reactor. A peer that asks too quickly is not read on any channel until its
// next answer is due. An answer that nobody waits for is not decoded.
func (r *Headers) Receive(e p2p.Envelope) {
	m, ok := e.Message.(*gogo.BytesValue)
	if !ok {
		return
	}
	kind, height, raw, err := splitHeader(m.Value)
	switch {
	case err != nil:
	case kind == asksHeader:
		r.answer(e.Src, height)
	default:
		err = r.told(e.Src.ID(), height, raw)
	}
	if err != nil {
		r.opt.Conduct.Malformed(r.Switch, e.Src, "another node sent a malformed header", err)
	}
}

// answer tells a peer a header, when its turn comes.
func (r *Headers) answer(peer p2p.Peer, height int64) {
	r.mu.Lock()
	pace := r.pace[peer.ID()]
	if pace == nil {
		pace = rate.NewLimiter(headersPerSecond, headersAtOnce)
		r.pace[peer.ID()] = pace
	}
	r.mu.Unlock()
	if wait := pace.Reserve().Delay(); wait > 0 {
		select {
		case <-time.After(wait):
		case <-r.Quit():
			return
		}
	}
	r.loading.Lock()
	block := r.opt.Load(height)
	r.loading.Unlock()
	peer.TrySend(headerEnvelope(tellsHeader, height, encodeHeader(block)))
}

// told passes an answer to the waiting question, and drops a late one.
func (r *Headers) told(peer p2p.ID, height int64, raw []byte) error {
	r.mu.Lock()
	q, asked := r.waiting[peer]
	if asked = asked && q.height == height; asked {
		delete(r.waiting, peer)
	}
	r.mu.Unlock()
	if !asked {
		return nil
	}
	block, err := decodeHeader(raw)
	if err == nil {
		q.answer <- block
	}
	return err
}

// encodeHeader returns no bytes for a missing header, and for one that is too large to be sent.
func encodeHeader(block *types.LightBlock) []byte {
	if block == nil {
		return nil
	}
	message, err := block.ToProto()
	if err != nil {
		return nil
	}
	raw, err := message.Marshal()
	if err != nil || len(raw) > headerBytesMax {
		return nil
	}
	return raw
}

// splitHeader takes the head off a message.
func splitHeader(raw []byte) (kind byte, height int64, block []byte, err error) {
	if len(raw) < 9 || raw[0] > tellsHeader {
		return 0, 0, nil, fmt.Errorf("header message: head: %w", errMalformed)
	}
	kind, height, block = raw[0], int64(binary.BigEndian.Uint64(raw[1:9])), raw[9:]
	if height < 0 || kind == asksHeader && len(block) > 0 {
		return 0, 0, nil, fmt.Errorf("header message: height or length: %w", errMalformed)
	}
	return kind, height, block, nil
}

// decodeHeader decodes an answer; nil for no bytes: the peer has none.
func decodeHeader(raw []byte) (*types.LightBlock, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var message cmtproto.LightBlock
	if err := message.Unmarshal(raw); err != nil {
		return nil, fmt.Errorf("header message: block: %w", err)
	}
	block, err := types.LightBlockFromProto(&message)
	if err != nil {
		return nil, fmt.Errorf("header message: block: %w", err)
	}
	return block, nil
}

var errMalformed = errors.New("malformed")
