// Package listappend checks histories of transactions that append unique values to lists and read
// them. A list shows the order of its versions, so the dependencies between transactions follow
// from the reads. The method is that of Elle (Kingsbury and Alvaro, VLDB 2020, section 4). The
// anomalies are those of Adya's thesis (1999).
package listappend

import (
	"fmt"
	"slices"
)

// Outcome says whether a transaction took effect.
type Outcome int

// The outcomes that a client knows of.
const (
	Committed Outcome = iota
	Aborted
	Unknown // the connection broke before the answer
)

// Op appends a value to the list of a key, or reads the list.
type Op struct {
	Append bool
	Key    int
	Value  int   // appended; no two operations append the same value
	Read   []int // the values that a read found
}

// Txn is a transaction with its operations in their order. Reads count of committed ones alone.
type Txn struct {
	Ops     []Op
	Outcome Outcome
}

// Level is an isolation level.
type Level int

// The levels that can be checked.
const (
	ReadCommitted Level = iota
	RepeatableRead
	Serializable
)

// Anomaly names what is wrong. Of the cycles G0, G1c, G-single and G2 each is named once.
type Anomaly struct {
	Kind string
	Text string
}

// The kinds of anomalies.
const (
	Lost         = "lost append"       // a committed append is not in the list
	Doubled      = "doubled append"    // a list has a value twice
	Unasked      = "value of nobody"   // a list has a value that no transaction appended
	Incompatible = "incompatible read" // a read is no prefix of the list
	G0           = "G0"                // a cycle of writes
	G1a          = "G1a"               // a value of an aborted transaction
	G1b          = "G1b"               // a value that its transaction followed by another
	G1c          = "G1c"               // a cycle of writes and reads of what was written
	GSingle      = "G-single"          // a cycle with one read of what was replaced: lost updates, skewed reads
	G2           = "G2"                // a cycle with several: write skew
)

// allows tells which cycles a level leaves open.
func (l Level) allows(kind string) bool {
	return kind == G2 && l < Serializable || kind == GSingle && l < RepeatableRead
}

type edge int

const (
	ww edge = iota
	wr
	rw
)

type place struct{ key, value int }

type checker struct {
	txns   []Txn
	final  map[int][]int
	writer map[place]int
	edges  []map[int]edge // by transaction: where to, the strongest
	found  []Anomaly
}

// Check says what a history breaks under a level. final has the lists as they are after the last
// transaction. Cost: linear in the operations and values read, but for cycles: a search for each
// dependency of kind rw.
func Check(txns []Txn, final map[int][]int, level Level) []Anomaly {
	c := &checker{txns: txns, final: final, writer: map[place]int{}, edges: make([]map[int]edge, len(txns))}
	for i, t := range txns {
		c.edges[i] = map[int]edge{}
		for _, op := range t.Ops {
			if op.Append {
				c.writer[place{op.Key, op.Value}] = i
			}
		}
	}
	for key, list := range final {
		c.list(key, list)
	}
	for i, t := range txns {
		if t.Outcome == Committed {
			c.appends(i)
			c.reads(i)
		}
	}
	if len(c.found) == 0 { // versions are in doubt otherwise
		c.cycles(level)
	}
	return c.found
}

func (c *checker) add(kind, format string, args ...any) {
	c.found = append(c.found, Anomaly{kind, fmt.Sprintf(format, args...)})
}

// list checks a final list and draws the dependencies between its writers.
func (c *checker) list(key int, list []int) {
	seen, last := map[int]bool{}, -1
	for _, value := range list {
		if seen[value] {
			c.add(Doubled, "key %d has %d twice: %v", key, value, list)
		}
		seen[value] = true
		writer, known := c.writer[place{key, value}]
		switch {
		case !known:
			c.add(Unasked, "key %d has %d: %v", key, value, list)
			continue
		case c.txns[writer].Outcome == Aborted:
			c.add(G1a, "key %d has %d of transaction %d, which was aborted", key, value, writer)
		}
		if last >= 0 {
			c.depend(last, writer, ww)
		}
		last = writer
	}
}

