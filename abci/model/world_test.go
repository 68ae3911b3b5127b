package model

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/effects"
	"github.com/chainify-db/chainify/abci/wire"
)

// fault is what is wrong with one organisation, the first.
type fault int

const (
	none      fault = iota
	tampered        // its database is changed once, behind the ledger's back, after its first block
	differs         // transaction 1 has other effects there, for good
	liar            // it has no core: it votes what it likes, to each organisation something else
	forger          // as tampered; besides, the last organisation sends live votes in others' names
	conflicts       // as tampered, with the one row that the EFFECTS transaction of each block saw
	slow            // it alone is quick enough for transaction 0 of every block, which ends in no other's time
)

func (f fault) String() string {
	return [...]string{"none", "tampered", "differs", "liar", "forger", "conflicts", "slow"}[f]
}

// tampers tells whether the first organisation's database is tampered with.
func (f fault) tampers() bool { return f == tampered || f == forger || f == conflicts }

// bounds of what may go wrong on one path.
type bounds struct {
	n, consent int
	fault      fault
	blocks     int // ledger blocks that clients ask for
	// accidents on one path: a live vote that misses one organisation, a failed operation on the
	// database of organisation 1, a crash of that organisation's node, a pause longer than anything
	// waits.
	accidents int
}

func (b bounds) String() string {
	return fmt.Sprintf("n=%d c=%d %s", b.n, b.consent, b.fault)
}

// world is one consortium at one moment. The order does not fork: CometBFT's part.
type world struct {
	bounds
	chain     *chain
	nodes     []*node
	nowMS     int64
	ordered   int
	isTouched bool // tampering happened
	forges    bool // the forger sends its votes as soon as the first organisation has executed something
	broken    string
}

type node struct {
	i, seen int
	core    *effects.Core // nil: a liar
	op      effects.Action
	db      database
	sent    map[wire.Key]int // bit j: its live vote reached organisation j, or was lost on the way
	voted   map[wire.Key]wire.EffectVote
	told    map[wire.Key]wire.EffectVote // of a liar: what stands on the chain
	// computed are the hashes that its executions gave: it votes for no other (E8).
	computed []wire.Hash
}

type database struct {
	blocks    []wire.Hash
	certified uint64
	open      *open
	tampered  bool
}

type open struct {
	key  wire.Key
	hash wire.Hash
}

func name(i int) string { return fmt.Sprintf("o%d", i) }

func newWorld(b bounds, c *chains) *world {
	w := &world{bounds: b, chain: c.root, nowMS: 1}
	for i := range b.n {
		n := &node{i: i, sent: map[wire.Key]int{}, voted: map[wire.Key]wire.EffectVote{}, told: map[wire.Key]wire.EffectVote{}}
		w.nodes = append(w.nodes, n)
		if b.fault != liar || i > 0 {
			w.start(n)
		}
	}
	return w
}

// start begins a process: what was under way is gone, what is durable is not.
func (w *world) start(n *node) {
	core, err := effects.NewCore(effects.Config{Organisation: name(n.i)})
	if err != nil {
		panic(err)
	}
	n.core, n.op, n.db.open, n.sent = core, nil, nil, map[wire.Key]int{}
	at := w.at(n)
	var certified uint64
	certified, _ = at.state.LastCertified()
	// A vote is durable before it leaves, in CometBFT's log.
	w.step(n, effects.Started{Ordered: at.state.LastOrdered(), Certified: certified, Voted: slices.SortedFunc(maps.Values(n.voted), func(a, b wire.EffectVote) int { return bytes.Compare(a.Encode(), b.Encode()) })})
}

// at is the order as far as the node's own store holds it.
func (w *world) at(n *node) *chain { return w.chain.back(w.chain.length - n.seen) }

func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

func (w *world) step(n *node, e effects.Event) {
	for _, a := range n.core.Step(w.nowMS, e) {
		switch a := a.(type) {
		case effects.Report:
			if a.What == effects.ConflictingVotes && (w.fault != liar || a.Reason != name(0)) {
				w.fail("E5: %s accuses %s of two votes for one execution", name(n.i), a.Reason)
			}
		case effects.Answer:
			if k := a.Block.Number; uint64(len(n.db.blocks)) < k {
				w.fail("E6: %s answers block %d, its database has %d", name(n.i), k, len(n.db.blocks))
			}
		case effects.Cancel:
			n.op = nil
			w.step(n, effects.Executed{Key: a.Key, Failure: effects.Cancelled})
		default:
			if n.op != nil {
				w.fail("E4: %s starts %T while %T is under way", name(n.i), a, n.op)
			}
			n.op = a
		}
	}
}

