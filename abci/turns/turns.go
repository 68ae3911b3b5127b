// Package turns computes the serialization order of the EFFECTS transactions of a run, and its
// victims: spec/scheduling.md, "Order of EFFECTS transactions". It is the second implementation,
// beside crates/sched/src/reorder. It is pure.
package turns

import (
	"container/heap"
	"slices"
)

// Accesses are the places of one transaction, by the caller's numbers.
type Accesses struct {
	Sees   []uint32 // rows that it saw, and absent rows that it looked for
	Writes []uint32 // rows that it inserts, updates or deletes
}

// Limits bound the work. They decide outcomes: all organisations have the same.
type Limits struct{ Accesses, CutSteps, Cycles, CycleSteps, ChanceSteps uint64 }

// Agreed are the limits of spec/scheduling.md.
var Agreed = Limits{Accesses: 1 << 19, CutSteps: 3 << 18, Cycles: 64, CycleSteps: 1 << 15, ChanceSteps: 1 << 19}

// othersMax bounds the transactions that a reason names.
const othersMax = 8

// Victim is a transaction that is not applied. Its reason is a cycle with Others, a Place that it
// saw and the first of them writes; or, without Others, a Place that an applied one writes; or
// Excess.
type Victim struct {
	Transaction int
	Place       uint32
	Others      []int
	Excess      bool
}

// Turns is the order of the transactions that are applied, and the others, ascending.
//
// Invariant S9: no transaction of Order saw a place that an earlier one of Order writes.
type Turns struct {
	Order                 []int
	Victims               []Victim
	CutSteps, ChanceSteps uint64
}

// Of gives the turns of transactions that are all valid before the first of them. Cost: O(a log a)
// for a accesses, and the steps of the limits.
func Of(block []Accesses, limits Limits) Turns {
	admitted := admit(block, limits.Accesses)
	set, places := conflictsOf(block, admitted)
	c := cut{limits: limits, kept: slices.Clone(admitted)}
	waiting := c.groups(set)
	for len(waiting) > 0 {
		next := waiting[0]
		waiting = append(waiting[1:], c.groups(next)...)
	}
	chances := newChances(set, places, c.kept, limits.ChanceSteps)
	victims := chances.give(admitted)
	return Turns{Order: order(set, c.kept), Victims: victims, CutSteps: c.steps, ChanceSteps: chances.steps}
}

// admit leaves out transactions whose accesses do not fit beside those of earlier ones.
func admit(block []Accesses, left uint64) []bool {
	admitted := make([]bool, len(block))
	for i, a := range block {
		if size := uint64(len(a.Sees) + len(a.Writes)); size <= left {
			admitted[i], left = true, left-size
		}
	}
	return admitted
}

// access is a transaction at a place, from either side: at is the other side.
type access struct {
	at           int
	sees, writes bool
}

func (a access) updates() bool { return a.sees && a.writes }

// conflicts are some transactions, numbered from 0, and the places that matter among them: one
// writes it, and another one sees or writes it.
type conflicts struct {
	names []int      // index in the block of each transaction, ascending
	of    [][]access // by transaction, its places
	at    [][]access // by place, its transactions, ascending
}

