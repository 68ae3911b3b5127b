package order

import (
	"slices"

	"github.com/chainify-db/chainify/abci/wire"
)

// History puts registries, in the order in which they were in force, into what a database keeps of
// them: organisations and keys by the ledger blocks they hold for.
func History(registries []RegistryRecord) *wire.RegistryHistory {
	h := &wire.RegistryHistory{}
	for i, record := range registries {
		if i+1 < len(registries) && registries[i+1].FromBlock == record.FromBlock {
			continue // no block was ordered under it, or a withdrawal followed, which changed nothing
		}
		h.Changes = record.Changes
		consent := record.Consent
		if consent == 0 {
			consent = ConsentOf(record.voters())
		}
		if n := len(h.Consents); n == 0 || h.Consents[n-1].Consent != consent {
			h.Consents = append(h.Consents, wire.ConsentFrom{Block: record.FromBlock, Consent: consent})
		}
		follow(h, record)
	}
	return h
}

// follow ends the periods that the registry does not go on with and begins those that are new.
func follow(h *wire.RegistryHistory, record RegistryRecord) {
	var organisations []wire.OrganisationPeriod
	var validators []wire.ValidatorPeriod
	for _, o := range record.Organisations {
		organisations = append(organisations, wire.OrganisationPeriod{
			Name: o.Name, GatewayKey: o.GatewayKey, OrderingOnly: o.OrderingOnly, From: record.FromBlock,
		})
		for _, v := range o.Validators {
			if address := AddressOf(v.Key); !o.OrderingOnly {
				validators = append(validators, wire.ValidatorPeriod{
					Organisation: o.Name, Address: address[:], PublicKey: v.Key, From: record.FromBlock,
				})
			}
		}
	}
	h.Organisations = succeed(h.Organisations, organisations, record.FromBlock)
	h.Validators = succeed(h.Validators, validators, record.FromBlock)
}

// period is what History keeps by blocks.
type period[T any] interface {
	wire.OrganisationPeriod | wire.ValidatorPeriod
	Same(T) bool
	Open() bool
	Ended(block uint64) T
}

// succeed ends those of list that are open and not among now, and adds those of now that are not
// open in list.
func succeed[T period[T]](list, now []T, from uint64) []T {
	for i, p := range list {
		if p.Open() && !slices.ContainsFunc(now, p.Same) {
			list[i] = p.Ended(from)
		}
	}
	for _, p := range now {
		if !slices.ContainsFunc(list, func(known T) bool { return known.Open() && known.Same(p) }) {
			list = append(list, p)
		}
	}
	return list
}
