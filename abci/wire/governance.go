package wire

import (
	"crypto"
	"crypto/ed25519"
	"fmt"
)

// Bounds of spec/formats.md, "Governance".
const (
	GovernanceChangeBytesMax = 65_536
	GovernanceActionsMax     = 64
	MemberValidatorsMax      = 16
	OrganisationsMax         = CertificateVotesMax
	ValidatorPowerMax        = 1_000_000_000
	BlockTimeMSMax           = 3_600_000
	DeployTimeMSMax          = 86_400_000
	BlockTransactionsBound   = 1_000_000
	SnapshotEveryMin         = 10
	SnapshotEveryMax         = 1_000_000
	heightMax                = 1 << 62
)

// GovernanceSignBytes returns what an organisation signs to approve a change:
// "chainify/governance/1" ‖ lp(chain_id) ‖ change bytes.
func GovernanceSignBytes(chainID string, change []byte) []byte {
	return append(append([]byte("chainify/governance/1"), lp(chainID)...), change...)
}

// Approve signs an encoded change with an organisation's gateway key.
func Approve(key crypto.Signer, organisation, chainID string, change []byte) (*Approval, error) {
	signature, err := Sign(key, GovernanceSignBytes(chainID, change))
	return &Approval{Organisation: organisation, Signature: signature}, err
}

// VerifyApproval reports whether the gateway key approves the change for this chain, by the same
// rule as votes.
func VerifyApproval(key ed25519.PublicKey, chainID string, change []byte, a *Approval) bool {
	return VerifyVote(key, GovernanceSignBytes(chainID, change), a.Signature)
}

// DecodeGovernanceChange reads the bytes that organisations approve.
func DecodeGovernanceChange(raw []byte) (*GovernanceChange, error) {
	c := &GovernanceChange{}
	if err := decodeStrict("governance change", raw, GovernanceChangeBytesMax, governanceShape, c); err != nil {
		return nil, err
	}
	if err := CheckChainID(c.ChainId); err != nil {
		return nil, fmt.Errorf("governance change.%w", err)
	}
	if c.Sequence == 0 || c.EffectiveHeight > heightMax {
		return nil, fieldErrorf("governance change", "sequence %d and effective_height %d, want at least 1, and a height", c.Sequence, c.EffectiveHeight)
	}
	if n := len(c.Actions); n == 0 || n > GovernanceActionsMax {
		return nil, fieldErrorf("governance change.actions", "%d of them, want 1 to %d", n, GovernanceActionsMax)
	}
	for i, action := range c.Actions {
		if err := checkAction(action); err != nil {
			return nil, fmt.Errorf("governance change.actions[%d].%w", i, err)
		}
	}
	if c.Withdraws() != nil && (len(c.Actions) > 1 || c.EffectiveHeight != 0) {
		return nil, fieldErrorf("governance change", "%d actions and effective_height %d, a withdrawal is alone and holds at once", len(c.Actions), c.EffectiveHeight)
	}
	if c.ProtocolVersion() != 0 && (len(c.Actions) > 1 || c.EffectiveHeight == 0) {
		return nil, fieldErrorf("governance change", "%d actions and effective_height %d, a version of the protocol is alone and names a height", len(c.Actions), c.EffectiveHeight)
	}
	return c, nil
}

// VersionApprovals are what decides how many organisations approve a version of the protocol, and
// how many withdraw one.
type VersionApprovals struct {
	Voters    int // organisations that vote on effects
	Approvals int // that other changes take
	Consent   int // organisations that agree on a block
}

// ToAccept is how many organisations give their word that they know the version.
func (v VersionApprovals) ToAccept() int { return max(v.Approvals, v.Consent) }

// ToWithdraw is how many withdraw a version that waits: so many that those left are fewer than
// accept one. Those that did not approve it are never as many: at least one of those that did takes
// its word back. More than half of the voters approve changes, so no more are ever needed here.
func (v VersionApprovals) ToWithdraw() int { return v.Voters - v.ToAccept() + 1 }

// ProtocolVersion returns the version of the protocol that the change brings; 0: none.
func (x *GovernanceChange) ProtocolVersion() uint32 {
	for _, action := range x.Actions {
		if v, ok := action.Body.(*GovernanceAction_ProtocolVersion); ok {
			return v.ProtocolVersion
		}
	}
	return 0
}

// Withdraws returns the SHA-256 of the change that this one withdraws; nil: it changes the registry
// itself.
func (x *GovernanceChange) Withdraws() []byte {
	for _, action := range x.Actions {
		if w, ok := action.Body.(*GovernanceAction_Withdraw); ok {
			return w.Withdraw
		}
	}
	return nil
}

