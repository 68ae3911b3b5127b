package model

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/effects"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// statesDefault is how many states of each consortium are looked at; CHAINIFY_MODEL_STATES sets
// another number.
const statesDefault = 300

// walks are the random paths of each consortium.
const walks = 30

// consortia are what is explored; the bounds stand in spec/model.md too.
func consortia() (out []bounds) {
	for _, s := range []struct{ n, c int }{{1, 1}, {2, 2}, {3, 2}, {3, 3}, {4, 2}, {4, 3}, {4, 4}} {
		for _, f := range []fault{none, tampered, differs, liar, forger, conflicts, slow} {
			if s.n == 1 && f != none || s.n == 2 && f == liar || s.n < 4 && f == forger {
				continue // nobody is left who is right, or in whose name to forge
			}
			out = append(out, bounds{n: s.n, consent: s.c, fault: f, blocks: 2, accidents: 2})
		}
	}
	return out
}

// TestModel goes breadth first through what can happen to small consortia, each state once. It
// checks in each that no two organisations hold different effects (E1, E2, E4 to E6). From there it
// lets the network be fair. Then every block is certified or declared without consensus, and every
// organisation that is not excluded holds what is certified.
func TestModel(t *testing.T) {
	states := statesDefault
	if text := os.Getenv("CHAINIFY_MODEL_STATES"); text != "" {
		var err error
		if states, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range consortia() {
		t.Run(b.String(), func(t *testing.T) {
			t.Parallel()
			explore(t, b, states)
		})
	}
}

func explore(t *testing.T, b bounds, states int) {
	consortium := ordertest.New(b.n, b.consent)
	c := newChains(consortium, consortium.Registry(t))
	seen := map[[16]byte]bool{}
	level, depth := [][]int16{nil}, 0
	for ; len(level) > 0; depth++ {
		var next [][]int16
		for _, path := range level {
			if len(seen) >= states {
				t.Logf("%d states, %d orders; every path of up to %d moves", len(seen), c.states, depth-1)
				return
			}
			w, names := replay(b, c, path)
			if w.broken != "" {
				t.Fatalf("%s\nafter %s", w.broken, strings.Join(names, ", "))
			}
			print := w.fingerprint()
			if seen[print] {
				continue
			}
			seen[print] = true
			for i := range w.moves() {
				next = append(next, append(slices.Clip(path), int16(i)))
			}
			if w.calmDown(); w.broken != "" {
				t.Fatalf("%s\nafter %s, and a fair network since", w.broken, strings.Join(names, ", "))
			}
		}
		level = next
	}
	t.Logf("%d states, %d orders; all there are", len(seen), c.states)
}

// TestWalks takes random paths of the same moves, deeper than can be gone through, with more
// accidents.
func TestWalks(t *testing.T) {
	seed := seeded.Seed(t)
	for _, b := range consortia() {
		b.accidents, b.blocks = 6, 3
		t.Run(b.String(), func(t *testing.T) {
			t.Parallel()
			consortium := ordertest.New(b.n, b.consent)
			c := newChains(consortium, consortium.Registry(t))
			for i := range uint64(walks) {
				walk(t, b, c, rand.New(rand.NewPCG(seed, i)))
			}
		})
	}
}

func walk(t *testing.T, b bounds, c *chains, random *rand.Rand) {
	t.Helper()
	w := newWorld(b, c)
	w.settle()
	var names []string
	for range 60 {
		moves := w.moves()
		if len(moves) == 0 || w.broken != "" {
			break
		}
		m := moves[random.IntN(len(moves))]
		names = append(names, m.name)
		m.make()
		w.settle()
	}
	if w.broken == "" {
		names = append(names, "fair from here")
		w.calmDown()
	}
	if w.broken != "" {
		t.Fatalf("%s\nafter %s", w.broken, strings.Join(names, ", "))
	}
}

func replay(b bounds, c *chains, path []int16) (*world, []string) {
	w := newWorld(b, c)
	w.settle()
	var names []string
	for _, i := range path {
		m := w.moves()[i]
		names = append(names, m.name)
		m.make()
		w.settle()
	}
	return w, names
}

// settle lets happen at once what is a move of its own elsewhere. All organisations but number 1
// learn what was decided, and their databases work. Those from number 2 on vote, and their votes
// arrive. Number 1 reads and fetches at once too.
func (w *world) settle() {
	again := true
	for range restMax {
		if !again || w.broken != "" {
			return
		}
		again = false
		for i, n := range w.nodes {
			for i != w.slow() && n.seen < w.chain.length {
				w.learn(n)
				again = true
			}
			if n.op != nil && (i != w.slow() || quick(n.op)) {
				w.finish(n, false, true)
				again = true
			}
		}
		if o := w.nodes[0].db.open; w.forges && o != nil {
			w.forges = false
			w.forge(o.key, o.hash) // before the others' votes arrive
		}
		if b := w.chain.pending(); b != nil {
			for _, n := range w.nodes[min(2, w.n):] {
				if v := w.vote(n, b); v != nil && !w.reachedAll(n, b) {
					w.send(n, b, *v, w.n)
					again = true
				}
			}
		}
	}
	w.fail("no rest after %d rounds of work", restMax)
}

// restMax bounds the work between two moves.
const restMax = 200

// quick are operations that read only.
func quick(op effects.Action) bool {
	switch op.(type) {
	case effects.ReadPosition, effects.FetchOrdered:
		return true
	}
	return false
}

// slow is the organisation that learns late and whose operations take time and fail.
func (w *world) slow() int { return min(1, w.n-1) }

type move struct {
	name string
	make func()
}

// moves lists what can happen next, always in the same order.
func (w *world) moves() (list []move) {
	add := func(make func(), format string, args ...any) {
		list = append(list, move{fmt.Sprintf(format, args...), make})
	}
	w.orderMoves(add)
	for _, n := range w.nodes[:min(2, w.n)] {
		w.voteMoves(n, add)
	}
	n := w.nodes[w.slow()]
	if n.seen < w.chain.length {
		add(func() { w.learn(n) }, "%s learns", name(n.i))
	}
	if n.op != nil {
		add(func() { w.finish(n, false, true) }, "%s finishes %T", name(n.i), n.op)
		if x, executes := n.op.(effects.Execute); executes && !x.Agreed && w.accidents > 0 && w.fault == none {
			add(func() {
				w.accidents--
				n.op = nil
				w.step(n, effects.Executed{Key: x.Block.Key(), Failure: effects.Stuck})
			}, "%s does not end in time", name(n.i))
		}
		if w.accidents > 0 {
			add(func() { w.accidents--; w.finish(n, true, true) }, "%s loses the answer of %T", name(n.i), n.op)
			add(func() { w.accidents--; w.finish(n, true, false) }, "%s fails %T", name(n.i), n.op)
		}
	}
	if w.accidents > 0 {
		add(func() { w.accidents--; w.start(n) }, "%s crashes", name(n.i))
	}
	if w.fault.tampers() && !w.isTouched && len(w.nodes[0].db.blocks) > 0 {
		add(func() { w.isTouched, w.nodes[0].db.tampered = true, true }, "%s is tampered with", name(0))
	}
	if w.accidents > 0 && w.nodes[0].db.tampered {
		add(func() { w.accidents--; w.nodes[0].db.tampered = false; w.start(w.nodes[0]) }, "%s crashes, and its database is put right meanwhile", name(0))
	}
	if w.accidents > 0 && w.chain.length > 0 {
		add(func() { w.accidents--; w.pass(70_000) }, "time")
	}
	w.forgeMoves(add)
	return list
}

// forgeMoves are live votes in others' names: for what the tampered database has, and one that was
// heard, again.
func (w *world) forgeMoves(add func(func(), string, ...any)) {
	if w.fault != forger || w.accidents == 0 {
		return
	}
	if !w.forges {
		add(func() { w.accidents--; w.forges = true }, "%s will forge all votes for what %s has", name(w.n-1), name(0))
	}
	if b := w.chain.pending(); b != nil {
		if v, voted := w.nodes[w.n-1].voted[b.Key()]; voted {
			add(func() { w.accidents--; w.sendAgain(v, 1) }, "the vote of %s comes again as that of %s", name(w.n-1), name(1))
		}
	}
}

func (w *world) pass(ms int64) {
	w.nowMS += ms
	for _, n := range w.nodes {
		if n.core != nil {
			w.step(n, effects.Tick{})
		}
	}
}

// orderMoves are the order blocks that can come next: some organisation's node proposes with all
// votes, or all but one.
func (w *world) orderMoves(add func(func(), string, ...any)) {
	if w.chain.length > 0 && w.chain.length > w.behind()+1 {
		return // bound: no two are more than one block apart
	}
	if w.chain.pending() == nil {
		if w.ordered < w.blocks {
			add(func() { w.decide(proposal{}) }, "order")
		}
		return
	}
	lies := 1
	if w.fault == liar {
		lies = 3
	}
	for _, without := range []int{0, 1, w.n} {
		for lie := range lies {
			for _, proposer := range []int{0, w.n - 1} {
				if without == 0 && lie > 0 {
					continue
				}
				p := proposal{without, proposer, lie}
				add(func() { w.decide(p) }, "order %+v", p)
			}
		}
	}
}

// behind is the height of the slowest.
func (w *world) behind() int {
	least := w.chain.length
	for _, n := range w.nodes {
		least = min(least, n.seen)
	}
	return least
}

// voteMoves are a live vote that reaches all, or all but one.
func (w *world) voteMoves(n *node, add func(func(), string, ...any)) {
	b := w.chain.pending()
	if b == nil || w.reachedAll(n, b) || n.seen < w.chain.length {
		return
	}
	if n.core == nil {
		for lie := range 3 {
			add(func() { w.send(n, b, w.lie(b, lie), w.n) }, "%s lies %d to all", name(n.i), lie)
			add(func() { w.send(n, b, w.lie(b, lie), w.n-1); n.sent[b.Key()] &^= 1 << (w.n - 1) }, "%s lies %d to all but the last", name(n.i), lie)
		}
		return
	}
	v, _ := n.core.Vote(b.Key())
	if v == nil {
		return
	}
	add(func() { w.send(n, b, *w.vote(n, b), w.n) }, "%s votes", name(n.i))
	for lost := range w.n {
		if w.accidents > 0 && lost != n.i && n.sent[b.Key()]>>lost&1 == 0 {
			add(func() { w.accidents--; w.send(n, b, *w.vote(n, b), lost) }, "%s votes, lost to %s", name(n.i), name(lost))
		}
	}
}

// reachedAll: its live vote reached all others, or was lost.
func (w *world) reachedAll(n *node, b *wire.OrderedBlock) bool {
	return n.sent[b.Key()]|1<<n.i == 1<<w.n-1
}

// calmDown lets the faults end and the network be fair, for a bounded time, and wants all to be
// well then.
func (w *world) calmDown() {
	w.blocks++ // one more block, so that what was tampered with after the last one is seen
	w.accidents = 0
	for i := range 60 {
		for _, n := range w.nodes {
			for n.seen < w.chain.length {
				w.learn(n)
			}
		}
		w.work()
		if b := w.chain.pending(); b != nil {
			for _, n := range w.nodes {
				if n.core == nil {
					w.send(n, b, w.lie(b, 1), w.n)
				} else if v := w.vote(n, b); v != nil {
					w.send(n, b, *v, w.n)
				}
			}
			w.work()
		} else if w.ordered == w.blocks && w.well() == "" {
			return
		}
		// A database that failed before is left alone for a while: the first round does not end it.
		if p := w.chain.state.Pending(); i > 0 && p != nil && p.QuarantineAll && p.Round > 5 {
			break // declared, and another round did not help
		}
		if w.broken != "" {
			return
		}
		w.decide(proposal{without: w.n, proposer: i % w.n, lie: 1})
		w.pass(11_000)
	}
	if why := w.well(); why != "" {
		w.fail("%s", why)
	}
}

func (w *world) work() {
	for _, n := range w.nodes {
		for done := 0; n.op != nil && w.broken == ""; done++ {
			w.finish(n, false, true)
			if done == restMax {
				w.fail("%s has no rest after %d operations", name(n.i), restMax)
			}
		}
	}
}

// well says what is not as it should be in the end, or nothing.
func (w *world) well() string {
	if p := w.chain.state.Pending(); p != nil && !p.QuarantineAll {
		return fmt.Sprintf("block %d is neither certified nor declared without consensus: round %d, quarantined %v", p.Number, p.Round, p.Quarantined)
	}
	certified, _ := w.chain.state.LastCertified()
	for _, n := range w.nodes {
		if n.core == nil {
			continue
		}
		if n.core.State() == "excluded" {
			if n.i != 0 || w.fault == none || w.fault == differs { // what it executes otherwise it adopts
				return fmt.Sprintf("%s is excluded", name(n.i))
			}
			continue
		}
		if uint64(len(n.db.blocks)) < certified || n.db.certified < certified {
			return fmt.Sprintf("%s has block %d and certificate %d, want %d: it is %s", name(n.i), len(n.db.blocks), n.db.certified, certified, n.core.State())
		}
		if n.db.tampered && w.chain.state.Pending() == nil {
			return fmt.Sprintf("%s is still tampered with", name(n.i))
		}
	}
	return ""
}

// fingerprint is equal for worlds that behave alike from here on.
func (w *world) fingerprint() [16]byte {
	h := sha256.New()
	record, err := w.chain.state.Record()
	if err != nil {
		panic(err)
	}
	h.Write(record)
	fmt.Fprint(h, w.accidents, w.ordered, w.isTouched, w.forges, w.nowMS)
	var out []byte
	for _, n := range w.nodes {
		out = fmt.Appendf(out[:0], "|%d %T %x %d %v %v", n.seen, n.op, n.db.blocks, n.db.certified, n.db.tampered, n.db.open != nil)
		if b := w.chain.pending(); b != nil {
			out = fmt.Appendf(out, " %d", n.sent[b.Key()])
		}
		if n.core != nil {
			out = dump(out, reflect.ValueOf(n.core).Elem())
		}
		h.Write(out)
	}
	return [16]byte(h.Sum(nil)[:16])
}

// dump writes a value with all that hangs on it; blocks and certificates by what names them.
func dump(out []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return append(out, '-')
		}
		switch v.Type() {
		case reflect.TypeFor[*wire.OrderedBlock]():
			b := v.Elem()
			out = dump(dump(out, b.FieldByName("Number")), b.FieldByName("Round"))
			return dump(out, b.FieldByName("OrderHash"))
		case reflect.TypeFor[*wire.Certificate]():
			return dump(dump(out, v.Elem().FieldByName("Number")), v.Elem().FieldByName("Hash"))
		}
		return dump(append(out, '&'), v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			return append(out, '-')
		}
		return dump(append(out, v.Elem().Type().Name()...), v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "out" {
				out = dump(append(out, ';'), v.Field(i))
			}
		}
		return out
	case reflect.Map:
		var entries []string
		for it := v.MapRange(); it.Next(); {
			entries = append(entries, string(dump(append(dump(nil, it.Key()), ':'), it.Value())))
		}
		slices.Sort(entries)
		return append(out, strings.Join(entries, ",")...)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			out = dump(append(out, ','), v.Index(i))
		}
		return out
	case reflect.String:
		return append(out, v.String()...)
	case reflect.Bool:
		return strconv.AppendBool(out, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(out, v.Int(), 16)
	default:
		return strconv.AppendUint(out, v.Uint(), 16)
	}
}