func (c *checker) appends(i int) {
	for _, op := range c.txns[i].Ops {
		if op.Append && !slices.Contains(c.final[op.Key], op.Value) {
			c.add(Lost, "key %d lacks %d of transaction %d, which was committed: %v", op.Key, op.Value, i, c.final[op.Key])
		}
	}
}

func (c *checker) reads(i int) {
	for _, op := range c.txns[i].Ops {
		if op.Append {
			continue
		}
		list := op.Read
		for len(list) > 0 && c.isWriter(i, op.Key, list[len(list)-1]) {
			list = list[:len(list)-1] // what it appended itself
		}
		c.read(i, op.Key, list)
	}
}

func (c *checker) isWriter(i, key, value int) bool {
	writer, known := c.writer[place{key, value}]
	return known && writer == i
}

// read checks a list that a transaction found, without what it appended itself.
func (c *checker) read(i, key int, list []int) {
	for _, value := range list {
		if writer, known := c.writer[place{key, value}]; known && c.txns[writer].Outcome == Aborted {
			c.add(G1a, "transaction %d read %d of key %d, which transaction %d appended and was aborted", i, value, key, writer)
			return
		}
	}
	final := c.final[key]
	if len(list) > len(final) || !slices.Equal(list, final[:len(list)]) {
		c.add(Incompatible, "transaction %d read key %d as %v, the list is %v", i, key, list, final)
		return
	}
	if len(list) < len(final) {
		if next, known := c.writer[place{key, final[len(list)]}]; known {
			c.depend(i, next, rw)
		}
	}
	if len(list) == 0 {
		return
	}
	value := list[len(list)-1]
	writer, known := c.writer[place{key, value}]
	if !known {
		return
	}
	c.depend(writer, i, wr)
	if last := c.lastOf(writer, key); last != value {
		c.add(G1b, "transaction %d read key %d up to %d, which transaction %d followed by %d", i, key, value, writer, last)
	}
}

func (c *checker) lastOf(writer, key int) (value int) {
	for _, op := range c.txns[writer].Ops {
		if op.Append && op.Key == key {
			value = op.Value
		}
	}
	return value
}

// depend notes that a transaction comes after another. Of several reasons the strongest counts.
func (c *checker) depend(from, to int, kind edge) {
	if from == to {
		return
	}
	if had, there := c.edges[from][to]; !there || kind < had {
		c.edges[from][to] = kind
	}
}

// cycles looks for one of each kind, from the gravest on.
func (c *checker) cycles(level Level) {
	for _, search := range []struct {
		kind        string
		first, then edge // the kinds of the first dependency and, at most, of those that close the cycle
	}{{G0, ww, ww}, {G1c, wr, wr}, {GSingle, rw, wr}, {G2, rw, rw}} {
		if level.allows(search.kind) {
			continue
		}
		if path := c.cycle(search.first, search.then); path != nil {
			c.add(search.kind, "transactions %v", path)
			return
		}
	}
}

// cycle finds a cycle of a dependency of one kind that others close; nil: there is none.
func (c *checker) cycle(first, then edge) []int {
	for from := range c.edges {
		for to, kind := range c.edges[from] {
			if kind == first {
				if path := c.path(to, from, then); path != nil {
					return append([]int{from}, path...)
				}
			}
		}
	}
	return nil
}

// path goes breadth first along dependencies of kinds up to most.
func (c *checker) path(from, to int, most edge) []int {
	before := map[int]int{from: from}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == to {
			var path []int
			for ; at != from; at = before[at] {
				path = append(path, at)
			}
			path = append(path, from)
			slices.Reverse(path)
			return path
		}
		for next, kind := range c.edges[at] {
			if _, seen := before[next]; kind <= most && !seen {
				before[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}
