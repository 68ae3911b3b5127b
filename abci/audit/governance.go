package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/chainify-db/chainify/abci/wire"
)

// Founding is the consortium of the genesis.
type Founding struct {
	ChainID       string
	Consent       int // 0: by the number of organisations
	Organisations []Organisation
}

// Organisation is a member of the consortium with its Ed25519 keys.
type Organisation struct {
	Name         string
	GatewayKey   []byte // approves changes
	Validators   [][]byte
	OrderingOnly bool // neither votes on effects nor approves
}

// Governance is the record of a chain's governance changes (spec/receipt.md), as read: nothing in
// it is checked but its form.
type Governance struct {
	Version int                `json:"chainify_governance"`
	ChainID string             `json:"chain_id"`
	Changes []GovernanceChange `json:"changes"`
}

// GovernanceVersion is that of the record's form.
const GovernanceVersion = 1

// GovernanceChange is one change, in force from a block on.
type GovernanceChange struct {
	FromBlock uint64     `json:"from_block"`
	Change    hexBytes   `json:"change"`
	Approvals []Approval `json:"approvals"`
	// Withdrawn is the change that a withdrawal is of, where it is a version of the protocol which
	// fewer organisations withdrew than approve other changes.
	Withdrawn hexBytes `json:"withdrawn,omitempty"`
}

// Approval is an organisation's signature under a change.
type Approval struct {
	Organisation string   `json:"organisation"`
	Signature    hexBytes `json:"signature"`
}

// ParseGovernance reads a record. Errors name the field.
func ParseGovernance(text []byte) (*Governance, error) {
	g := &Governance{}
	if err := read(text, g); err != nil {
		return nil, err
	}
	if g.Version != GovernanceVersion {
		return nil, fmt.Errorf("chainify_governance: version %d, want %d", g.Version, GovernanceVersion)
	}
	return g, checkSpelling(g, text)
}

// Last is the block from which on the last change holds, 1 before the first.
func (g *Governance) Last() uint64 {
	if len(g.Changes) == 0 {
		return 1
	}
	return g.Changes[len(g.Changes)-1].FromBlock
}

// Take adds an approved change, in force from a block on; a withdrawal, which changes nothing, from
// the Last one's. The withdrawn change may be nil where as many approve as other changes take.
func (g *Governance) Take(fromBlock uint64, signed *wire.SignedGovernanceChange, withdrawn []byte) {
	change := GovernanceChange{FromBlock: fromBlock, Change: signed.Change, Withdrawn: withdrawn}
	for _, a := range signed.Approvals {
		change.Approvals = append(change.Approvals, Approval{a.Organisation, a.Signature})
	}
	g.Changes = append(g.Changes, change)
}

// Authorities is whose votes count, by block: each from its FromBlock to that of the next.
type Authorities []Authority

// For returns whose votes count for a block.
func (a Authorities) For(block uint64) Authority {
	after, _ := slices.BinarySearchFunc(a, block, func(one Authority, block uint64) int {
		if one.FromBlock <= block {
			return -1
		}
		return 1
	})
	return a[after-1]
}

// Authorities follows the changes of a record, none for nil. Each has to be approved by the
// organisations that had to approve when it was made. The record alone says from which block on it
// holds. Therefore it has to come from somebody trusted, like the genesis.
func (f Founding) Authorities(g *Governance) (Authorities, error) {
	c := consortium{consent: f.Consent, organisations: f.Organisations}
	out := Authorities{c.authority(f.ChainID)}
	if g == nil {
		return out, nil
	}
	if g.ChainID != f.ChainID {
		return nil, fmt.Errorf("chain_id: it is of chain %q, the genesis is of %q", g.ChainID, f.ChainID)
	}
	sequence := uint64(0)
	for i, change := range g.Changes {
		field := fmt.Sprintf("changes[%d]", i)
		decoded, err := c.approved(f.ChainID, sequence+1, change)
		if err != nil {
			return nil, fmt.Errorf("%s.%w", field, err)
		}
		sequence = decoded.Sequence
		since := max(out[len(out)-1].FromBlock, 1)
		if change.FromBlock < since {
			return nil, fmt.Errorf("%s.from_block: %d, before the change before it", field, change.FromBlock)
		}
		if decoded.Withdraws() != nil {
			if change.FromBlock != since {
				return nil, fmt.Errorf("%s.from_block: %d, a withdrawal has that of the change before it, %d", field, change.FromBlock, since)
			}
			continue
		}
		if c, err = c.after(decoded); err != nil {
			return nil, fmt.Errorf("%s.change: %w", field, err)
		}
		next := c.authority(f.ChainID)
		next.FromBlock, next.FromHeight = change.FromBlock, decoded.EffectiveHeight
		out = append(out, next)
	}
	return out, nil
}

