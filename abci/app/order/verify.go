package order

import (
	"math/bits"

	"github.com/chainify-db/chainify/abci/wire"
)

// Work counts the cost of verifying signatures of clients: one for each signature in a batch, and
// BatchWork for each batch. One is 10 to 30 µs of a processor (BenchmarkVerifyClients).
type Work int

// BatchWork is the cost of a batch beyond its signatures: a signature alone costs five times as
// much as one among hundreds.
const BatchWork Work = 4

// searchMost is how often each signature is verified while wrong ones are searched by halves. Where
// many are wrong, each of the bundles left is then verified by itself.
const searchMost = 3

// VerifyClients verifies clients' signatures of all candidates together and says of each what is
// wrong with it, a *Refusal, or nil. Cost of each signature: about a fifth of an Ed25519
// verification where there are hundreds; three times that when one of them is wrong, and about ten
// times where many are.
func (r *Registry) VerifyClients(candidates ...Candidate) (wrong []error, work Work) {
	s := search{chainID: r.record.ChainID, candidates: candidates, wrong: make([]error, len(candidates))}
	for _, c := range candidates {
		s.most += searchMost * Work(len(c.bundle))
	}
	s.look(0, len(candidates), false)
	return s.wrong, s.work
}

// ClientsRight verifies clients' signatures of all candidates together, and does not search for
// those that are wrong.
func (r *Registry) ClientsRight(candidates ...Candidate) (right bool, work Work) {
	s := search{chainID: r.record.ChainID, candidates: candidates}
	right = s.right(0, len(candidates))
	return right, s.work
}

// search finds the candidates with wrong signatures.
type search struct {
	chainID    string
	candidates []Candidate
	wrong      []error
	work, most Work
}

// look searches between two indexes; known: something there is wrong.
func (s *search) look(from, to int, known bool) {
	switch {
	case from == to || !known && s.right(from, to):
	case to-from == 1:
		s.found(from)
	case s.work > s.most:
		for i := from; i < to; i++ {
			s.look(i, i+1, false)
		}
	default:
		half := (from + to) / 2
		right := s.right(from, half)
		if !right {
			s.look(from, half, true)
		}
		s.look(half, to, right)
	}
}

// right verifies the signatures between two indexes as one batch.
func (s *search) right(from, to int) bool {
	var all []wire.BundledTx
	if to-from == 1 {
		all = s.candidates[from].bundle
	} else {
		for _, c := range s.candidates[from:to] {
			all = append(all, c.bundle...)
		}
	}
	if len(all) == 0 {
		return true
	}
	s.work += Work(len(all)) + BatchWork
	return wire.VerifyProposals(s.chainID, all)
}

// found says of a candidate which of its signatures is the first wrong one.
func (s *search) found(i int) {
	bundle, at := s.candidates[i].bundle, 0
	if len(bundle) > 1 {
		at = wire.FirstWrongProposal(s.chainID, bundle)
		s.work += Work(len(bundle)) + BatchWork*Work(bits.Len(uint(len(bundle))))
	}
	s.wrong[i] = refuse(CodeSignature, "bundle.transactions[%d].proposal.signature: not by the client's key", at)
}
