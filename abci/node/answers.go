package node

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/app"
	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/portable"
	"github.com/chainify-db/chainify/abci/wire"
)

// registry is who takes part in the next order block.
func (n *node) registry() *order.Registry {
	if n.app != nil {
		if r := n.app.Registry(); r != nil {
			return r
		}
	}
	return n.founded
}

// waitingRegistry is the registry that the accepted change which waits leads to; nil: none waits.
func (n *node) waitingRegistry() *order.Registry {
	status, ok := n.app.Status()
	if !ok || status.Governance.Waiting == nil {
		return nil
	}
	change, err := wire.DecodeGovernanceChange(status.Governance.Waiting)
	if err != nil {
		return nil
	}
	next, err := n.registry().After(change)
	if err != nil { // it came into force just now
		return nil
	}
	return next
}

// next is the height that is decided next, as far as the application has come.
func (n *node) next() int64 {
	if n.app == nil {
		return 1
	}
	s, _ := n.app.Status()
	return max(s.Height, n.height.Load()) + 1
}

// ordersOnly tells that the organisation is one without a database.
func (n *node) ordersOnly() bool {
	_, orderingOnly := n.registry().Knows(n.opt.Config.Organisation)
	return orderingOnly
}

// gatewayKeyOf is the gateway key of an organisation that has a database now.
func (n *node) gatewayKeyOf(organisation string) (ed25519.PublicKey, bool) {
	return n.registry().GatewayKey(organisation)
}

// toldKeyOf is the gateway key by which an organisation is told rows: also that of one which the
// members have accepted, and which takes part later.
func (n *node) toldKeyOf(organisation string) (ed25519.PublicKey, bool) {
	key, known := n.gatewayKeyOf(organisation)
	if next := n.waitingRegistry(); !known && next != nil {
		return next.GatewayKey(organisation)
	}
	return key, known
}

// tellingKey is this node's key for asking others, and telling them; nil: it has none that counts.
func (n *node) tellingKey() crypto.Signer {
	key := n.keys.Gateway()
	if key != nil {
		return key
	}
	public, known := n.toldKeyOf(n.opt.Config.Organisation)
	gateways, err := n.opt.Home.GatewayKeys()
	if !known || err != nil {
		return nil
	}
	for _, g := range gateways {
		if public.Equal(g.Public()) {
			return g
		}
	}
	return nil
}

// everKey reports whether a gateway key fits that an organisation has, had, or will have.
func (n *node) everKey(organisation string, fits func(ed25519.PublicKey) bool) bool {
	return n.app == nil || n.app.Ever(organisation, fits)
}

// status is the node's answer to StatusRequest.
func (n *node) status(context.Context) *wire.StatusResponse {
	s, registry := n.effects.Status(), n.registry()
	known, orderingOnly := registry.Knows(n.opt.Config.Organisation)
	out := &wire.StatusResponse{
		Organisation: n.opt.Config.Organisation, ChainId: n.founded.ChainID(), Version: n.opt.Version,
		Height: n.height.Load(), LastOrdered: n.app.LastOrdered(), LastCertified: n.app.LastCertified(),
		LastCommitted: s.LastCommitted, State: s.State, Reason: s.Reason, Peers: n.order.Peers(),
		Organisations: uint32(len(registry.Organisations())), Consent: uint32(registry.Consent()),
		Outside: !known || !orderingOnly && n.keys.Gateway() == nil,
	}
	if order, ok := n.app.Status(); ok {
		out.Changes, out.ChangeWaits = order.Governance.Changes, order.Governance.Waiting != nil
		out.Protocol = n.protocol(order)
	}
	_, ofTheOrder := n.app.OrderEvidence()
	out.Evidence = n.app.EvidenceCount() + ofTheOrder
	out.Environment = n.environmentStatus()
	switch stopped, silent := n.guards.Why(n.keys.Counting(), n.next()); {
	case stopped && !n.standby:
		out.State, out.Reason = "signed_elsewhere", silent.Error()
	case n.order.CatchingUp():
		out.State = "catching_up"
	case n.standby:
		out.State, out.Outside = "standby", false
	case silent != nil:
		// The reason why the database does not go on stands first.
		reasons := []string{out.Reason, "this node signs nothing yet: " + silent.Error()}
		out.Reason = strings.Join(slices.DeleteFunc(reasons, func(s string) bool { return s == "" }), "; ")
	}
	return out
}