// consortium is who takes part at one time.
type consortium struct {
	consent, approvals int    // 0: by the number of organisations
	protocol           uint32 // version in force; 0: the first
	organisations      []Organisation
}

// voters counts those that vote on effects.
func (c consortium) voters() (n int) {
	for _, o := range c.organisations {
		if !o.OrderingOnly {
			n++
		}
	}
	return n
}

func (c consortium) authority(chainID string) Authority {
	n := c.voters()
	a := Authority{ChainID: chainID, Consent: cmp.Or(c.consent, min(max(2*n/3+1, 2), n)), GatewayKeys: map[string][]byte{}}
	for _, o := range c.organisations {
		a.GatewayKeys[o.Name] = o.GatewayKey
		if o.OrderingOnly {
			continue
		}
		for _, key := range o.Validators {
			a.Validators = append(a.Validators, Validator{Organisation: o.Name, Key: key})
		}
	}
	return a
}

// approved reads a change that enough organisations of this consortium signed.
func (c consortium) approved(chainID string, sequence uint64, change GovernanceChange) (*wire.GovernanceChange, error) {
	decoded, err := wire.DecodeGovernanceChange(change.Change)
	switch {
	case err != nil:
		return nil, fmt.Errorf("change: %w", err)
	case decoded.ChainId != chainID:
		return nil, fmt.Errorf("change: it is of chain %q", decoded.ChainId)
	}
	if decoded.Withdraws() != nil {
		sequence++ // the change before it is the one withdrawn, which stands in no record
	}
	if decoded.Sequence != sequence {
		return nil, fmt.Errorf("change: it is number %d, want %d", decoded.Sequence, sequence)
	}
	for i, a := range change.Approvals {
		at := c.index(a.Organisation)
		switch {
		case at < 0 || c.organisations[at].OrderingOnly:
			return nil, fmt.Errorf("approvals[%d]: organisation %q approves nothing", i, a.Organisation)
		case i > 0 && change.Approvals[i-1].Organisation >= a.Organisation:
			return nil, fmt.Errorf("approvals[%d]: not after the one before by organisation", i)
		case !wire.VerifyApproval(c.organisations[at].GatewayKey, chainID, change.Change, &wire.Approval{Signature: a.Signature}):
			return nil, fmt.Errorf("approvals[%d]: the signature of %q does not fit", i, a.Organisation)
		}
	}
	n := c.voters()
	version := wire.VersionApprovals{Voters: n, Approvals: cmp.Or(c.approvals, 2*n/3+1), Consent: c.authority(chainID).Consent}
	want := version.Approvals
	switch {
	case len(change.Withdrawn) > 0:
		if err := withdrawnVersion(decoded, change.Withdrawn); err != nil {
			return nil, fmt.Errorf("withdrawn: %w", err)
		}
		want = version.ToWithdraw()
	case decoded.ProtocolVersion() != 0:
		want = version.ToAccept()
	}
	if len(change.Approvals) < want {
		return nil, fmt.Errorf("approvals: %d of %d organisations approve, want %d", len(change.Approvals), n, want)
	}
	return decoded, nil
}

