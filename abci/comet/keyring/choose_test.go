package keyring

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"reflect"
	"testing"

	cmted25519 "github.com/cometbft/cometbft/crypto/ed25519"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/comet/signer"
)

// The registry says which of a home's keys count, whatever the order in which they were made.
func TestWhichKeysCount(t *testing.T) {
	gateway := func(i byte) ed25519.PrivateKey {
		return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{i}, ed25519.SeedSize))
	}
	validator := func(name string) *signer.Key {
		public := cmted25519.GenPrivKeyFromSecret([]byte(name)).PubKey()
		return &signer.Key{Key: signer.StoredKey{Address: public.Address(), PubKey: public}}
	}
	old, now, others := validator("old"), validator("now"), validator("others")
	registry, err := order.RegistryRecord{ChainID: "test", Organisations: []order.Organisation{
		{Name: "acme", GatewayKey: gateway(2).Public().(ed25519.PublicKey), Validators: []order.Validator{{Key: now.Key.PubKey.Bytes(), Power: 1}}},
		{Name: "bolt", GatewayKey: gateway(3).Public().(ed25519.PublicKey), Validators: []order.Validator{{Key: others.Key.PubKey.Bytes(), Power: 1}}},
	}}.Open()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		gateways   []crypto.Signer
		gateway    crypto.Signer
		validators []*signer.Key
		validator  *signer.Key
	}{
		"the key that counts is newer":      {[]crypto.Signer{gateway(1), gateway(2)}, gateway(2), []*signer.Key{old, now}, now},
		"the key that counts is older":      {[]crypto.Signer{gateway(2), gateway(1)}, gateway(2), []*signer.Key{now, old}, now},
		"no key counts":                     {[]crypto.Signer{gateway(1)}, nil, []*signer.Key{old}, old},
		"another organisation's key counts": {[]crypto.Signer{gateway(3)}, nil, []*signer.Key{old, others}, old},
	} {
		if got := gatewayOf(registry, "acme", c.gateways); !reflect.DeepEqual(got, c.gateway) {
			t.Errorf("%s: another gateway key", name)
		}
		if got := validatorOf(registry, "acme", c.validators); got != c.validator {
			t.Errorf("%s: another validator key", name)
		}
	}
}
