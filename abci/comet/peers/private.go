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

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/fair"
	"github.com/chainify-db/chainify/abci/wire"
)

// PrivateName is the reactor's in CometBFT's switch, PrivateChannel its channel.
const (
	PrivateName    = "CHAINIFY_PRIVATE"
	PrivateChannel = byte(0x77)
)

// A member pays for the private values that its nodes send: their bytes, and privateLeast for each
// message, for which two signatures are made or verified and a disk is waited for. So it has 32 MiB
// once, and 8 MiB and 1,024 messages a second. privateAtOnce messages are worked on at once, of one
// member alone half of them. A question costs what is given, too.
const (
	privateMax    = 32 << 20
	privateEach   = time.Second / (8 << 20)
	privateLeast  = 8 << 10
	privateAtOnce = 64
	privateLimit  = 5 * time.Second // for one message
)

// PrivateOptions configures a Private.
type PrivateOptions struct {
	ChainID      string
	Organisation string
	Key          func() crypto.Signer // the organisation's gateway key, nil while it has none in the registry
	NodeID       string               // this node's, in CometBFT's network
	// GatewayKey is that of an organisation that has a database; false for others.
	GatewayKey func(organisation string) (ed25519.PublicKey, bool)
	// Ever reports whether a key that an organisation has, had, or will have fits.
	Ever    func(organisation string, fits func(ed25519.PublicKey) bool) bool
	Conduct *Conduct
	// Take keeps values of another organisation on the disk, or says why not.
	Take func(ctx context.Context, from string, values *wire.PrivateValues) (refusal string)
	// Give returns the values that another organisation asks for and may hold.
	Give func(ctx context.Context, to string, names []*wire.SealedName) ([]*wire.SealedValue, error)
	Log  *slog.Logger
}

// Private carries private values between nodes of organisations that may hold them
// (spec/private.md). Package private decides who may. Whose node a connection leads to is decided
// here.
//
// Invariant K1: a value goes to a node that a member vouches for in the registry in force, and to
// that member alone.
type Private struct {
	p2p.BaseReactor
	opt PrivateOptions
	// OrganisationOf is the member that vouches for a connected node now; empty: none does. Set it
	// before the first peer connects.
	OrganisationOf func(p2p.Peer) string

	bytes  *fair.Budget[string] // by account
	places *fair.Shares[string] // by member
	work   sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex // guards all below
	requests uint64
	waiting  map[uint64]*privateRound
}

// privateRound waits for answers to one request.
type privateRound struct {
	tx    wire.TxID
	asked map[p2p.ID]string // nodes that have not answered, and whose they are
	held  chan heldBy
	given chan *wire.PrivateGive
}

type heldBy struct{ organisation, refusal string }

var _ p2p.Reactor = (*Private)(nil)

// NewPrivate makes a reactor, to be given to CometBFT's node.
func NewPrivate(opt PrivateOptions) (*Private, error) {
	if opt.Key == nil || opt.GatewayKey == nil || opt.Ever == nil || opt.Conduct == nil || opt.Take == nil || opt.Give == nil || opt.Log == nil {
		return nil, errors.New("peers: keys, conduct, logger, and what takes and gives private values are required")
	}
	r := &Private{
		opt: opt, OrganisationOf: func(p2p.Peer) string { return "" },
		bytes:  fair.NewBudget[string](privateMax, privateEach, conductKept, time.Now),
		places: fair.New[string](privateAtOnce), waiting: map[uint64]*privateRound{},
	}
	r.BaseReactor = *p2p.NewBaseReactor(PrivateName, r)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// GetChannels implements p2p.Reactor.
func (r *Private) GetChannels() []*p2p.ChannelDescriptor {
	return []*p2p.ChannelDescriptor{{
		ID: PrivateChannel, Priority: 3, SendQueueCapacity: 64,
		RecvMessageCapacity: wire.PrivateMessageBytesMax + envelopeMore, MessageType: &types.BytesValue{},
	}}
}

// OnStop ends the work under way.
func (r *Private) OnStop() {
	r.mu.Lock()
	r.cancel() // from here on no work begins
	r.mu.Unlock()
	r.work.Wait()
}

// nodes are the connected nodes of an organisation that speak this protocol.
func (r *Private) nodes(organisation string) (out []p2p.Peer) {
	if r.Switch == nil {
		return nil
	}
	for _, peer := range r.Switch.Peers().Copy() {
		if speaks(peer, PrivateChannel) && r.OrganisationOf(peer) == organisation {
			out = append(out, peer)
		}
	}
	return out
}

// begin notes a request, whose answers come until end.
func (r *Private) begin(round *privateRound) (number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	r.waiting[r.requests] = round
	return r.requests
}

func (r *Private) end(number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, number)
}

