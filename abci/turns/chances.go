package turns

import "slices"

// chances takes victims back that close no cycle any more, and says why the others stay victims.
type chances struct {
	*conflicts
	places         []uint32 // the caller's numbers
	kept           []bool
	seen, written  []int // by place, by how many of those kept
	updater        []int // by place, the kept one that does both; there is no second one
	steps, stepMax uint64
	// In a search: the victim and those from which conflicts lead to it. By transaction, the next
	// one on the shortest way, and the first place that the victim sees and it writes.
	found, next, after []int
	visited            []bool
}

func newChances(set *conflicts, places []uint32, kept []bool, most uint64) *chances {
	c := &chances{
		conflicts: set, places: places, kept: kept, seen: make([]int, len(set.at)), written: make([]int, len(set.at)), updater: filled(len(set.at)),
		stepMax: most, next: filled(len(set.names)), after: filled(len(set.names)), visited: make([]bool, len(set.at)),
	}
	for tx := range kept {
		if kept[tx] {
			c.keep(tx)
		}
	}
	return c
}

func filled(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = none
	}
	return out
}

func (c *chances) keep(tx int) {
	c.kept[tx] = true
	for _, a := range c.of[tx] {
		c.seen[a.at] += count(a.sees)
		c.written[a.at] += count(a.writes)
		if a.updates() {
			c.updater[a.at] = tx
		}
	}
}

// give returns the victims that remain.
func (c *chances) give(admitted []bool) []Victim {
	var victims []Victim
	for tx := range c.names {
		if c.kept[tx] {
			continue
		}
		if !admitted[tx] {
			victims = append(victims, Victim{Transaction: tx, Excess: true})
		} else if v, stays := c.whyNot(tx); stays {
			victims = append(victims, v)
		} else {
			c.keep(tx)
		}
	}
	return victims
}

// whyNot says why a victim stays one; false: it closes no cycle.
func (c *chances) whyNot(victim int) (Victim, bool) {
	before, after, update := false, none, none
	for _, a := range c.of[victim] {
		before = before || a.writes && c.seen[a.at] > 0
		if after == none && a.sees && c.written[a.at] > 0 {
			after = a.at
		}
		if update == none && a.updates() && c.updater[a.at] != none {
			update = a.at
		}
	}
	switch {
	case !before || after == none:
		return Victim{}, false
	case update != none:
		return Victim{Transaction: victim, Place: c.places[update], Others: []int{c.updater[update]}}, true
	case c.steps >= c.stepMax:
		return Victim{Transaction: victim, Place: c.places[after]}, true
	}
	v, stays := c.shortestCycle(victim)
	c.forget(victim)
	return v, stays
}

// shortestCycle searches by layers, from those that see what the victim writes to those before.
func (c *chances) shortestCycle(victim int) (Victim, bool) {
	c.noteAfter(victim)
	c.found = append(c.found, victim)
	for from := 0; from < len(c.found); {
		to := len(c.found)
		slices.Sort(c.found[from:to])
		for at := from; at < to; at++ {
			c.visit(c.found[at])
		}
		first := none
		for _, tx := range c.found[to:] {
			if c.after[tx] != none && (first == none || tx < first) {
				first = tx
			}
		}
		if first != none {
			return c.describe(victim, first), true
		}
		from = to
	}
	return Victim{}, false
}

// noteAfter notes those that write what the victim sees, each with the first such place.
func (c *chances) noteAfter(victim int) {
	for _, a := range c.of[victim] {
		if !a.sees {
			continue
		}
		c.steps += uint64(len(c.at[a.at]))
		for _, other := range c.at[a.at] {
			if other.writes && c.kept[other.at] && (c.after[other.at] == none || a.at < c.after[other.at]) {
				c.after[other.at] = a.at
			}
		}
	}
}

// visit adds those that see what a transaction writes.
func (c *chances) visit(tx int) {
	c.steps += uint64(len(c.of[tx]))
	for _, a := range c.of[tx] {
		if !a.writes || c.visited[a.at] {
			continue
		}
		c.visited[a.at] = true
		c.steps += uint64(len(c.at[a.at]))
		for _, other := range c.at[a.at] {
			if other.sees && c.kept[other.at] && c.next[other.at] == none {
				c.next[other.at] = tx
				c.found = append(c.found, other.at)
			}
		}
	}
}

func (c *chances) describe(victim, first int) Victim {
	v := Victim{Transaction: victim, Place: c.places[c.after[first]]}
	for tx := first; tx != victim && tx != none && len(v.Others) < othersMax; tx = c.next[tx] {
		v.Others = append(v.Others, tx)
	}
	return v
}

// forget makes room for the next search.
func (c *chances) forget(victim int) {
	for _, a := range c.of[victim] {
		if a.sees {
			for _, other := range c.at[a.at] {
				c.after[other.at] = none
			}
		}
	}
	for _, tx := range c.found {
		c.next[tx] = none
		for _, a := range c.of[tx] {
			c.visited[a.at] = false
		}
	}
	c.found = nil
}
