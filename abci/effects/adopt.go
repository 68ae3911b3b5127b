package effects

import (
	"fmt"

	"github.com/chainify-db/chainify/abci/wire"
)

// soundMS is how long the tables count as certified after a repair found them so, although the
// block had other effects. In this time further such blocks are adopted without a repair, which may
// scan all tables. Each adoption proves the running states.
const soundMS int64 = 10 * 60_000

// adoption is the record of a database that gets other effects than the others.
type adoption struct {
	number       uint64 // the last block adopted since the start; 0: none
	soundUntilMS int64
}

func (a *adoption) sound(nowMS int64) bool { return nowMS < a.soundUntilMS }

// adopted notes an adopted block; shown: a repair had found the tables as certified.
func (a *adoption) adopted(number uint64, shown bool, nowMS int64) {
	a.number = number
	if shown {
		a.soundUntilMS = nowMS + soundMS
	}
}

// reason is the text for the operator; empty: there is none.
func (a *adoption) reason() string {
	if a.number == 0 {
		return ""
	}
	return fmt.Sprintf("block %d was adopted: this database executes transactions otherwise than the other organisations", a.number)
}

// adopt takes the effects of a block from another organisation, once its certificate is on the
// chain: so this organisation can vote on it no more (E8).
func (c *Core) adopt(b *wire.OrderedBlock) Action {
	cert := c.certs[b.Number]
	if cert == nil {
		return nil
	}
	return Adopt{Block: b, Previous: c.position.Hash, Certified: cert.Hash}
}

// adopted handles the end of Adopt. While no organisation sends the block, this one asks again and
// again, since no further step could help.
func (c *Core) adopted(e Adopted) {
	asked := c.op.(Adopt)
	c.op = nil
	l := c.ladderOf(asked.Block.Number)
	switch e.Failure {
	case Fine:
		c.over()
		l.unhelped = 0
		c.open = &opened{block: c.find(e.Key), key: e.Key, hash: e.Hash, sinceMS: c.nowMS, adopted: true}
	case NoHelp:
		l.unhelped++
		c.pause(l.unhelped)
		if l.unhelped == 1 {
			c.report(Report{What: NobodyTellsBlock, Number: asked.Block.Number})
		}
	case BeyondRepair:
		c.over()
		c.adoption.soundUntilMS = 0
		l.cannotAdopt(c.cfg.RepairsMax, e.Why)
		c.deviateFrom(asked.Block, asked.Certified, l.found)
	default:
		c.went(e.Failure)
	}
}
