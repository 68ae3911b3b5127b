//go:build synthetic_next

// This file makes up a next version of the protocol, for tests of upgrades alone. No release
// contains it. Version 2 has other domain strings, a field more in votes, and another rule of the
// order.

package wire

import "encoding/binary"

// ProtocolVersion is the newest version of the protocol that this program knows. It knows all
// before it.
const ProtocolVersion = 2

const (
	voteSynthetic  = 0xFE // followed by u32 version ‖ the vote in one of its earlier forms
	syntheticBytes = 5
)

// saltDomain begins what an organisation votes for.
func saltDomain(p Protocol) string {
	if p == 2 {
		return "chainify/effect-vote/synthetic-2"
	}
	return "chainify/effect-vote/1"
}

// sealVote gives an encoded vote the form of its protocol.
func sealVote(p Protocol, raw []byte) []byte {
	if p < 2 {
		return raw
	}
	return append(binary.BigEndian.AppendUint32([]byte{voteSynthetic}, uint32(p)), raw...)
}

// unsealVote returns the protocol of a vote, and the vote as sealVote took it.
func unsealVote(raw []byte) (Protocol, []byte, error) {
	if raw[0] != voteSynthetic {
		return 0, raw, nil
	}
	if len(raw) < syntheticBytes+voteBytes || binary.BigEndian.Uint32(raw[1:]) != 2 {
		return 0, nil, fieldErrorf("effect vote.version", "synthetic, want version 2 and a vote")
	}
	return 2, raw[syntheticBytes:], nil
}

// ValidityHeights is how many heights above that of its order block a transaction may be valid.
func (p Protocol) ValidityHeights() uint64 {
	if p == 2 {
		return ValidityHeightsMax / 2
	}
	return ValidityHeightsMax
}
