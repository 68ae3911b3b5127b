package archive

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// checker compares the rows of a range with the headers of its blocks, which certificates cover.
// Memory is that of the headers, and of the leaves of one block.
type checker struct {
	*findings
	authorities audit.Authorities
	first       uint64
	previous    wire.Hash // of the block before the first
	blocks      []*Block  // without votes, once these are checked
	seals       seals
}

// seals remember blocks whose certificate holds, by all that this depends on but for whose votes
// count. Signatures take most of the time of a check, and Archiver.Step checks certificates twice.
// Nil remembers nothing.
type seals map[[sha256.Size]byte]struct{}

func (s seals) have(b *Block) bool {
	if len(s) == 0 {
		return false
	}
	_, is := s[b.seal()]
	return is
}

// block takes the next block of the range.
func (c *checker) block(b *Block) {
	number := c.first + uint64(len(c.blocks))
	previous := c.previous
	if n := len(c.blocks); n > 0 {
		previous = c.blocks[n-1].Hash
	}
	if b.Header.Number != number {
		c.add(number, "block", "block %d stands in its place", b.Header.Number)
	}
	if b.Header.Previous != previous {
		c.add(b.Header.Number, "previous hash", "it is %x, the block before has %x", b.Header.Previous, previous)
	}
	c.blocks = append(c.blocks, b)
}

// certificate checks header, hash and certificate of a block of the range, whose votes it has, and
// drops these.
func (c *checker) certificate(b *Block) {
	if !c.seals.have(b) {
		wrong := b.digest().Check(c.authorities.For(max(b.Header.Number, 1)))
		for _, f := range wrong {
			c.add(b.Header.Number, f.Field, "%s", f.Detail)
		}
		if len(wrong) == 0 && c.seals != nil {
			c.seals[b.seal()] = struct{}{}
		}
	}
	b.Votes = nil
}

// seal is a hash of header, hash and certificate.
func (b *Block) seal() (out [sha256.Size]byte) {
	h, header := sha256.New(), b.Header.Hash()
	var number [8]byte
	numbers := func(all ...uint64) {
		for _, n := range all {
			h.Write(binary.BigEndian.AppendUint64(number[:0], n))
		}
	}
	parts := func(all ...[]byte) {
		for _, part := range all {
			numbers(uint64(len(part)))
			h.Write(part)
		}
	}
	parts(header[:], b.Hash[:])
	numbers(uint64(b.EffectRound))
	for _, v := range b.Votes {
		parts([]byte(v.Organisation), v.Validator, v.Extension, v.Signature)
		numbers(uint64(v.Height), uint64(v.Round))
	}
	h.Sum(out[:0])
	return out
}

// sweep goes over the blocks of a range once, beside rows of them in their order.
type sweep struct {
	c    *checker
	at   int
	ends func(*Block) // called when all rows of a block were there
}

// to goes on to a block; nil when it is none of those left.
func (s *sweep) to(number uint64) *Block {
	for s.at < len(s.c.blocks) && s.c.blocks[s.at].Header.Number < number {
		s.next()
	}
	if s.at == len(s.c.blocks) || s.c.blocks[s.at].Header.Number != number {
		s.c.add(number, "row", "it is of no block of the range, or not in their order")
		return nil
	}
	return s.c.blocks[s.at]
}

func (s *sweep) next() {
	s.ends(s.c.blocks[s.at])
	s.at++
}

func (s *sweep) end() {
	for s.at < len(s.c.blocks) {
		s.next()
	}
}

// transactionCheck takes the transactions of a range, in their order.
type transactionCheck struct {
	sweep
	ids      []wire.TxID
	attached attachments // takes those that succeeded; nil: nobody asks
}

func newTransactionCheck(c *checker) *transactionCheck {
	t := &transactionCheck{}
	t.sweep = sweep{c: c, ends: t.blockEnds}
	return t
}

