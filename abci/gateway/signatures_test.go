package gateway

import (
	"sync"
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
)

// Each client hears about its own signature, whoever's was verified with it.
func TestSignaturesVerifiedTogetherAreJudgedAlone(t *testing.T) {
	s := &signatures{chainID: "test"}
	txs := make([]wire.BundledTx, 60)
	for i := range txs {
		proposal := signed(clerkKey, func(p *wire.Proposal) { p.Nonce = uint64(i) })
		if i%7 == 0 {
			proposal.Signature[40] ^= 1
		}
		var err error
		if txs[i], err = wire.DecodeSignedProposal(proposal); err != nil {
			t.Fatal(err)
		}
	}
	s.turn.Lock() // so that they gather
	var wait sync.WaitGroup
	for i, tx := range txs {
		wait.Go(func() {
			if got := s.verify(tx); got != (i%7 != 0) {
				t.Errorf("signature %d: %t", i, got)
			}
		})
	}
	eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.next != nil && len(s.next.txs) == len(txs)
	})
	s.turn.Unlock()
	wait.Wait()
}
