package gateway

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/wire"
)

// SubmitSigned queues transactions that one client has signed itself, all or none, and returns
// their ids in the order of the proposals. Where tables have agreement policies, those who have to
// agree are asked first: what they sign stands beside the proposal, not in it. Submitted again, it
// is the same transaction: whoever lost the answer asks again without doing anything twice. Errors
// are *Error.
func (g *Gateway) SubmitSigned(ctx context.Context, signed []*wire.SignedProposal) ([]wire.TxID, error) {
	return g.submitSigned(ctx, atOnce, signed)
}

// submitSigned queues when turn is closed.
func (g *Gateway) submitSigned(ctx context.Context, turn <-chan struct{}, signed []*wire.SignedProposal) ([]wire.TxID, error) {
	txs, err := decodeSigned(signed)
	if err != nil {
		return nil, err
	}
	if err := g.checkSigned(txs); err != nil {
		return nil, err
	}
	made, err := g.prepareSigned(txs)
	if err != nil {
		return nil, err
	}
	if a := g.opt.Agreements; a != nil && len(made) > 0 {
		if err := a.gather(ctx, made); err != nil {
			return nil, err
		}
	}
	ids := make([]wire.TxID, len(txs))
	for i, tx := range txs {
		ids[i] = tx.ID
	}
	<-turn
	return ids, g.enqueueSigned(made)
}

func decodeSigned(signed []*wire.SignedProposal) ([]wire.BundledTx, error) {
	if len(signed) > statementsMax {
		return nil, beyondBound("number of proposals", len(signed), statementsMax)
	}
	txs := make([]wire.BundledTx, len(signed))
	for i, s := range signed {
		var err error
		if txs[i], err = wire.DecodeSignedProposal(s); err != nil {
			return nil, ofSeveral("proposals", i, len(signed), malformed("%v", err))
		}
	}
	return txs, nil
}

// ofSeveral names the one of n in a field of a request that an error is about.
func ofSeveral(field string, i, n int, e *Error) *Error {
	if n > 1 {
		e.Message = fmt.Sprintf("%s[%d]: %s", field, i, e.Message)
	}
	return e
}

// prepareSigned makes entries of those transactions that were not submitted before.
func (g *Gateway) prepareSigned(txs []wire.BundledTx) ([]*entry, error) {
	catching := g.opt.CatchingUp()
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.opt.Now()
	if err := g.orderable(catching, now); err != nil {
		return nil, err
	}
	var made []*entry
	prepared := map[wire.TxID]bool{}
	for i, tx := range txs {
		if g.submitted(tx.ID) || prepared[tx.ID] {
			continue
		}
		prepared[tx.ID] = true
		p := tx.Proposal
		if height := uint64(max(g.height, 0)); !acceptable(p.ValidUntilHeight, height) {
			return nil, ofSeveral("proposals", i, len(txs), notAcceptable("proposal.valid_until_height", p.ValidUntilHeight, height))
		}
		e := &entry{
			id: tx.ID, role: p.Client.Role, validUntil: p.ValidUntilHeight, queuedAt: now,
			size: proto.Size(tx.Chained) + transactionOverhead, tx: tx.Chained, deploys: p.Kind == wire.Kind_KIND_DEPLOY, keyed: true,
		}
		g.setEffects(e, p.Kind, p.Effects)
		made = append(made, e)
	}
	return made, nil
}

// enqueueSigned takes prepared transactions of one role, all or none, but for those that were
// submitted again meanwhile.
func (g *Gateway) enqueueSigned(made []*entry) error {
	catching := g.opt.CatchingUp()
	g.mu.Lock()
	defer g.mu.Unlock()
	made = slices.DeleteFunc(made, func(e *entry) bool { return g.submitted(e.id) })
	if len(made) == 0 {
		return nil
	}
	now := g.opt.Now()
	if err := g.orderable(catching, now); err != nil {
		return err
	}
	_, err := g.accept(made[0].role, made, now)
	return err
}

// submitted tells that a transaction was accepted before, as far as is remembered. g.mu is held.
func (g *Gateway) submitted(id wire.TxID) bool {
	_, settled := g.recent.get(id)
	return settled || g.entries[id] != nil
}

// checkSigned refuses what the order would refuse: the same signatures are verified there, by every
// other node. Only a registered key has one verified; its rate counts after that, or others could
// use it up.
func (g *Gateway) checkSigned(txs []wire.BundledTx) error {
	switch {
	case g.opt.OrderingOnly():
		return ordersOnly(g.opt.Organisation)
	case g.opt.Key() == nil:
		return noMember(g.opt.Organisation)
	case len(txs) == 0:
		return malformed("proposals: at least one is needed")
	}
	client := txs[0].Proposal.Client
	for i, tx := range txs {
		if err := g.checkSigner(tx.Proposal, client); err != nil {
			return ofSeveral("proposals", i, len(txs), err)
		}
		if err := g.opt.Refused(tx.Proposal.Kind, tx.Proposal.Sql); err != nil {
			return ofSeveral("proposals", i, len(txs), err)
		}
	}
	if role, known := g.opt.ClientRole(client.Key); !known || role != client.Role {
		return &Error{
			SQLState: StateNotRegistered, Message: "the client's key is not registered for role \"" + client.Role + "\"",
			Hint: "\"chainify client list\" shows the keys of the organisation's clients.",
		}
	}
	if err := g.checkSuspended(client.Role, client.Key); err != nil {
		return err
	}
	if !g.signatures.verify(txs) {
		wrong := wire.FirstWrongProposal(g.opt.ChainID, txs)
		return ofSeveral("proposals", wrong, len(txs), &Error{SQLState: StateNotRegistered, Message: "the signature is not by the client's key"})
	}
	return g.Admit(fmt.Sprintf("key %x", client.Key), len(txs))
}

// checkSigner refuses a proposal that is not for here, or of another client than the others of its
// request.
func (g *Gateway) checkSigner(p *wire.Proposal, client *wire.Client) *Error {
	switch {
	case p.ChainId != g.opt.ChainID:
		return malformed("proposal.chain_id: %q, want %q", p.ChainId, g.opt.ChainID)
	case p.Client.Organisation != g.opt.Organisation:
		return malformed("proposal.client.organisation: %q, this node is of %q", p.Client.Organisation, g.opt.Organisation)
	case p.Client.Role != client.Role || !bytes.Equal(p.Client.Key, client.Key):
		return malformed("proposal.client: another than that of proposals[0]")
	}
	return nil
}

// keepByExpiry files an entry among those by expiry. Those that this gateway made come in order;
// clients choose their own. g.mu is held.
func (g *Gateway) keepByExpiry(e *entry) {
	at := len(g.byExpiry)
	for at > 0 && g.byExpiry[at-1].validUntil > e.validUntil {
		at--
	}
	g.byExpiry = slices.Insert(g.byExpiry, at, e)
}
