package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

const (
	// NodeSignaturesMax bounds the signatures of a vouch: those of the keys that count, and of the
	// keys that take their place.
	NodeSignaturesMax = 8
	// VouchBytesMax bounds the text of a vouch.
	VouchBytesMax = NameBytesMax + NodeSignaturesMax*(1+2*signerBytes+1+86)
	// signerBytes of the SHA-256 of a key say which key signed.
	signerBytes = 8
	nodeIDBytes = 40
)

// Vouch says that a node is one of an organisation's. The node's id is not part of it: CometBFT
// proves the id of a connection.
type Vouch struct {
	Organisation string
	Signatures   []NodeSignature
}

// NodeSignature is by the organisation's gateway key or by the key of one of its validators.
type NodeSignature struct {
	Signer    [signerBytes]byte // the first bytes of the SHA-256 of the key
	Signature [signatureBytes]byte
}

// NodeSignBytes returns the bytes that an organisation signs: "chainify/node/1" ‖ lp(chain_id) ‖
// lp(organisation) ‖ lp(node id).
func NodeSignBytes(chainID, organisation, nodeID string) []byte {
	return append(append(append([]byte("chainify/node/1"), lp(chainID)...), lp(organisation)...), lp(nodeID)...)
}

// Sign adds the signature of a key; sign makes it of NodeSignBytes.
func (v *Vouch) Sign(key, signature []byte) {
	v.Signatures = append(v.Signatures, NodeSignature{Signer: signerOf(key), Signature: [signatureBytes]byte(signature)})
}

// By reports whether one of these keys signed for the node, by the same rule as votes. Only the
// signatures that name a key are verified with it.
func (v *Vouch) By(keys [][]byte, chainID, nodeID string) bool {
	message := NodeSignBytes(chainID, v.Organisation, nodeID)
	for _, s := range v.Signatures {
		for _, key := range keys {
			if s.Signer == signerOf(key) && VerifyVote(key, message, s.Signature[:]) {
				return true
			}
		}
	}
	return false
}

// String writes a vouch as nodes show it: the organisation, then for each signature a space, its
// signer in lower-case hexadecimal, a colon, and the signature in base64 without padding.
func (v *Vouch) String() string {
	var out strings.Builder
	out.WriteString(v.Organisation)
	for _, s := range v.Signatures {
		out.WriteString(" " + hex.EncodeToString(s.Signer[:]) + ":" + base64.RawStdEncoding.EncodeToString(s.Signature[:]))
	}
	return out.String()
}

// ParseVouch reads what String writes, and nothing else. The signatures are not verified.
func ParseVouch(text string) (*Vouch, error) {
	if n := len(text); n > VouchBytesMax {
		return nil, fieldErrorf("vouch", "%d bytes, want at most %d", n, VouchBytesMax)
	}
	fields := strings.Split(text, " ")
	v := &Vouch{Organisation: fields[0]}
	if err := CheckOrganisation(v.Organisation); err != nil {
		return nil, within("vouch", err)
	}
	if n := len(fields) - 1; n < 1 || n > NodeSignaturesMax {
		return nil, fieldErrorf("vouch.signatures", "%d of them, want 1 to %d", n, NodeSignaturesMax)
	}
	for _, field := range fields[1:] {
		signer, signature, _ := strings.Cut(field, ":")
		key, err := hex.DecodeString(signer)
		if err != nil || len(key) != signerBytes {
			return nil, fieldErrorf("vouch.signatures", "%q names no key", signer)
		}
		raw, err := base64.RawStdEncoding.Strict().DecodeString(signature)
		if err != nil || len(raw) != signatureBytes {
			return nil, fieldErrorf("vouch.signatures", "%q is no signature", signature)
		}
		v.Signatures = append(v.Signatures, NodeSignature{[signerBytes]byte(key), [signatureBytes]byte(raw)})
	}
	if v.String() != text {
		return nil, fieldErrorf("vouch", "not in its one spelling")
	}
	return v, nil
}

// CheckNodeID refuses what is not the id of a node: 40 lower-case hexadecimal digits.
func CheckNodeID(id string) error {
	raw, err := hex.DecodeString(id)
	if err != nil || len(id) != nodeIDBytes || !bytes.Equal(hex.AppendEncode(nil, raw), []byte(id)) {
		return fieldErrorf("node id", "%q is not %d lower-case hexadecimal digits", id, nodeIDBytes)
	}
	return nil
}

func signerOf(key []byte) [signerBytes]byte {
	sum := sha256.Sum256(key)
	return [signerBytes]byte(sum[:signerBytes])
}
