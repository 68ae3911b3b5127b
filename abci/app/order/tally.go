package order

import (
	"slices"

	"github.com/chainify-db/chainify/abci/wire"
)

type verdictKind int

const (
	openVerdict verdictKind = iota
	certifiedVerdict
	nextRoundVerdict
)

type verdict struct {
	kind     verdictKind
	hash     wire.Hash // certifiedVerdict
	stuck    end       // nextRoundVerdict: what stuck votes end
	hopeless bool      // nextRoundVerdict: c can agree on nothing, whoever still votes
}

// tally decides about the votes on the chain, for n organisations and consent c, at block time now
// (spec/effect-consensus.md, "The tally").
func (p *Pending) tally(n, c int, now int64, parameters Parameters) verdict {
	hash, agreeing := p.favourite()
	if agreeing >= c {
		return verdict{kind: certifiedVerdict, hash: hash}
	}
	stuck := p.stuckVotes()
	if stuck.reach(0, n, c) {
		return verdict{kind: nextRoundVerdict, stuck: p.ends(stuck, n, c)}
	}
	silent := n - len(p.Votes)
	if max(agreeing, p.unrevealed())+silent < c && !stuck.reach(silent, n, c) {
		return verdict{kind: nextRoundVerdict, hopeless: true}
	}
	// Time runs only once c organisations have voted, that is, against some that disagree. Before,
	// the others are away, and no further round could bring what this one cannot.
	if len(p.Votes) >= c && now-p.SinceMicro > roundTimeoutMicro(p.Round, parameters) {
		return verdict{kind: nextRoundVerdict}
	}
	return verdict{kind: openVerdict}
}

// favourite returns the revealed hash with most votes, the first revealed of equals.
func (p *Pending) favourite() (hash wire.Hash, agreeing int) {
	for _, revealed := range p.Revealed {
		if count := p.agreeing(revealed); count > agreeing {
			hash, agreeing = revealed, count
		}
	}
	return hash, agreeing
}

// unrevealed counts votes on effects that fit no revealed hash; they may all be for one.
func (p *Pending) unrevealed() (count int) {
	for _, v := range p.Votes {
		fits := func(hash wire.Hash) bool { return v.vote.IsFor(v.Organisation, hash) }
		if v.vote.Kind == wire.VoteEffects && !slices.ContainsFunc(p.Revealed, fits) {
			count++
		}
	}
	return count
}

// nextRound returns the pending block in its next effect round, without votes. Time alone never
// quarantines anything (A4): an organisation may have committed the block on live votes that the
// chain has not seen yet (E1).
func (p *Pending) nextRound(v verdict, n, c int, parameters Parameters) *Pending {
	next := *p
	next.Round++
	next.Votes, next.Revealed, next.SinceMicro, next.Suspects = nil, nil, 0, nil
	if next.Stuck = slices.Clip(p.Stuck); v.stuck.client == "" {
		next.Undecided++
	} else if next.Stuck = append(next.Stuck, v.stuck.client); v.stuck.whole {
		next.Stuck = append(next.Stuck, organisationOf(v.stuck.client))
	}
	differing := v.stuck.list
	if v.hopeless {
		if blamed := p.blamed(n, c); p.inQuestion().Single() {
			differing = blamed
		} else {
			next.Suspects = blamed
		}
	}
	next.Quarantined = slices.Concat(p.Quarantined, differing)
	slices.Sort(next.Quarantined)
	next.Quarantined = slices.Compact(next.Quarantined)
	next.QuarantineAll = p.QuarantineAll || v.stuck.all || v.hopeless && next.Undecided > parameters.EffectRoundsMax
	return &next
}

func roundTimeoutMicro(round uint32, parameters Parameters) int64 {
	ms := min(int64(parameters.EffectRoundTimeoutMS)*(int64(round)+1), EffectRoundTimeoutMSMax)
	return ms * 1000
}
