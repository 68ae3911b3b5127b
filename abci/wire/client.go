package wire

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"

	voi "github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
)

// clientChangeBytesMax bounds an encoded ClientChange: two names, a key, a role, a number.
const clientChangeBytesMax = 512

// ProposalSignBytes returns what a client signs: "chainify/proposal/1" ‖ lp(chain_id) ‖ proposal bytes.
func ProposalSignBytes(chainID string, proposal []byte) []byte {
	return append(append([]byte("chainify/proposal/1"), lp(chainID)...), proposal...)
}

// SignProposal encodes a proposal, to whose client it gives the key's public half, and signs it.
func SignProposal(key ed25519.PrivateKey, p *Proposal) *SignedProposal {
	p.Client.Key = key.Public().(ed25519.PublicKey)
	raw := Encode(p)
	return &SignedProposal{Proposal: raw, Signature: ed25519.Sign(key, ProposalSignBytes(p.ChainId, raw))}
}

// DecodeSignedProposal reads a proposal that its client has signed. The signature is not verified.
func DecodeSignedProposal(signed *SignedProposal) (BundledTx, error) {
	tx, err := checkChainedTx(&ChainedTx{Proposal: signed})
	if err == nil && len(tx.Proposal.Client.Key) == 0 {
		err = fieldErrorf("proposal.client.key", "missing: the client does not sign")
	}
	return tx, err
}

// cofactored is the rule for clients' signatures, of which many are verified together: RFC 8032 with the cofactor, as in ZIP 215.
// A batch and each of its signatures alone give the same answer.
var cofactored = &voi.Options{Verify: voi.VerifyOptionsZIP_215}

// VerifyProposals verifies the signatures of all transactions whose clients sign, together. It returns the index of the first
// that is wrong, or -1. Cost: about half of a verification for each, and a whole one each when some are wrong.
func VerifyProposals(chainID string, txs []BundledTx) int {
	signed := make([]int, 0, len(txs))
	for i, tx := range txs {
		if len(tx.Proposal.Client.Key) > 0 {
			signed = append(signed, i)
		}
	}
	if len(signed) == 0 || len(signed) > 1 && batchIsValid(chainID, txs, signed) {
		return -1
	}
	for _, i := range signed {
		s := txs[i].Chained.Proposal
		if !voi.VerifyWithOptions(txs[i].Proposal.Client.Key, ProposalSignBytes(chainID, s.Proposal), s.Signature, cofactored) {
			return i
		}
	}
	return -1
}

// batchIsValid verifies the signatures of some transactions together; for a single one that costs twice what it does alone.
func batchIsValid(chainID string, txs []BundledTx, signed []int) bool {
	batch := voi.NewBatchVerifier()
	for _, i := range signed {
		s := txs[i].Chained.Proposal
		batch.AddWithOptions(txs[i].Proposal.Client.Key, ProposalSignBytes(chainID, s.Proposal), s.Signature, cofactored)
	}
	return batch.VerifyBatchOnly(rand.Reader)
}

// SignClientChange encodes and signs a change of an organisation's clients with its gateway key.
func SignClientChange(key ed25519.PrivateKey, c *ClientChange) *SignedClientChange {
	raw := Encode(c)
	return &SignedClientChange{Change: raw, Signature: ed25519.Sign(key, clientSignBytes(c.ChainId, raw))}
}

// VerifyClientChange reports whether the gateway key signed the change for this chain, by the same rule as votes.
func VerifyClientChange(key ed25519.PublicKey, chainID string, s *SignedClientChange) bool {
	return VerifyVote(key, clientSignBytes(chainID, s.Change), s.Signature)
}

func clientSignBytes(chainID string, change []byte) []byte {
	return append(append([]byte("chainify/client/1"), lp(chainID)...), change...)
}

// DecodeClientChange reads the bytes that an organisation signs.
func DecodeClientChange(raw []byte) (*ClientChange, error) {
	c := &ClientChange{}
	if err := decodeStrict("client change", raw, clientChangeBytesMax, c); err != nil {
		return nil, err
	}
	if err := CheckChainID(c.ChainId); err != nil {
		return nil, fmt.Errorf("client change.%w", err)
	}
	if err := CheckOrganisation(c.Organisation); err != nil {
		return nil, fmt.Errorf("client change.%w", err)
	}
	if c.Sequence == 0 {
		return nil, fieldErrorf("client change.sequence", "0, want 1 or more")
	}
	if c.Role != "" {
		if err := CheckRole(c.Role); err != nil {
			return nil, fmt.Errorf("client change.%w", err)
		}
	}
	return c, checkPublicKey("client change.key", c.Key)
}

func checkClientChange(s *SignedClientChange) error {
	if _, err := DecodeClientChange(s.GetChange()); err != nil {
		return err
	}
	if n := len(s.Signature); n != signatureBytes {
		return fieldErrorf("signed client change.signature", "%d bytes, want %d", n, signatureBytes)
	}
	return nil
}