func (t *transactionCheck) add(tx *Transaction) {
	b := t.to(tx.Block)
	if b == nil {
		return
	}
	place := uint32(len(t.ids))
	if place >= b.Header.Outcomes.Len() {
		if place == b.Header.Outcomes.Len() {
			t.c.add(tx.Block, "transaction count", "there are more than the %d of the header", place)
			t.ids = append(t.ids, wire.TxID{})
		}
		return
	}
	decoded, err := wire.DecodeChainedTx(tx.Body)
	switch {
	case err != nil:
		t.c.add(tx.Block, "transaction body", "transaction %d: %v", tx.Index, err)
	case t.attached != nil && b.Header.Outcomes.Succeeded(place):
		t.attached.take(tx.Block, place, decoded.Proposal)
	}
	switch {
	case err != nil:
	case decoded.ID != tx.ID:
		t.c.add(tx.Block, "transaction id", "transaction %d: its bytes have id %x, kept is %x", tx.Index, decoded.ID, tx.ID)
	}
	if tx.Index != place {
		t.c.add(tx.Block, "transaction index", "%d follows %d others", tx.Index, place)
	}
	if certified := b.Header.Outcomes.Succeeded(place); certified != tx.Succeeded {
		t.c.add(tx.Block, "outcome", "transaction %d: kept is %t, the header says %t", tx.Index, tx.Succeeded, certified)
	}
	t.ids = append(t.ids, tx.ID)
}

func (t *transactionCheck) blockEnds(b *Block) {
	if want := int(b.Header.Outcomes.Len()); len(t.ids) < want {
		t.c.add(b.Header.Number, "transaction count", "the header counts %d, there are %d", want, len(t.ids))
	} else if len(t.ids) == want && wire.TxRoot(t.ids) != b.Header.TxRoot {
		t.c.add(b.Header.Number, "transaction root", "the transactions give %x, the header has %x", wire.TxRoot(t.ids), b.Header.TxRoot)
	}
	t.ids = t.ids[:0]
}

// changeCheck takes the changes of a range, in their order.
type changeCheck struct {
	sweep
	leaves []wire.Hash
	last   Change // of the same block
}

func newChangeCheck(c *checker) *changeCheck {
	t := &changeCheck{}
	t.sweep = sweep{c: c, ends: t.blockEnds}
	return t
}

func (t *changeCheck) add(c *Change) {
	b := t.to(c.Block)
	if b == nil {
		return
	}
	if n := uint32(len(t.leaves)); n >= b.Header.EffectsCount {
		if n == b.Header.EffectsCount {
			t.c.add(c.Block, "effects count", "there are more changes than the %d of the header", n)
			t.leaves = append(t.leaves, wire.Hash{})
		}
		return
	}
	if len(t.leaves) > 0 && !follows(c, &t.last) {
		t.c.add(c.Block, "order", "change %d of the block is not after the one before", len(t.leaves))
	}
	if c.Tx >= b.Header.Outcomes.Len() || !b.Header.Outcomes.Succeeded(c.Tx) {
		t.c.add(c.Block, "change", "change %d of the block is of transaction %d, which did not succeed", len(t.leaves), c.Tx)
	}
	t.leaves, t.last = append(t.leaves, c.leaf()), *c
}

// follows: changes of a block stand by table, key and serial.
func follows(c, before *Change) bool {
	order := cmp.Or(cmp.Compare(c.Table, before.Table), bytes.Compare(c.Key, before.Key))
	return order > 0 && c.Serial == 0 || order == 0 && c.Serial == before.Serial+1
}

func (c *Change) leaf() wire.Hash {
	leaf := canonical.Change{Table: c.Table, Key: c.Key, Serial: c.Serial, Tx: c.Tx, Op: c.Op, Hash: wire.RowHash(c.Table, c.Row)}
	return leaf.Leaf()
}

func (t *changeCheck) blockEnds(b *Block) {
	if want := int(b.Header.EffectsCount); len(t.leaves) < want {
		t.c.add(b.Header.Number, "effects count", "the header counts %d, there are %d", want, len(t.leaves))
	} else if len(t.leaves) == want {
		if root := wire.MerkleRoot(t.leaves); root != b.Header.EffectsRoot {
			t.c.add(b.Header.Number, "effects root", "the changes give %x, the header has %x", root, b.Header.EffectsRoot)
		}
	}
	t.leaves = t.leaves[:0]
}
