package effects

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/chainify-db/chainify/abci/seeded"
)

var walkCount = flag.Int("walk.count", 300, "random walks per consortium")

// shapes are consortia to walk through; the last can commit on live votes never (3c <= 2n).
var shapes = []struct{ n, consent int }{{4, 3}, {3, 3}, {3, 2}, {2, 2}, {4, 4}, {1, 1}, {4, 2}}

// TestWalksKeepTheInvariants makes random moves with faults, then lets the faults end and wants
// every block certified and committed everywhere, with the tampered databases repaired (E1 to E6).
// A database that executes every block otherwise commits them too (E8).
func TestWalksKeepTheInvariants(t *testing.T) {
	seed := seeded.Seed(t)
	for _, s := range shapes {
		t.Run(fmt.Sprintf("%d of %d", s.consent, s.n), func(t *testing.T) {
			for i := range uint64(*walkCount) {
				if err := walk(s.n, s.consent, rand.New(rand.NewPCG(seed, i)), nil); err != "" {
					var trace []string
					walk(s.n, s.consent, rand.New(rand.NewPCG(seed, i)), &trace)
					for _, line := range trace {
						t.Log(line)
					}
					t.Fatalf("seed %d, walk %d: %s", seed, i, err)
				}
			}
		})
	}
}

func walk(n, consent int, r *rand.Rand, trace *[]string) string {
	w := newWorld(n, consent, 3)
	w.crashes, w.losses, w.tampers, w.stalls = r.IntN(7), r.IntN(6), r.IntN(3), r.IntN(2)
	if consent == 1 {
		w.tampers = 0 // one organisation's word is consent, tampered with or not
	}
	if consent < n && r.IntN(3) == 0 {
		w.nodes[r.IntN(n)].db.differs = true // no fault that ends: it stays in consensus by adopting
		w.blameless = false
	}
	for range 250 {
		w.randomMove(r, trace)
		if w.broken != "" {
			return w.broken
		}
	}
	return w.calmDown(r, trace)
}

// randomMove makes one of the moves that are possible now.
func (w *world) randomMove(r *rand.Rand, trace *[]string) {
	some := func(int) bool { return r.IntN(4) > 0 }
	n := w.nodes[r.IntN(len(w.nodes))]
	say := func(format string, args ...any) {
		if trace != nil {
			*trace = append(*trace, fmt.Sprintf(format, args...))
		}
	}
	switch k := r.IntN(100); {
	case k < 8:
		say("propose")
		w.propose(some, some)
	case k < 20 && len(w.order.candidates) > 0:
		i := r.IntN(len(w.order.candidates))
		say("decide %d of %d", i, len(w.order.candidates))
		w.decide(i)
	case k < 40 && n.seen < len(w.order.decisions):
		say("%s learns decision %d", n.org, n.seen+1)
		w.learn(n)
		w.speaks(n)
	case k < 55:
		w.sendVotes(n, some)
	case k < 90 && n.op != nil:
		fails := w.losses > 0 && r.IntN(12) == 0
		if fails {
			w.losses--
		}
		done := r.IntN(2) == 0
		say("%s finishes %T %v, fails %v, done %v", n.org, n.op, n.core.position.Number, fails, done)
		w.finish(n, fails, done)
	case k < 94:
		w.nowMS += []int64{1, 60, 5_000, 11_000}[r.IntN(4)]
		say("time %d", w.nowMS)
		for _, n := range w.nodes {
			w.step(n, Tick{})
		}
	case k < 96 && w.crashes > 0:
		w.crashes--
		say("%s crashes", n.org)
		if last := len(n.db.hashes); last > 0 && r.IntN(3) == 0 { // synchronous_commit = off
			n.db.hashes = n.db.hashes[:last-1]
			n.db.certified = min(n.db.certified, uint64(last-1))
			if last == 1 {
				n.db.tampered = "" // what was tampered with is not on the ledger any more
			}
		}
		if r.IntN(3) == 0 && w.takenOver < len(w.orgs)-w.consent { // more at once stop the ledger
			say("another node takes the place of %s", n.org)
			w.takeOver(n)
			return
		}
		w.startNode(n)
	case k < 98 && w.tampers > 0 && len(n.db.hashes) > 0:
		w.tampers--
		n.db.hopeless = n.db.anewUntil == 0 && r.IntN(2) == 0
		say("%s is tampered with, beyond repair %v", n.org, n.db.hopeless)
		n.db.tampered += n.org
		w.blameless = false
	case w.stalls > 0:
		w.stalls--
		say("%s will be stuck", n.org)
		n.db.stuck = true
		w.blameless = false
	}
}

// sendVotes delivers a node's live votes to those of the others that they reach.
func (w *world) sendVotes(from *modelNode, reaches func(int) bool) {
	for _, b := range w.current() {
		v := w.vote(from, b)
		for i, to := range w.nodes {
			if v != nil && to != from && reaches(i) {
				w.step(to, VoteSeen{Organisation: from.org, Vote: *v})
			}
		}
	}
}

// calmDown lets the faults end and the network be fair, and wants all to be well after a bounded
// number of rounds.
func (w *world) calmDown(r *rand.Rand, trace *[]string) string {
	all := func(int) bool { return true }
	w.order.blocksMax++ // one more block, so that tampering after the last one is seen
	for i := range 1000 {
		w.late = w.takenOver > 0 && i%10 == 9
		for _, n := range w.nodes {
			for n.op != nil && w.broken == "" {
				w.finish(n, false, true)
			}
			w.sendVotes(n, all)
		}
		if w.broken != "" || w.well() == "" {
			break
		}
		w.propose(all, all)
		w.decide(len(w.order.candidates) - 1)
		for _, n := range w.nodes {
			for n.seen < len(w.order.decisions) {
				w.learn(n)
			}
			w.speaks(n)
			w.nowMS += 100
			w.step(n, Tick{})
		}
	}
	if w.broken != "" {
		return w.broken
	}
	return w.well()
}

// well says what is not as it should be in the end, or nothing.
func (w *world) well() string {
	for k := uint64(1); k <= w.order.blocksMax; k++ {
		cert := w.order.certs[k]
		if cert == nil {
			return fmt.Sprintf("block %d is not certified", k)
		}
		for _, n := range w.nodes {
			if n.core.excluded != "" {
				return fmt.Sprintf("%s is excluded: %s", n.org, n.core.excluded)
			}
			if len(n.db.hashes) < int(k) || n.db.certified < k {
				return fmt.Sprintf("%s has block %d and certificate %d, want %d: it is %s", n.org, len(n.db.hashes), n.db.certified, k, n.core.State())
			}
			if n.db.hashes[k-1] != cert.Hash {
				return fmt.Sprintf("%s committed other effects of block %d than certified", n.org, k)
			}
			if n.owed[k] {
				return fmt.Sprintf("%s never answered the clients of block %d", n.org, k)
			}
			if n.db.tampered != "" {
				return fmt.Sprintf("%s is still tampered with", n.org)
			}
		}
	}
	return ""
}
