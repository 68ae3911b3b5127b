package node

import (
	"sync"

	"github.com/cometbft/cometbft/mempool"

	"github.com/chainify-db/chainify/abci/fair"
	"github.com/chainify-db/chainify/abci/wire"
)

// amount is how many transactions of CometBFT there are, of so many bytes.
type amount struct{ txs, bytes int }

func (a amount) and(tx []byte) amount { return amount{a.txs + 1, a.bytes + len(tx)} }

// owners counts what waits in a mempool by the organisation that it says it is of. CometBFT does
// not tell what leaves its mempool. So the sums show whether the counts hold: while they are the
// mempool's, nothing left it.
type owners struct {
	mu  sync.Mutex // guards all below; never taken with the mempool's held
	all amount
	of  map[string]amount
}

// added counts a transaction that the mempool took.
func (o *owners) added(tx []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(tx)
}

func (o *owners) add(tx []byte) {
	if o.of == nil {
		o.of = map[string]amount{}
	}
	owner := wire.PeekOwner(tx)
	o.all, o.of[owner] = o.all.and(tx), o.of[owner].and(tx)
}

// hasRoom reports whether a mempool has room for a transaction in the share of the organisation
// that it says it is of. It counts against nobody else, even if that is false. While less than half
// is used, everybody has room. Cost beyond that: a look at each that waits, once after a block.
func (o *owners) hasRoom(pool mempool.Mempool, tx []byte, txsMax int, bytesMax int64) bool {
	if 2*(pool.Size()+1) <= txsMax && 2*(pool.SizeBytes()+int64(len(tx))) <= bytesMax {
		return true
	}
	owner := wire.PeekOwner(tx)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all != (amount{pool.Size(), int(pool.SizeBytes())}) {
		o.all, o.of = amount{}, nil
		for _, one := range pool.ReapMaxTxs(-1) {
			o.add(one)
		}
	}
	held := o.of[owner]
	return fair.Fits(txsMax, o.all.txs, held.txs, 1) && fair.Fits(int(bytesMax), o.all.bytes, held.bytes, len(tx))
}
