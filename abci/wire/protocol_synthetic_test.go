//go:build synthetic_next

package wire

import "testing"

// Votes of both versions are read, each under its own version alone.
func TestVotesOfBothVersions(t *testing.T) {
	hash := Hash{1}
	for _, p := range []Protocol{0, 2} {
		for _, v := range []EffectVote{NewEffectsVote(Key{Number: 1, Protocol: p}, "acme", hash), NewStuckVote(Key{Number: 1, Protocol: p}, 3)} {
			back, err := DecodeEffectVote(v.Encode())
			if err != nil || back != v {
				t.Errorf("version %d: %v, %v", p.Version(), back, err)
			}
			back.Protocol ^= 2
			if back.IsFor("acme", hash) {
				t.Errorf("a vote under version %d counts under the other", p.Version())
			}
		}
	}
	if Protocol(2).ValidityHeights() == Protocol(0).ValidityHeights() {
		t.Error("both versions have one rule")
	}
}