// finish ends the operation under way; when it fails, the database may have done it all the same.
func (w *world) finish(n *node, fails, done bool) {
	op, f := n.op, effects.Fine
	n.op = nil
	if fails {
		f = effects.Unavailable
	}
	switch op := op.(type) {
	case effects.ReadPosition:
		w.step(n, effects.DatabaseAt{Position: n.db.position(), Failure: f})
	case effects.FetchOrdered:
		b, c := w.at(n).stored(op.Number)
		w.step(n, effects.Fetched{Number: op.Number, Block: b, Certificate: c, Failure: f})
	case effects.Execute:
		w.execute(n, op, f)
	case effects.Commit:
		if !fails || done {
			w.commit(n)
		}
		n.db.open = nil
		w.step(n, effects.Committed{Failure: f})
	case effects.Rollback:
		n.db.open = nil
		w.step(n, effects.RolledBack{Failure: f})
	case effects.Repair:
		if !fails || done {
			if at := n.db.position(); at.Number != op.Number || at.Hash != op.Certified {
				w.fail("R1: %s repairs at block %d, its database is at %d", name(n.i), op.Number, at.Number)
			}
			n.db.tampered = false
		}
		w.step(n, effects.Repaired{Failure: f})
	case effects.Adopt:
		w.adopt(n, op, f)
	case effects.StoreCertificate:
		k := op.Certificate.Number
		if f == effects.Fine && (uint64(len(n.db.blocks)) < k || n.db.blocks[k-1] != op.Certificate.Hash) {
			f = effects.BeyondRepair
		} else if !fails || done {
			n.db.certified = k
		}
		w.step(n, effects.CertificateStored{Failure: f})
	case effects.RecordDeviation:
		w.step(n, effects.DeviationRecorded{Failure: f})
	}
	if fails {
		n.db.open = nil
	}
}

func (db *database) position() backend.Position {
	p := backend.Position{Number: uint64(len(db.blocks)), Certified: db.certified}
	if p.Number > 0 {
		p.Hash = db.blocks[p.Number-1]
	}
	return p
}

func (w *world) execute(n *node, op effects.Execute, f effects.Failure) {
	at := n.db.position()
	if f == effects.Fine && (op.Block.Number != at.Number+1 || op.Previous != at.Hash) {
		f = effects.OutOfTurn
	}
	e := effects.Executed{Key: op.Block.Key(), Failure: f}
	if f == effects.Fine && !op.Agreed && w.isSlow(n, op.Block) {
		e.Failure, e.StuckAt = effects.Stuck, uint32(n.i%len(op.Block.IDs))
	} else if f == effects.Fine {
		apart := w.effectsOf(op.Block, n.db.tampered, w.fault == differs && n.i == 0)
		e.Hash = blockHash(op.Block, apart, at.Hash, n.db.tampered && w.fault != conflicts)
		if op.Block.Round > 0 {
			e.Parts = op.Block.InQuestion().Hashes(apart)
		}
		n.db.open = &open{e.Key, e.Hash}
		n.computed = append(slices.Clip(n.computed), e.Hash)
	}
	w.step(n, e)
}

// adopt takes a block's hash from another organisation that holds the block, once it is certified
// (E8). It fails where the tables were tampered with.
func (w *world) adopt(n *node, op effects.Adopt, f effects.Failure) {
	e, at, k := effects.Adopted{Key: op.Block.Key(), Failure: f}, n.db.position(), int(op.Block.Number)
	_, certificate := w.at(n).stored(op.Block.Number)
	if certificate == nil || certificate.Hash != op.Certified {
		w.fail("E8: %s adopts block %d, whose certificate its store does not hold", name(n.i), k)
	}
	isHeld := slices.ContainsFunc(w.nodes, func(other *node) bool {
		return other != n && len(other.db.blocks) >= k && other.db.blocks[k-1] == op.Certified
	})
	switch {
	case f != effects.Fine:
	case op.Block.Number != at.Number+1 || op.Previous != at.Hash:
		e.Failure = effects.OutOfTurn
	case !isHeld:
		e.Failure = effects.NoHelp
	case n.db.tampered:
		e.Failure = effects.BeyondRepair
	default:
		e.Hash = op.Certified
		n.db.open = &open{e.Key, e.Hash}
	}
	w.step(n, e)
}

