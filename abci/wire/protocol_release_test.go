//go:build !synthetic_next

package wire

import (
	"bytes"
	"strings"
	"testing"
)

// A release knows version 1 alone, and no vote of the version that tests make up.
func TestAReleaseKnowsNoSyntheticVersion(t *testing.T) {
	vote := NewEffectsVote(Key{Number: 1}, "acme", Hash{1}).Encode()
	if ProtocolVersion != 1 || Protocol(7).ValidityHeights() != ValidityHeightsMax || !bytes.Equal(NewEffectsVote(Key{Number: 1, Protocol: 2}, "acme", Hash{1}).Encode(), vote) {
		t.Error("this program knows another version")
	}
	synthetic := append([]byte{0xFE, 0, 0, 0, 2}, vote...)
	if _, err := DecodeEffectVote(synthetic); err == nil || !strings.Contains(err.Error(), "a newer release may know it") {
		t.Errorf("a vote of a synthetic version: %v", err)
	}
}
