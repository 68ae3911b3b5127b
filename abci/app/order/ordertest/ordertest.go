// Package ordertest makes consortia with known keys for tests of the order level.
package ordertest

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/wire"
)

// ChainID is the chain of every consortium of this package.
const ChainID = "testchain"

// Consortium is n organisations with one validator each.
type Consortium struct {
	Genesis    order.Genesis
	Validators []order.Validator
	names      []string
	gateways   []ed25519.PrivateKey
	keys       []ed25519.PrivateKey
	sequence   uint64
}

// New makes organisations o0, o1, … with consent c (0: the default) and the default parameters.
func New(n, c int) *Consortium {
	out := &Consortium{Genesis: order.Genesis{Consent: c}}
	for i := range n {
		gateway, key := keyOf(byte(2*i+1)), keyOf(byte(2*i+2))
		out.names = append(out.names, fmt.Sprintf("o%d", i))
		out.gateways, out.keys = append(out.gateways, gateway), append(out.keys, key)
		public := []byte(key.Public().(ed25519.PublicKey))
		out.Validators = append(out.Validators, order.Validator{Key: public, Power: 10})
		out.Genesis.Organisations = append(out.Genesis.Organisations, order.GenesisOrganisation{
			Name: out.names[i], GatewayKey: []byte(gateway.Public().(ed25519.PublicKey)), Validators: [][]byte{public},
		})
	}
	return out
}

func keyOf(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

// OrderOnly makes the last k organisations ones that only order.
func (c *Consortium) OrderOnly(k int) *Consortium {
	organisations := c.Genesis.Organisations
	for i := range k {
		organisations[len(organisations)-1-i].OrderingOnly = true
	}
	return c
}

// Registry makes the consortium's registry.
func (c *Consortium) Registry(t testing.TB) *order.Registry {
	t.Helper()
	r, err := order.NewRegistry(ChainID, &c.Genesis, c.Validators)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Key returns the consensus key of organisation i's validator.
func (c *Consortium) Key(i int) ed25519.PrivateKey { return c.keys[i] }

// Address returns the address of organisation i's validator.
func (c *Consortium) Address(i int) []byte {
	address := order.AddressOf(c.Validators[i].Key)
	return address[:]
}

// Proposal returns a transaction of organisation i.
func (c *Consortium) Proposal(i int, nonce, validUntil uint64) *wire.Proposal {
	return &wire.Proposal{
		ChainId: ChainID, Client: &wire.Client{Organisation: c.names[i], Role: "clerk"}, Nonce: nonce,
		ValidUntilHeight: validUntil, Kind: wire.Kind_KIND_SQL, Sql: "SELECT 1",
	}
}

// Bundle signs proposals as organisation i; each call gives other bytes.
func (c *Consortium) Bundle(i int, proposals ...*wire.Proposal) []byte {
	c.sequence++
	b := &wire.Bundle{ChainId: ChainID, Organisation: c.names[i], Sequence: c.sequence}
	for _, p := range proposals {
		b.Transactions = append(b.Transactions, &wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: wire.Encode(p)}})
	}
	return c.SignBundle(i, b)
}

// SignBundle signs any bundle as organisation i's gateway.
func (c *Consortium) SignBundle(i int, b *wire.Bundle) []byte {
	return wire.SignBundle(c.gateways[i], b)
}

// Policy encodes a policy change that these organisations approve.
func (c *Consortium) Policy(sequence uint64, consent uint32, effective uint64, approve ...int) []byte {
	change := wire.Encode(&wire.PolicyChange{ChainId: ChainID, Sequence: sequence, Consent: consent, EffectiveHeight: effective})
	signed := &wire.SignedPolicyChange{Change: change}
	for _, i := range approve {
		signed.Approvals = append(signed.Approvals, wire.Approve(c.gateways[i], c.names[i], ChainID, change))
	}
	return wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Policy{Policy: signed}})
}

// Sign makes organisation i's signed vote extension of a height.
func (c *Consortium) Sign(i int, height int64, vote wire.EffectVote) *wire.ExtendedVote {
	extension := vote.Encode()
	return &wire.ExtendedVote{
		ValidatorAddress: c.Address(i), Height: height, Extension: extension,
		Signature: ed25519.Sign(c.keys[i], wire.ExtensionSignBytes(ChainID, height, 0, extension)),
	}
}

// Effects is organisation i's signed vote that k gave hash.
func (c *Consortium) Effects(i int, height int64, k wire.Key, hash wire.Hash) *wire.ExtendedVote {
	return c.Sign(i, height, wire.NewEffectsVote(k, c.names[i], hash))
}

// Certificate encodes a certificate as a block holds it; hash may be nil.
func Certificate(k wire.Key, hash *wire.Hash, votes ...*wire.ExtendedVote) []byte {
	c := &wire.EffectCertificate{Block: k.Number, EffectRound: k.Round, Votes: votes}
	if hash != nil {
		c.LedgerBlockHash = hash[:]
	}
	return wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Certificate{Certificate: c}})
}