// isSlow tells whether a block does not end in its time: transaction 0 of every block, everywhere
// but in the first organisation.
func (w *world) isSlow(n *node, b *wire.OrderedBlock) bool {
	return w.fault == slow && n.i > 0 && !b.QuarantineAll && !slices.Contains(b.Quarantined, 0)
}

// effectsOf is what each transaction of a block does: every one changes a row that the next reads,
// if tampering did. An EFFECTS transaction does nothing where the row that it saw is another one.
func (w *world) effectsOf(b *wire.OrderedBlock, isTampered, isDifferent bool) (out []wire.Hash) {
	for i := range b.IDs {
		isOut := b.QuarantineAll || slices.Contains(b.Quarantined, uint32(i))
		saw, validates := w.chain.of.saw[b.IDs[i]]
		applied := !isOut && (!validates || saw == row(isTampered))
		reads := isTampered && w.fault != conflicts
		out = append(out, sha256.Sum256(fmt.Appendf(nil, "%d %x %v %v %v", i, b.IDs[i], applied, applied && reads, applied && isDifferent && i == 1)))
	}
	return out
}

// row is the hash of the row that EFFECTS transactions saw, in a database.
func row(isTampered bool) wire.Hash {
	if isTampered {
		return wire.Hash{2}
	}
	return wire.Hash{1}
}

func blockHash(b *wire.OrderedBlock, apart []wire.Hash, previous wire.Hash, isTampered bool) wire.Hash {
	return sha256.Sum256(fmt.Appendf(nil, "%d %x %v %v %x %x %v", b.Number, b.OrderHash, b.Quarantined, b.QuarantineAll, apart, previous, isTampered))
}

// commit checks E1 and E2 where they bind.
func (w *world) commit(n *node) {
	o := n.db.open
	if o == nil {
		w.fail("%s commits, nothing is open", name(n.i))
		return
	}
	b, certificate := w.at(n).stored(o.key.Number)
	if b == nil || b.OrderHash != o.key.OrderHash {
		w.fail("E2: %s commits block %d, which its store does not hold", name(n.i), o.key.Number)
	}
	if certificate == nil && 3*w.consent <= 2*w.n {
		w.fail("E1: %s commits block %d without a certificate, though c = %d of %d", name(n.i), o.key.Number, w.consent, w.n)
	}
	if n.db.open = nil; w.broken == "" {
		n.db.blocks = append(slices.Clip(n.db.blocks), o.hash)
	}
	w.compare()
}

// compare is the first property: no two organisations hold different effects of one block, nor
// others than certified.
func (w *world) compare() {
	for _, n := range w.nodes {
		for k, hash := range n.db.blocks {
			if _, c := w.chain.stored(uint64(k + 1)); c != nil && c.Hash != hash {
				w.fail("E1: %s holds other effects of block %d than certified", name(n.i), k+1)
			}
			for _, other := range w.nodes {
				if len(other.db.blocks) > k && other.db.blocks[k] != hash {
					w.fail("E1: %s and %s hold different effects of block %d", name(n.i), name(other.i), k+1)
				}
			}
		}
	}
}

// vote asks a core about the pending block and sees that it does not change its word, also after a
// crash (E5).
func (w *world) vote(n *node, b *wire.OrderedBlock) *wire.EffectVote {
	w.step(n, effects.Proposed{Block: b})
	v, _ := n.core.Vote(b.Key())
	if v == nil {
		return nil
	}
	if old, ok := n.voted[b.Key()]; ok && old != *v {
		w.fail("E5: %s votes twice for %v", name(n.i), b.Key())
	}
	n.voted[b.Key()] = *v
	if _, isStuck := v.StuckAt(); !isStuck && !slices.ContainsFunc(n.computed, func(hash wire.Hash) bool { return v.IsFor(name(n.i), hash) }) {
		w.fail("E8: %s votes for what it did not compute of block %d", name(n.i), b.Number)
	}
	return v
}