// checkAction checks the form of an action; whether it fits the registry is for the order to say.
func checkAction(a *GovernanceAction) error {
	switch body := a.Body.(type) {
	case *GovernanceAction_Consent:
		return checkCount("consent", body.Consent)
	case *GovernanceAction_Approvals:
		return checkCount("approvals", body.Approvals)
	case *GovernanceAction_Add:
		return checkMember(body.Add)
	case *GovernanceAction_Remove:
		return within("remove", CheckOrganisation(body.Remove))
	case *GovernanceAction_GatewayKey:
		if err := CheckOrganisation(body.GatewayKey.Organisation); err != nil {
			return within("gateway_key", err)
		}
		return checkPublicKey("gateway_key.key", body.GatewayKey.Key)
	case *GovernanceAction_Validator:
		if err := CheckOrganisation(body.Validator.Organisation); err != nil {
			return within("validator", err)
		}
		return checkValidator("validator.validator", body.Validator.Validator, 0)
	case *GovernanceAction_OrderingOnly:
		return within("ordering_only", CheckOrganisation(body.OrderingOnly.Organisation))
	case *GovernanceAction_BlockTimes:
		if t := body.BlockTimes; t.Statements > BlockTimeMSMax || t.Deploys > DeployTimeMSMax {
			return fieldErrorf("block_times", "%d and %d ms, want at most %d and %d", t.Statements, t.Deploys, BlockTimeMSMax, DeployTimeMSMax)
		}
		return nil
	case *GovernanceAction_BlockShares:
		if s := body.BlockShares; s.Client > BlockTransactionsBound || s.Organisation > BlockTransactionsBound || s.Keys > BlockTransactionsBound {
			return fieldErrorf("block_shares", "%d and %d transactions and %d rows, want at most %d, or 0 for as many as the block holds", s.Client, s.Organisation, s.Keys, BlockTransactionsBound)
		}
		return nil
	case *GovernanceAction_SnapshotEvery:
		if n := body.SnapshotEvery; n != 0 && (n < SnapshotEveryMin || n > SnapshotEveryMax) {
			return fieldErrorf("snapshot_every", "%d, want %d to %d, or 0 for no snapshots", n, SnapshotEveryMin, SnapshotEveryMax)
		}
		return nil
	case *GovernanceAction_ProtocolVersion:
		if n := body.ProtocolVersion; n < 2 || n > ProtocolVersionMax {
			return fieldErrorf("protocol_version", "%d, want 2 to %d", n, ProtocolVersionMax)
		}
		return nil
	case *GovernanceAction_Withdraw:
		if len(body.Withdraw) != len(Hash{}) {
			return fieldErrorf("withdraw", "%d bytes, want a hash of %d", len(body.Withdraw), len(Hash{}))
		}
		return nil
	default:
		return fieldErrorf("body", "no action")
	}
}

func checkMember(m *Member) error {
	if err := CheckOrganisation(m.Organisation); err != nil {
		return within("add", err)
	}
	if err := checkPublicKey("add.gateway_key", m.GatewayKey); err != nil {
		return err
	}
	if n := len(m.Validators); n == 0 || n > MemberValidatorsMax {
		return fieldErrorf("add.validators", "%d of them, want 1 to %d", n, MemberValidatorsMax)
	}
	for i, v := range m.Validators {
		if err := checkValidator(fmt.Sprintf("add.validators[%d]", i), v, 1); err != nil {
			return err
		}
	}
	return nil
}

func checkValidator(field string, v *ValidatorPower, powerMin uint64) error {
	if v == nil {
		return fieldErrorf(field, "missing")
	}
	if v.Power < powerMin || v.Power > ValidatorPowerMax {
		return fieldErrorf(field+".power", "%d, want %d to %d", v.Power, powerMin, ValidatorPowerMax)
	}
	return checkPublicKey(field+".key", v.Key)
}

func checkPublicKey(field string, key []byte) error {
	if len(key) != ed25519.PublicKeySize {
		return fieldErrorf(field, "%d bytes, want an Ed25519 key of %d", len(key), ed25519.PublicKeySize)
	}
	return nil
}

func checkCount(field string, n uint32) error {
	if n > OrganisationsMax {
		return fieldErrorf(field, "%d, want at most %d", n, OrganisationsMax)
	}
	return nil
}

// within names the message that an error's field is in.
func within(message string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s.%w", message, err)
}

// checkGovernance checks form and order of a signed change; who signed is checked against the
// registry.
func checkGovernance(s *SignedGovernanceChange) error {
	if _, err := DecodeGovernanceChange(s.GetChange()); err != nil {
		return err
	}
	return checkApprovals(s)
}

// checkApprovals checks all but the change, which is decoded once those that have to have approved
// it.
func checkApprovals(s *SignedGovernanceChange) error {
	if n := len(s.Change); n == 0 || n > GovernanceChangeBytesMax {
		return fieldErrorf("governance change", "%d bytes, want 1 to %d", n, GovernanceChangeBytesMax)
	}
	if n := len(s.Approvals); n == 0 || n > OrganisationsMax {
		return fieldErrorf("governance.approvals", "%d of them, want 1 to %d", n, OrganisationsMax)
	}
	for i, a := range s.Approvals {
		if err := CheckOrganisation(a.Organisation); err != nil {
			return fmt.Errorf("governance.approvals[%d].%w", i, err)
		}
		if len(a.Signature) != signatureBytes {
			return fieldErrorf(fmt.Sprintf("governance.approvals[%d].signature", i), "%d bytes, want %d", len(a.Signature), signatureBytes)
		}
		if i > 0 && s.Approvals[i-1].Organisation >= a.Organisation {
			return fieldErrorf(fmt.Sprintf("governance.approvals[%d]", i), "not after the one before by organisation")
		}
	}
	return nil
}
