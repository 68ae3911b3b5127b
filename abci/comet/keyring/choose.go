package keyring

import (
	"crypto"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/comet/signer"
)

// gatewayOf chooses the gateway key that counts for an organisation; nil: none of these does.
func gatewayOf(registry *order.Registry, organisation string, keys []crypto.Signer) (chosen crypto.Signer) {
	public, known := registry.GatewayKey(organisation)
	for _, key := range keys {
		if known && public.Equal(key.Public()) {
			chosen = key
		}
	}
	return chosen
}

// validatorOf chooses the validator key that counts for an organisation, the last of several. When
// none does, it is the first: the one that the home was made with.
func validatorOf(registry *order.Registry, organisation string, keys []*signer.Key) (chosen *signer.Key) {
	for _, key := range keys {
		owner, _ := registry.OrganisationOf(key.Key.Address)
		if chosen == nil || owner == organisation {
			chosen = key
		}
	}
	return chosen
}