// lie is a vote of organisation 0, which lies. Variant 0 is what an honest one votes. Variants 1
// and 2 have another hash: 1 has other effects of all transactions, 2 of transaction 0 alone.
func (w *world) lie(b *wire.OrderedBlock, variant int) wire.EffectVote {
	apart := w.effectsOf(b, false, false)
	var previous wire.Hash
	if _, c := w.chain.stored(b.Number - 1); c != nil {
		previous = c.Hash
	}
	hash := blockHash(b, apart, previous, false)
	if variant > 0 {
		hash = wire.Hash{byte(variant)}
		for i := range apart {
			if variant == 1 || i == 0 {
				apart[i] = wire.Hash{byte(variant)}
			}
		}
	}
	v := wire.NewEffectsVote(b.Key(), name(0), hash)
	if b.Round > 0 {
		v.Parts = b.InQuestion().Hashes(apart)
	}
	return v
}

// proposal is what the next order block may hold.
type proposal struct {
	without  int // whose vote the proposer has not seen; n: it has seen all
	proposer int // whose core reveals the hash
	lie      int // what the liar votes
}

// decide makes the next order block and tells organisations other than 1 at once.
func (w *world) decide(p proposal) {
	var votes []*wire.ExtendedVote
	var known func(wire.Key) (wire.Hash, bool)
	if pending := w.chain.pending(); pending != nil {
		for i, n := range w.nodes {
			if i == p.without {
				continue
			}
			var v *wire.EffectVote
			if n.core == nil {
				told := w.lie(pending, p.lie)
				v = &told
			} else if n.seen == w.chain.length {
				v = w.vote(n, pending)
			}
			if v != nil {
				votes = append(votes, w.chain.of.sign(i, w.chain, *v))
			}
		}
		known = func(k wire.Key) (wire.Hash, bool) {
			if n := w.nodes[p.proposer]; n.core != nil {
				return n.core.Hash(k)
			}
			return wire.Hash{byte(p.lie)}, p.lie > 0
		}
	}
	next := w.chain.extend(votes, known, w.nowMS, w.ordered < w.blocks)
	if next.result.Ordered != nil {
		w.ordered++
	}
	w.chain = next
	w.compare()
}

// learn brings the next decision into a node's store and tells its core.
func (w *world) learn(n *node) {
	n.seen++
	if n.core == nil {
		return
	}
	at := w.at(n)
	w.step(n, effects.Decided{Height: at.decision.Height, Ordered: at.decision.Ordered, Certificate: at.decision.Certificate})
}

// send delivers a node's live vote to all that it has not reached yet, but to one that loses it.
func (w *world) send(n *node, b *wire.OrderedBlock, v wire.EffectVote, lost int) {
	for j, to := range w.nodes {
		if j == n.i || n.sent[b.Key()]>>j&1 == 1 {
			continue
		}
		n.sent[b.Key()] |= 1 << j
		if j != lost {
			w.deliver(to, w.chain.of.sign(n.i, w.chain, v))
		}
	}
}

// deliver gives a node a precommit's vote, which counts for what the order's state there says.
func (w *world) deliver(to *node, signed *wire.ExtendedVote) {
	if to.core == nil {
		return
	}
	if live := w.at(to).counts(signed); live != nil {
		w.step(to, effects.VoteSeen{Organisation: live.organisation, Vote: live.vote})
	}
}

// forge makes the last organisation send what the first one's tampered database would need to
// commit. That is votes for its hash in the names of all others, signed by the one key that the
// forger has.
func (w *world) forge(key wire.Key, hash wire.Hash) {
	for as := 1; as < w.n-1; as++ {
		w.deliver(w.nodes[0], w.chain.of.forged(as, w.n-1, w.chain, wire.NewEffectsVote(key, name(as), hash)))
	}
}

// sendAgain delivers the vote of the last organisation once more, under the address of another.
func (w *world) sendAgain(v wire.EffectVote, as int) {
	for _, to := range w.nodes[:w.n-1] {
		if to.i != as {
			w.deliver(to, w.chain.of.forged(as, w.n-1, w.chain, v))
		}
	}
}
