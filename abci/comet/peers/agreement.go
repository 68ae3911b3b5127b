package peers

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cometbft/cometbft/p2p"
	"github.com/cosmos/gogoproto/types"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/fair"
	"github.com/chainify-db/chainify/abci/wire"
)

// AgreementChannel carries questions for agreement and their answers (spec/agreement.md).
const AgreementChannel = byte(0x72)

// AgreementName is the reactor's in CometBFT's switch.
const AgreementName = "CHAINIFY_AGREEMENT"

// answersAtOnce are questions that this node examines at once, of one organisation alone half of
// them. Further ones are told to ask again (spec/agreement.md).
const answersAtOnce = 8

// enoughLook is how often it is looked whether those that answered are enough, while others are
// silent.
const enoughLook = 100 * time.Millisecond

// unheardPause is for how long a connection is left unread with a question too many, since even
// that one's bytes were read.
const unheardPause = 5 * time.Millisecond

// AgreementOptions configures an agreement reactor.
type AgreementOptions struct {
	ChainID      string
	Organisation string
	Key          func() crypto.Signer // the organisation's gateway key, nil while it has none in the registry
	NodeID       string               // this node's, in CometBFT's network
	// GatewayKey is that of an organisation that has a database; false for others.
	GatewayKey func(organisation string) (ed25519.PublicKey, bool)
	// Ever reports whether a key that an organisation has, had, or will have fits.
	Ever    func(organisation string, fits func(ed25519.PublicKey) bool) bool
	Conduct *Conduct
	// Decide says why this organisation does not agree to a transaction, "" when it does. An error:
	// it could not find out. For how long its database may work is in the context (backend.Allow).
	// at tells the order block that the asking node works on, 0 while it is not known.
	Decide func(ctx context.Context, tx []byte, at func() int64) (refusal string, err error)
	// Limit bounds how long one decision takes.
	Limit time.Duration
	Log   *slog.Logger
}

// Agreements asks other organisations to agree to transactions of this one's clients, and answers
// them.
//
// Invariant C4: an organisation agrees only to what an organisation asked for a client of its own,
// and only after its own check.
type Agreements struct {
	p2p.BaseReactor
	opt       AgreementOptions
	questions *questions           // of others
	shares    *fair.Shares[string] // of what is being found out, by the organisation that asks
	work      sync.WaitGroup
	ctx       context.Context
	cancel    context.CancelFunc

	mu       sync.Mutex // guards all below
	requests uint64
	waiting  map[uint64]*round
}

// round is one question to several organisations.
type round struct {
	id      wire.TxID
	asked   []string
	answers chan Reply // has room for one of each
}

// Reply is an organisation's answer.
type Reply struct {
	Agreement *wire.Agreement // signed yes or no
	Reason    string          // of a no
}

var _ p2p.Reactor = (*Agreements)(nil)

// NewAgreements makes a reactor, to be given to CometBFT's node.
func NewAgreements(opt AgreementOptions) (*Agreements, error) {
	if opt.Decide == nil || opt.Log == nil || opt.GatewayKey == nil || opt.Key == nil || opt.Ever == nil || opt.Conduct == nil || opt.Limit <= 0 {
		return nil, errors.New("agreements: a decision, its limit, logger, conduct and keys are required")
	}
	r := &Agreements{opt: opt, questions: newQuestions(time.Now), shares: fair.New[string](answersAtOnce), waiting: map[uint64]*round{}}
	r.BaseReactor = *p2p.NewBaseReactor(AgreementName, r)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// GetChannels implements p2p.Reactor.
func (r *Agreements) GetChannels() []*p2p.ChannelDescriptor {
	return []*p2p.ChannelDescriptor{{
		ID: AgreementChannel, Priority: 2, SendQueueCapacity: 64,
		RecvMessageCapacity: wire.AgreementMessageBytesMax + envelopeMore, MessageType: &types.BytesValue{},
	}}
}

// OnStop ends decisions under way.
func (r *Agreements) OnStop() {
	r.mu.Lock()
	r.cancel() // from here on no decision begins
	r.mu.Unlock()
	r.work.Wait()
}

// Ask asks organisations, in ascending order, whether they agree to a transaction without
// agreements. It returns when each has answered, when answers are enough although some do not come,
// or when ctx ends. It returns the answers, whose signatures were checked, by organisation.
func (r *Agreements) Ask(ctx context.Context, id wire.TxID, tx []byte, organisations []string, enough func(map[string]Reply) bool) map[string]Reply {
	question := &round{id: id, asked: organisations, answers: make(chan Reply, len(organisations))}
	r.mu.Lock()
	r.requests++
	number := r.requests
	r.waiting[number] = question
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.waiting, number)
		r.mu.Unlock()
	}()
	r.send(number, id, tx, organisations)
	look := time.NewTicker(enoughLook)
	defer look.Stop()
	got, judged := map[string]Reply{}, 0
	for len(got) < len(organisations) {
		select {
		case a := <-question.answers:
			got[a.Agreement.Organisation] = a
		case <-look.C:
			if len(got) > judged && enough(got) {
				return got
			}
			judged = len(got)
		case <-ctx.Done():
			return got
		case <-r.ctx.Done():
			return got
		}
	}
	return got
}

