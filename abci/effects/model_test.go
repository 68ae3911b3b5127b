package effects

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// A world is a small consortium for exploring: an order that cannot fork, cores, and model
// databases whose hash is a function of the blocks executed and of what tampering left behind.
// Messages get lost, nodes and databases crash, COMMITs end with unknown outcome. Everything is
// chosen from outside, move by move.
type world struct {
	orgs    []string
	consent int
	nowMS   int64
	nodes   []*modelNode
	order   modelOrder

	crashes, losses, tampers, stalls int // faults left to happen
	// given is every vote that any core gave, before its crashes too.
	given     map[wire.Key]map[string][]wire.EffectVote
	takenOver int  // nodes that took a lost one's place
	late      bool // c organisations have voted for longer than a round lasts
	blameless bool // nothing was tampered with and nothing got stuck
	broken    string
}

// modelOrder is what CometBFT and the application agree on (spec/effect-consensus.md, "The tally").
type modelOrder struct {
	blocksMax  uint64
	decisions  []wire.Decision // one per order block
	blocks     map[uint64]*wire.OrderedBlock
	certs      map[uint64]*wire.Certificate
	pending    *wire.OrderedBlock
	onChain    map[string]wire.EffectVote
	last       uint64
	proposals  int
	candidates []candidate
}

// candidate is a proposal for the next order block.
type candidate struct {
	block *wire.OrderedBlock
	cert  *wire.Certificate
	votes map[string]wire.EffectVote
}

type modelNode struct {
	org  string
	core *Core
	db   modelDB
	seen int // decisions its block store holds
	op   Action
	// voted is every vote this organisation gave, to see that none changes, also over a crash (E5).
	voted map[wire.Key]wire.EffectVote
	// computed are the hashes that executing each block gave: it votes for no other (E8).
	computed map[uint64][]wire.Hash
	// silentSince is one more than the decisions that there were when this node took the place of a
	// lost one, whose votes nobody knows; 0: it knows its votes.
	silentSince int
	unknown     Unknown
	// owed are the blocks whose COMMIT this core asked for and whose clients wait (E6).
	owed map[uint64]bool
}

type modelDB struct {
	hashes    []wire.Hash // of committed blocks; hashes[0] is that of block 1
	certified uint64
	open      *opened
	tampered  string // what deviates, "" when nothing does
	hopeless  bool   // checkpoint and history are tampered with as well
	stuck     bool   // the next execution does not end
	differs   bool   // executes every block otherwise, for good
	anewUntil uint64 // blocks are executed again from the first until this one
}

func newWorld(n, consent int, blocks uint64) *world {
	w := &world{consent: consent, nowMS: 1, blameless: true, given: map[wire.Key]map[string][]wire.EffectVote{}}
	w.order = modelOrder{
		blocksMax: blocks, blocks: map[uint64]*wire.OrderedBlock{}, certs: map[uint64]*wire.Certificate{},
		onChain: map[string]wire.EffectVote{},
	}
	for i := range n {
		w.orgs = append(w.orgs, string(rune('a'+i)))
	}
	for _, org := range w.orgs {
		w.nodes = append(w.nodes, &modelNode{org: org, computed: map[uint64][]wire.Hash{}})
	}
	for _, node := range w.nodes {
		w.startNode(node)
	}
	return w
}

func (w *world) startNode(n *modelNode) {
	core, err := NewCore(Config{Organisation: n.org})
	if err != nil {
		panic(err)
	}
	n.core, n.op, n.db.open = core, nil, nil
	n.owed = map[uint64]bool{}
	if n.voted == nil {
		n.voted = map[wire.Key]wire.EffectVote{}
	}
	ordered, certified := w.tips(n)
	logged := slices.SortedFunc(maps.Values(n.voted), func(a, b wire.EffectVote) int { return bytes.Compare(a.Encode(), b.Encode()) })
	logged = slices.DeleteFunc(logged, func(v wire.EffectVote) bool { return n.unknown.Holds(v.Key()) })
	w.step(n, Started{Ordered: ordered, Certified: certified, Voted: logged})
	if n.unknown != (Unknown{}) {
		w.step(n, VotesUnknown{Unknown: n.unknown, Voted: w.ownOnChain(n)})
	}
}

// takeOver starts a node in the place of a lost one. Nothing tells how that one voted.
func (w *world) takeOver(n *modelNode) {
	w.takenOver++
	n.silentSince, n.unknown = 1+len(w.order.decisions), Everything()
	w.startNode(n)
}

// speaks ends the silence of a node that took over and has learned a later decision. The lost node
// voted on what was ordered before.
func (w *world) speaks(n *modelNode) {
	if n.silentSince == 0 || n.seen < len(w.order.decisions) || n.seen < n.silentSince {
		return
	}
	n.silentSince, n.unknown = 0, UpTo(w.order.last)
	if p := w.order.pending; p != nil {
		n.unknown = Unknown{p.Number, p.Round}
	}
	w.step(n, VotesUnknown{Unknown: n.unknown, Voted: w.ownOnChain(n)})
}

