package order

import (
	"bytes"
	"slices"

	"github.com/chainify-db/chainify/abci/wire"
)

// Certificate returns what a proposer at the next height can add to the chain about the pending
// ledger block. Of votes it takes those that are valid and new. It takes the LedgerBlockHash that
// known gives, if that is new and fits a vote. It returns nil when nothing is pending or there is
// nothing to add. The caller need not check votes: CometBFT hands on late precommits whose
// extensions it did not check.
func (s *State) Certificate(votes []*wire.ExtendedVote, known func(wire.Key) (wire.Hash, bool)) *wire.EffectCertificate {
	if s.pending == nil {
		return nil
	}
	p := *s.pending
	p.Votes = slices.Clone(p.Votes)
	c := &wire.EffectCertificate{Block: p.Number, EffectRound: p.Round}
	for _, extended := range sortedVotes(votes) {
		vote, err := s.checkVote(&p, s.height+1, extended)
		if err != nil {
			continue // not usable is not an error: the validator may be new to the round, late or wrong
		}
		p.Votes = append(p.Votes, vote)
		c.Votes = append(c.Votes, extended)
	}
	if hash, knows := known(p.Key()); knows && !slices.Contains(p.Revealed, hash) && p.fitsAVote(hash) {
		c.LedgerBlockHash = hash[:]
	}
	if len(c.Votes) == 0 && len(c.LedgerBlockHash) == 0 {
		return nil
	}
	return c
}

func sortedVotes(votes []*wire.ExtendedVote) []*wire.ExtendedVote {
	sorted := slices.Clone(votes)
	slices.SortStableFunc(sorted, func(a, b *wire.ExtendedVote) int {
		return bytes.Compare(a.ValidatorAddress, b.ValidatorAddress)
	})
	return sorted
}
