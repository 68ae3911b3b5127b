package order

import "github.com/chainify-db/chainify/abci/wire"

// blamed returns the transactions of those parts whose effects differ between organisations,
// ascending; nil when no single part is to blame (spec/effect-consensus.md, "Which transactions
// differ").
//
// A part is to blame when the votes that name parts differ about it, and none of its hashes can
// have the votes of c organisations. An organisation that has not voted, or has not named its
// parts, may still side with any hash. When every organisation has said all it can and there is no
// such part, the parts about which they differ are to blame: each organisation differs at another
// one. The rule asks only what differs, never who is right. One lie among n can blame a transaction
// only where the others do not agree among c either.
func (p *Pending) blamed(n, c int) []uint32 {
	var named []wire.EffectVote
	unsaid := n - len(p.Votes)
	for i := range p.Votes {
		switch vote := p.Votes[i].vote; {
		case vote.Parts != "":
			named = append(named, vote)
		case vote.Kind == wire.VoteEffects:
			unsaid++ // it may have committed the block before this round and not know them
		}
	}
	if len(named) == 0 {
		return nil
	}
	question := p.inQuestion()
	var hopeless, differing []uint32
	for i := range question.Parts() {
		most, different := mostNamed(named, i)
		if !different {
			continue
		}
		differing = append(differing, question.Part(i)...)
		if most+unsaid < c {
			hopeless = append(hopeless, question.Part(i)...)
		}
	}
	if hopeless == nil && unsaid == 0 {
		return differing
	}
	return hopeless
}

// mostNamed returns how many votes name the most frequent hash of part i, and whether there is
// another hash.
func mostNamed(votes []wire.EffectVote, i int) (most int, different bool) {
	counts := map[string]int{}
	for _, v := range votes {
		hash := v.PartHash(i)
		counts[hash]++
		most = max(most, counts[hash])
	}
	return most, len(counts) > 1
}
