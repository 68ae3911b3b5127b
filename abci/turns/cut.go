package turns

import (
	"slices"
)

const (
	updatesTooMany = 5 // updates of one place, from which a group has too many cycles
	removedOf      = 8 // of a group with too many cycles one of so many is removed
)

// cut removes transactions until no cycle is left.
type cut struct {
	limits Limits
	kept   []bool // by index in the block
	steps  uint64
}

// groups removes transactions of each group of a set, and returns what may still have cycles.
func (c *cut) groups(set *conflicts) []*conflicts {
	if c.steps += set.accesses(); c.steps > c.limits.CutSteps {
		c.keepFirstComers(set)
		return nil
	}
	var waiting []*conflicts
	for _, members := range set.groups() {
		group := set
		if len(members) < len(set.names) {
			group = set.among(members)
		}
		if c.byCycles(group) {
			continue
		}
		ranked := group.byDegree()
		removed := (len(members) + removedOf - 1) / removedOf
		for _, tx := range ranked[:removed] {
			c.kept[group.names[tx]] = false
		}
		rest := slices.Clone(ranked[removed:])
		slices.Sort(rest)
		waiting = append(waiting, group.among(rest))
	}
	return waiting
}

// keepFirstComers keeps each transaction that sees no place that an earlier one of those kept
// writes.
func (c *cut) keepFirstComers(set *conflicts) {
	written := make([]bool, len(set.at))
	for tx, places := range set.of {
		if slices.ContainsFunc(places, func(a access) bool { return a.sees && written[a.at] }) {
			c.kept[set.names[tx]] = false
			continue
		}
		for _, a := range places {
			written[a.at] = written[a.at] || a.writes
		}
	}
}

// byCycles removes the transaction that is in most cycles until there is none; false: the cycles
// are too many.
func (c *cut) byCycles(group *conflicts) bool {
	transactions := uint64(len(group.names))
	var found, updates uint64
	for _, r := range group.roles() {
		found += r.sees*r.writes - r.updates
		updates = max(updates, r.updates)
	}
	size := transactions + found
	most := min(c.limits.Cycles, c.limits.CycleSteps/size)
	if found+1 > transactions+most || updates >= updatesTooMany || c.steps > c.limits.CutSteps {
		return false
	}
	cycles := cyclesOf(group.edges(), int(most)+1)
	if c.steps += uint64(len(cycles)) * size; uint64(len(cycles)) > most {
		return false
	}
	in := make([]int, len(group.names))
	for _, cycle := range cycles {
		for _, tx := range cycle {
			in[tx]++
		}
	}
	for len(cycles) > 0 {
		worst := 0
		for tx := range in {
			if in[tx] > in[worst] {
				worst = tx
			}
		}
		c.kept[group.names[worst]] = false
		cycles = slices.DeleteFunc(cycles, func(cycle []int) bool {
			broken := slices.Contains(cycle, worst)
			for _, tx := range cycle {
				in[tx] -= count(broken)
			}
			return broken
		})
	}
	return true
}

// roles count the transactions that see a place, write it, and do both.
type roles struct{ sees, writes, updates uint64 }

func (s *conflicts) roles() []roles {
	all := make([]roles, len(s.at))
	for place, here := range s.at {
		for _, a := range here {
			all[place].sees += uint64(count(a.sees))
			all[place].writes += uint64(count(a.writes))
			all[place].updates += uint64(count(a.updates()))
		}
	}
	return all
}

// edges lead from each transaction to the others that write what it sees, ascending.
func (s *conflicts) edges() [][]int {
	edges := make([][]int, len(s.of))
	for tx, places := range s.of {
		for _, a := range places {
			if !a.sees {
				continue
			}
			for _, other := range s.at[a.at] {
				if other.writes && other.at != tx {
					edges[tx] = append(edges[tx], other.at)
				}
			}
		}
		slices.Sort(edges[tx])
		edges[tx] = slices.Compact(edges[tx])
	}
	return edges
}

// byDegree are the transactions by falling number of conflicts, of several the smallest first.
func (s *conflicts) byDegree() []int {
	all := s.roles()
	degrees, ranked := make([]uint64, len(s.of)), make([]int, len(s.of))
	for tx, places := range s.of {
		ranked[tx] = tx
		for _, a := range places {
			r := all[a.at]
			degrees[tx] += uint64(count(a.sees))*(r.writes-uint64(count(a.writes))) + uint64(count(a.writes))*(r.sees-uint64(count(a.sees)))
		}
	}
	slices.SortFunc(ranked, func(a, b int) int {
		if degrees[a] != degrees[b] {
			if degrees[a] > degrees[b] {
				return -1
			}
			return 1
		}
		return a - b
	})
	return ranked
}

