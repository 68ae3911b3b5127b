package propose

import (
	"sync"
	"time"
)

// Slow transactions of one organisation, which still end in the time of a block, would make all
// others wait in every block. So after such transactions this node proposes nothing of that
// organisation for a time: slowLeft times the time by which they exceeded quick ones. It does not
// wait while no other organisation has transactions. The rule is local and enters no hash: another
// proposer may propose bundles that this one holds back.
const (
	slowLeft = 2
	slowMax  = 30 * time.Second // the longest wait of an organisation
	// Other organisations count as having transactions if they had some in one of this many last
	// ledger blocks, and the last one was certified this recently.
	othersBlocks = 3
	othersIdle   = time.Second
)

// Slow decides which organisations' bundles wait for a later proposal of this node.
type Slow struct {
	mu        sync.Mutex // guards all below
	waits     map[string]time.Time
	submitted map[string]uint64 // the last ledger block that an organisation has transactions in
	ordered   uint64
	certified time.Time // when the last one was, here
}

// Took notes for each organisation by how much its transactions exceeded quick ones.
func (t *Slow) Took(by map[string]time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for organisation, d := range by {
		from := now
		if until := t.waits[organisation]; until.After(now) {
			from = until
		}
		if until := from.Add(slowLeft * d); until.After(now.Add(slowMax)) {
			from = now.Add(slowMax)
		} else {
			from = until
		}
		if t.waits == nil {
			t.waits = map[string]time.Time{}
		}
		t.waits[organisation] = from
	}
}

// Ordered notes an ordered ledger block, with the organisations that have transactions in it.
func (t *Slow) Ordered(number uint64, organisations map[string]bool) {
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

// Certified notes that the last ledger block is certified.
func (t *Slow) Certified(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.certified = now
}

// Waits tells which organisations' bundles wait, of those that have bundles in the mempool. None
// waits unless somebody else has something.
func (t *Slow) Waits(waiting []string, now time.Time) map[string]bool {
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
