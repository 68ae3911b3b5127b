package app

import (
	"sync"
	"time"
)

// An organisation whose transactions are slow, but end in the time of a block, would have all
// others wait for them in every block. So it waits turnsLeft times as long as these took longer
// than quick ones, before a proposal of this node has more of it. While nobody else has anything,
// it does not wait. This is local and enters no hash: another proposer may propose what one holds
// back.
const (
	turnsLeft = 2
	turnsMax  = 30 * time.Second // that an organisation waits at most
	// Others have something when they had in one of so many ledger blocks, the last of them
	// certified so long ago at most.
	othersBlocks = 3
	othersIdle   = time.Second
)

// turns says which organisations' bundles wait.
type turns struct {
	mu        sync.Mutex // guards all below
	waits     map[string]time.Time
	submitted map[string]uint64 // the last ledger block that an organisation has transactions in
	ordered   uint64
	certified time.Time // when the last one was, here
}

// slow notes by how much the transactions of organisations took longer than quick ones.
func (t *turns) slow(by map[string]time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for organisation, d := range by {
		from := now
		if until := t.waits[organisation]; until.After(now) {
			from = until
		}
		if until := from.Add(turnsLeft * d); until.After(now.Add(turnsMax)) {
			from = now.Add(turnsMax)
		} else {
			from = until
		}
		if t.waits == nil {
			t.waits = map[string]time.Time{}
		}
		t.waits[organisation] = from
	}
}

// block notes a ledger block that was ordered, with whose transactions are in it.
func (t *turns) block(number uint64, organisations map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.submitted == nil {
		t.submitted = map[string]uint64{}
	}
	for organisation := range organisations {
		t.submitted[organisation] = number
	}
	t.ordered = number
}

// certifies notes that the last ledger block is certified.
func (t *turns) certifies(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.certified = now
}

// wait tells which organisations' bundles wait, of those that have bundles in the mempool. None
// waits unless somebody else has something.
func (t *turns) wait(waiting []string, now time.Time) map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out map[string]bool
	for organisation, until := range t.waits {
		if !until.After(now) {
			delete(t.waits, organisation)
		} else {
			if out == nil {
				out = map[string]bool{}
			}
			out[organisation] = true
		}
	}
	if out == nil {
		return nil
	}
	for _, organisation := range waiting {
		if !out[organisation] {
			return out
		}
	}
	for organisation, block := range t.submitted {
		if !out[organisation] && block+othersBlocks > t.ordered && now.Sub(t.certified) < othersIdle {
			return out
		}
	}
	return nil
}