// groups are the largest sets of two or more transactions that cycles lead through. A place stands
// between those that see it and those that write it, so that the pairs of them take no time.
func (s *conflicts) groups() [][]int {
	n := len(s.names)
	component := components(0, n+len(s.at), func(node, edge int) (int, bool) {
		if node < n {
			if edge >= len(s.of[node]) {
				return 0, false
			}
			a := s.of[node][edge]
			return into(a.sees, n+a.at), true
		}
		if edge >= len(s.at[node-n]) {
			return 0, false
		}
		a := s.at[node-n][edge]
		return into(a.writes, a.at), true
	})
	members := map[int][]int{}
	for tx := range n {
		members[component[tx]] = append(members[component[tx]], tx)
	}
	var groups [][]int
	for tx := range n {
		if group := members[component[tx]]; len(group) > 1 && group[0] == tx {
			groups = append(groups, group)
		}
	}
	return groups
}

// none is the end of an edge that does not count.
const none = -1

func into(counts bool, node int) int {
	if counts {
		return node
	}
	return none
}

// components tells the strongly connected component of each node from one number on. next gives a
// node's edges by number. Paths are on a stack of their own: they may be as long as the nodes.
// Source: Tarjan, Depth-first search and linear graph algorithms, 1972.
func components(from, nodes int, next func(node, edge int) (to int, more bool)) []int {
	type visit struct{ node, followed, low int }
	number, component := make([]int, nodes), make([]int, nodes)
	for i := range number {
		number[i], component[i] = none, none
	}
	numbered, closed := 0, 0
	var open []int
	var path []visit
	enter := func(node int) {
		number[node] = numbered
		path, open = append(path, visit{node, 0, numbered}), append(open, node)
		numbered++
	}
	leave := func() {
		last := path[len(path)-1]
		path = path[:len(path)-1]
		if len(path) > 0 {
			path[len(path)-1].low = min(path[len(path)-1].low, last.low)
		}
		if last.low < number[last.node] {
			return
		}
		for member := none; member != last.node; closed += count(member == last.node) {
			member = open[len(open)-1]
			open = open[:len(open)-1]
			component[member] = closed
		}
	}
	for root := from; root < nodes; root++ {
		if number[root] == none {
			enter(root)
		}
		for len(path) > 0 {
			at := &path[len(path)-1]
			to, more := next(at.node, at.followed)
			if at.followed++; !more {
				leave()
				continue
			}
			switch {
			case to == none:
			case number[to] == none:
				enter(to)
			case component[to] == none:
				at.low = min(at.low, number[to])
			}
		}
	}
	return component
}

// cyclesOf are the elementary cycles of a graph without loops, at most so many.
// Source: Johnson, Finding all the elementary circuits of a directed graph, 1975.
func cyclesOf(next [][]int, most int) [][]int {
	s := &search{next: next, most: most}
	for start := 0; len(s.found) < most; start = s.start + 1 {
		component := components(start, len(next), func(node, edge int) (int, bool) {
			if edge >= len(next[node]) {
				return 0, false
			}
			return into(next[node][edge] >= start, next[node][edge]), true
		})
		s.start = none
		for node := start; node < len(next) && s.start == none; node++ {
			if slices.ContainsFunc(next[node], func(to int) bool { return to >= start && component[to] == component[node] }) {
				s.start = node
			}
		}
		if s.start == none {
			break
		}
		s.blocked, s.waiting = make([]bool, len(next)), make([][]int, len(next))
		s.explore(func(node int) bool { return node >= s.start && component[node] == component[s.start] })
	}
	return s.found
}

type search struct {
	next    [][]int
	most    int
	found   [][]int
	start   int
	blocked []bool // nodes of the path, and those that lead back to the start through it alone
	waiting [][]int
	path    []step
}

// step is a node of the path: how many of its edges were followed, and whether a cycle closed.
type step struct {
	node, followed int
	closed         bool
}

func (s *search) explore(inside func(int) bool) {
	s.path = nil
	s.enter(s.start)
	for len(s.path) > 0 && len(s.found) < s.most {
		at := &s.path[len(s.path)-1]
		if at.followed == len(s.next[at.node]) {
			s.leave(inside)
			continue
		}
		to := s.next[at.node][at.followed]
		at.followed++
		if to == s.start {
			at.closed = true
			cycle := make([]int, len(s.path))
			for i := range s.path {
				cycle[i] = s.path[i].node
			}
			s.found = append(s.found, cycle)
		} else if inside(to) && !s.blocked[to] {
			s.enter(to)
		}
	}
}

func (s *search) enter(node int) {
	s.blocked[node] = true
	s.path = append(s.path, step{node: node})
}

func (s *search) leave(inside func(int) bool) {
	last := s.path[len(s.path)-1]
	s.path = s.path[:len(s.path)-1]
	if last.closed {
		s.unblock(last.node)
		if len(s.path) > 0 {
			s.path[len(s.path)-1].closed = true
		}
		return
	}
	for _, to := range s.next[last.node] {
		if inside(to) && !slices.Contains(s.waiting[to], last.node) {
			s.waiting[to] = append(s.waiting[to], last.node)
		}
	}
}

func (s *search) unblock(node int) {
	for freed := []int{node}; len(freed) > 0; {
		node = freed[len(freed)-1]
		freed = freed[:len(freed)-1]
		if s.blocked[node] {
			s.blocked[node] = false
			freed = append(freed, s.waiting[node]...)
			s.waiting[node] = nil
		}
	}
}