// conflictsOf are those of a block, and the caller's number of each place, ascending.
func conflictsOf(block []Accesses, admitted []bool) (*conflicts, []uint32) {
	type found struct {
		place uint32
		access
	}
	var all []found
	for i, a := range block {
		if !admitted[i] {
			continue
		}
		for _, place := range a.Sees {
			all = append(all, found{place, access{at: i, sees: true}})
		}
		for _, place := range a.Writes {
			all = append(all, found{place, access{at: i, writes: true}})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int {
		if a.place != b.place {
			if a.place < b.place {
				return -1
			}
			return 1
		}
		return a.at - b.at
	})
	set := &conflicts{of: make([][]access, len(block))}
	for i := range block {
		set.names = append(set.names, i)
	}
	var places []uint32
	for from := 0; from < len(all); {
		to, here := from, []access{}
		for ; to < len(all) && all[to].place == all[from].place; to++ {
			if last := len(here) - 1; last >= 0 && here[last].at == all[to].at {
				here[last].sees, here[last].writes = here[last].sees || all[to].sees, here[last].writes || all[to].writes
				continue
			}
			here = append(here, all[to].access)
		}
		if len(here) > 1 && slices.ContainsFunc(here, func(a access) bool { return a.writes }) {
			set.add(here)
			places = append(places, all[from].place)
		}
		from = to
	}
	return set, places
}

// add appends a place with its transactions.
func (s *conflicts) add(here []access) {
	for _, a := range here {
		s.of[a.at] = append(s.of[a.at], access{len(s.at), a.sees, a.writes})
	}
	s.at = append(s.at, here)
}

// among are those of some of these transactions, ascending. Places keep their order.
func (s *conflicts) among(members []int) *conflicts {
	number := map[int]int{}
	out := &conflicts{of: make([][]access, len(members))}
	touched := map[int][]access{}
	var places []int
	for i, member := range members {
		number[member] = i
		out.names = append(out.names, s.names[member])
		for _, a := range s.of[member] {
			if touched[a.at] == nil {
				places = append(places, a.at)
			}
			touched[a.at] = append(touched[a.at], access{i, a.sees, a.writes})
		}
	}
	slices.Sort(places)
	for _, place := range places {
		here := touched[place]
		if len(here) > 1 && slices.ContainsFunc(here, func(a access) bool { return a.writes }) {
			out.add(here)
		}
	}
	return out
}

func (s *conflicts) accesses() (count uint64) {
	for _, here := range s.at {
		count += uint64(len(here))
	}
	return count
}

// line is a heap of transactions, the smallest first.
type line []int

func (l line) Len() int           { return len(l) }
func (l line) Less(i, j int) bool { return l[i] < l[j] }
func (l line) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *line) Push(x any)        { *l = append(*l, x.(int)) }
func (l *line) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

// positions hands out the positions of the kept transactions.
type positions struct {
	*conflicts
	left []bool // without a position
	// By place: how many of those left see it; its kept blind writers, ascending; how many of these
	// have a position, up to the first that has none.
	seers   []int
	blind   [][]int
	done    []int
	waits   []int // by transaction, places that it writes and others of those left see
	behind  []int // by transaction, places that it writes blindly though an earlier blind writer is left
	inTurn  line
	free    line
	ordered []int
}

// order gives the kept transactions their positions.
func order(set *conflicts, kept []bool) []int {
	p := &positions{
		conflicts: set, left: slices.Clone(kept), seers: make([]int, len(set.at)), blind: make([][]int, len(set.at)), done: make([]int, len(set.at)),
		waits: make([]int, len(set.names)), behind: make([]int, len(set.names)),
	}
	for place, here := range set.at {
		for _, a := range here {
			switch {
			case !kept[a.at]:
			case a.sees:
				p.seers[place]++
			default:
				if p.blind[place] = append(p.blind[place], a.at); len(p.blind[place]) > 1 {
					p.behind[a.at]++
				}
			}
		}
	}
	for tx, places := range set.of {
		for _, a := range places {
			if a.writes && p.seers[a.at] > count(a.sees) {
				p.waits[tx]++
			}
		}
	}
	for tx := range set.names {
		p.offer(tx)
	}
	for p.next() {
	}
	return p.ordered
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// offer lines a transaction up if it may come next.
func (p *positions) offer(tx int) {
	switch {
	case !p.left[tx] || p.waits[tx] > 0:
	case p.behind[tx] == 0:
		heap.Push(&p.inTurn, tx)
	default:
		heap.Push(&p.free, tx)
	}
}

// next gives one position; false: all have theirs.
func (p *positions) next() bool {
	from := &p.inTurn
	if len(*from) == 0 {
		from = &p.free
	}
	if len(*from) == 0 {
		return false
	}
	tx := heap.Pop(from).(int)
	if !p.left[tx] {
		return true
	}
	p.left[tx], p.ordered = false, append(p.ordered, tx)
	for _, a := range p.of[tx] {
		if a.sees {
			p.seers[a.at]--
			p.release(a.at)
		} else {
			p.pass(a.at)
		}
	}
	return true
}

// release lets those go that the last seer of a place held, or the last one but the writer itself.
func (p *positions) release(place int) {
	left := p.seers[place]
	if left > 1 {
		return
	}
	for _, a := range p.at[place] {
		if a.writes && count(a.sees) == left && p.left[a.at] {
			p.waits[a.at]--
			p.offer(a.at)
		}
	}
}

// pass gives the turn at a place to the first blind writer that is left.
func (p *positions) pass(place int) {
	writers, first := p.blind[place], p.done[place]
	for p.done[place] < len(writers) && !p.left[writers[p.done[place]]] {
		p.done[place]++
	}
	if at := p.done[place]; at > first && at < len(writers) {
		p.behind[writers[at]]--
		p.offer(writers[at])
	}
}
