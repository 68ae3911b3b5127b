package wire

import (
	"crypto/ed25519"
	"fmt"
)

// policyChangeBytesMax bounds an encoded PolicyChange: a chain id and three integers.
const policyChangeBytesMax = 128

// PolicySignBytes returns what an organisation signs to approve a change: "chainify/policy/1" ‖ lp(chain_id) ‖ change bytes.
func PolicySignBytes(chainID string, change []byte) []byte {
	return append(append([]byte("chainify/policy/1"), lp(chainID)...), change...)
}

// Approve signs an encoded change with an organisation's gateway key.
func Approve(key ed25519.PrivateKey, organisation, chainID string, change []byte) *Approval {
	return &Approval{Organisation: organisation, Signature: ed25519.Sign(key, PolicySignBytes(chainID, change))}
}

// VerifyApproval reports whether the gateway key approves the change for this chain, by the same rule as votes.
func VerifyApproval(key ed25519.PublicKey, chainID string, change []byte, a *Approval) bool {
	return VerifyVote(key, PolicySignBytes(chainID, change), a.Signature)
}

// DecodePolicyChange reads the bytes that organisations approve.
func DecodePolicyChange(raw []byte) (*PolicyChange, error) {
	c := &PolicyChange{}
	if err := decodeStrict("policy change", raw, policyChangeBytesMax, c); err != nil {
		return nil, err
	}
	if err := CheckChainID(c.ChainId); err != nil {
		return nil, fmt.Errorf("policy change.%w", err)
	}
	if c.Sequence == 0 || c.Consent == 0 || c.EffectiveHeight == 0 || c.EffectiveHeight > 1<<62 {
		return nil, fieldErrorf("policy change", "sequence %d, consent %d and effective_height %d, want at least 1 each, and a height", c.Sequence, c.Consent, c.EffectiveHeight)
	}
	return c, nil
}

// checkPolicy checks form and order of a signed change; who signed is checked against the registry.
func checkPolicy(s *SignedPolicyChange) error {
	if _, err := DecodePolicyChange(s.Change); err != nil {
		return err
	}
	if n := len(s.Approvals); n == 0 || n > CertificateVotesMax {
		return fieldErrorf("policy.approvals", "%d of them, want 1 to %d", n, CertificateVotesMax)
	}
	for i, a := range s.Approvals {
		if err := CheckOrganisation(a.Organisation); err != nil {
			return fmt.Errorf("policy.approvals[%d].%w", i, err)
		}
		if len(a.Signature) != signatureBytes {
			return fieldErrorf(fmt.Sprintf("policy.approvals[%d].signature", i), "%d bytes, want %d", len(a.Signature), signatureBytes)
		}
		if i > 0 && s.Approvals[i-1].Organisation >= a.Organisation {
			return fieldErrorf(fmt.Sprintf("policy.approvals[%d]", i), "not after the one before by organisation")
		}
	}
	return nil
}
