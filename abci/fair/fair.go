// Package fair divides a bounded amount between its members. No member may hold more than the
// amount that is still free. So one member alone gets at most half, two get a third each, and k
// members get k/(k+1) together. A newcomer always finds as much free as the largest member holds
// (max-min fairness, as dynamic thresholds in shared buffers).
package fair

import "sync"

// Fits reports whether a member that holds so much may have an amount more, where all members
// together hold used of most. A member that holds nothing may have all that is free.
func Fits(most, used, held, amount int) bool {
	free := most - used - amount
	return free >= 0 && (held == 0 || held+amount <= free)
}

// Shares divide an amount between members, and forget members that hold nothing. It is safe for
// concurrent use.
type Shares[M comparable] struct {
	most int

	mu   sync.Mutex // guards all below
	used int
	held map[M]int
}

// New divides so much.
func New[M comparable](most int) *Shares[M] { return &Shares[M]{most: most, held: map[M]int{}} }

// Take gives a member an amount, which Give takes back; false: its share does not hold so much now.
func (s *Shares[M]) Take(member M, amount int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !Fits(s.most, s.used, s.held[member], amount) {
		return false
	}
	s.used += amount
	s.held[member] += amount
	return true
}

// Give takes back what a member took.
func (s *Shares[M]) Give(member M, amount int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= amount
	if s.held[member] -= amount; s.held[member] <= 0 {
		delete(s.held, member)
	}
}

// Held returns the amount that a member holds.
func (s *Shares[M]) Held(member M) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[member]
}

// Used returns the amount that all members hold.
func (s *Shares[M]) Used() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Most is the amount that is divided.
func (s *Shares[M]) Most() int { return s.most }

// Round takes from lines in turns, always from the one that got least so far; of several that got
// the same, from the first. That is max-min fairness over size. take decides whether the first of
// a line is taken. A line whose first is refused gives nothing more, so that its order is kept.
func Round[T any](lines [][]T, size func(T) int, take func(T) bool) {
	got := make([]int, len(lines))
	next := make([]int, len(lines))
	for {
		least := -1
		for i, line := range lines {
			if next[i] < len(line) && (least < 0 || got[i] < got[least]) {
				least = i
			}
		}
		if least < 0 {
			return
		}
		one := lines[least][next[least]]
		if !take(one) {
			next[least] = len(lines[least])
			continue
		}
		next[least]++
		got[least] += size(one)
	}
}