// Deliver implements private.Others.
func (r *Private) Deliver(ctx context.Context, tx wire.TxID, validUntil uint64, to map[string][]*wire.SealedValue, enough func(holds func(string) bool) bool) map[string]string {
	nodes, asked := map[p2p.Peer]string{}, map[p2p.ID]string{}
	for organisation := range to {
		for _, peer := range r.nodes(organisation) {
			nodes[peer], asked[peer.ID()] = organisation, organisation
		}
	}
	replies := map[string]string{}
	key := r.opt.Key()
	if len(nodes) == 0 || key == nil {
		return replies
	}
	round := &privateRound{tx: tx, asked: asked, held: make(chan heldBy, len(nodes))}
	number := r.begin(round)
	defer r.end(number)
	for peer, organisation := range nodes {
		m := &wire.PrivateValues{Request: number, Organisation: r.opt.Organisation, Transaction: tx[:], ValidUntilHeight: validUntil, Values: to[organisation]}
		if err := wire.SignPrivate(key, r.opt.ChainID, r.opt.NodeID, string(peer.ID()), m); err != nil {
			r.opt.Log.Warn("could not sign private values for another organisation", "error", err)
			return replies
		}
		peer.TrySend(privateEnvelope(&wire.PrivateMessage{Body: &wire.PrivateMessage_Values{Values: m}}))
	}
	for answers := 0; answers < len(nodes) && !enough(func(o string) bool { why, said := replies[o]; return said && why == "" }); answers++ {
		select {
		case a := <-round.held:
			if why, said := replies[a.organisation]; !said || why != "" { // one of its nodes is enough
				replies[a.organisation] = a.refusal
			}
		case <-ctx.Done():
			return replies
		case <-r.ctx.Done():
			return replies
		}
	}
	return replies
}

var (
	errNoNode  = errors.New("no node of the organisation is connected")
	errNoValue = errors.New("its nodes gave none in time")
)

// Ask implements private.Others. The first answer counts.
func (r *Private) Ask(ctx context.Context, organisation string, names []*wire.SealedName) ([]*wire.SealedValue, error) {
	key, nodes := r.opt.Key(), r.nodes(organisation)
	if key == nil {
		return nil, errNoMember
	}
	if len(nodes) == 0 {
		return nil, errNoNode
	}
	round := &privateRound{asked: map[p2p.ID]string{}, given: make(chan *wire.PrivateGive, len(nodes))}
	for _, peer := range nodes {
		round.asked[peer.ID()] = organisation
	}
	number := r.begin(round)
	defer r.end(number)
	for _, peer := range nodes {
		m := &wire.PrivateAsk{Request: number, Organisation: r.opt.Organisation, Names: names}
		if err := wire.SignPrivate(key, r.opt.ChainID, r.opt.NodeID, string(peer.ID()), m); err != nil {
			return nil, err
		}
		peer.TrySend(privateEnvelope(&wire.PrivateMessage{Body: &wire.PrivateMessage_Ask{Ask: m}}))
	}
	for range nodes {
		select {
		case given := <-round.given:
			if len(given.Values) > 0 {
				return given.Values, nil
			}
		case <-ctx.Done():
			return nil, errNoValue
		case <-r.ctx.Done():
			return nil, r.ctx.Err()
		}
	}
	return nil, nil
}

// Receive implements p2p.Reactor. It is called by the routine that reads all of a peer's channels.
// An answer that nobody waits for is not decoded. While a member's bytes are used up, its
// connection is left unread. It waits for nothing else.
func (r *Private) Receive(e p2p.Envelope) {
	raw, ok := e.Message.(*types.BytesValue)
	if !ok || r.opt.Conduct.Barred(e.Src.ID()) {
		return
	}
	if request, answers := wire.PeekPrivateAnswer(raw.Value); answers && !r.awaits(request, e.Src) {
		return
	}
	account := r.opt.Conduct.account(e.Src)
	for r.bytes.Left(account) <= 0 {
		r.opt.Conduct.Accuse(e.Src.ID(), accuse.ReadSlowly(r.opt.Conduct.member(e.Src), "private values"))
		if !hold(e.Src, privateLeast*privateEach) {
			return
		}
	}
	r.bytes.Spend(account, int64(len(raw.Value))+privateLeast)
	m, err := wire.DecodePrivateMessage(raw.Value)
	if err != nil {
		r.opt.Conduct.Malformed(r.Switch, e.Src, "malformed message of another node", err)
		return
	}
	switch body := m.Body.(type) {
	case *wire.PrivateMessage_Values:
		r.works(e.Src, body.Values, func(ctx context.Context, key crypto.Signer) { r.take(ctx, key, e.Src, body.Values) })
	case *wire.PrivateMessage_Ask:
		r.works(e.Src, body.Ask, func(ctx context.Context, _ crypto.Signer) { r.give(ctx, e.Src, account, body.Ask) })
	case *wire.PrivateMessage_Held:
		r.held(e.Src, body.Held)
	case *wire.PrivateMessage_Give:
		if round, _ := r.answers(body.Give.Request, e.Src); round != nil && round.given != nil {
			round.given <- body.Give
		}
	}
}

