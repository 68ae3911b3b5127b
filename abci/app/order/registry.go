package order

import (
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

// Registry holds the members, keys and rules in force. It never changes and may be shared: a
// governance change makes another one.
type Registry struct {
	record    RegistryRecord
	consent   int      // c, the default filled in
	approvals int      // the same
	voters    []string // those that vote on effects, by name
	byName    map[string]int
	byAddress map[Address]member
	hash      wire.Hash
	right     *rightVotes
}

// member is a validator seen from its address.
type member struct {
	organisation int
	key          ed25519.PublicKey
}

// NewRegistry joins the genesis with CometBFT's validators: each must belong to an organisation,
// and each key an organisation names must be a validator.
func NewRegistry(chainID string, g *Genesis, validators []Validator) (*Registry, error) {
	if err := wire.CheckChainID(chainID); err != nil {
		return nil, fmt.Errorf("genesis: %w", err)
	}
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("app_state.%w", err)
	}
	record := RegistryRecord{ChainID: chainID, FromBlock: 1, Consent: g.Consent, Parameters: g.Parameters.withDefaults()}
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
		record.Organisations = append(record.Organisations, joined)
	}
	for _, v := range validators {
		if _, left := powers[string(v.Key)]; left {
			return nil, fmt.Errorf("validator %x belongs to no organisation of app_state", AddressOf(v.Key))
		}
	}
	return record.Open()
}

// joinOrganisation makes the organisation with its validators' powers, and removes these from
// powers.
func joinOrganisation(o GenesisOrganisation, powers map[string]int64) (Organisation, error) {
	out := Organisation{Name: o.Name, GatewayKey: o.GatewayKey, OrderingOnly: o.OrderingOnly}
	for _, key := range o.Validators {
		power, known := powers[string(key)]
		if !known {
			return out, fmt.Errorf("organisation %q: key of validator %x is not among the genesis validators", o.Name, AddressOf(key))
		}
		delete(powers, string(key))
		out.Validators = append(out.Validators, Validator{Key: key, Power: power})
	}
	return out, nil
}

// Open makes a registry from a valid record; the error names the wrong field.
func (record RegistryRecord) Open() (*Registry, error) {
	if err := record.validate(); err != nil {
		return nil, err
	}
	r := &Registry{record: record.sorted(), byName: map[string]int{}, byAddress: map[Address]member{}, right: newRightVotes()}
	for i, o := range r.record.Organisations {
		r.byName[o.Name] = i
		if !o.OrderingOnly {
			r.voters = append(r.voters, o.Name)
		}
		for _, v := range o.Validators {
			r.byAddress[AddressOf(v.Key)] = member{organisation: i, key: v.Key}
		}
	}
	if r.consent = record.Consent; r.consent == 0 {
		r.consent = ConsentOf(len(r.voters))
	}
	if r.approvals = record.Approvals; r.approvals == 0 {
		r.approvals = ApprovalsOf(len(r.voters))
	}
	r.hash = sha256.Sum256(r.encode())
	return r, nil
}

// encode returns the registry's bytes as hashed into the AppHash (spec/effect-consensus.md).
func (r *Registry) encode() []byte {
	lp := func(out []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint32(out, uint32(len(s))), s...)
	}
	p, version, shares := r.Parameters(), "chainify/registry/4", []int(nil)
	times := []int{p.BlockTimeMaxMS, p.DeployTimeMaxMS}
	if r.record.Parameters.ofFirstRelease() {
		version, times = "chainify/registry/3", nil
	}
	if r.BlockShares() != nil { // a registry without limits has the bytes that it always had
		version, shares = "chainify/registry/5", []int{p.BlockClientMax, p.BlockOrganisationMax}
	}
	if p.BlockKeysMax > 0 {
		version, shares = "chainify/registry/6", append(shares, p.BlockKeysMax)
	}
	if p.SnapshotEvery > 0 {
		version, shares = "chainify/registry/7", []int{p.BlockClientMax, p.BlockOrganisationMax, p.BlockKeysMax, p.SnapshotEvery}
	}
	if p.ProtocolVersion > 0 {
		version, shares = "chainify/registry/8", []int{p.BlockClientMax, p.BlockOrganisationMax, p.BlockKeysMax, p.SnapshotEvery, int(p.ProtocolVersion)}
	}
	out := lp([]byte(version), r.record.ChainID)
	for _, v := range slices.Concat([]int{
		r.record.Consent, r.record.Approvals, p.EffectRoundTimeoutMS, p.EffectRoundsMax, p.BlockTransactionsMax,
	}, times, shares, []int{len(r.record.Organisations)}) {
		out = binary.BigEndian.AppendUint32(out, uint32(v))
	}
	for _, o := range r.record.Organisations {
		out = append(lp(out, o.Name), o.GatewayKey...)
		if o.OrderingOnly {
			out = append(out, 1)
		} else {
			out = append(out, 0)
		}
		out = binary.BigEndian.AppendUint32(out, uint32(len(o.Validators)))
		for _, v := range o.Validators {
			out = binary.BigEndian.AppendUint64(append(out, v.Key...), uint64(v.Power))
		}
	}
	return out
}

