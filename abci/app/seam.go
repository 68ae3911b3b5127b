package app

import (
	"context"

	"github.com/chainify-db/chainify/abci/wire"
)

// Effects is the interface by which the ordered application informs and asks the effect consensus.
// No method but Vote waits, and no answer but Vote's and Hash's leaves the application; neither
// enters the ordered state (invariant A1).
type Effects interface {
	// Proposed starts speculative execution of a block that is proposed, not yet decided. If
	// certificate is not nil, it is that of the block before, and the same proposal carries it. Its
	// votes are proof even if the proposal is not decided. A nil block means that the proposal only
	// carries a certificate.
	Proposed(block *wire.OrderedBlock, certificate *wire.Certificate)
	// Vote returns this organisation's effect vote (an encoded EffectVote, or nil) for the
	// execution named, waiting for it at most as long as ctx allows.
	Vote(ctx context.Context, block *wire.OrderedBlock) []byte
	// Seen reports an effect vote received in another validator's precommit (live, not yet on the
	// chain).
	Seen(organisation string, vote wire.EffectVote)
	// Decided reports, after Commit(height), what that order block changed. All fields may be nil.
	Decided(d Decision)
	// Hash returns the LedgerBlockHash this node can reveal for a pending block: what it computed
	// itself, or what it learned to be certified.
	Hash(key wire.Key) (wire.Hash, bool)
}

// The types on either side of the seam live in wire, so that effects need not import app.
type (
	Decision = wire.Decision
	Source   = wire.Source
)
