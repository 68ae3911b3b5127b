package order

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"slices"
	"testing"
)

func TestVotesOnceRightAreKnownByAllTheySign(t *testing.T) {
	key, private := signer(1)
	other, _ := signer(2)
	message := []byte("a vote")
	signature := ed25519.Sign(private, message)
	votes := newRightVotes()
	for range 2 {
		if !votes.check(key, message, signature) {
			t.Error("a right vote is refused")
		}
	}
	for at := range signature {
		wrong := bytes.Clone(signature)
		wrong[at]++
		if votes.check(key, message, wrong) {
			t.Errorf("taken with byte %d of the signature changed", at)
		}
	}
	// The last byte of the signature moves into the message and back.
	for name, of := range map[string][3][]byte{
		"another message":   {key, []byte("a vole"), signature},
		"another key":       {other, message, signature},
		"a short signature": {key, slices.Concat(signature[63:], message), signature[:63]},
		"a long signature":  {key, message[1:], slices.Concat(signature, message[:1])},
	} {
		if votes.check(of[0], of[1], of[2]) {
			t.Errorf("taken with %s", name)
		}
	}
	if len(votes.known) != 1 || len(votes.oldest) != 1 {
		t.Errorf("%d known, %d in the ring, want the right one", len(votes.known), len(votes.oldest))
	}
}

func TestVotesOnceRightAreForgottenInTheirOrder(t *testing.T) {
	key, private := signer(1)
	votes := newRightVotes()
	message := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	for i := range rightVotesKept + 2 {
		if !votes.check(key, message(i), ed25519.Sign(private, message(i))) {
			t.Fatalf("right vote %d is refused", i)
		}
	}
	if len(votes.known) != rightVotesKept || len(votes.oldest) != rightVotesKept {
		t.Fatalf("%d known, %d in the ring, want %d", len(votes.known), len(votes.oldest), rightVotesKept)
	}
	votes.check(key, message(0), ed25519.Sign(private, message(0))) // takes the place of the third
	for i, want := range map[int]bool{0: true, 1: false, 2: false, 3: true, rightVotesKept + 1: true} {
		id := voteID(key, message(i), ed25519.Sign(private, message(i)))
		if votes.holds(id) != want {
			t.Errorf("vote %d known: %v, want %v", i, !want, want)
		}
	}
}

func signer(seed byte) (ed25519.PublicKey, ed25519.PrivateKey) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	return private.Public().(ed25519.PublicKey), private
}