// Hash tells registries apart.
func (r *Registry) Hash() wire.Hash { return r.hash }

// Record returns the registry's data, which must not be changed.
func (r *Registry) Record() RegistryRecord { return r.record }

// ChainID returns the chain this registry belongs to.
func (r *Registry) ChainID() string { return r.record.ChainID }

// Consent returns c of the ledger blocks ordered under this registry.
func (r *Registry) Consent() int { return r.consent }

// Approvals returns how many organisations have to approve the next change.
func (r *Registry) Approvals() int { return r.approvals }

// Parameters returns the bounds, defaults filled in.
func (r *Registry) Parameters() Parameters { return r.record.Parameters.withTimes() }

// Protocol returns the version of the protocol that the next order block is made by.
func (r *Registry) Protocol() wire.Protocol { return r.record.Parameters.ProtocolVersion }

// BlockTimes gives how long a block may run as a message, defaults filled in.
func (r *Registry) BlockTimes() *wire.BlockTimes {
	p := r.Parameters()
	return &wire.BlockTimes{Statements: uint32(p.BlockTimeMaxMS), Deploys: uint32(p.DeployTimeMaxMS)}
}

// Organisations returns the names of the organisations that vote on effects, sorted: the n of the
// consent policy.
func (r *Registry) Organisations() []string { return slices.Clone(r.voters) }

// Validators counts those of all organisations.
func (r *Registry) Validators() int { return len(r.byAddress) }

// Knows reports whether the organisation is in the registry and, if so, whether it only orders.
func (r *Registry) Knows(name string) (known, orderingOnly bool) {
	i, known := r.byName[name]
	return known, known && r.record.Organisations[i].OrderingOnly
}

// GatewayKey returns the gateway key of an organisation that votes on effects.
func (r *Registry) GatewayKey(name string) (ed25519.PublicKey, bool) {
	if !r.votes(name) {
		return nil, false
	}
	return r.record.Organisations[r.byName[name]].GatewayKey, true
}

// Keys returns the keys of a member, with which it vouches for its nodes: its gateway key and its
// validators'; nil for others.
func (r *Registry) Keys(name string) (keys [][]byte) {
	i, known := r.byName[name]
	if !known {
		return nil
	}
	o := r.record.Organisations[i]
	keys = append(keys, o.GatewayKey)
	for _, v := range o.Validators {
		keys = append(keys, v.Key)
	}
	return keys
}

// votes reports whether the organisation votes on effects.
func (r *Registry) votes(name string) bool {
	known, orderingOnly := r.Knows(name)
	return known && !orderingOnly
}

// OrganisationOf returns the organisation whose validator has this address.
func (r *Registry) OrganisationOf(address []byte) (string, bool) {
	m, known := r.member(address)
	if !known {
		return "", false
	}
	return r.record.Organisations[m.organisation].Name, true
}

func (r *Registry) member(address []byte) (member, bool) {
	if len(address) != len(Address{}) {
		return member{}, false
	}
	m, known := r.byAddress[Address(address)]
	return m, known
}

// CheckExtension checks the signature of a vote and returns the organisation that cast it.
func (r *Registry) CheckExtension(v *wire.ExtendedVote) (organisation string, err error) {
	m, known := r.member(v.ValidatorAddress)
	if !known {
		return "", fmt.Errorf("validator %x is not in the registry", v.ValidatorAddress)
	}
	name := r.record.Organisations[m.organisation].Name
	if !r.right.check(m.key, wire.ExtensionSignBytes(r.record.ChainID, v.Height, v.Round, v.Extension), v.Signature) {
		return "", fmt.Errorf("vote of %q has a wrong signature", name)
	}
	return name, nil
}

// updates are the validators that differ in next, with their new power, 0 for those that are gone;
// by key.
func (r *Registry) updates(next *Registry) (out []Validator) {
	before, after := r.record.powers(), next.record.powers()
	for key := range before {
		if _, stays := after[key]; !stays {
			out = append(out, Validator{Key: []byte(key)})
		}
	}
	for key, power := range after {
		if before[key] != power {
			out = append(out, Validator{Key: []byte(key), Power: power})
		}
	}
	slices.SortFunc(out, func(a, b Validator) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return out
}