// send asks every node connected that speaks this protocol: which organisation a node is of shows
// in what it signs.
func (r *Agreements) send(number uint64, id wire.TxID, tx []byte, organisations []string) {
	key := r.opt.Key()
	if r.Switch == nil || key == nil {
		return
	}
	for _, peer := range r.Switch.Peers().Copy() {
		if !speaks(peer, AgreementChannel) {
			continue
		}
		signature, err := wire.Sign(key, wire.AskSignBytes(r.opt.ChainID, r.opt.NodeID, string(peer.ID()), id))
		if err != nil {
			r.opt.Log.Warn("could not ask whether others agree", "error", err)
			return
		}
		ask := &wire.AgreementAsk{Request: number, Asked: organisations, Transaction: tx, Signature: signature}
		peer.TrySend(agreementEnvelope(&wire.AgreementMessage{Body: &wire.AgreementMessage_Ask{Ask: ask}}))
	}
}

// Receive implements p2p.Reactor. It is called by the routine that reads all of a peer's channels.
// An answer that nobody waits for is not decoded, nor are more questions of a member than there may
// be: the connection that they come on is left unread for unheardPause. It waits for nothing else.
func (r *Agreements) Receive(e p2p.Envelope) {
	raw, ok := e.Message.(*types.BytesValue)
	if !ok || r.opt.Conduct.Barred(e.Src.ID()) {
		return
	}
	request, answers := wire.PeekAnswer(raw.Value)
	switch {
	case answers && !r.awaits(request):
		return
	case !answers && !r.questions.hears(r.opt.Conduct.member(e.Src)):
		hold(e.Src, unheardPause)
		return
	}
	m, err := wire.DecodeAgreementMessage(raw.Value)
	if err != nil {
		r.opt.Conduct.Malformed(r.Switch, e.Src, "malformed message of another node", err)
		return
	}
	switch body := m.Body.(type) {
	case *wire.AgreementMessage_Ask:
		r.question(e.Src, body.Ask)
	case *wire.AgreementMessage_Answer:
		r.answered(e.Src, body.Answer)
	}
}

func (r *Agreements) awaits(request uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[request] != nil
}

var errNoSuchKey = errors.New("no key that the organisation ever had fits the signature")

// answered passes an answer to the waiting question. An answer that nobody waits for, or that is
// wrongly signed, is dropped.
func (r *Agreements) answered(peer p2p.Peer, a *wire.AgreementAnswer) {
	name := a.Agreement.Organisation
	r.mu.Lock()
	question := r.waiting[a.Request]
	r.mu.Unlock()
	if question == nil || !slices.Contains(question.asked, name) {
		return
	}
	fits := func(key ed25519.PublicKey) bool {
		return wire.VerifyAnswer(key, r.opt.ChainID, question.id, a.Agreement)
	}
	if key, known := r.opt.GatewayKey(name); !known || !fits(key) {
		if !r.opt.Ever(name, fits) {
			r.opt.Conduct.Forged(r.Switch, peer, "another node sent an answer in the name of an organisation that did not sign it", errNoSuchKey)
		}
		return
	}
	select {
	case question.answers <- Reply{a.Agreement, a.Reason}:
	default: // answered more than once
	}
}

