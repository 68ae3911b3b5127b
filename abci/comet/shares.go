package comet

import (
	"sync"

	"github.com/cometbft/cometbft/mempool"

	"github.com/chainify-db/chainify/abci/fair"
	"github.com/chainify-db/chainify/abci/wire"
)

// amount is how many transactions of CometBFT there are, of so many bytes.
type amount struct{ txs, bytes int }

func (a amount) and(tx []byte) amount { return amount{a.txs + 1, a.bytes + len(tx)} }

// shares counts what waits in a mempool by the organisation that it says it is of. CometBFT does
// not tell what leaves its mempool. So the sums show whether the counts hold: while they are the
// mempool's, nothing left it.
type shares struct {
	mu  sync.Mutex // guards all below; never taken with the mempool's held
	all amount
	of  map[string]amount
}

// added counts a transaction that the mempool took.
func (s *shares) added(tx []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(tx)
}

func (s *shares) add(tx []byte) {
	if s.of == nil {
		s.of = map[string]amount{}
	}
	owner := wire.PeekOwner(tx)
	s.all, s.of[owner] = s.all.and(tx), s.of[owner].and(tx)
}

// hasRoom reports whether a mempool has room for a transaction in the share of the organisation
// that it says it is of. It counts against nobody else, even if that is false. While less than half
// is used, everybody has room. Cost beyond that: a look at each that waits, once after a block.
func (s *shares) hasRoom(pool mempool.Mempool, tx []byte, txsMax int, bytesMax int64) bool {
	if 2*(pool.Size()+1) <= txsMax && 2*(pool.SizeBytes()+int64(len(tx))) <= bytesMax {
		return true
	}
	owner := wire.PeekOwner(tx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all != (amount{pool.Size(), int(pool.SizeBytes())}) {
		s.all, s.of = amount{}, nil
		for _, one := range pool.ReapMaxTxs(-1) {
			s.add(one)
		}
	}
	held := s.of[owner]
	return fair.Fits(txsMax, s.all.txs, held.txs, 1) && fair.Fits(int(bytesMax), s.all.bytes, held.bytes, len(tx))
}
