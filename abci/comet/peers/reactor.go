// Package peers exchanges bundles, agreements, headers, rows and whole blocks with the nodes of
// other organisations, over CometBFT's connections. Rows and blocks are for an organisation whose
// tables, history or checkpoints are lost (spec/state-transfer.md). An organisation's signature
// identifies the asking node. The receiving database checks rows and blocks against certified
// hashes, so the sender need not be trusted.
package peers

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cometbft/cometbft/p2p"
	"github.com/cosmos/gogoproto/types"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// Name is the reactor's in CometBFT's switch, Channel its channel.
const (
	Name         = "CHAINIFY_STATE"
	Channel byte = 0x71
)

const (
	queueLength  = 4                // messages in either direction and peer
	envelopeMore = 16               // bytes that the envelope adds to a message
	openLimit    = 10 * time.Second // for the answer to open for a block as it is kept
	answerLimit  = 10 * time.Minute // a look may scan a large table
	idleLimit    = 30 * time.Second // between two requests of a session
	sessionsMax  = 2                // of different organisations at once
	turnLimit    = 30 * time.Second // for which an organisation that found no place keeps its turn

	// The telling side may keep the asking side waiting for stallLimit in all, and longer by what
	// the bytes that it told take at rateMin.
	stallLimit = time.Hour
	rateMin    = 1 << 10
)

// SessionLimit is how long telling one other takes at most, where Options do not say: a snapshot
// keeps dead rows.
const SessionLimit = 2 * time.Hour

// Options configures a reactor.
type Options struct {
	ChainID      string
	Organisation string
	Key          func() crypto.Signer // the organisation's gateway key, nil while it has none in the registry
	NodeID       string               // this node's, in CometBFT's network
	// GatewayKey is that of an organisation that has a database; false for others.
	GatewayKey func(organisation string) (ed25519.PublicKey, bool)
	// Ever reports whether a key that an organisation has, had, or will have fits.
	Ever    func(organisation string, fits func(ed25519.PublicKey) bool) bool
	Conduct *Conduct
	Backend backend.Backend
	// BytesPerSecond bounds what rows are told with; 0: nothing is told.
	BytesPerSecond int
	SessionLimit   time.Duration // for telling one other; 0: SessionLimit
	Log            *slog.Logger
}

// Reactor asks, and answers two others at a time.
//
// Invariant R6: rows are told to a node that an organisation signed for, for this node and this
// block.
type Reactor struct {
	p2p.BaseReactor
	opt Options
	// limits of tests
	idleLimit, answerLimit, openLimit, stallLimit time.Duration
	now                                           func() time.Time

	work   sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex // guards all below
	waiting  map[question]chan *wire.StateResponse
	requests uint64
	sessions map[p2p.ID]*session  // whom we tell
	turned   map[string]time.Time // organisations that found no place, since when
	told     map[string]time.Time // organisations that were told, until when
}

// question is a request on its way.
type question struct {
	peer    p2p.ID
	request uint64
}

var _ p2p.Reactor = (*Reactor)(nil)

// New makes a reactor, to be given to CometBFT's node.
func New(opt Options) (*Reactor, error) {
	if opt.Backend == nil || opt.Log == nil || opt.GatewayKey == nil || opt.Key == nil || opt.Ever == nil || opt.Conduct == nil {
		return nil, errors.New("peers: backend, logger, conduct and keys are required")
	}
	if opt.SessionLimit == 0 {
		opt.SessionLimit = SessionLimit
	}
	r := &Reactor{
		opt: opt, now: time.Now, idleLimit: idleLimit, answerLimit: answerLimit, openLimit: openLimit, stallLimit: stallLimit,
		waiting: map[question]chan *wire.StateResponse{}, sessions: map[p2p.ID]*session{}, turned: map[string]time.Time{}, told: map[string]time.Time{},
	}
	r.BaseReactor = *p2p.NewBaseReactor(Name, r)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// GetChannels implements p2p.Reactor.
func (r *Reactor) GetChannels() []*p2p.ChannelDescriptor {
	return []*p2p.ChannelDescriptor{{
		ID: Channel, Priority: 1, SendQueueCapacity: queueLength,
		RecvMessageCapacity: wire.StateMessageBytesMax + envelopeMore, MessageType: &types.BytesValue{},
	}}
}

// OnStop ends the session and all waits for an answer.
func (r *Reactor) OnStop() {
	r.mu.Lock()
	r.cancel() // from here on no session begins
	r.mu.Unlock()
	r.work.Wait()
}

// RemovePeer implements p2p.Reactor.
func (r *Reactor) RemovePeer(peer p2p.Peer, _ any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sessions[peer.ID()]; s != nil {
		s.end()
	}
	for q, answer := range r.waiting {
		if q.peer == peer.ID() {
			close(answer)
			delete(r.waiting, q)
		}
	}
}

// Receive implements p2p.Reactor. It never waits: it is called by the routine that reads all of a
// peer's channels. An answer that nobody waits for, or a question outside of a session, is not
// decoded.
func (r *Reactor) Receive(e p2p.Envelope) {
	raw, ok := e.Message.(*types.BytesValue)
	if !ok || r.opt.Conduct.Barred(e.Src.ID()) {
		return
	}
	head := wire.PeekState(raw.Value)
	if head.Answers && !r.awaits(question{e.Src.ID(), head.Request}) {
		return
	}
	if head.Asks && !head.Opens && !r.tells(e.Src) {
		if !head.Closes {
			r.refuse(e.Src, &wire.StateRequest{Request: head.Request}, "no block was opened")
		}
		return
	}
	m, err := wire.DecodeStateMessage(raw.Value)
	if err != nil {
		r.opt.Conduct.Malformed(r.Switch, e.Src, "malformed message of another node", err)
		return
	}
	switch body := m.Body.(type) {
	case *wire.StateMessage_Request:
		r.asked(e.Src, body.Request)
	case *wire.StateMessage_Response:
		r.answered(e.Src, body.Response)
	}
}

func (r *Reactor) awaits(q question) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[q] != nil
}

func (r *Reactor) tells(peer p2p.Peer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[peer.ID()] != nil
}

// answered passes an answer to the waiting question, and drops a late one.
func (r *Reactor) answered(peer p2p.Peer, a *wire.StateResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := question{peer.ID(), a.Request}
	if answer := r.waiting[q]; answer != nil {
		delete(r.waiting, q)
		answer <- a // holds one
	}
}

func envelope(m *wire.StateMessage) p2p.Envelope {
	return p2p.Envelope{ChannelID: Channel, Message: &types.BytesValue{Value: wire.Encode(m)}}
}
