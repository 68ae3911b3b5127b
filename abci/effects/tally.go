package effects

import (
	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/wire"
)

// voteSeen keeps the first live vote of another organisation for an execution (E3).
func (c *Core) voteSeen(e VoteSeen) {
	if e.Organisation == c.cfg.Organisation {
		return
	}
	v := e.Vote
	if v.Number <= c.position.Number {
		return
	}
	if before := c.votes.Take(e.Organisation, v, c.ordered); before != nil {
		if a, proven := accuse.TwoVotes(e.Organisation, *before, v); proven {
			c.report(Report{What: ConflictingVotes, Number: v.Number, Round: v.Round, Reason: a.Organisation()})
		}
	}
}

// cast keeps this organisation's first word about an execution (E5).
func (c *Core) cast(b ballot) {
	if c.abstains(b.Key()) {
		return
	}
	if own := c.ballots.Take(b, ballotsMax, nil); own != nil && b.known && own.vote.IsFor(c.cfg.Organisation, b.hash) {
		own.hash, own.known = b.hash, true
	}
}

// abstains reports that this organisation may have voted on the execution and does not know how
// (E5).
func (c *Core) abstains(k wire.Key) bool {
	return c.unknown.Holds(k) && c.ballots.Of(k) == nil
}

// liveVotesCount reports whether live votes may decide (E1): any two sets of c organisations must
// share more than a third of all.
func (c *Core) liveVotesCount(b *wire.OrderedBlock) bool {
	return 3*b.Consent > 2*b.Organisations
}

// agreed returns the hash that consent was given to, for a wanted block, when this node knows it
// (E1).
func (c *Core) agreed(b *wire.OrderedBlock) (wire.Hash, bool) {
	if cert := c.certs[b.Number]; cert != nil {
		return cert.Hash, true
	}
	if !c.liveVotesCount(b) || !c.isDecided(b) {
		return wire.Hash{}, false
	}
	if p := c.proof; p != nil && p.Number == b.Number && p.Round == b.Round {
		return p.Hash, true
	}
	key := b.Key()
	if own := c.ballots.Of(key); own != nil && own.known && c.agreeing(key, own.hash) >= b.Consent {
		return own.hash, true
	}
	if o := c.open; o != nil && o.key == key && c.agreeing(key, o.hash) >= b.Consent {
		return o.hash, true
	}
	return wire.Hash{}, false
}

// agreeing counts the organisations whose vote for the execution is hash.
func (c *Core) agreeing(k wire.Key, hash wire.Hash) int {
	same, _ := c.count(k, hash)
	return same
}

// cannotWin reports that so many votes differ from hash that it can no longer get c votes.
func (c *Core) cannotWin(b *wire.OrderedBlock, hash wire.Hash) bool {
	_, others := c.count(b.Key(), hash)
	return b.Organisations-others < b.Consent
}

func (c *Core) count(k wire.Key, hash wire.Hash) (same, others int) {
	if own := c.ballots.Of(k); own != nil {
		if own.vote.IsFor(c.cfg.Organisation, hash) {
			same++
		} else {
			others++
		}
	}
	for org, v := range c.votes.First(k) {
		if v.IsFor(org, hash) {
			same++
		} else {
			others++
		}
	}
	return same, others
}

// Vote returns this organisation's vote for an execution. If more is true, there is none yet and
// waiting is worth it. A node that recovers, has lost its database or is behind does not hold up
// the order.
func (c *Core) Vote(k wire.Key) (vote *wire.EffectVote, more bool) {
	if c.cfg.OrderingOnly || c.excluded != "" {
		return nil, false
	}
	if c.position.AnewUntil > 0 && k.Number <= c.certified {
		return nil, false // it voted when the block was pending, and no longer knows how
	}
	if own := c.ballots.Of(k); own != nil {
		v := own.vote
		return &v, false
	}
	if c.abstains(k) {
		return nil, false
	}
	if k.Number == c.position.Number && k.Number > 0 && k.Number != c.adoption.number {
		v := c.effectsVote(k, c.position.Hash, "")
		return &v, false
	}
	return nil, c.soon(k)
}

func (c *Core) effectsVote(k wire.Key, hash wire.Hash, parts string) wire.EffectVote {
	v := wire.NewEffectsVote(k, c.cfg.Organisation, hash)
	v.Parts = parts
	return v
}

// soon reports that only an execution, or a COMMIT and an execution, comes before the vote.
func (c *Core) soon(k wire.Key) bool {
	if !c.known || c.shelved == k {
		return false
	}
	switch k.Number {
	case c.position.Number + 1:
		b := c.wanted()
		return b != nil && b.Key() == k && !c.ladder.recovers(k.Number)
	case c.position.Number + 2:
		if _, committing := c.op.(Commit); committing {
			return true
		}
		b := c.wanted()
		if b == nil || !c.isDecided(b) {
			return false
		}
		_, agreed := c.agreed(b)
		return agreed
	}
	return false
}

// Hash returns the LedgerBlockHash of an execution that this node can reveal: the certified,
// committed or computed one.
func (c *Core) Hash(k wire.Key) (wire.Hash, bool) {
	if cert := c.certs[k.Number]; cert != nil && cert.Round == k.Round {
		return cert.Hash, true
	}
	if k.Number == c.position.Number && k.Number > 0 {
		return c.position.Hash, true
	}
	if own := c.ballots.Of(k); own != nil && own.known {
		return own.hash, true
	}
	return wire.Hash{}, false
}

// State names what this node does, as in StatusResponse.state of spec/proto/node.proto.
func (c *Core) State() string {
	_, executing := c.op.(Execute)
	_, repairing := c.op.(Repair) // Adopt needs no case: it happens only while the ladder recovers
	switch {
	case c.cfg.OrderingOnly:
		return "ordering_only"
	case c.excluded != "":
		return "excluded"
	case c.stall.at(c.position.Number + 1):
		return "failing"
	case repairing || c.announced != "" || c.position.AnewUntil > 0 && c.known || c.ladder.recovers(c.position.Number+1):
		return "recovering"
	case !c.known:
		return "database_down"
	case c.position.Number > c.ordered || c.position.Number+1 < c.ordered || c.position.Number+1 == c.certified:
		return "catching_up"
	case executing || c.open != nil:
		return "executing"
	}
	return "serving"
}