// awaits reports whether a peer was asked in a round, and has not answered.
func (r *Private) awaits(number uint64, peer p2p.Peer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	round := r.waiting[number]
	return round != nil && round.asked[peer.ID()] != ""
}

// answers is the round that a peer answers, and whose node it was asked as. Of each node one answer
// counts, for which the round's channel has room.
func (r *Private) answers(number uint64, peer p2p.Peer) (*privateRound, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	round := r.waiting[number]
	if round == nil || round.asked[peer.ID()] == "" {
		return nil, ""
	}
	organisation := round.asked[peer.ID()]
	delete(round.asked, peer.ID())
	return round, organisation
}

// signed checks that the organisation that a message names signed it for these two nodes.
func (r *Private) signed(peer p2p.Peer, m wire.PrivateSigned) bool {
	fits := func(key ed25519.PublicKey) bool {
		return wire.VerifyPrivate(key, r.opt.ChainID, string(peer.ID()), r.opt.NodeID, m)
	}
	if key, known := r.opt.GatewayKey(m.GetOrganisation()); known && fits(key) {
		return true
	}
	if !r.opt.Ever(m.GetOrganisation(), fits) {
		r.opt.Conduct.Forged(r.Switch, peer, "sent a message about private values without the signature of the organisation that it names", errNoSuchKey)
		return false
	}
	r.opt.Conduct.Accuse(peer.ID(), accuse.OldKey(m.GetOrganisation(), "about private values"))
	return false
}

// works does the work of a message that is signed by the organisation of its node, when there is a
// place. Else the other node waits in vain.
func (r *Private) works(peer p2p.Peer, m wire.PrivateSigned, do func(ctx context.Context, key crypto.Signer)) {
	key, from := r.opt.Key(), r.OrganisationOf(peer)
	if key == nil || from == "" || from != m.GetOrganisation() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil || !r.places.Take(from, 1) {
		return
	}
	r.work.Go(func() {
		defer r.places.Give(from, 1)
		if !r.signed(peer, m) {
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx, privateLimit)
		defer cancel()
		do(ctx, key)
	})
}

// take keeps values, and says so once they are on the disk.
func (r *Private) take(ctx context.Context, key crypto.Signer, peer p2p.Peer, m *wire.PrivateValues) {
	held := &wire.PrivateHeld{Request: m.Request, Organisation: r.opt.Organisation, Transaction: m.Transaction, Refusal: r.opt.Take(ctx, m.Organisation, m)}
	if err := wire.SignPrivate(key, r.opt.ChainID, r.opt.NodeID, string(peer.ID()), held); err != nil {
		r.opt.Log.Warn("could not confirm private values of another organisation", "error", err)
		return
	}
	peer.Send(privateEnvelope(&wire.PrivateMessage{Body: &wire.PrivateMessage_Held{Held: held}}))
}

// give answers with what there is, which may be nothing. Whose node it is was found out when it
// asked, and is again: a member may have left meanwhile.
func (r *Private) give(ctx context.Context, peer p2p.Peer, account string, m *wire.PrivateAsk) {
	values, err := r.opt.Give(ctx, m.Organisation, m.Names)
	if err != nil {
		r.opt.Log.Warn("could not read private values for another organisation", "organisation", m.Organisation, "error", err)
	}
	if r.OrganisationOf(peer) != m.Organisation {
		return
	}
	answer := privateEnvelope(&wire.PrivateMessage{Body: &wire.PrivateMessage_Give{Give: &wire.PrivateGive{Request: m.Request, Values: values}}})
	r.bytes.Spend(account, int64(len(answer.Message.(*types.BytesValue).Value)))
	peer.Send(answer)
}

// held passes a confirmation to the waiting delivery.
func (r *Private) held(peer p2p.Peer, m *wire.PrivateHeld) {
	round, organisation := r.answers(m.Request, peer)
	if round == nil || round.held == nil || round.tx != wire.TxID(m.Transaction) || organisation != m.Organisation || !r.signed(peer, m) {
		return
	}
	round.held <- heldBy{m.Organisation, m.Refusal}
}

func privateEnvelope(m *wire.PrivateMessage) p2p.Envelope {
	return p2p.Envelope{ChannelID: PrivateChannel, Message: &types.BytesValue{Value: wire.Encode(m)}}
}
