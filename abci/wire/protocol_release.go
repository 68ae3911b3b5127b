//go:build !synthetic_next

package wire

// ProtocolVersion is the newest version of the protocol that this program knows. It knows all
// before it.
const ProtocolVersion = 1

// saltDomain begins what an organisation votes for.
func saltDomain(Protocol) string { return "chainify/effect-vote/1" }

// sealVote gives an encoded vote the form of its protocol.
func sealVote(_ Protocol, raw []byte) []byte { return raw }

// unsealVote returns the protocol of a vote, and the vote as sealVote took it.
func unsealVote(raw []byte) (Protocol, []byte, error) { return 0, raw, nil }

// ValidityHeights is how many heights above that of its order block a transaction may be valid.
func (p Protocol) ValidityHeights() uint64 { return ValidityHeightsMax }
