package effects

import "github.com/chainify-db/chainify/abci/backend"

// climb is how far the steps of recovery have come, for a block or for what the scrubber found.
type climb struct {
	by       int    // of the steps that may be taken: the next one, or the last one taken
	unhelped int    // how often no organisation helped, at by
	why      string // the reason of the first step that could not help
}

// noHelp books a round in which no other organisation helped; false: the attempts at this step are
// used up.
func (c *climb) noHelp(attemptsMax int) bool {
	if c.unhelped+1 >= attemptsMax {
		return false
	}
	c.unhelped++
	return true
}

// failed books a step that cannot help, for this reason.
func (c *climb) failed(why string) {
	c.unhelped = 0
	if c.why == "" {
		c.why = why
	}
}

// next goes on to the next step; false: there is none. Step Full is passed over where it may not
// begin by itself.
func (c *climb) next(steps []backend.Step, full bool) bool {
	next := c.by + 1
	if passes(steps, next, full) {
		next++
	}
	if next >= len(steps) {
		return false
	}
	c.by = next
	return true
}

// passesFull tells that next passes over Full.
func (c *climb) passesFull(steps []backend.Step, full bool) bool { return passes(steps, c.by+1, full) }

func passes(steps []backend.Step, next int, full bool) bool {
	return !full && next < len(steps) && steps[next] == backend.Full
}