// environmentStatus is how the environments of other organisations' databases differ from this one.
func (n *node) environmentStatus() (out []*wire.EnvironmentDifference) {
	found := n.order.Environments()
	for _, organisation := range slices.Sorted(maps.Keys(found)) {
		for _, d := range found[organisation] {
			out = append(out, &wire.EnvironmentDifference{Organisation: organisation, Name: d.Name, Own: d.Own, Other: d.Other})
		}
	}
	return out
}

// clientRole is the role that a key of one of the organisation's clients is registered for.
func (n *node) clientRole(key []byte) (string, bool) {
	return n.app.Clients().RoleOf(n.opt.Config.Organisation, key)
}

// suspended is until when nothing of a client of the organisation is ordered.
func (n *node) suspended(role string, key []byte) time.Time {
	return n.app.Suspended(&wire.Client{Organisation: n.opt.Config.Organisation, Role: role, Key: key})
}

// refused says why no organisation will run a text: in a ledger of several engines they differ
// about it.
func (n *node) refused(kind wire.Kind, text string) *gateway.Error {
	b, known := n.backend.(backend.OfEngines)
	if !known || !b.Shared() {
		return nil
	}
	var refusal *portable.Refusal
	if errors.As(portable.JudgeText(kind, text), &refusal) {
		return &gateway.Error{SQLState: refusal.SQLState, Message: refusal.Construct, Detail: "The ledger is one of several database engines, which would not execute it alike."}
	}
	return nil
}

// shares are how many transactions of a client and of an organisation a block accepts.
func (n *node) shares() (client, organisation int) {
	p := n.registry().Parameters()
	return p.BlockClientMax, p.BlockOrganisationMax
}

// blockKeys is how many rows the EFFECTS transactions of a block name at most.
func (n *node) blockKeys() int { return n.registry().Parameters().BlockKeysMax }

// clients is the node's answer to ClientsRequest.
func (n *node) clients() *wire.ClientsResponse {
	list, changes := n.app.Clients().Of(n.opt.Config.Organisation)
	out := &wire.ClientsResponse{Changes: changes}
	for _, c := range list {
		out.Clients = append(out.Clients, &wire.ClientsResponse_Client{Key: c.Key, Role: c.Role})
	}
	return out
}

// evidence is the node's answer to EvidenceRequest.
func (n *node) evidence() *wire.EvidenceResponse {
	out := &wire.EvidenceResponse{ChainId: n.founded.ChainID(), Count: n.app.EvidenceCount()}
	for _, e := range n.app.Evidence() {
		out.Evidence = append(out.Evidence, &wire.Evidence{
			Organisation: e.Organisation, Block: e.Key.Number, EffectRound: e.Key.Round, First: e.First, Second: e.Second,
		})
	}
	var ordered []app.OrderEvidence
	ordered, out.OrderCount = n.app.OrderEvidence()
	for _, e := range ordered {
		out.Order = append(out.Order, &wire.OrderEvidence{Organisation: e.Organisation, Validator: e.Validator, Height: e.Height, Decided: e.Decided, Attack: e.Attack})
	}
	return out
}

// registryResponse is the node's answer to RegistryRequest.
func (n *node) registryResponse() (*wire.RegistryResponse, error) {
	registry := n.registry()
	record := registry.Record()
	out := &wire.RegistryResponse{
		ChainId: record.ChainID, Changes: record.Changes, Consent: uint32(registry.Consent()), DefaultConsent: record.Consent == 0,
		Approvals: uint32(registry.Approvals()), DefaultApprovals: record.Approvals == 0, Organisations: registry.Members(),
		BlockTimes: registry.BlockTimes(), BlockShares: registry.BlockShares(), SnapshotEvery: uint32(record.Parameters.SnapshotEvery),
		ProtocolVersion: registry.Protocol().Version(), ProtocolKnown: n.knows().Version(),
	}
	status, ok := n.app.Status()
	if !ok || status.Governance.Waiting == nil {
		return out, nil
	}
	var err error
	out.Waiting, err = wire.DecodeGovernanceChange(status.Governance.Waiting)
	return out, err
}

// rejoin passes a client's word on to effects; false when the organisation is not excluded.
func (n *node) rejoin() bool {
	if n.effects.Status().State != "excluded" {
		return false
	}
	n.effects.Rejoin()
	return true
}

// giveUp passes an operator's word on to effects.
func (n *node) giveUp(block uint64, index uint32, id []byte) (uint64, uint32, bool) {
	return n.effects.GiveUp(block, index, id)
}