// ownOnChain is the node's vote on what is pending, where the order as this node knows it shows it.
func (w *world) ownOnChain(n *modelNode) []wire.EffectVote {
	v, given := w.order.onChain[n.org]
	if !given || n.seen < len(w.order.decisions) {
		return nil
	}
	return []wire.EffectVote{v}
}

// tips is what the node's own stores hold.
func (w *world) tips(n *modelNode) (ordered, certified uint64) {
	for _, d := range w.order.decisions[:n.seen] {
		if d.Certificate != nil {
			certified = d.Certificate.Number
		}
		if d.Ordered != nil {
			ordered = d.Ordered.Number
		}
	}
	return ordered, certified
}

// stored is block k in its last round, as the node's own stores hold it.
func (w *world) stored(n *modelNode, k uint64) (b *wire.OrderedBlock, c *wire.Certificate) {
	for _, d := range w.order.decisions[:n.seen] {
		if d.Ordered != nil && d.Ordered.Number == k {
			b = d.Ordered
		}
		if d.Certificate != nil && d.Certificate.Number == k {
			c = d.Certificate
		}
	}
	return b, c
}

func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// step gives a core an event and takes over what it asks for.
func (w *world) step(n *modelNode, e Event) {
	for _, a := range n.core.Step(w.nowMS, e) {
		switch a := a.(type) {
		case Report:
			if a.What == Deviation && w.blameless {
				w.fail("%s sees a deviation at block %d, there is none", n.org, a.Number)
			}
		case Answer:
			delete(n.owed, a.Block.Number)
			if k := a.Block.Number; uint64(len(n.db.hashes)) < k {
				w.fail("E6: %s answers block %d, its database has %d", n.org, k, len(n.db.hashes))
			}
		case Cancel:
			if x, ok := n.op.(Execute); !ok || x.Block.Key() != a.Key {
				w.fail("%s cancels %v, under way is %T", n.org, a.Key, n.op)
				continue
			}
			n.op = nil
			w.step(n, Executed{Key: a.Key, Failure: Cancelled})
		default:
			if n.op != nil {
				w.fail("E4: %s starts %T while %T is under way", n.org, a, n.op)
			}
			n.op = a
		}
	}
}

// finish ends the operation under way; broken: the database fails it, after having done it or not.
func (w *world) finish(n *modelNode, fails, done bool) {
	op := n.op
	n.op = nil
	f := Fine
	if fails {
		f = Unavailable
		if _, fetch := op.(FetchOrdered); !fetch {
			defer func() { n.db.open = nil }()
		}
	}
	switch op := op.(type) {
	case ReadPosition:
		w.step(n, DatabaseAt{Position: n.db.position(), Failure: f})
	case FetchOrdered:
		b, c := w.stored(n, op.Number)
		w.step(n, Fetched{Number: op.Number, Block: b, Certificate: c, Failure: f})
	case Execute:
		w.execute(n, op, f)
	case Commit:
		if !fails || done {
			w.commit(n)
		}
		n.db.open = nil
		w.step(n, Committed{Failure: f})
	case Rollback:
		n.db.open = nil
		w.step(n, RolledBack{Failure: f})
	case Repair:
		w.step(n, w.repair(n, op, f))
	case Adopt:
		w.step(n, w.adopt(n, op, f))
	case StoreCertificate:
		w.storeCertificate(n, op, f)
	case RecordDeviation:
		if f == Fine && op.CuredBy == curedBy[backend.Full] {
			n.db.anewUntil = 0
		}
		w.step(n, DeviationRecorded{Failure: f})
	}
}

func (db *modelDB) position() backend.Position {
	p := backend.Position{Number: uint64(len(db.hashes)), Certified: db.certified, AnewUntil: db.anewUntil}
	if p.Number > 0 {
		p.Hash = db.hashes[p.Number-1]
	}
	return p
}

func (w *world) execute(n *modelNode, op Execute, f Failure) {
	key, at := op.Block.Key(), n.db.position()
	if f != Fine {
		w.step(n, Executed{Key: key, Failure: f})
		return
	}
	if op.Block.Number != at.Number+1 || op.Previous != at.Hash {
		w.step(n, Executed{Key: key, Failure: OutOfTurn})
		return
	}
	if n.db.stuck && !op.Block.QuarantineAll {
		n.db.stuck = false
		w.step(n, Executed{Key: key, Failure: Stuck})
		return
	}
	apart := n.db.tampered
	if n.db.differs && !op.Block.QuarantineAll {
		apart += " differs"
	}
	hash := effectsOf(op.Block, at.Hash, apart)
	n.computed[key.Number] = append(n.computed[key.Number], hash)
	n.db.open = &opened{key: key, hash: hash}
	w.step(n, Executed{Key: key, Hash: hash})
	w.record(n, key)
}

