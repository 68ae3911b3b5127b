package wire

import (
	"crypto"
	"crypto/ed25519"
	"fmt"

	voi "github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
)

// clientChangeBytesMax bounds an encoded ClientChange: two names, a key, a role, a number.
const clientChangeBytesMax = 512

// ProposalSignBytes returns what a client signs: "chainify/proposal/1" ‖ lp(chain_id) ‖ proposal
// bytes.
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

// cofactored is the rule for clients' signatures, of which many are verified together: RFC 8032
// with the cofactor, as in ZIP 215. A batch and each of its signatures alone give the same answer.
var cofactored = &voi.Options{Verify: voi.VerifyOptionsZIP_215}

// VerifyProposals verifies the signatures of all transactions whose clients sign, together, and
// reports whether all are right. Each signature costs about a fifth of a verification in a batch of
// hundreds by few clients. Transactions signed together cost one signature for all, and for each
// the SHA-256 of its path.
func VerifyProposals(chainID string, txs []BundledTx) bool {
	claims := claimsOf(chainID, txs)
	switch len(claims) {
	case 0:
		return true
	case 1: // a batch of one costs more
		return voi.VerifyWithOptions(claims[0].key, claims[0].message, claims[0].signature, cofactored)
	}
	return together(claims)
}

// claim is a statement with the signature that a client must have made.
type claim struct{ key, message, signature []byte }

// claimsOf lists what the clients who sign must have signed; what several transactions were signed
// by is one claim.
func claimsOf(chainID string, txs []BundledTx) []claim {
	claims := make([]claim, 0, len(txs))
	listed := map[tree]bool{}
	for _, tx := range txs {
		if len(tx.Proposal.Client.Key) == 0 {
			continue
		}
		s := tx.Chained.Proposal
		c := claim{key: tx.Proposal.Client.Key, signature: s.Signature[:signatureBytes]}
		if len(s.Signature) == signatureBytes {
			c.message = ProposalSignBytes(chainID, s.Proposal)
		} else {
			t := treeOf(tx)
			if listed[t] {
				continue
			}
			listed[t] = true
			c.message = ProposalsSignBytes(chainID, t.size, t.root)
		}
		claims = append(claims, c)
	}
	return claims
}

// FirstWrongProposal returns the index of the first transaction whose client's signature is wrong,
// or -1. It halves what is left: at most each signature is verified once more, in batches.
func FirstWrongProposal(chainID string, txs []BundledTx) int {
	from, to := 0, len(txs)
	for to-from > 1 {
		if half := (from + to) / 2; VerifyProposals(chainID, txs[from:half]) {
			from = half
		} else {
			to = half
		}
	}
	if from < to && !VerifyProposals(chainID, txs[from:to]) {
		return from
	}
	return -1
}

// SignClientChange encodes and signs a change of an organisation's clients with its gateway key.
func SignClientChange(key crypto.Signer, c *ClientChange) (*SignedClientChange, error) {
	raw := Encode(c)
	signature, err := Sign(key, clientSignBytes(c.ChainId, raw))
	return &SignedClientChange{Change: raw, Signature: signature}, err
}

// VerifyClientChange reports whether the gateway key signed the change for this chain, by the same
// rule as votes.
func VerifyClientChange(key ed25519.PublicKey, chainID string, s *SignedClientChange) bool {
	return VerifyVote(key, clientSignBytes(chainID, s.Change), s.Signature)
}

func clientSignBytes(chainID string, change []byte) []byte {
	return append(append([]byte("chainify/client/1"), lp(chainID)...), change...)
}

// DecodeClientChange reads the bytes that an organisation signs.
func DecodeClientChange(raw []byte) (*ClientChange, error) {
	c := &ClientChange{}
	if err := decodeStrict("client change", raw, clientChangeBytesMax, shape{}, c); err != nil {
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
	return checkSignedClientChange(s)
}

// checkSignedClientChange checks all but the change, which is decoded once its signature is
// verified.
func checkSignedClientChange(s *SignedClientChange) error {
	if n := len(s.Change); n == 0 || n > clientChangeBytesMax {
		return fieldErrorf("client change", "%d bytes, want 1 to %d", n, clientChangeBytesMax)
	}
	if n := len(s.Signature); n != signatureBytes {
		return fieldErrorf("signed client change.signature", "%d bytes, want %d", n, signatureBytes)
	}
	return nil
}
