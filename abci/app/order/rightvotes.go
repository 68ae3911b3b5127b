package order

import (
	"crypto/ed25519"
	"crypto/sha256"
	"slices"
	"sync"

	"github.com/chainify-db/chainify/abci/wire"
)

// rightVotesKept is how many votes are remembered as right. It covers a few blocks of the largest
// consortium.
const rightVotesKept = 4 * wire.CertificateVotesMax

// rightVotes remembers votes whose signature holds. A vote comes with its precommit, in the
// proposal of a certificate and in the decided block; its signature is verified once. Only right
// votes are remembered, by everything that the signature depends on.
type rightVotes struct {
	mu     sync.Mutex // guards all below
	known  map[wire.Hash]bool
	oldest []wire.Hash // known ones, in a ring
	next   int
}

func newRightVotes() *rightVotes { return &rightVotes{known: map[wire.Hash]bool{}} }

// check verifies a vote's signature, or knows that it holds. Cost: a hash, or one verification.
func (v *rightVotes) check(key, message, signature []byte) bool {
	if len(key) != ed25519.PublicKeySize || len(signature) != ed25519.SignatureSize {
		return false
	}
	id := voteID(key, message, signature)
	if v.holds(id) {
		return true
	}
	if !wire.VerifyVote(key, message, signature) {
		return false
	}
	v.remember(id)
	return true
}

// voteID is over fields of fixed length before the last.
func voteID(key, message, signature []byte) wire.Hash {
	return sha256.Sum256(slices.Concat(key, signature, message))
}

func (v *rightVotes) holds(id wire.Hash) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.known[id]
}

func (v *rightVotes) remember(id wire.Hash) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.known[id]:
		return
	case len(v.oldest) < rightVotesKept:
		v.oldest = append(v.oldest, id)
	default:
		delete(v.known, v.oldest[v.next])
		v.oldest[v.next] = id
		v.next = (v.next + 1) % rightVotesKept
	}
	v.known[id] = true
}