func effectsOf(b *wire.OrderedBlock, previous wire.Hash, tampered string) wire.Hash {
	return sha256.Sum256(fmt.Appendf(nil, "%d %x %v %x %s", b.Number, b.OrderHash, b.QuarantineAll, previous, tampered))
}

// commit checks E1 and E2 at the place where they bind.
func (w *world) commit(n *modelNode) {
	o := n.db.open
	if o == nil {
		w.fail("%s commits, nothing is open", n.org)
		return
	}
	k := o.key.Number
	b, cert := w.stored(n, k)
	if b == nil || b.OrderHash != o.key.OrderHash {
		w.fail("E2: %s commits block %d, which its store does not hold", n.org, k)
		return
	}
	if cert == nil {
		votes := 0
		for org, given := range w.given[o.key] {
			if slices.ContainsFunc(given, func(v wire.EffectVote) bool { return v.IsFor(org, o.hash) }) {
				votes++
			}
		}
		if 3*w.consent <= 2*len(w.orgs) || votes < w.consent {
			w.fail("E1: %s commits block %d with %d live votes and no certificate", n.org, k, votes)
		}
	} else if cert.Hash != o.hash {
		w.fail("E1: %s commits block %d with other effects than certified", n.org, k)
	}
	n.owed[k] = true
	n.db.hashes = append(n.db.hashes, o.hash)
	for _, other := range w.nodes {
		if len(other.db.hashes) >= int(k) && other.db.hashes[k-1] != o.hash && 2*w.consent > len(w.orgs) {
			w.fail("E1: %s and %s committed different effects of block %d", n.org, other.org, k)
		}
	}
}

func (w *world) repair(n *modelNode, op Repair, f Failure) Event {
	at := n.db.position()
	switch {
	case f != Fine:
		return Repaired{Failure: f}
	case at.Number != op.Number || at.Hash != op.Certified:
		w.fail("%s repairs at block %d (%x), database is at %d (%x)", n.org, op.Number, op.Certified[:4], at.Number, at.Hash[:4])
	case op.Step.InPart():
		return Repaired{}
	case n.db.hopeless && op.Step == backend.State:
		return Repaired{Failure: NoHelp} // a further time, too, until attempts run out
	case op.Step == backend.Full && n.db.anewUntil == 0:
		n.db = modelDB{anewUntil: op.Deviating, stuck: n.db.stuck, differs: n.db.differs}
		return Repaired{}
	case n.db.hopeless:
		return Repaired{Failure: BeyondRepair}
	}
	rows := len(n.db.tampered)
	n.db.tampered = ""
	return Repaired{Rows: rows}
}

// adopt takes a certified block from another organisation that holds it. Damage by
// tampering shows in the running states.
func (w *world) adopt(n *modelNode, op Adopt, f Failure) Event {
	e := Adopted{Key: op.Block.Key(), Failure: f}
	at, k := n.db.position(), op.Block.Number
	held := func(other *modelNode) bool {
		return other != n && uint64(len(other.db.hashes)) >= k && other.db.hashes[k-1] == op.Certified
	}
	_, cert := w.stored(n, k)
	switch {
	case f != Fine:
	case cert == nil || cert.Hash != op.Certified:
		w.fail("E8: %s adopts block %d, whose certificate its store does not hold", n.org, k)
	case k != at.Number+1 || op.Previous != at.Hash:
		e.Failure = OutOfTurn
	case !slices.ContainsFunc(w.nodes, held):
		e.Failure = NoHelp
	case n.db.tampered != "":
		e.Failure, e.Why = BeyondRepair, "tampered with"
	default:
		e.Hash = op.Certified
		n.db.open = &opened{key: e.Key, hash: e.Hash}
	}
	return e
}

func (w *world) storeCertificate(n *modelNode, op StoreCertificate, f Failure) {
	if f == Fine {
		k := op.Certificate.Number
		if uint64(len(n.db.hashes)) < k || n.db.certified+1 != k {
			w.fail("%s stores certificate %d, database has block %d and certificate %d", n.org, k, len(n.db.hashes), n.db.certified)
		} else if n.db.hashes[k-1] != op.Certificate.Hash {
			f = BeyondRepair
		} else {
			n.db.certified = k
		}
	}
	w.step(n, CertificateStored{Failure: f})
}

// vote asks a core for its vote.
func (w *world) vote(n *modelNode, b *wire.OrderedBlock) *wire.EffectVote {
	w.step(n, Proposed{Block: b})
	return w.record(n, b.Key())
}

