// Package propose is a proposer's policy: for which clients it waits, which organisations it holds
// back, how many transactions it takes, and of whom. It is local and enters no hash. Clocks are
// given to it.
package propose

import (
	"sync/atomic"
	"time"
)

// A block that the machines are too slow for must not pass for one whose transactions do not end.
// So a proposer takes as many as its own database executes in half of a block's time.
const (
	paceLeast   = 1_000 // transactions that a proposal may hold in any case
	paceCounts  = 100   // a block of fewer tells little of what one transaction takes
	paceHistory = 4     // a block counts for one in so many
)

// Pace estimates the time of a transaction in this node's database.
type Pace struct{ each atomic.Int64 } // nanoseconds; 0: not known

// Ran notes how long so many transactions took.
func (p *Pace) Ran(transactions int, took time.Duration) {
	if transactions < paceCounts || took <= 0 {
		return
	}
	now := took.Nanoseconds() / int64(transactions)
	if before := p.each.Load(); before > 0 {
		now = before + (now-before)/paceHistory
	}
	p.each.Store(max(now, 1))
}

// Most is how many transactions to propose, of those that a block may hold.
func (p *Pace) Most(blockTime time.Duration, blockMax int) int {
	each := p.each.Load()
	if each == 0 {
		return blockMax
	}
	return min(blockMax, max(paceLeast, int(blockTime.Nanoseconds()/2/each)))
}
