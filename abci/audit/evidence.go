package audit

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/chainify-db/chainify/abci/wire"
)

// EvidenceVersion is that of the format of evidence.
const EvidenceVersion = 1

// Evidence is two different votes of one organisation for one execution of a block
// (spec/evidence.md), as read: nothing in it is checked but its form.
type Evidence struct {
	Version      int        `json:"chainify_evidence"`
	ChainID      string     `json:"chain_id"`
	Organisation string     `json:"organisation"`
	Block        uint64     `json:"block"`
	EffectRound  uint32     `json:"effect_round"`
	First        SignedVote `json:"first"`
	Second       SignedVote `json:"second"`
}

// SignedVote is a vote extension with its signature.
type SignedVote struct {
	Validator hexBytes `json:"validator"`
	Height    int64    `json:"height"`
	Round     int32    `json:"round"`
	Extension hexBytes `json:"extension"`
	Signature hexBytes `json:"signature"`
}

// EvidenceOf writes evidence that a node keeps.
func EvidenceOf(chainID string, e *wire.Evidence) Evidence {
	signed := func(v *wire.ExtendedVote) SignedVote {
		return SignedVote{v.GetValidatorAddress(), v.GetHeight(), v.GetRound(), v.GetExtension(), v.GetSignature()}
	}
	return Evidence{EvidenceVersion, chainID, e.Organisation, e.Block, e.EffectRound, signed(e.First), signed(e.Second)}
}

// ParseEvidence reads one piece of evidence. Errors name the field.
func ParseEvidence(text []byte) (*Evidence, error) {
	e := &Evidence{}
	if err := read(text, e); err != nil {
		return nil, err
	}
	if e.Version != EvidenceVersion {
		return nil, fmt.Errorf("chainify_evidence: version %d, want %d", e.Version, EvidenceVersion)
	}
	for _, v := range []struct {
		field string
		vote  SignedVote
	}{{"first", e.First}, {"second", e.Second}} {
		if n := len(v.vote.Extension); n > wire.VoteExtensionBytesMax {
			return nil, fmt.Errorf("%s.extension: %d bytes, want at most %d", v.field, n, wire.VoteExtensionBytesMax)
		}
	}
	return e, checkSpelling(e, text)
}

// Check returns what is wrong with the evidence; nothing when it holds. A vote is decoded only
// once its signature holds.
func (e *Evidence) Check(all Authorities) []Finding {
	var out findings
	a := all.For(e.Block)
	if e.ChainID != a.ChainID {
		out.add("chain_id", "it is of chain %q, the genesis is of %q", e.ChainID, a.ChainID)
		return out
	}
	first, ok := e.checkVote("first", e.First, a, &out)
	if !ok {
		return out
	}
	second, ok := e.checkVote("second", e.Second, a, &out)
	switch {
	case !ok:
	case second.OrderHash != first.OrderHash:
		out.add("second.extension", "it names another order block than the first vote: no contradiction")
	case bytes.Equal(e.First.Extension, e.Second.Extension):
		out.add("second.extension", "it says the same as the first vote: no contradiction")
	}
	return out
}

// checkVote returns what a vote says that its organisation signed for the block and round that the
// evidence names.
func (e *Evidence) checkVote(field string, v SignedVote, a Authority, out *findings) (said wire.EffectVote, ok bool) {
	at := slices.IndexFunc(a.Validators, func(k Validator) bool {
		address := sha256.Sum256(k.Key)
		return k.Organisation == e.Organisation && string(address[:addressBytes]) == string(v.Validator)
	})
	switch {
	case at < 0:
		out.add(field+".validator", "it is none of %s for this block; keys that came later are in the governance record", e.Organisation)
		return said, false
	case v.Height < 0 || uint64(v.Height) < a.FromHeight:
		out.add(field+".height", "%d, but who may sign from block %d on may do so from order height %d on", v.Height, a.FromBlock, a.FromHeight)
		return said, false
	case !wire.VerifyVote(a.Validators[at].Key, wire.ExtensionSignBytes(e.ChainID, v.Height, v.Round, v.Extension), v.Signature):
		out.add(field+".signature", "it does not fit")
		return said, false
	}
	said, err := wire.DecodeEffectVote(v.Extension)
	switch {
	case err != nil:
		out.add(field+".extension", "%v", err)
	case said.Number != e.Block || said.Round != e.EffectRound:
		out.add(field+".extension", "it is for block %d, effect round %d", said.Number, said.Round)
	}
	return said, len(*out) == 0
}
