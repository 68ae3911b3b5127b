package order

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/wire"
)

// RegistryRecord has the data of a registry, for storing and for changing it.
type RegistryRecord struct {
	ChainID string `json:"chain_id"`
	// Changes is how many governance changes led to it; FromBlock the first ledger block that can
	// be ordered under it.
	Changes   uint64 `json:"changes"`
	FromBlock uint64 `json:"from_block"`

	Consent       int            `json:"consent"`   // 0: ConsentOf the organisations that vote on effects
	Approvals     int            `json:"approvals"` // 0: ApprovalsOf them
	Parameters    Parameters     `json:"parameters"`
	Organisations []Organisation `json:"organisations"`
}

// Organisation is a member of the consortium.
type Organisation struct {
	Name         string      `json:"name"`
	GatewayKey   []byte      `json:"gateway_key"`
	Validators   []Validator `json:"validators"`
	OrderingOnly bool        `json:"ordering_only,omitempty"`
}

// ApprovalsOf returns how many of n organisations approve a change where no change says otherwise:
// more than two thirds.
func ApprovalsOf(n int) int { return 2*n/3 + 1 }

// validate says what keeps a record from being a consortium; the error starts with the field.
func (record RegistryRecord) validate() error {
	if n := len(record.Organisations); n == 0 || n > organisationsMax {
		return fmt.Errorf("organisations: %d of them, want 1 to %d", n, organisationsMax)
	}
	n := record.voters()
	if n == 0 {
		return errors.New("organisations: all of them only order; nobody would execute a block")
	}
	if record.Consent < 0 || record.Consent > n {
		return fmt.Errorf("consent: %d of %d organisations, want 1 to %d, or 0 for the default", record.Consent, n, n)
	}
	if a := record.Approvals; a != 0 && (2*a <= n || a > n) {
		return fmt.Errorf("approvals: %d of %d organisations, want more than half of them, or 0 for the default", a, n)
	}
	owners := map[string]string{} // name or key → the field that has it
	for i := range record.Organisations {
		if err := record.Organisations[i].validate(fmt.Sprintf("organisations[%d]", i), owners); err != nil {
			return err
		}
	}
	return nil
}

// voters counts the organisations that vote on effects: the n of the consent policy.
func (record RegistryRecord) voters() (n int) {
	for _, o := range record.Organisations {
		if !o.OrderingOnly {
			n++
		}
	}
	return n
}

func (o *Organisation) validate(field string, owners map[string]string) error {
	if err := wire.CheckOrganisation(o.Name); err != nil {
		return fmt.Errorf("%s.name: %w", field, err)
	}
	if err := own(owners, "name "+o.Name, field+".name"); err != nil {
		return err
	}
	if err := checkKey(owners, o.GatewayKey, field+".gateway_key"); err != nil {
		return err
	}
	if n := len(o.Validators); n == 0 {
		return fmt.Errorf("%s.validators: none; organisation %q could never vote", field, o.Name)
	}
	for i, v := range o.Validators {
		if err := checkKey(owners, v.Key, fmt.Sprintf("%s.validators[%d]", field, i)); err != nil {
			return err
		}
	}
	return nil
}

// sorted is the record with organisations by name and validators by key, sharing nothing that
// changes with the one before.
func (record RegistryRecord) sorted() RegistryRecord {
	record.Organisations = slices.Clone(record.Organisations)
	slices.SortFunc(record.Organisations, func(a, b Organisation) int { return strings.Compare(a.Name, b.Name) })
	for i := range record.Organisations {
		o := &record.Organisations[i]
		o.Validators = slices.Clone(o.Validators)
		slices.SortFunc(o.Validators, func(a, b Validator) int { return bytes.Compare(a.Key, b.Key) })
	}
	return record
}

// powers are those of all validators, by key.
func (record RegistryRecord) powers() map[string]int64 {
	out := map[string]int64{}
	for _, o := range record.Organisations {
		for _, v := range o.Validators {
			out[string(v.Key)] = v.Power
		}
	}
	return out
}

// change takes the actions of a governance change, one after the other. The error names the action
// that does not fit.
func (record RegistryRecord) change(actions []*wire.GovernanceAction) (RegistryRecord, error) {
	record = record.sorted()
	for i, action := range actions {
		if err := record.act(action); err != nil {
			return record, fmt.Errorf("actions[%d].%w", i, err)
		}
	}
	return record, nil
}

