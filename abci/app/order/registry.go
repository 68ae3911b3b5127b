package order

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/wire"
)

// Validator is a CometBFT validator.
type Validator struct {
	Key   []byte `json:"key"` // Ed25519
	Power int64  `json:"power"`
}

// Address is the name of a validator in CometBFT: the first 20 bytes of the SHA-256 of its key.
type Address [20]byte

// AddressOf returns a key's address.
func AddressOf(key []byte) Address {
	sum := sha256.Sum256(key)
	return Address(sum[:20])
}

// Registry is who takes part and under which rules. It never changes after NewRegistry and may be shared.
type Registry struct {
	chainID       string
	consent       int
	parameters    Parameters
	organisations []organisation // by name
	voters        []string       // those that vote on effects, by name
	byName        map[string]int
	byAddress     map[Address]member
	hash          wire.Hash
}

type organisation struct {
	name         string
	gateway      ed25519.PublicKey
	validators   []Validator // by key
	orderingOnly bool
}

// member is a validator seen from its address.
type member struct {
	organisation int
	key          ed25519.PublicKey
}

// NewRegistry joins the genesis with CometBFT's validators: each must belong to an organisation, and each key an
// organisation names must be a validator.
func NewRegistry(chainID string, g *Genesis, validators []Validator) (*Registry, error) {
	if err := wire.CheckChainID(chainID); err != nil {
		return nil, fmt.Errorf("genesis: %w", err)
	}
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("app_state.%w", err)
	}
	r := &Registry{
		chainID: chainID, consent: g.Consent, parameters: g.Parameters.withDefaults(),
		byName: map[string]int{}, byAddress: map[Address]member{},
	}
	if r.consent == 0 {
		r.consent = ConsentOf(g.voters())
	}
	powers := map[string]int64{}
	for _, v := range validators {
		if len(v.Key) != ed25519.PublicKeySize || v.Power <= 0 {
			return nil, fmt.Errorf("validator %x: power %d and a key of %d bytes, want a positive power and Ed25519", v.Key, v.Power, len(v.Key))
		}
		powers[string(v.Key)] = v.Power
	}
	for _, o := range g.Organisations {
		joined, err := joinOrganisation(o, powers)
		if err != nil {
			return nil, err
		}
		r.organisations = append(r.organisations, joined)
	}
	for _, v := range validators {
		if _, left := powers[string(v.Key)]; left {
			return nil, fmt.Errorf("validator %x belongs to no organisation of app_state", AddressOf(v.Key))
		}
	}
	r.index()
	return r, nil
}

// joinOrganisation takes the organisation's validators out of powers.
func joinOrganisation(o GenesisOrganisation, powers map[string]int64) (organisation, error) {
	out := organisation{name: o.Name, gateway: o.GatewayKey, orderingOnly: o.OrderingOnly}
	for _, key := range o.Validators {
		power, known := powers[string(key)]
		if !known {
			return out, fmt.Errorf("organisation %q: key of validator %x is not among the genesis validators", o.Name, AddressOf(key))
		}
		delete(powers, string(key))
		out.validators = append(out.validators, Validator{Key: key, Power: power})
	}
	slices.SortFunc(out.validators, func(a, b Validator) int { return bytes.Compare(a.Key, b.Key) })
	return out, nil
}

func (r *Registry) index() {
	slices.SortFunc(r.organisations, func(a, b organisation) int { return strings.Compare(a.name, b.name) })
	for i, o := range r.organisations {
		r.byName[o.name] = i
		if !o.orderingOnly {
			r.voters = append(r.voters, o.name)
		}
		for _, v := range o.validators {
			r.byAddress[AddressOf(v.Key)] = member{organisation: i, key: v.Key}
		}
	}
	r.hash = sha256.Sum256(r.encode())
}

// encode gives the registry's bytes as hashed into the AppHash (spec/effect-consensus.md).
func (r *Registry) encode() []byte {
	lp := func(out []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint32(out, uint32(len(s))), s...)
	}
	out := lp([]byte("chainify/registry/2"), r.chainID)
	for _, v := range []int{
		r.consent, r.parameters.EffectRoundTimeoutMS, r.parameters.EffectRoundsMax,
		r.parameters.BlockTransactionsMax, len(r.organisations),
	} {
		out = binary.BigEndian.AppendUint32(out, uint32(v))
	}
	for _, o := range r.organisations {
		out = append(lp(out, o.name), o.gateway...)
		if o.orderingOnly {
			out = append(out, 1)
		} else {
			out = append(out, 0)
		}
		out = binary.BigEndian.AppendUint32(out, uint32(len(o.validators)))
		for _, v := range o.validators {
			out = binary.BigEndian.AppendUint64(append(out, v.Key...), uint64(v.Power))
		}
	}
	return out
}

// ChainID returns the chain this registry belongs to.
func (r *Registry) ChainID() string { return r.chainID }

// Consent returns c as the genesis has it; State.Policy has what changes made of it.
func (r *Registry) Consent() int { return r.consent }

// Parameters returns the bounds, defaults filled in.
func (r *Registry) Parameters() Parameters { return r.parameters }

// Organisations returns the names of the organisations that vote on effects, sorted: the n of the consent policy.
func (r *Registry) Organisations() []string { return slices.Clone(r.voters) }

// Knows reports whether the organisation is in the registry and, if so, whether it only orders.
func (r *Registry) Knows(name string) (known, orderingOnly bool) {
	i, known := r.byName[name]
	return known, known && r.organisations[i].orderingOnly
}

// GatewayKey returns the gateway key of an organisation that votes on effects.
func (r *Registry) GatewayKey(name string) (ed25519.PublicKey, bool) {
	if !r.votes(name) {
		return nil, false
	}
	return r.organisations[r.byName[name]].gateway, true
}

// votes reports whether the organisation votes on effects.
func (r *Registry) votes(name string) bool {
	known, orderingOnly := r.Knows(name)
	return known && !orderingOnly
}

// OrganisationOf returns whose validator has this address.
func (r *Registry) OrganisationOf(address []byte) (string, bool) {
	m, known := r.member(address)
	if !known {
		return "", false
	}
	return r.organisations[m.organisation].name, true
}

func (r *Registry) member(address []byte) (member, bool) {
	if len(address) != len(Address{}) {
		return member{}, false
	}
	m, known := r.byAddress[Address(address)]
	return m, known
}

// CheckExtension checks the signature of a vote and returns whose it is.
func (r *Registry) CheckExtension(v *wire.ExtendedVote) (organisation string, err error) {
	m, known := r.member(v.ValidatorAddress)
	if !known {
		return "", fmt.Errorf("validator %x is not in the registry", v.ValidatorAddress)
	}
	name := r.organisations[m.organisation].name
	if !wire.VerifyVote(m.key, wire.ExtensionSignBytes(r.chainID, v.Height, v.Round, v.Extension), v.Signature) {
		return "", fmt.Errorf("vote of %q has a wrong signature", name)
	}
	return name, nil
}
