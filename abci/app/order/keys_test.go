package order_test

import (
	"encoding/binary"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// rowsSeen is a write set that saw these rows, which are ascending.
func rowsSeen(rows ...byte) []byte {
	set := &wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{"public.t"}}
	for _, row := range rows {
		key := binary.BigEndian.AppendUint64([]byte{0, 1, 0, 1, 2, 0, 0, 0, 8}, uint64(row))
		set.Seen = append(set.Seen, wire.RowSeen{Key: key})
	}
	return set.Encode()
}

// naming is a mempool of bundles with EFFECTS transactions, and the rows that each names.
type naming struct {
	*testing.T
	consortium *ordertest.Consortium
	registry   *order.Registry
	state      *order.State
	max        int
	rows       map[wire.TxID][]byte
	nonce      uint64
}

func newNaming(t *testing.T, most int) *naming {
	n := &naming{T: t, consortium: ordertest.New(2, 0), max: most, rows: map[wire.TxID][]byte{}}
	n.consortium.Genesis.Parameters.BlockKeysMax = most
	n.registry = n.consortium.Registry(t)
	n.state = n.registry.Genesis(1)
	return n
}

// namingBundle is a bundle with the ids of its transactions.
type namingBundle struct {
	tx  order.Tx
	ids []wire.TxID
}

// bundle has a transaction for each list of rows; an empty one is a statement.
func (n *naming) bundle(organisation int, rows ...[]byte) (b namingBundle) {
	var proposals []*wire.Proposal
	for _, named := range rows {
		n.nonce++
		p := n.consortium.Proposal(organisation, n.nonce, 1000)
		if len(named) > 0 {
			p.Kind, p.Sql, p.Effects = wire.Kind_KIND_EFFECTS, "", rowsSeen(named...)
		}
		id := wire.TxIDOf(wire.Encode(p))
		n.rows[id] = named
		b.ids, proposals = append(b.ids, id), append(proposals, p)
	}
	b.tx = opened(n.T, n.registry, n.consortium.Bundle(organisation, proposals...))
	return b
}

// distinct is how many rows transactions name.
func (n *naming) distinct(ids []wire.TxID) int {
	rows := map[byte]bool{}
	for _, id := range ids {
		for _, row := range n.rows[id] {
			rows[row] = true
		}
	}
	return len(rows)
}

// apply orders bundles on the genesis, and returns what is accepted and what is cut.
func (n *naming) apply(bundles ...namingBundle) (accepted, cut []wire.TxID, err error) {
	b := order.Block{Height: 1}
	for _, one := range bundles {
		b.Txs = append(b.Txs, one.tx)
	}
	_, result, err := n.state.Apply(b)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range result.Refused {
		if r.SQLState != "53400" {
			n.Fatalf("refused with %+v", r)
		}
		cut = append(cut, r.ID)
	}
	return result.Ordered.IDs, cut, nil
}

// TestRowsOfABlock plays random mempools under random limits (A11). A block names no more rows
// than the limit, or those of its first EFFECTS transaction. A bundle that keeps to the limit
// waits for a later block and is never cut. A statement never waits.
func TestRowsOfABlock(t *testing.T) {
	random := seeded.Random(t)
	waited, cutAt, alone := 0, 0, 0
	for range 300 {
		n := newNaming(t, random.IntN(6))
		shares := n.registry.Shares()
		var taken []namingBundle
		var carried []wire.TxID
		small := map[wire.TxID]bool{}
		for range 1 + random.IntN(6) {
			rows := make([][]byte, 1+random.IntN(3))
			for i := range rows {
				for row := range byte(8) {
					if random.IntN(4) == 0 {
						rows[i] = append(rows[i], row)
					}
				}
			}
			b := n.bundle(random.IntN(2), rows...)
			for _, id := range b.ids {
				small[id] = n.max == 0 || n.distinct(b.ids) <= n.max
			}
			with, before := n.distinct(append(carried[:len(carried):len(carried)], b.ids...)), n.distinct(carried)
			fits := n.max == 0 || before == 0 || n.distinct(b.ids) == 0 || with <= n.max
			if err := shares.Take(b.tx.Bundle()); (err == nil) != fits {
				t.Fatalf("limit %d: the block names %d rows, %d with the bundle: %v", n.max, before, with, err)
			}
			if fits {
				taken, carried = append(taken, b), append(carried, b.ids...)
				continue
			}
			waited++
			if _, _, err := n.apply(append(taken[:len(taken):len(taken)], b)...); err == nil {
				t.Fatalf("limit %d: a further bundle is ordered", n.max)
			}
			if _, _, err := n.apply(b); err != nil {
				t.Fatalf("limit %d: a bundle alone is refused: %v", n.max, err)
			}
		}
		accepted, cut, err := n.apply(taken...)
		if err != nil {
			t.Fatalf("what a proposer takes is refused: %v", err)
		}
		if got := n.distinct(accepted); n.max > 0 && got > n.max {
			alone++
			if first := firstNaming(n, accepted); got > len(n.rows[first]) {
				t.Fatalf("a block names %d rows, its limit is %d", got, n.max)
			}
		}
		for _, id := range cut {
			if cutAt++; small[id] {
				t.Fatalf("limit %d: a transaction is cut from a bundle that keeps to it", n.max)
			}
		}
	}
	if waited == 0 || cutAt == 0 || alone == 0 {
		t.Errorf("%d times a bundle waited, %d transactions cut, %d too large alone: the test tries nothing", waited, cutAt, alone)
	}
}

func firstNaming(n *naming, ids []wire.TxID) wire.TxID {
	for _, id := range ids {
		if len(n.rows[id]) > 0 {
			return id
		}
	}
	return wire.TxID{}
}
