// Package ordertest makes consortia with known keys for tests of the order level.
package ordertest

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"slices"
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

// Governance encodes a change that these organisations approve.
func (c *Consortium) Governance(change *wire.GovernanceChange, approve ...int) []byte {
	change.ChainId = ChainID
	signed := c.Signed(wire.Encode(change), approve...)
	return wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Governance{Governance: signed}})
}

// Signed is a change, encoded, with the approvals of these organisations.
func (c *Consortium) Signed(change []byte, approve ...int) *wire.SignedGovernanceChange {
	signed := &wire.SignedGovernanceChange{Change: change}
	for _, i := range approve {
		signed.Approvals = append(signed.Approvals, made(wire.Approve(c.gateways[i], c.names[i], ChainID, change)))
	}
	return signed
}

// Client encodes a change of organisation i's clients.
func (c *Consortium) Client(i int, change *wire.ClientChange) []byte {
	change.ChainId, change.Organisation = ChainID, c.names[i]
	return wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Client{Client: c.SignedClient(i, change)}})
}

// SignedClient is a change of clients, signed by organisation i.
func (c *Consortium) SignedClient(i int, change *wire.ClientChange) *wire.SignedClientChange {
	return made(wire.SignClientChange(c.gateways[i], change))
}

// SignAs signs anything with organisation i's gateway key.
func (c *Consortium) SignAs(i int, message []byte) []byte {
	return ed25519.Sign(c.gateways[i], message)
}

// Member is organisation i as it joins.
func (c *Consortium) Member(i int) *wire.Member {
	o := c.Genesis.Organisations[i]
	m := &wire.Member{Organisation: o.Name, GatewayKey: o.GatewayKey, OrderingOnly: o.OrderingOnly}
	for _, key := range o.Validators {
		m.Validators = append(m.Validators, &wire.ValidatorPower{Key: key, Power: 10})
	}
	return m
}

// Without is the consortium before its last k organisations join: they are known, but not in the
// genesis.
func (c *Consortium) Without(k int) *Consortium {
	out := *c
	n := len(c.names) - k
	out.Genesis.Organisations, out.Validators = c.Genesis.Organisations[:n], c.Validators[:n]
	return &out
}

// Copy shares no keys with c that change.
func (c *Consortium) Copy() *Consortium {
	out := *c
	out.gateways, out.keys, out.Validators = slices.Clone(c.gateways), slices.Clone(c.keys), slices.Clone(c.Validators)
	return &out
}

// RenewValidator gives organisation i another validator, which signs from now on, and returns its
// key.
func (c *Consortium) RenewValidator(i int, seed byte) []byte {
	c.keys[i] = keyOf(seed)
	c.Validators[i].Key = c.keys[i].Public().(ed25519.PublicKey)
	return c.Validators[i].Key
}

// Renew gives organisation i another gateway key, which counts from now on for what it signs, and
// returns it.
func (c *Consortium) Renew(i int, seed byte) []byte {
	c.gateways[i] = keyOf(seed)
	return c.gateways[i].Public().(ed25519.PublicKey)
}

// Sign makes organisation i's signed vote extension of a height.
func (c *Consortium) Sign(i int, height int64, vote wire.EffectVote) *wire.ExtendedVote {
	extension := vote.Encode()
	return &wire.ExtendedVote{ValidatorAddress: c.Address(i), Height: height, Extension: extension, Signature: c.SignVote(i, height, extension)}
}

// SignVote signs any vote extension as organisation i's validator.
func (c *Consortium) SignVote(i int, height int64, extension []byte) []byte {
	return ed25519.Sign(c.keys[i], wire.ExtensionSignBytes(ChainID, height, 0, extension))
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

// made is a message that its key signed; a key in memory never fails.
func made[T any](signed T, err error) T {
	if err != nil {
		panic(err)
	}
	return signed
}
