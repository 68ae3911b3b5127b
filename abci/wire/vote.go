package wire

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// VoteKind is the kind of an effect vote.
type VoteKind uint8

const (
	// VoteEffects: the organisation executed the block and got this hash.
	VoteEffects VoteKind = 1
	// VoteStuck: one transaction does not end.
	VoteStuck VoteKind = 2
)

// EffectVote is one organisation's vote on the effects of a ledger block, carried as a vote
// extension (spec/formats.md, "Effect vote").
type EffectVote struct {
	Number    uint64
	Round     uint32 // effect round
	OrderHash Hash   // of the order block that holds the ledger block
	Kind      VoteKind
	Value     Hash // VoteEffects: salted LedgerBlockHash; VoteStuck: transaction index, then zeros
	// Parts holds the hashes of the block's parts, from effect round 1 on; empty where they are not
	// known.
	Parts string
	// Protocol is the version of the protocol that the vote is cast under.
	Protocol Protocol
}

const (
	voteVersion  = 1
	voteByParts  = 2 // followed by u16 parts ‖ their hashes
	voteNumber   = 1
	voteRound    = voteNumber + 8
	voteOrder    = voteRound + 4
	voteKind     = voteOrder + 32
	voteValue    = voteKind + 1
	voteBytes    = voteValue + 32
	voteStuckEnd = 4 // of the index within the value
)

var _ = [1]struct{}{}[voteBytes-78]

// SaltedHash returns the value of an organisation's vote for a LedgerBlockHash. The salt makes a
// copied vote worthless.
func SaltedHash(p Protocol, organisation string, ledgerBlock Hash) Hash {
	return hashOf(saltDomain(p), lp(organisation), ledgerBlock[:])
}

// NewEffectsVote returns organisation's vote that executing k gave ledgerBlock.
func NewEffectsVote(k Key, organisation string, ledgerBlock Hash) EffectVote {
	return EffectVote{k.Number, k.Round, k.OrderHash, VoteEffects, SaltedHash(k.Protocol, organisation, ledgerBlock), "", k.Protocol}
}

// NewStuckVote returns the vote that transaction index of k does not end.
func NewStuckVote(k Key, index uint32) EffectVote {
	v := EffectVote{Number: k.Number, Round: k.Round, OrderHash: k.OrderHash, Kind: VoteStuck, Protocol: k.Protocol}
	binary.BigEndian.PutUint32(v.Value[:], index)
	return v
}

// Key returns the execution the vote is about.
func (v EffectVote) Key() Key { return Key{v.Number, v.OrderHash, v.Round, v.Protocol} }

// IsFor reports whether organisation votes for ledgerBlock with v.
func (v EffectVote) IsFor(organisation string, ledgerBlock Hash) bool {
	return v.Kind == VoteEffects && v.Value == SaltedHash(v.Protocol, organisation, ledgerBlock)
}

// StuckAt returns the index of the transaction that does not end.
func (v EffectVote) StuckAt() (index uint32, stuck bool) {
	if v.Kind != VoteStuck {
		return 0, false
	}
	return binary.BigEndian.Uint32(v.Value[:]), true
}

// PartHash returns the hash of part i.
func (v EffectVote) PartHash(i int) string { return v.Parts[i*PartBytes : (i+1)*PartBytes] }

// Encode returns the vote's bytes: 78, and those of its parts.
func (v EffectVote) Encode() []byte {
	out := make([]byte, 0, voteBytes+2+len(v.Parts))
	if v.Parts == "" {
		out = append(out, voteVersion)
	} else {
		out = append(out, voteByParts)
	}
	out = binary.BigEndian.AppendUint64(out, v.Number)
	out = binary.BigEndian.AppendUint32(out, v.Round)
	out = append(out, v.OrderHash[:]...)
	out = append(out, byte(v.Kind))
	out = append(out, v.Value[:]...)
	if v.Parts == "" {
		return sealVote(v.Protocol, out)
	}
	out = binary.BigEndian.AppendUint16(out, uint16(len(v.Parts)/PartBytes))
	return sealVote(v.Protocol, append(out, v.Parts...))
}

// DecodeEffectVote reads a vote extension that is not empty.
func DecodeEffectVote(raw []byte) (EffectVote, error) {
	if len(raw) < voteBytes {
		return EffectVote{}, fieldErrorf("effect vote", "%d bytes, want at least %d", len(raw), voteBytes)
	}
	protocol, raw, err := unsealVote(raw)
	if err != nil {
		return EffectVote{}, err
	}
	parts, err := decodeParts(raw)
	if err != nil {
		return EffectVote{}, err
	}
	v := EffectVote{
		Protocol:  protocol,
		Parts:     parts,
		Number:    binary.BigEndian.Uint64(raw[voteNumber:]),
		Round:     binary.BigEndian.Uint32(raw[voteRound:]),
		OrderHash: Hash(raw[voteOrder:voteKind]),
		Kind:      VoteKind(raw[voteKind]),
		Value:     Hash(raw[voteValue:]),
	}
	if v.Number == 0 {
		return EffectVote{}, fieldErrorf("effect vote.number", "0, want 1 or more")
	}
	switch v.Kind {
	case VoteEffects:
	case VoteStuck:
		if [32 - voteStuckEnd]byte(v.Value[voteStuckEnd:]) != [32 - voteStuckEnd]byte{} {
			return EffectVote{}, fieldErrorf("effect vote.value", "not zero after the transaction index")
		}
	default:
		return EffectVote{}, fieldErrorf("effect vote.kind", "%d, want %d or %d", v.Kind, VoteEffects, VoteStuck)
	}
	return v, nil
}

