package wire

import (
	"crypto"
	"fmt"

	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519/extra/cache"
)

// Sign signs a message with an Ed25519 key, which may be where nobody reads it. A key in memory
// never fails.
func Sign(key crypto.Signer, message []byte) ([]byte, error) {
	signature, err := key.Sign(nil, message, crypto.Hash(0))
	if err != nil {
		return nil, fmt.Errorf("sign with the gateway key: %w", err)
	}
	return signature, nil
}

// strict is the rule of spec/formats.md for votes. The standard library's differs in one thing: it
// takes keys and points of small order, with which the owner of a key can make votes that other
// checkers do not count.
var strict = &ed25519.Options{Verify: &ed25519.VerifyOptions{AllowNonCanonicalA: true, CofactorlessVerify: true}}

// voters remembers keys with what a verification makes of them first. Few keys sign all votes, and
// that is 14 % of a verification.
var voters = cache.NewVerifier(cache.NewLRUCache(256))

// VerifyVote reports whether a vote's signature is valid: RFC 8032, section 5.1.7, without the
// cofactor, and with neither key nor R of small order. Message is that of ExtensionSignBytes. Cost:
// one verification.
func VerifyVote(key, message, signature []byte) bool {
	if len(key) != ed25519.PublicKeySize {
		return false
	}
	return voters.VerifyWithOptions(key, message, signature, strict)
}
