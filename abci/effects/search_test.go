package effects

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// searchDepthMax is how many moves a path has.
const searchDepthMax = 14

var searchStates = flag.Int("search.states", 1_500, "states looked at per consortium; 25,000 take a minute")

// TestEverySmallScheduleKeepsTheInvariants goes breadth first through the schedules of small
// consortia with one crash, one lost answer and one tampering, each state once, and checks E1 to E6
// in each.
func TestEverySmallScheduleKeepsTheInvariants(t *testing.T) {
	for _, s := range []struct{ n, consent int }{{1, 1}, {2, 2}, {3, 2}, {3, 3}} {
		t.Run(fmt.Sprintf("%d of %d", s.consent, s.n), func(t *testing.T) {
			seen := map[string]bool{}
			paths := [][]int{nil}
			depth := 0
			for len(paths) > 0 && len(seen) < *searchStates {
				path := paths[0]
				paths = paths[1:]
				w, names := replay(s.n, s.consent, path)
				if w.broken != "" {
					t.Fatalf("%s\nafter %s", w.broken, strings.Join(names, ", "))
				}
				print := w.fingerprint()
				if seen[print] || len(path) == searchDepthMax {
					continue
				}
				seen[print] = true
				depth = max(depth, len(path))
				for i := range w.moves() {
					paths = append(paths, append(slices.Clip(path), i))
				}
			}
			t.Logf("%d states, up to %d moves deep", len(seen), depth)
		})
	}
}

type move struct {
	name string
	make func()
}

func replay(n, consent int, path []int) (*world, []string) {
	w := newWorld(n, consent, 2)
	w.crashes, w.losses, w.tampers = 1, 1, 1
	if consent == 1 {
		w.tampers = 0
	}
	var names []string
	for _, i := range path {
		m := w.moves()[i]
		names = append(names, m.name)
		m.make()
	}
	return w, names
}

// moves lists what can happen next, always in the same order.
func (w *world) moves() (list []move) {
	all := func(int) bool { return true }
	add := func(name string, do func()) { list = append(list, move{name, do}) }
	if len(w.order.candidates) < 2 {
		add("propose", func() { w.propose(all, all) })
	}
	for i := range w.order.candidates {
		add(fmt.Sprintf("decide %d", i), func() { w.decide(i) })
	}
	for i, n := range w.nodes {
		if n.seen < len(w.order.decisions) {
			add(n.org+" learns", func() { w.learn(n) })
		}
		if len(w.current()) > 0 {
			add(n.org+" votes", func() { w.sendVotes(n, all) })
		}
		if n.op != nil {
			add(fmt.Sprintf("%s finishes %T", n.org, n.op), func() { w.finish(n, false, true) })
			if w.losses > 0 && i == 0 { // the others are alike
				add(fmt.Sprintf("%s loses %T", n.org, n.op), func() { w.losses--; w.finish(n, true, true) })
				add(fmt.Sprintf("%s fails %T", n.org, n.op), func() { w.losses--; w.finish(n, true, false) })
			}
		}
		if w.crashes > 0 && i == 0 {
			add(n.org+" crashes", func() { w.crashes--; w.startNode(n) })
		}
		if w.tampers > 0 && i == 0 && len(n.db.hashes) > 0 {
			add(n.org+" is tampered with", func() { w.tampers--; w.blameless = false; n.db.tampered = n.org })
		}
	}
	add("time", func() {
		w.nowMS += 6_000
		for _, n := range w.nodes {
			w.step(n, Tick{})
		}
	})
	return list
}

// fingerprint is equal for worlds that behave alike from here on.
func (w *world) fingerprint() string {
	var s strings.Builder
	fmt.Fprint(&s, w.crashes, w.losses, w.tampers, len(w.order.decisions), w.order.proposals, len(w.order.candidates))
	for _, c := range w.order.candidates {
		fmt.Fprint(&s, c.block != nil, c.cert != nil, len(c.votes))
	}
	fmt.Fprint(&s, slices.Sorted(maps.Keys(w.order.onChain)), w.order.pending)
	for _, n := range w.nodes {
		c := n.core
		fmt.Fprintf(&s, "|%d %T %v %d %q %v %v %d", n.seen, n.op, n.db.hashes, n.db.certified, n.db.tampered, n.db.open != nil, n.db.hopeless, n.db.anewUntil)
		fmt.Fprint(&s, c.ordered, c.certified, c.position.Number, c.known, c.proven, c.open != nil, c.unsure != nil, c.cancelled,
			c.failures, c.nowMS < c.resumeMS, c.shelved, len(c.records), c.excluded, c.ballots, c.proposal != nil, c.proof != nil)
		if c.open != nil {
			fmt.Fprint(&s, c.open.key, c.open.hash, c.nowMS-c.open.sinceMS > 5_000)
		}
		fmt.Fprint(&s, c.ladder.number, c.ladder.step, c.ladder.needRepair, c.ladder.deviated, c.ladder.sound, c.ladder.unadoptable, slices.Sorted(maps.Keys(c.blocks)), slices.Sorted(maps.Keys(c.certs)))
		for _, org := range w.orgs {
			ordered, next := c.votes.Kept(org)
			fmt.Fprint(&s, ordered, next)
		}
	}
	return s.String()
}
