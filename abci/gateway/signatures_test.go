package gateway

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// Each client hears about its own signature, whoever's was verified with it.
func TestSignaturesVerifiedTogetherAreJudgedAlone(t *testing.T) {
	s := &signatures{chainID: "test", patience: func() time.Duration { return 0 }}
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
	const each = 3
	for i := 0; i < len(txs); i += each {
		wait.Go(func() {
			if got, want := s.verify(txs[i:i+each]), i%7 != 0 && (i+1)%7 != 0 && (i+2)%7 != 0; got != want {
				t.Errorf("signatures from %d on: %t", i, got)
			}
		})
	}
	eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.next != nil && s.next.transactions == len(txs)
	})
	s.turn.Unlock()
	wait.Wait()
}

// While there is patience, a batch waits for whoever comes within a pause of the last, and for
// nobody else.
func TestSignaturesGatherWhileThereIsPatience(t *testing.T) {
	tx, err := wire.DecodeSignedProposal(signed(clerkKey, func(*wire.Proposal) {}))
	must.Do(t, err)
	const between = signaturesPause * 3 / 4
	for patience, want := range map[time.Duration][3]time.Duration{
		0:                       {0, between, 2 * between}, // each alone
		time.Hour:               {3 * signaturesPause, 3 * signaturesPause, 3 * signaturesPause},
		signaturesPause * 3 / 2: {2 * signaturesPause, 2 * signaturesPause, 2 * signaturesPause},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &signatures{chainID: "test", patience: func() time.Duration { return patience }}
			started := time.Now()
			var took [3]time.Duration
			var wait sync.WaitGroup
			for i := range took {
				wait.Go(func() {
					time.Sleep(time.Duration(i) * between)
					if !s.verify([]wire.BundledTx{tx}) {
						t.Error("a right signature is wrong")
					}
					took[i] = time.Since(started)
				})
			}
			wait.Wait()
			if took != want {
				t.Errorf("with patience of %s verified after %s, want %s", patience, took, want)
			}
		})
	}
}