// record remembers what a core says about an execution: it must not change (E5).
func (w *world) record(n *modelNode, k wire.Key) *wire.EffectVote {
	v, _ := n.core.Vote(k)
	if v == nil {
		return nil
	}
	if old, ok := n.voted[k]; ok && old != *v {
		w.fail("E5: %s votes twice for %v", n.org, k)
	}
	n.voted[k] = *v
	if _, stuck := v.StuckAt(); !stuck && !slices.ContainsFunc(n.computed[k.Number], func(h wire.Hash) bool { return v.IsFor(n.org, h) }) {
		w.fail("E8: %s votes for what it did not compute of block %d", n.org, k.Number)
	}
	if w.given[k] == nil {
		w.given[k] = map[string][]wire.EffectVote{}
	}
	w.given[k][n.org] = append(w.given[k][n.org], *v)
	return v
}

// propose makes a proposal from the votes that the proposer saw, and shows it to those nodes it
// reaches.
func (w *world) propose(votes, reaches func(i int) bool) {
	o := &w.order
	c := candidate{votes: map[string]wire.EffectVote{}}
	stays := o.pending != nil
	if p := o.pending; p != nil {
		all := map[string]wire.EffectVote{}
		for i, n := range w.nodes {
			if v, ok := o.onChain[n.org]; ok {
				all[n.org] = v
			} else if votes(i) {
				if v := w.vote(n, p); v != nil {
					all[n.org], c.votes[n.org] = *v, *v
				}
			}
		}
		for _, n := range w.nodes {
			hash, ok := n.core.Hash(p.Key())
			if ok && w.agreeing(all, hash) >= w.consent {
				c.cert = &wire.Certificate{Number: p.Number, Round: p.Round, Hash: hash}
				stays = false
				break
			}
		}
	}
	if !stays && o.last < o.blocksMax {
		o.proposals++
		c.block = &wire.OrderedBlock{Organisations: len(w.orgs), Consent: w.consent, Number: o.last + 1, Height: int64(len(o.decisions) + 1)}
		binary.BigEndian.PutUint64(c.block.OrderHash[:], uint64(o.proposals))
	}
	o.candidates = append(o.candidates, c)
	for i, n := range w.nodes {
		if reaches(i) && n.seen == len(o.decisions) { // a node behind does not take part in this height
			w.step(n, Proposed{Block: c.block, Certificate: c.cert})
		}
	}
}

func (w *world) agreeing(votes map[string]wire.EffectVote, hash wire.Hash) (n int) {
	for org, v := range votes {
		if v.IsFor(org, hash) {
			n++
		}
	}
	return n
}

// decide appends one of the candidates to the order.
func (w *world) decide(i int) {
	o := &w.order
	c := o.candidates[i]
	o.candidates = nil
	d := wire.Decision{Height: int64(len(o.decisions) + 1)}
	for org, v := range c.votes {
		o.onChain[org] = v
	}
	if c.cert != nil {
		d.Certificate = c.cert
		o.certs[c.cert.Number], o.pending, o.onChain = c.cert, nil, map[string]wire.EffectVote{}
	}
	if p := o.pending; p != nil && (w.split(p) || w.late && len(o.onChain) >= w.consent) {
		next := *p
		next.Round++
		next.QuarantineAll = p.QuarantineAll || !w.late && next.Round > 3
		d.Ordered, o.onChain = &next, map[string]wire.EffectVote{}
	}
	if c.block != nil {
		d.Ordered, o.last = c.block, c.block.Number
	}
	if d.Ordered != nil {
		o.pending, o.blocks[d.Ordered.Number] = d.Ordered, d.Ordered
	}
	o.decisions = append(o.decisions, d)
}

// split: no hash can reach consent any more.
func (w *world) split(p *wire.OrderedBlock) bool {
	silent := len(w.orgs) - len(w.order.onChain)
	best := 0
	for _, n := range w.nodes {
		if hash, ok := n.core.Hash(p.Key()); ok {
			best = max(best, w.agreeing(w.order.onChain, hash))
		}
	}
	return best+silent < w.consent
}

// learn brings the next decision into a node's store and tells its core.
func (w *world) learn(n *modelNode) {
	d := w.order.decisions[n.seen]
	n.seen++
	w.step(n, Decided{Height: d.Height, Ordered: d.Ordered, Certificate: d.Certificate})
}

// current is what live votes are about: the pending block and those proposed.
func (w *world) current() (blocks []*wire.OrderedBlock) {
	if w.order.pending != nil {
		blocks = append(blocks, w.order.pending)
	}
	for _, c := range w.order.candidates {
		if c.block != nil && !slices.Contains(blocks, c.block) {
			blocks = append(blocks, c.block)
		}
	}
	return blocks
}