// decodeParts reads the part hashes behind the fields that all votes have.
func decodeParts(raw []byte) (string, error) {
	rest := raw[voteBytes:]
	switch raw[0] {
	case voteVersion:
		if len(rest) > 0 {
			return "", fieldErrorf("effect vote", "%d bytes, want %d", len(raw), voteBytes)
		}
		return "", nil
	case voteByParts:
	default:
		return "", fieldErrorf("effect vote.version", "%d, want %d or %d; a newer release may know it", raw[0], voteVersion, voteByParts)
	}
	if VoteKind(raw[voteKind]) != VoteEffects || binary.BigEndian.Uint32(raw[voteRound:]) == 0 {
		return "", fieldErrorf("effect vote.version", "%d, though it is not on effects of a round after the first", voteByParts)
	}
	if len(rest) < 2 {
		return "", fieldErrorf("effect vote.parts", "%d bytes left, want their count", len(rest))
	}
	count := int(binary.BigEndian.Uint16(rest))
	if rest = rest[2:]; count == 0 || count > PartsMax || len(rest) != count*PartBytes {
		return "", fieldErrorf("effect vote.parts", "%d of them in %d bytes, want 1 to %d of %d bytes each", count, len(rest), PartsMax, PartBytes)
	}
	return string(rest), nil
}

// ExtensionSignBytes returns the bytes that a validator's key signs for a vote extension. It adds
// chain, height and CometBFT round alone; the extension itself has everything else. It is
// CometBFT's message CanonicalVoteExtension, its length first.
func ExtensionSignBytes(chainID string, height int64, round int32, extension []byte) []byte {
	out := make([]byte, 0, len(extension)+len(chainID)+32)
	if len(extension) > 0 {
		out = protowire.AppendBytes(protowire.AppendTag(out, 1, protowire.BytesType), extension)
	}
	for i, number := range []int64{height, int64(round)} {
		if number != 0 {
			out = protowire.AppendFixed64(protowire.AppendTag(out, protowire.Number(2+i), protowire.Fixed64Type), uint64(number))
		}
	}
	if chainID != "" {
		out = protowire.AppendString(protowire.AppendTag(out, 4, protowire.BytesType), chainID)
	}
	return protowire.AppendBytes(nil, out)
}

// checkCertificate checks form and order of a certificate. Its votes are checked later, against the
// ordered state.
func checkCertificate(c *EffectCertificate) error {
	if c.Block == 0 {
		return fieldErrorf("certificate.block", "0, want 1 or more")
	}
	if n := len(c.LedgerBlockHash); n != 0 && n != len(Hash{}) {
		return fieldErrorf("certificate.ledger_block_hash", "%d bytes, want 0 or %d", n, len(Hash{}))
	}
	if n := len(c.Votes); n > CertificateVotesMax {
		return fieldErrorf("certificate.votes", "%d of them, want at most %d", n, CertificateVotesMax)
	}
	if len(c.Votes) == 0 && len(c.LedgerBlockHash) == 0 {
		return fieldErrorf("certificate", "carries neither a vote nor a hash")
	}
	for i, v := range c.Votes {
		if err := checkExtendedVote(v); err != nil {
			return fmt.Errorf("certificate.votes[%d].%w", i, err)
		}
		if i > 0 && !votesAscend(c.Votes[i-1], v) {
			return fieldErrorf(fmt.Sprintf("certificate.votes[%d]", i), "not after the vote before by validator address and height")
		}
	}
	return nil
}

func checkExtendedVote(v *ExtendedVote) error {
	if len(v.ValidatorAddress) != addressBytes {
		return fieldErrorf("validator_address", "%d bytes, want %d", len(v.ValidatorAddress), addressBytes)
	}
	if v.Height < 1 {
		return fieldErrorf("height", "%d, want 1 or more", v.Height)
	}
	if v.Round < 0 {
		return fieldErrorf("round", "%d, want 0 or more", v.Round)
	}
	if _, err := DecodeEffectVote(v.Extension); err != nil {
		return fmt.Errorf("extension: %w", err)
	}
	if len(v.Signature) != signatureBytes {
		return fieldErrorf("signature", "%d bytes, want %d", len(v.Signature), signatureBytes)
	}
	return nil
}

func votesAscend(a, b *ExtendedVote) bool {
	if string(a.ValidatorAddress) != string(b.ValidatorAddress) {
		return string(a.ValidatorAddress) < string(b.ValidatorAddress)
	}
	return a.Height < b.Height
}
