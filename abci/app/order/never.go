package order

import (
	"crypto/ed25519"
	"slices"

	"github.com/chainify-db/chainify/abci/wire"
)

// Keys are the gateway keys that organisations have, had, or will have by the change that waits.
type Keys map[string][]ed25519.PublicKey

// KeysOf collects them: of the registries that were in force, in any order, and of the state's.
func (s *State) KeysOf(were []RegistryRecord) Keys {
	keys := Keys{}
	for _, record := range were {
		keys.add(record)
	}
	keys.add(s.registry.record)
	if s.next != nil {
		keys.add(s.next.record)
	}
	return keys
}

func (k Keys) add(record RegistryRecord) {
	for _, o := range record.Organisations {
		key := ed25519.PublicKey(o.GatewayKey)
		if !slices.ContainsFunc(k[o.Name], func(known ed25519.PublicKey) bool { return known.Equal(key) }) {
			k[o.Name] = append(k[o.Name], key)
		}
	}
}

// Some reports whether one of an organisation's keys fits.
func (k Keys) Some(organisation string, fits func(ed25519.PublicKey) bool) bool {
	return slices.ContainsFunc(k[organisation], fits)
}

// NeverRight tells of a transaction that was refused with a code whether no mempool can have held
// it, whatever registry its node goes by. Such a transaction is malformed, for another chain, or
// not signed with a key that its organisation has, had, or will have. A field that a later version
// may understand is not malformed here. Where a client's signature is wrong, its gateway is to
// blame, and not the node that passes the bundle on. Cost: one verification for each of the keys of
// the organisation.
func (k Keys) NeverRight(chainID string, raw []byte, code uint32) bool {
	switch code {
	case CodeMalformed, CodeUnknown, CodeSignature, CodeNotABundle:
	default:
		return false
	}
	ordered, err := wire.DecodeOrderedTx(raw)
	if err != nil {
		return !wire.MayBeNewer(err)
	}
	switch body := ordered.Body.(type) {
	case *wire.OrderedTx_Bundle:
		head, err := wire.PeekBundle(body.Bundle.Bundle)
		if err != nil {
			return !wire.MayBeNewer(err)
		}
		return head.ChainID != chainID ||
			!k.Some(head.Organisation, func(key ed25519.PublicKey) bool { return wire.VerifyBundle(key, chainID, body.Bundle) }) ||
			code == CodeMalformed && !bundleMayBeNewer(body.Bundle.Bundle)
	case *wire.OrderedTx_Client:
		head := wire.PeekClientChange(body.Client.Change)
		return head.ChainID != chainID ||
			!k.Some(head.Organisation, func(key ed25519.PublicKey) bool { return wire.VerifyClientChange(key, chainID, body.Client) }) ||
			code == CodeMalformed && !changeMayBeNewer(body.Client.Change)
	case *wire.OrderedTx_Governance:
		// One that leaves no consortium of the registry here may leave one elsewhere.
		return wire.PeekGovernanceChange(body.Governance.Change).ChainID != chainID ||
			slices.ContainsFunc(body.Governance.Approvals, func(a *wire.Approval) bool {
				return !k.Some(a.Organisation, func(key ed25519.PublicKey) bool { return wire.VerifyApproval(key, chainID, body.Governance.Change, a) })
			})
	}
	return true // certificates come from proposers
}

func bundleMayBeNewer(raw []byte) bool {
	_, _, err := wire.DecodeBundle(raw)
	return wire.MayBeNewer(err)
}

func changeMayBeNewer(raw []byte) bool {
	_, err := wire.DecodeClientChange(raw)
	return wire.MayBeNewer(err)
}
