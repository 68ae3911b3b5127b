package gateway

import (
	"slices"
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

const (
	// Submissions beside the first of a batch are there after this pause, unless nobody made any.
	signaturesPause = 200 * time.Microsecond
	// Of more transactions, verified together, none gets cheaper.
	signaturesMax = 64
)

// signatures verifies together those of clients that submit at the same time. While it verifies one
// batch, the next one gathers. While there is patience, that one waits for clients that come one
// upon the other.
type signatures struct {
	chainID  string
	patience func() time.Duration // how long a transaction may wait for others now
	turn     sync.Mutex           // who verifies

	mu   sync.Mutex
	next *gathering // nil: nobody waits
}

// gathering is a batch; right, of each submission, is written before done is closed.
type gathering struct {
	submissions  [][]wire.BundledTx
	transactions int
	right        []bool
	done         chan struct{}
}

// verify reports whether the client of transactions submitted together signed all of them.
func (s *signatures) verify(txs []wire.BundledTx) bool {
	s.mu.Lock()
	first := s.next == nil
	if first {
		s.next = &gathering{done: make(chan struct{})}
	}
	g, i := s.next, len(s.next.submissions)
	g.submissions = append(g.submissions, txs)
	g.transactions += len(txs)
	s.mu.Unlock()
	if first {
		s.lead(g)
	}
	<-g.done
	return g.right[i]
}

// close ends a batch: when nobody came during the last pause, or when it is full, or patience ends.
func (s *signatures) close(g *gathering) {
	patience, started := s.patience(), time.Now()
	for had := 0; ; time.Sleep(signaturesPause) {
		s.mu.Lock()
		has := len(g.submissions)
		closed := has == had || g.transactions >= signaturesMax || time.Since(started) >= patience
		if closed {
			s.next = nil
		}
		s.mu.Unlock()
		if closed {
			return
		}
		had = has
	}
}

// lead waits for the batch before, and verifies what gathered meanwhile.
func (s *signatures) lead(g *gathering) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.close(g)
	all := wire.VerifyProposals(s.chainID, slices.Concat(g.submissions...))
	g.right = slices.Repeat([]bool{all}, len(g.submissions))
	if !all {
		for i, txs := range g.submissions {
			g.right[i] = wire.VerifyProposals(s.chainID, txs)
		}
	}
	close(g.done)
}
