package gateway

import (
	"slices"
	"sync"

	"github.com/chainify-db/chainify/abci/wire"
)

// signatures verifies those of clients that submit at the same time together: while one batch is verified the next one gathers.
type signatures struct {
	chainID string
	turn    sync.Mutex // who verifies

	mu   sync.Mutex
	next *gathering // nil: nobody waits
}

// gathering is a batch; right is written before done is closed.
type gathering struct {
	txs   []wire.BundledTx
	right []bool
	done  chan struct{}
}

// verify reports whether the client of a transaction signed it.
func (s *signatures) verify(tx wire.BundledTx) bool {
	s.mu.Lock()
	first := s.next == nil
	if first {
		s.next = &gathering{done: make(chan struct{})}
	}
	g, i := s.next, len(s.next.txs)
	g.txs = append(g.txs, tx)
	s.mu.Unlock()
	if first {
		s.lead(g)
	}
	<-g.done
	return g.right[i]
}

// lead waits for the batch before, and verifies what gathered meanwhile.
func (s *signatures) lead(g *gathering) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	s.next = nil
	s.mu.Unlock()
	g.right = slices.Repeat([]bool{wire.VerifyProposals(s.chainID, g.txs)}, len(g.txs))
	if !g.right[0] {
		for i := range g.txs {
			g.right[i] = wire.VerifyProposals(s.chainID, g.txs[i:i+1])
		}
	}
	close(g.done)
}
