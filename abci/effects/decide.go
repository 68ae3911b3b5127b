package effects

import (
	"github.com/chainify-db/chainify/abci/wire"
)

// decide starts the next operation when none is under way (E4), and cancels an execution whose
// result is no longer needed.
func (c *Core) decide() {
	c.checkProven()
	if c.op == nil {
		if a := c.next(); a != nil {
			c.op, c.opMS = a, c.nowMS
			c.out = append(c.out, a)
		}
		return
	}
	x, executing := c.op.(Execute)
	if !executing || c.cancelled {
		return
	}
	if b := c.wanted(); c.excluded != "" || b == nil || b.Key() != x.Block.Key() {
		c.cancelled = true
		c.out = append(c.out, Cancel{Key: x.Block.Key()})
	}
}

// next picks the operation to start, or nil. The order of the cases is their urgency.
func (c *Core) next() Action {
	switch {
	case c.cfg.OrderingOnly || c.nowMS < c.resumeMS:
		return nil
	case c.excluded != "" && c.open != nil:
		return c.rollback()
	case c.excluded != "" && c.known:
		return nil
	case !c.known:
		return ReadPosition{}
	case c.joining.wanted && c.position.Number == 0:
		return Join{}
	}
	if len(c.records) > 0 {
		return c.records[0] // the cure is recorded nowhere else
	}
	if a := c.prove(); a != nil {
		return a
	}
	if a := c.overdue(); a != nil {
		return a
	}
	a := c.settleOrAdvance()
	if a == nil {
		a = c.housekeeping()
	}
	return a
}

func (c *Core) settleOrAdvance() Action {
	if c.open != nil {
		return c.settle()
	}
	return c.advance()
}

func (c *Core) rollback() Action {
	if c.open == nil {
		return nil
	}
	return Rollback{Number: c.open.key.Number}
}

// wanted is the block that the database should execute next: the decided one after its position,
// else the newest proposed.
func (c *Core) wanted() *wire.OrderedBlock {
	n := c.position.Number + 1
	if n <= c.ordered {
		return c.blocks[n]
	}
	if p := c.proposal; p != nil && p.Number == n {
		return p
	}
	return nil
}

// isDecided holds for blocks in the node's block store (E2).
func (c *Core) isDecided(b *wire.OrderedBlock) bool {
	return b.Number <= c.ordered && c.blocks[b.Number] == b
}

// settle decides about the open block: COMMIT, ROLLBACK, or nil to hold it open.
func (c *Core) settle() Action {
	o, b := c.open, c.wanted()
	if b == nil || b.Key() != o.key {
		return c.rollback()
	}
	o.block = b
	tooLong := c.nowMS >= o.sinceMS+c.cfg.OpenMaxMS
	if c.isDecided(b) {
		hash, agreed := c.agreed(b)
		switch {
		case agreed && hash == o.hash:
			return Commit{Number: b.Number}
		case agreed:
			c.deviateFrom(b, hash, o.hash)
			return c.rollback()
		case c.cannotWin(b, o.hash):
			c.deviate(b, o.hash)
			c.shelved = o.key
			return c.rollback()
		}
	}
	if tooLong {
		c.shelved = o.key
		c.report(Report{What: WaitedTooLong, Number: b.Number, Round: b.Round})
		return c.rollback()
	}
	return nil
}

// deviate notes that this database's effects are not those of the others, which may be unknown yet.
func (c *Core) deviate(b *wire.OrderedBlock, found wire.Hash) {
	hash, _ := c.agreed(b)
	c.deviateFrom(b, hash, found)
}

// deviateFrom takes the next rung of the ladder.
func (c *Core) deviateFrom(b *wire.OrderedBlock, expected, found wire.Hash) {
	l := c.ladderOf(b.Number)
	if c.adopts && l.adopts(c.cfg.RepairsMax, c.adoption.sound(c.nowMS)) {
		c.report(Report{What: AdoptsBlock, Number: b.Number, Round: b.Round, Expected: expected, Found: found})
		return
	}
	what, more := l.deviates(found, c.cfg.RepairsMax)
	if !more {
		reason := "the certified state and the certified block give other effects here"
		if l.unadoptable {
			reason += ", and the block cannot be adopted: " + l.why
		}
		if l.fails != "" {
			reason += ". Here " + l.fails
		}
		c.exclude(b.Number, expected, found, reason)
		return
	}
	c.report(Report{What: what, Number: b.Number, Round: b.Round, Expected: expected, Found: found})
}

