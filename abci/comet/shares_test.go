package comet

import (
	"testing"

	"github.com/cometbft/cometbft/mempool"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app/order/ordertest"
)

// filled is a mempool of which only what it holds matters.
type filled struct {
	mempool.Mempool
	txs    types.Txs
	bytes  int64
	shares shares
	looks  int // at all of it
}

func (f *filled) Size() int        { return len(f.txs) }
func (f *filled) SizeBytes() int64 { return f.bytes }

func (f *filled) ReapMaxTxs(int) types.Txs {
	f.looks++
	return f.txs
}

// fill adds bundles of an organisation as long as it has room, and returns how many.
func (f *filled) fill(c *ordertest.Consortium, i, txsMax int, bytesMax int64) (n int) {
	for ; n <= txsMax; n++ {
		raw := c.Bundle(i, c.Proposal(i, uint64(n), 100))
		if !f.shares.hasRoom(f, raw, txsMax, bytesMax) {
			return n
		}
		f.txs, f.bytes = append(f.txs, raw), f.bytes+int64(len(raw))
		f.shares.added(raw)
	}
	return n
}

// One organisation that sends without end leaves room in the mempool for each of the others,
// counted and in bytes.
func TestAGreedyOrganisationLeavesOthersRoomInTheMempool(t *testing.T) {
	c := ordertest.New(4, 0)
	size := int64(len(c.Bundle(0, c.Proposal(0, 1, 100))))
	for name, bound := range map[string]struct {
		txs   int
		bytes int64
	}{
		"bundles": {120, 1 << 30},
		"bytes":   {1 << 20, 120 * size},
	} {
		f := &filled{}
		for i, want := range []int{60, 30, 15, 7} {
			if n := f.fill(c, i, bound.txs, bound.bytes); n < want-4 || n > want+4 {
				t.Errorf("%s: organisation %d has %d places of 120, want about %d", name, i, n, want)
			}
		}
		if f.fill(c, 0, bound.txs, bound.bytes) > 1 {
			t.Errorf("%s: the first one has more than its share", name)
		}
	}
}

// A mempool is looked at once after a block that took something from it, however much is offered:
// what has no room, and is not verified, costs nothing else.
func TestTheMempoolIsCountedOnceAfterABlock(t *testing.T) {
	c := ordertest.New(2, 0)
	const txsMax, bytesMax = 120, 1 << 30
	f := &filled{}
	f.fill(c, 0, txsMax, bytesMax)
	junk := c.Bundle(0, c.Proposal(0, 1<<20, 100))
	offered := func(want int) {
		t.Helper()
		f.looks = 0
		for range 1_000 {
			if f.shares.hasRoom(f, junk, txsMax, bytesMax) {
				t.Fatal("there is room in a full share")
			}
		}
		if f.looks != want {
			t.Errorf("it is looked at %d times, want %d", f.looks, want)
		}
	}
	offered(0)                       // nothing left it
	for _, took := range f.txs[:2] { // by a block
		f.bytes -= int64(len(took))
	}
	f.txs = f.txs[2:]
	if n := f.fill(c, 0, txsMax, bytesMax); n != 2 {
		t.Errorf("a block made room for 2, there is room for %d", n)
	}
	offered(0)
	if n := f.fill(c, 1, txsMax, bytesMax); n < 20 {
		t.Errorf("the other organisation has %d places", n)
	}
	f.shares.added(junk) // the mempool had it already
	offered(1)
}
