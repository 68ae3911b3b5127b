package effects

import (
	"fmt"
	"slices"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// went books how an operation on the database or the store ended and reports whether it succeeded.
func (c *Core) went(f Failure) bool {
	if f == Fine {
		c.over()
		return true
	}
	if c.failures == 0 {
		c.report(Report{What: DatabaseLost, Number: c.position.Number, Reason: f.String()})
	}
	c.known, c.open = false, nil
	c.pause(c.failures + 1)
	return false
}

// pause lets no operation start for a while, after so many failures in a row.
func (c *Core) pause(failures int) {
	c.failed(c.nowMS, failures, c.cfg.BackoffMinMS, c.cfg.BackoffMaxMS)
}

func (c *Core) executed(e Executed) {
	x := c.op.(Execute)
	c.op, c.cancelled = nil, false
	switch e.Failure {
	case Fine:
		c.over()
		c.stall = stall{}
		c.cast(ballot{vote: c.effectsVote(e.Key, e.Hash, e.Parts), hash: e.Hash, known: true})
		c.open = &opened{block: c.find(e.Key), key: e.Key, hash: e.Hash, parts: e.Parts, sinceMS: c.nowMS}
		if x.isRetry() {
			c.ladderOf(e.Key.Number).fails = e.Why
		}
	case Stuck:
		// No deviation: this organisation knows nothing of its effects. Where the others agree
		// meanwhile, it runs again for as long as it takes.
		c.over()
		c.cast(ballot{vote: wire.NewStuckVote(e.Key, e.StuckAt)})
		c.shelved = e.Key
		if x.Agreed { // it had all the time there is
			c.stall.again(e.Key.Number, e.StuckAt, e.Why, c.nowMS, c.cfg.BackoffMinMS, c.cfg.BackoffMaxMS)
			c.report(Report{What: MachineFails, Number: e.Key.Number, Round: e.Key.Round, Index: e.StuckAt, Reason: c.stall.why})
			return
		}
		c.report(Report{What: TransactionStuck, Number: e.Key.Number, Round: e.Key.Round, Index: e.StuckAt})
	case Cancelled:
	default:
		c.went(e.Failure)
	}
}

// mayGiveUp returns the execution of a block about which this organisation can still say that a
// transaction does not end: it has not voted, and nothing is agreed.
func (c *Core) mayGiveUp(number uint64) (*wire.OrderedBlock, bool) {
	b := c.wanted()
	if b == nil || b.Number != number || c.excluded != "" || c.ballots.Of(b.Key()) != nil || c.abstains(b.Key()) {
		return nil, false
	}
	_, agreed := c.agreed(b)
	return b, !agreed
}

func (c *Core) giveUp(e GiveUp) {
	if b, may := c.mayGiveUp(e.Key.Number); !may || b.Key() != e.Key {
		return
	}
	c.cast(ballot{vote: wire.NewStuckVote(e.Key, e.Index)})
	c.report(Report{What: TransactionStuck, Number: e.Key.Number, Round: e.Key.Round, Index: e.Index, Reason: "the operator's word"})
	c.shelved = e.Key
	if x, executing := c.op.(Execute); executing && x.Block.Key() == e.Key && !c.cancelled {
		c.cancelled = true
		c.out = append(c.out, Cancel{Key: e.Key})
	}
}

// find returns the block of an execution; it may have been abandoned meanwhile.
func (c *Core) find(k wire.Key) *wire.OrderedBlock {
	if b := c.wanted(); b != nil && b.Key() == k {
		return b
	}
	return nil
}

func (c *Core) committed(e Committed) {
	o := c.open
	c.op, c.open = nil, nil
	if e.Failure != Fine {
		c.unsure = o
		c.report(Report{What: CommitWasUnknown, Number: o.key.Number})
		c.went(Unavailable)
		return
	}
	c.over()
	c.rejoins = 0
	c.position.Number, c.position.Hash = o.key.Number, o.hash
	c.isCommitted(o)
}

// isCommitted follows a block that the database was seen to hold (E6).
func (c *Core) isCommitted(o *opened) {
	n := o.key.Number
	c.unsure = nil
	c.out = append(c.out, Answer{Block: o.block})
	c.report(Report{What: BlockCommitted, Number: n, Round: o.key.Round, Found: o.hash})
	if o.adopted {
		c.adoption.adopted(n, c.ladder.sound, c.nowMS)
		c.report(Report{What: BlockAdopted, Number: n, Round: o.key.Round, Expected: o.hash, Found: c.ladder.found})
	}
	if r, deviated := c.ladder.cure(n, o.hash, c.nowMS); deviated {
		c.records = append(c.records, r)
		c.deviations++
		c.report(Report{What: Recovered, Number: n, Expected: r.Expected, Found: r.Found, Rows: c.ladder.rows, TookMS: r.TookMS, Reason: r.CuredBy})
	}
	c.ladder, c.shelved = ladder{}, wire.Key{}
	c.proven = false
	c.anew()
	c.prune()
	c.checkProven()
}

// anew follows the blocks that the database executes again after Full, until the one for whose
// sake.
func (c *Core) anew() {
	p := c.position
	switch {
	case p.AnewUntil == 0 || slices.ContainsFunc(c.records, func(r RecordDeviation) bool { return r.CuredBy == curedBy[backend.Full] }):
	case p.Number >= p.AnewUntil:
		c.records = append(c.records, RecordDeviation{Number: p.AnewUntil, Expected: p.Hash, CuredBy: curedBy[backend.Full]})
		c.position.AnewUntil = 0
		c.deviations++
		c.report(Report{What: Recovered, Number: p.AnewUntil, Expected: p.Hash, Reason: curedBy[backend.Full]})
	case c.nowMS >= c.toldMS+progressMS:
		c.toldMS = c.nowMS
		c.report(Report{What: MakesAnew, Number: p.Number, Reason: fmt.Sprintf("until block %d", p.AnewUntil)})
	}
}

// prune drops what is about blocks before the one at the position.
func (c *Core) prune() {
	n := c.position.Number
	for k := range c.blocks {
		if k <= n {
			delete(c.blocks, k)
		}
	}
	for k := range c.certs {
		if k <= c.position.Certified {
			delete(c.certs, k)
		}
	}
	c.votes.Forget(n)
	c.ballots.Forget(func(b ballot) bool { return b.vote.Number < n })
}

func keep[T any](list []T, wanted func(T) bool) []T {
	var kept []T
	for _, v := range list {
		if wanted(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

func (c *Core) repaired(e Repaired) {
	asked := c.op.(Repair)
	c.op, c.announced = nil, ""
	if asked.Deviating == asked.Number {
		c.cured(asked, e)
		return
	}
	if e.Failure == NoHelp && c.patient(&c.ladder.climb, asked) {
		return
	}
	if e.Failure == BeyondRepair || e.Failure == NoHelp {
		c.over()
		c.ladder.failed(e.Why)
		if c.goOn(&c.ladder.climb, asked) {
			c.report(Report{What: RecoveryEscalates, Number: asked.Deviating, Reason: "repair by " + c.cfg.Steps[c.ladder.by].String()})
			return
		}
		reason := "checkpoint and history do not give the certified state"
		if c.ladder.why != "" {
			reason += ": " + c.ladder.why
		}
		if c.forbidden(asked) {
			reason += "; recovery.full_blocks_max does not let all blocks be executed again"
		}
		c.exclude(asked.Deviating, asked.Certified, asked.Found, reason)
		return
	}
	if !c.went(e.Failure) {
		return
	}
	if nothing(asked, e) && c.goOn(&c.ladder.climb, asked) {
		return
	}
	if asked.Step == backend.Full {
		c.startedOver()
		return
	}
	c.position.Deviates, c.finding = false, finding{} // as far as is known: the next look tells
	c.ladder.repaired(asked.Step, e.Rows)
	if e.Rows > 0 {
		c.report(Report{What: RowsRepaired, Number: asked.Number, Rows: e.Rows, TookMS: c.nowMS - c.ladder.sinceMS})
	}
}

// nothing: the step has found none of its kind of thing, so that the next one may help.
func nothing(asked Repair, e Repaired) bool { return asked.Step.InPart() && e.Rows == 0 }

// goOn takes the next step that it may take; false: there is none. It announces Full, so that an
// operator who knows better can step in.
func (c *Core) goOn(at *climb, asked Repair) bool {
	full := !c.forbidden(asked)
	if at.passesFull(c.cfg.Steps, full) {
		c.report(Report{What: FullForbidden, Number: asked.Number, Reason: fmt.Sprintf("%d blocks, recovery.full_blocks_max is %d", asked.Number, c.cfg.FullBlocksMax)})
	}
	if !at.next(c.cfg.Steps, full) {
		return false
	}
	if c.cfg.Steps[at.by] == backend.Full {
		c.announced = fmt.Sprintf("the ledger is taken back to before block 1 and %d blocks are executed again, unless the node is stopped within %d s", asked.Number, c.cfg.FullNoticeMS/1000)
		c.report(Report{What: AnnouncesFull, Number: asked.Number, Reason: c.announced})
		c.resumeMS = max(c.resumeMS, c.nowMS+c.cfg.FullNoticeMS)
	}
	return true
}

// forbidden: Full is among the steps, and this database has too many blocks for it to begin by
// itself.
func (c *Core) forbidden(asked Repair) bool {
	return asked.Number > c.cfg.FullBlocksMax && slices.Contains(c.cfg.Steps, backend.Full)
}

// startedOver follows Full: the database is where a new one begins, and says until when.
func (c *Core) startedOver() {
	c.known, c.proven = false, false
	c.ladder, c.finding, c.toldMS = ladder{}, finding{}, c.nowMS
	c.report(Report{What: StartsOver, Number: c.position.Number})
}

// patient lets a step that needs the other organisations run again later, as often as allowed.
func (c *Core) patient(at *climb, asked Repair) bool {
	if !at.noHelp(c.cfg.HelpAttempts) {
		return false
	}
	c.pause(at.unhelped)
	if at.unhelped == 1 {
		c.report(Report{What: NobodyHelps, Number: asked.Deviating})
	}
	return true
}

// cured follows a repair that no block waits for. A repair that is impossible now runs again later.
func (c *Core) cured(asked Repair, e Repaired) {
	f := &c.finding
	if e.Failure == NoHelp && c.patient(&f.climb, asked) {
		return
	}
	f.unhelped = 0
	if e.Failure == BeyondRepair || e.Failure == NoHelp {
		c.over()
		f.failed(e.Why)
		if c.goOn(&f.climb, asked) {
			return
		}
		if why, first := f.uncured(c.nowMS); first {
			c.deviations++
			c.report(Report{What: CannotCure, Number: asked.Number, Reason: why})
		}
		return
	}
	if c.went(e.Failure) {
		if nothing(asked, e) && c.goOn(&f.climb, asked) {
			return
		}
		if asked.Step == backend.Full {
			c.startedOver()
			return
		}
		c.position.Deviates, c.finding = false, finding{}
		c.deviations++
		c.report(Report{What: RowsRepaired, Number: asked.Number, Rows: e.Rows})
	}
}

// blockRestored follows a block that another organisation told. Nothing waits for one, so after a
// failure another try comes later.
func (c *Core) blockRestored(e BlockRestored) {
	asked := c.op.(RestoreBlock)
	c.op = nil
	switch e.Failure {
	case NoHelp, BeyondRepair:
		if c.past.untold(c.nowMS) {
			c.report(Report{What: NobodyTells, Number: asked.Number})
		}
	default:
		if c.went(e.Failure) {
			c.tookOver(asked.Number)
		}
	}
	c.past.leaves(c.nowMS, c.nowMS-c.opMS)
}

// tookOver follows a block that the database keeps as agreed again.
func (c *Core) tookOver(number uint64) {
	c.past.told()
	c.deviations++
	c.report(Report{What: BlockTakenOver, Number: number})
	c.position.FalseBlocks = keep(c.position.FalseBlocks, func(n uint64) bool { return n != number })
	if len(c.position.FalseBlocks) == 0 {
		c.lookedMS = c.nowMS - c.cfg.LookMS // there may be more
	}
}

func (c *Core) certificateStored(e CertificateStored) {
	cert := c.op.(StoreCertificate).Certificate
	c.op = nil
	if e.Failure == BeyondRepair {
		c.over()
		c.exclude(cert.Number, cert.Hash, wire.Hash{}, "the database holds other effects than those certified")
		return
	}
	if c.went(e.Failure) {
		c.position.Certified = cert.Number
		delete(c.certs, cert.Number)
	}
}

func (c *Core) databaseAt(e DatabaseAt) {
	c.op = nil
	if e.Failure != Fine {
		c.went(e.Failure)
		return
	}
	if c.failures > 0 {
		c.report(Report{What: DatabaseBack, Number: e.Position.Number})
	}
	before := c.position
	c.position, c.known, c.lookedMS = e.Position, true, c.nowMS
	if e.Position.Deviates {
		c.adoption.soundUntilMS = 0
	} else {
		c.finding = finding{}
	}
	if before.Number != e.Position.Number || before.Hash != e.Position.Hash {
		c.proven = false
		c.prune()
	}
	c.anew()
	if e.Position.Number > c.ordered {
		c.report(Report{What: OrderIsBehind, Number: e.Position.Number})
	}
	c.settleUnsure(e.Position)
	c.checkProven()
}

// settleUnsure answers for a COMMIT whose outcome was unknown, when the database turns out to hold
// the block.
func (c *Core) settleUnsure(at backend.Position) {
	if u := c.unsure; u != nil {
		c.unsure = nil
		if at.Number == u.key.Number && at.Hash == u.hash {
			c.isCommitted(u)
		}
	}
}

func (c *Core) fetched(e Fetched) {
	c.op = nil
	if e.Failure == Gone {
		c.joining.wanted = true
		return
	}
	if e.Failure != Fine {
		c.pause(c.failures + 1)
		return
	}
	if e.Certificate != nil {
		c.certified = max(c.certified, e.Certificate.Number)
		c.keepFetched(e.Certificate)
	}
	if e.Block != nil {
		c.keepBlock(e.Block)
	}
	c.checkProven()
}

// keepFetched keeps a certificate that this node asked for. One of the position that is stored
// already only proves it.
func (c *Core) keepFetched(cert *wire.Certificate) {
	if cert.Number == c.position.Number {
		c.certs[cert.Number] = cert
		return
	}
	c.keepCertificate(cert)
}