// question begins to find out whether this organisation agrees. The transaction is decoded once its
// organisation is seen to ask. A member whose time is used up is told so
// unverified; nobody else gets such an answer to its question.
func (r *Agreements) question(peer p2p.Peer, ask *wire.AgreementAsk) {
	if !slices.Contains(ask.Asked, r.opt.Organisation) {
		return
	}
	own := r.opt.Key()
	id, chainID, client := wire.PeekAsked(ask)
	if refusal := r.questions.refuses(client); refusal != "" && own != nil && r.opt.Conduct.member(peer) == client {
		r.answer(peer.TrySend, own, ask.Request, id, false, refusal)
		return
	}
	fits := func(key ed25519.PublicKey) bool {
		return wire.VerifyVote(key, wire.AskSignBytes(r.opt.ChainID, string(peer.ID()), r.opt.NodeID, id), ask.Signature)
	}
	if key, known := r.opt.GatewayKey(client); !known || chainID != r.opt.ChainID || !fits(key) {
		if !r.opt.Ever(client, fits) {
			r.opt.Conduct.Forged(r.Switch, peer, "asked to agree without the signature of the client's organisation", errNoSuchKey)
			return
		}
		r.opt.Conduct.Accuse(peer.ID(), accuse.OldKey(client, "to agree"))
		return
	}
	tx, err := wire.DecodeAsked(ask)
	if err != nil {
		r.opt.Conduct.Malformed(r.Switch, peer, "malformed transaction in another node's question", err)
		return
	}
	if own == nil {
		return
	}
	granted, refusal := r.begin(client, tx.Proposal.Client)
	if refusal != "" {
		r.answer(peer.TrySend, own, ask.Request, tx.ID, false, refusal)
		return
	}
	r.work.Go(func() {
		allowed := backend.NewAllowance(time.Duration(granted.micros) * time.Microsecond)
		defer func() { r.end(granted, tx.ID, allowed.Spent()) }()
		ctx, cancel := context.WithTimeout(backend.Allow(backend.For(r.ctx, "organisation "+client), allowed), r.opt.Limit)
		defer cancel()
		refusal, err := r.opt.Decide(ctx, tx.Raw, func() int64 { return heightOf(peer) })
		switch {
		case err != nil && allowed.Gone():
			refusal = "it takes longer than is left of its time for questions of this client; ask again later"
		case err != nil:
			r.opt.Log.Warn("could not find out whether to agree", "organisation", client, "error", err)
			refusal = "its database could not be asked"
		}
		if refusal != "" {
			r.opt.Log.Info("does not agree", "organisation", client, "transaction", fmt.Sprintf("%x", tx.ID[:8]), "reason", refusal)
		}
		r.answer(peer.Send, own, ask.Request, tx.ID, refusal == "", refusal)
	})
}

// begin takes a place for a decision, and time; else it says why there is none.
func (r *Agreements) begin(organisation string, client *wire.Client) (granted charge, refusal string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil || !r.shares.Take(organisation, 1) {
		return granted, "too many questions at the moment"
	}
	if granted, refusal = r.questions.grant(organisation, client); refusal != "" {
		r.shares.Give(organisation, 1)
	}
	return granted, refusal
}

func (r *Agreements) end(granted charge, id wire.TxID, worked time.Duration) {
	r.questions.settle(granted, id, worked)
	r.shares.Give(granted.organisation, 1)
}

// Ordered tells that transactions are in a block: what was worked for them was not in vain.
func (r *Agreements) Ordered(ids []wire.TxID) { r.questions.ordered(ids) }

// answer sends a signed answer. Without a signature the other node waits for it in vain.
func (r *Agreements) answer(send func(p2p.Envelope) bool, own crypto.Signer, request uint64, id wire.TxID, yes bool, reason string) {
	agreement, err := wire.Answer(own, r.opt.Organisation, r.opt.ChainID, id, yes)
	if err != nil {
		r.opt.Log.Warn("could not answer whether to agree", "error", err)
		return
	}
	send(agreementEnvelope(&wire.AgreementMessage{Body: &wire.AgreementMessage_Answer{Answer: &wire.AgreementAnswer{
		Request: request, Agreement: agreement, Reason: reason,
	}}}))
}

func agreementEnvelope(m *wire.AgreementMessage) p2p.Envelope {
	return p2p.Envelope{ChannelID: AgreementChannel, Message: &types.BytesValue{Value: wire.Encode(m)}}
}
