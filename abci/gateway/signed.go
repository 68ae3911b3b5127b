package gateway

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/wire"
)

// SubmitSigned queues a transaction whose client has signed the proposal itself, and returns its id. Where tables have agreement policies,
// those who have to agree are asked first: what they sign stands beside the proposal, not in it. Submitted again, it is the same
// transaction: whoever lost the answer asks again without doing anything twice.
func (g *Gateway) SubmitSigned(ctx context.Context, signed *wire.SignedProposal) (wire.TxID, error) {
	tx, err := wire.DecodeSignedProposal(signed)
	if err != nil {
		return wire.TxID{}, malformed("%v", err)
	}
	if err := g.checkSigned(tx); err != nil {
		return wire.TxID{}, err
	}
	e, err := g.prepareSigned(tx)
	if e == nil || err != nil {
		return tx.ID, err
	}
	if a := g.opt.Agreements; a != nil {
		if err := a.gather(ctx, []*entry{e}); err != nil {
			return wire.TxID{}, err
		}
	}
	return tx.ID, g.enqueueSigned(e)
}

// prepareSigned makes an entry of a transaction, or none when it was submitted before.
func (g *Gateway) prepareSigned(tx wire.BundledTx) (*entry, error) {
	catching := g.opt.CatchingUp()
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.opt.Now()
	if err := g.orderable(catching, now); err != nil {
		return nil, err
	}
	if g.submitted(tx.ID) {
		return nil, nil
	}
	p := tx.Proposal
	if height := uint64(max(g.height, 0)); p.ValidUntilHeight <= height || p.ValidUntilHeight > height+wire.ValidityHeightsMax {
		return nil, malformed("proposal.valid_until_height: %d, want %d to %d", p.ValidUntilHeight, height+1, height+wire.ValidityHeightsMax)
	}
	return &entry{
		id: tx.ID, role: p.Client.Role, validUntil: p.ValidUntilHeight, queuedAt: now,
		size: proto.Size(tx.Chained) + transactionOverhead, tx: tx.Chained, deploys: p.Kind == wire.Kind_KIND_DEPLOY,
	}, nil
}

// enqueueSigned takes a prepared transaction, unless it was submitted again meanwhile.
func (g *Gateway) enqueueSigned(e *entry) error {
	catching := g.opt.CatchingUp()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.submitted(e.id) {
		return nil
	}
	now := g.opt.Now()
	if err := g.orderable(catching, now); err != nil {
		return err
	}
	_, err := g.accept(e.role, []*entry{e}, now)
	return err
}

// submitted tells that a transaction was accepted before, as far as is remembered. g.mu is held.
func (g *Gateway) submitted(id wire.TxID) bool {
	_, settled := g.recent.get(id)
	return settled || g.entries[id] != nil
}

// checkSigned refuses what the order would refuse: the same signature is verified there, by every other node. Only a
// registered key has one verified; its rate counts after that, or others could use it up.
func (g *Gateway) checkSigned(tx wire.BundledTx) error {
	client := tx.Proposal.Client
	switch {
	case g.opt.OrderingOnly():
		return ordersOnly(g.opt.Organisation)
	case g.opt.Key() == nil:
		return noMember(g.opt.Organisation)
	case tx.Proposal.ChainId != g.opt.ChainID:
		return malformed("proposal.chain_id: %q, want %q", tx.Proposal.ChainId, g.opt.ChainID)
	case client.Organisation != g.opt.Organisation:
		return malformed("proposal.client.organisation: %q, this node is of %q", client.Organisation, g.opt.Organisation)
	}
	if role, known := g.opt.ClientRole(client.Key); !known || role != client.Role {
		return &Error{
			SQLState: StateNotRegistered, Message: "the client's key is not registered for role \"" + client.Role + "\"",
			Hint: "\"chainify client list\" shows the keys of the organisation's clients.",
		}
	}
	if !g.signatures.verify(tx) {
		return &Error{SQLState: StateNotRegistered, Message: "the signature is not by the client's key"}
	}
	return g.Admit(fmt.Sprintf("key %x", client.Key), 1)
}

// keepByExpiry files an entry among those by expiry. Those that this gateway made come in order; clients choose their own. g.mu is held.
func (g *Gateway) keepByExpiry(e *entry) {
	at := len(g.byExpiry)
	for at > 0 && g.byExpiry[at-1].validUntil > e.validUntil {
		at--
	}
	g.byExpiry = slices.Insert(g.byExpiry, at, e)
}