// withdrawnVersion checks that a change withdraws another one, which brings a version of the
// protocol to the same chain and has the sequence before it.
func withdrawnVersion(by *wire.GovernanceChange, raw []byte) error {
	if sum := sha256.Sum256(raw); !bytes.Equal(by.Withdraws(), sum[:]) {
		return fmt.Errorf("the change withdraws another one than %x", sum)
	}
	of, err := wire.DecodeGovernanceChange(raw)
	if err != nil {
		return err
	}
	if of.ProtocolVersion() == 0 || of.ChainId != by.ChainId || of.Sequence+1 != by.Sequence {
		return fmt.Errorf("it is change %d of chain %q, want a version of the protocol that is change %d", of.Sequence, of.ChainId, by.Sequence-1)
	}
	return nil
}

// after returns the consortium after a change, and leaves the given one unchanged.
func (c consortium) after(change *wire.GovernanceChange) (consortium, error) {
	c.organisations = slices.Clone(c.organisations)
	for i, action := range change.Actions {
		if err := c.act(action); err != nil {
			return c, fmt.Errorf("actions[%d]: %w", i, err)
		}
	}
	return c, nil
}

func (c *consortium) act(action *wire.GovernanceAction) error {
	switch a := action.Body.(type) {
	case *wire.GovernanceAction_Consent:
		c.consent = int(a.Consent)
	case *wire.GovernanceAction_Approvals:
		c.approvals = int(a.Approvals)
	case *wire.GovernanceAction_Add:
		if c.index(a.Add.Organisation) >= 0 {
			return fmt.Errorf("organisation %q takes part already", a.Add.Organisation)
		}
		o := Organisation{Name: a.Add.Organisation, GatewayKey: a.Add.GatewayKey, OrderingOnly: a.Add.OrderingOnly}
		for _, v := range a.Add.Validators {
			o.Validators = append(o.Validators, v.Key)
		}
		c.organisations = append(c.organisations, o)
	case *wire.GovernanceAction_Remove:
		at := c.index(a.Remove)
		if at < 0 {
			return fmt.Errorf("organisation %q takes no part", a.Remove)
		}
		c.organisations = slices.Delete(c.organisations, at, at+1)
	case *wire.GovernanceAction_GatewayKey:
		return c.with(a.GatewayKey.Organisation, func(o *Organisation) { o.GatewayKey = a.GatewayKey.Key })
	case *wire.GovernanceAction_OrderingOnly:
		return c.with(a.OrderingOnly.Organisation, func(o *Organisation) { o.OrderingOnly = a.OrderingOnly.Only })
	case *wire.GovernanceAction_Validator:
		return c.with(a.Validator.Organisation, func(o *Organisation) { o.setValidator(a.Validator.Validator) })
	case *wire.GovernanceAction_ProtocolVersion:
		if a.ProtocolVersion <= c.protocol {
			return fmt.Errorf("version %d of the protocol follows version %d", a.ProtocolVersion, c.protocol)
		}
		c.protocol = a.ProtocolVersion
	case *wire.GovernanceAction_BlockTimes, *wire.GovernanceAction_BlockShares, *wire.GovernanceAction_SnapshotEvery: // say nothing of whose votes count
	}
	return nil
}

// setValidator adds a key, or, with power 0, takes it away; other powers say nothing about effects.
func (o *Organisation) setValidator(v *wire.ValidatorPower) {
	o.Validators = slices.DeleteFunc(slices.Clone(o.Validators), func(key []byte) bool { return bytes.Equal(key, v.Key) })
	if v.Power > 0 {
		o.Validators = append(o.Validators, v.Key)
	}
}

func (c *consortium) with(name string, change func(*Organisation)) error {
	at := c.index(name)
	if at < 0 {
		return fmt.Errorf("organisation %q takes no part", name)
	}
	change(&c.organisations[at])
	return nil
}

func (c *consortium) index(name string) int {
	return slices.IndexFunc(c.organisations, func(o Organisation) bool { return o.Name == name })
}
