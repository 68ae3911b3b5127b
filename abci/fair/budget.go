package fair

import (
	"maps"
	"sync"
	"time"
)

// Budget is an amount of each member that comes back with time. A member spends of its own alone.
// Over any time t it spends at most what is full, t/each more, and what the last spending went
// beyond its rest. Members that have all are not remembered. It is safe for concurrent use.
type Budget[M comparable] struct {
	full int64
	each time.Duration // after which one unit is back
	kept int           // members remembered
	now  func() time.Time

	mu sync.Mutex
	// whole is when a member has all again.
	whole map[M]time.Time
}

// NewBudget makes one of which each member has full units. Of more than kept members that lack
// something, the one that lacks least is forgotten.
func NewBudget[M comparable](full int64, each time.Duration, kept int, now func() time.Time) *Budget[M] {
	return &Budget[M]{full: full, each: each, kept: kept, now: now, whole: map[M]time.Time{}}
}

// Left returns a member's remaining budget; below zero: it spent more than it had.
func (b *Budget[M]) Left(member M) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	lacks := b.whole[member].Sub(b.now())
	if lacks <= 0 {
		return b.full
	}
	return b.full - int64((lacks+b.each-1)/b.each)
}

// Full reports whether a member lacks nothing.
func (b *Budget[M]) Full(member M) bool { return b.Left(member) == b.full }

// Wait is how long it takes until a member has so much.
func (b *Budget[M]) Wait(member M, amount int64) time.Duration {
	return max(0, time.Duration(amount-b.Left(member))*b.each)
}

// Spend takes an amount from a member, whether it has that or not.
func (b *Budget[M]) Spend(member M, amount int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	whole, known := b.whole[member]
	if !known && len(b.whole) >= b.kept {
		b.forget(now)
	}
	if whole.Before(now) {
		whole = now
	}
	b.whole[member] = whole.Add(time.Duration(amount) * b.each)
}

// Give returns an amount that a member spent.
func (b *Budget[M]) Give(member M, amount int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if whole, known := b.whole[member]; known {
		b.whole[member] = whole.Add(-time.Duration(amount) * b.each)
	}
}

// forget makes room for one. Called with mu held.
func (b *Budget[M]) forget(now time.Time) {
	maps.DeleteFunc(b.whole, func(_ M, whole time.Time) bool { return !whole.After(now) })
	if len(b.whole) < b.kept {
		return
	}
	var least M
	found := false
	for member, whole := range b.whole {
		if !found || whole.Before(b.whole[least]) {
			least, found = member, true
		}
	}
	delete(b.whole, least)
}