// ladderOf returns the ladder of block n, at its foot when the last one was about another block.
func (c *Core) ladderOf(n uint64) *ladder {
	if c.ladder.number != n {
		c.ladder = ladder{number: n, sinceMS: c.nowMS}
	}
	return &c.ladder
}

// cure repairs the scrubber's findings, as of the last committed block.
func (c *Core) cure() Action {
	if p := c.position; p.Deviates && c.finding.due(c.nowMS) && c.proven {
		return Repair{Step: c.cfg.Steps[c.finding.by], Number: p.Number, Certified: p.Hash, Deviating: p.Number}
	}
	return nil
}

// advance brings the database one block further when nothing is open: fetch, repair or execute.
func (c *Core) advance() Action {
	if a := c.cure(); a != nil {
		return a
	}
	n := c.position.Number + 1
	if n <= c.ordered && (c.blocks[n] == nil || n <= c.certified && c.certs[n] == nil) {
		return FetchOrdered{Number: n}
	}
	b := c.wanted()
	if b == nil {
		return nil
	}
	hash, agreed := c.agreed(b)
	if own := c.ballots.Of(b.Key()); !agreed && (c.shelved == b.Key() || own != nil && own.vote.Kind == wire.VoteStuck) {
		return nil
	}
	l := c.ladderOf(n)
	if l.needRepair {
		if !c.proven {
			return nil // cannot happen: a decided block follows a certified one, and prove has fetched its certificate
		}
		return Repair{Step: c.cfg.Steps[l.by], Number: n - 1, Certified: c.position.Hash, Deviating: n, Found: l.found}
	}
	if l.step == adopting {
		return c.adopt(b)
	}
	if c.stall.waits(n, c.nowMS) {
		return nil
	}
	x := Execute{Block: b, Previous: c.position.Hash, Agreed: agreed}
	if l.step == retried && agreed {
		x.Certified = hash
	}
	return x
}

// prove fetches the certificate of the database's last block: a database that does not continue the
// certified ledger must not go on.
func (c *Core) prove() Action {
	if p := c.position.Number; !c.proven && p > 0 && p <= c.certified && c.certs[p] == nil {
		return FetchOrdered{Number: p}
	}
	return nil
}

// checkProven compares the database's last block with its certificate, once the certificate is
// known.
func (c *Core) checkProven() {
	cert := c.certs[c.position.Number]
	if !c.known || c.proven || cert == nil || c.excluded != "" {
		return
	}
	if cert.Hash != c.position.Hash {
		delete(c.certs, cert.Number)
		c.exclude(cert.Number, cert.Hash, c.position.Hash, "the database holds other effects than those certified")
		return
	}
	c.proven = true
	if cert.Number <= c.position.Certified {
		delete(c.certs, cert.Number)
	}
}

// housekeeping is what may wait for a moment in which the database has nothing better to do.
func (c *Core) housekeeping() Action {
	m := c.position.Certified + 1
	if m > min(c.position.Number, c.certified) {
		if a := c.restorePast(); a != nil {
			return a
		}
		return c.look()
	}
	if cert := c.certs[m]; cert != nil {
		return StoreCertificate{Certificate: *cert}
	}
	return FetchOrdered{Number: m}
}

// overdueLooks is how many times LookMS may pass before a database under load is asked for its
// condition.
const overdueLooks = 5

// overdue is housekeeping that does not wait for an idle moment any longer, since under load there
// may be none.
func (c *Core) overdue() Action {
	switch {
	case c.open != nil:
		return nil
	case c.cfg.LookMS > 0 && c.nowMS >= c.lookedMS+overdueLooks*c.cfg.LookMS:
		return ReadPosition{}
	case c.nowMS >= c.past.turnMS:
		return c.restorePast()
	}
	return nil
}

// restorePast gets a stored block that is damaged from another organisation.
func (c *Core) restorePast() Action {
	if c.open != nil {
		return nil
	}
	if n, due := c.past.next(c.nowMS, c.position.FalseBlocks, min(c.position.Number, c.certified)); due {
		return RestoreBlock{Number: n}
	}
	return nil
}

// look asks an idle database from time to time for its position and findings.
func (c *Core) look() Action {
	if c.cfg.LookMS == 0 || c.open != nil || c.nowMS < c.lookedMS+c.cfg.LookMS {
		return nil
	}
	return ReadPosition{}
}
