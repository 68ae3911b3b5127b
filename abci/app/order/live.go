package order

import (
	"errors"
	"fmt"

	"github.com/chainify-db/chainify/abci/wire"
)

// LiveVote tells whose effect vote a precommit carries, when that counts live (E1). For that its
// signature holds by the rule of votes, with the key that the registry has for its address. The
// organisation votes on effects, and the vote is about an execution of now. LiveVote decodes
// nothing before the signature holds.
func (s *State) LiveVote(signed *wire.ExtendedVote) (organisation string, vote wire.EffectVote, err error) {
	if len(signed.Extension) > wire.VoteExtensionBytesMax {
		return "", vote, fmt.Errorf("vote extension of %d bytes, want at most %d", len(signed.Extension), wire.VoteExtensionBytesMax)
	}
	if organisation, err = s.registry.CheckExtension(signed); err != nil {
		return "", vote, err
	}
	if !s.registry.votes(organisation) {
		return "", vote, fmt.Errorf("organisation %q only orders", organisation)
	}
	if vote, err = wire.DecodeEffectVote(signed.Extension); err != nil {
		return "", vote, err
	}
	if !s.awaits(vote.Key(), signed.Height) {
		return "", vote, errors.New("the vote is about another execution than that of now")
	}
	return organisation, vote, nil
}

// awaits tells whether a precommit of a height can be about an execution: of the pending ledger
// block, or of one that the next order block orders. The registry is then that of the block (A5),
// and no earlier or later one's validator votes on it.
func (s *State) awaits(k wire.Key, height int64) bool {
	if p := s.pending; p != nil && k == p.Key() {
		return height >= p.Height && height <= s.height+1
	}
	return k.Number == s.ordered+1 && k.Round == 0 && height == s.height+1
}