func (record *RegistryRecord) act(action *wire.GovernanceAction) error {
	switch a := action.Body.(type) {
	case *wire.GovernanceAction_Consent:
		record.Consent = int(a.Consent)
		return nil
	case *wire.GovernanceAction_Approvals:
		record.Approvals = int(a.Approvals)
		return nil
	case *wire.GovernanceAction_Add:
		return record.add(a.Add)
	case *wire.GovernanceAction_Remove:
		return record.remove(a.Remove)
	case *wire.GovernanceAction_GatewayKey:
		return record.with("gateway_key", a.GatewayKey.Organisation, func(o *Organisation) error {
			o.GatewayKey = a.GatewayKey.Key
			return nil
		})
	case *wire.GovernanceAction_Validator:
		return record.with("validator", a.Validator.Organisation, func(o *Organisation) error {
			return o.setValidator(a.Validator.Validator)
		})
	case *wire.GovernanceAction_OrderingOnly:
		return record.with("ordering_only", a.OrderingOnly.Organisation, func(o *Organisation) error {
			o.OrderingOnly = a.OrderingOnly.Only
			return nil
		})
	case *wire.GovernanceAction_BlockTimes:
		record.Parameters.BlockTimeMaxMS, record.Parameters.DeployTimeMaxMS = int(a.BlockTimes.Statements), int(a.BlockTimes.Deploys)
		record.Parameters = record.Parameters.withTimes()
		return nil
	case *wire.GovernanceAction_BlockShares:
		record.Parameters.BlockClientMax, record.Parameters.BlockOrganisationMax = int(a.BlockShares.Client), int(a.BlockShares.Organisation)
		record.Parameters.BlockKeysMax = int(a.BlockShares.Keys)
		return nil
	case *wire.GovernanceAction_SnapshotEvery:
		record.Parameters.SnapshotEvery = int(a.SnapshotEvery)
		return nil
	case *wire.GovernanceAction_ProtocolVersion:
		in := record.Parameters.ProtocolVersion.Version()
		if a.ProtocolVersion != in+1 {
			return fmt.Errorf("protocol_version: %d, though version %d is in force: the next one is %d, and none goes back", a.ProtocolVersion, in, in+1)
		}
		record.Parameters.ProtocolVersion = wire.Protocol(a.ProtocolVersion)
		return nil
	case *wire.GovernanceAction_Withdraw: // changes nothing but the sequence
		return nil
	default:
		return errors.New("body: no action")
	}
}

func (record *RegistryRecord) index(name string) int {
	return slices.IndexFunc(record.Organisations, func(o Organisation) bool { return o.Name == name })
}

// with changes an organisation that is there.
func (record *RegistryRecord) with(field, name string, change func(*Organisation) error) error {
	i := record.index(name)
	if i < 0 {
		return fmt.Errorf("%s: organisation %q is not in the registry", field, name)
	}
	return change(&record.Organisations[i])
}

func (record *RegistryRecord) add(m *wire.Member) error {
	if record.index(m.Organisation) >= 0 {
		return fmt.Errorf("add: organisation %q is in the registry already", m.Organisation)
	}
	o := Organisation{Name: m.Organisation, GatewayKey: m.GatewayKey, OrderingOnly: m.OrderingOnly}
	for _, v := range m.Validators {
		o.Validators = append(o.Validators, Validator{Key: v.Key, Power: int64(v.Power)})
	}
	record.Organisations = append(record.Organisations, o)
	return nil
}

func (record *RegistryRecord) remove(name string) error {
	i := record.index(name)
	if i < 0 {
		return fmt.Errorf("remove: organisation %q is not in the registry", name)
	}
	record.Organisations = slices.Delete(record.Organisations, i, i+1)
	return nil
}

func (o *Organisation) setValidator(v *wire.ValidatorPower) error {
	i := slices.IndexFunc(o.Validators, func(known Validator) bool { return bytes.Equal(known.Key, v.Key) })
	switch {
	case v.Power == 0 && i < 0:
		return fmt.Errorf("validator: organisation %q has no validator %x", o.Name, AddressOf(v.Key))
	case v.Power == 0:
		o.Validators = slices.Delete(o.Validators, i, i+1)
	case i >= 0:
		o.Validators[i].Power = int64(v.Power)
	case len(o.Validators) >= wire.MemberValidatorsMax:
		return fmt.Errorf("validator: organisation %q has %d of them already", o.Name, len(o.Validators))
	default:
		o.Validators = append(o.Validators, Validator{Key: v.Key, Power: int64(v.Power)})
	}
	return nil
}

// Members gives the registry as messages, by name.
func (r *Registry) Members() []*wire.Member {
	out := make([]*wire.Member, len(r.record.Organisations))
	for i, o := range r.record.Organisations {
		m := &wire.Member{Organisation: o.Name, GatewayKey: o.GatewayKey, OrderingOnly: o.OrderingOnly}
		for _, v := range o.Validators {
			m.Validators = append(m.Validators, &wire.ValidatorPower{Key: v.Key, Power: uint64(v.Power)})
		}
		out[i] = m
	}
	return out
}
