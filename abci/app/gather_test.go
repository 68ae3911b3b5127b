package app

import (
	"sync"
	"testing"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/propose"
	"github.com/chainify-db/chainify/abci/wire"
)

// pool is a mempool.
type pool struct {
	mu   sync.Mutex
	held [][]byte
}

func (p *pool) Reap(int64) [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// gathering is a chain on which a ledger block of two transactions is ordered and voted on, and can
// be certified by the next proposal. Of what came early, the application was told before this node
// voted.
func gathering(t *testing.T, gather time.Duration, early ...uint64) (*chain, *pool) {
	c, p := newChain(t, 4, 0), &pool{}
	c.app.opt.Mempool, c.app.opt.Gather = p, gather
	txs := c.prepare(c.consortium.Bundle(0, c.consortium.Proposal(0, 1, 100), c.consortium.Proposal(0, 2, 100)))
	if !c.process(txs...) {
		t.Fatal("own proposal refused")
	}
	for _, nonce := range early {
		p.take(c, nonce)
	}
	vote, err := wire.DecodeEffectVote(c.extend(txs...))
	must.Do(t, err)
	hash, _ := c.effects.Hash(vote.Key())
	c.decide(c.votes(hash, vote.Key(), 0, 1, 2), txs...)
	return c, p
}

// take does what CometBFT does with a bundle that comes, asks the application again about it
// included.
func (p *pool) take(c *chain, nonce uint64) {
	raw := c.bundle(nonce)
	p.mu.Lock()
	p.held = append(p.held, raw)
	p.mu.Unlock()
	c.app.mu.Lock()
	c.app.changed = true // it looks at all of the mempool again
	c.app.mu.Unlock()
	for _, kind := range []abci.CheckTxType{abci.CheckTxType_New, abci.CheckTxType_Recheck} {
		if out, err := c.app.CheckTx(ctx, &abci.RequestCheckTx{Tx: raw, Type: kind}); err != nil || out.Code != 0 {
			c.t.Errorf("bundle %d: %+v, %v", nonce, out, err)
		}
	}
}

func TestProposalWaitsForTheClientsJustAnswered(t *testing.T) {
	c, p := gathering(t, time.Hour)
	p.take(c, 10)
	began := time.Now()
	go p.take(c, 11)
	if txs := c.prepare(p.Reap(0)...); len(txs) != 3 || !c.process(txs...) {
		t.Errorf("%d transactions proposed, want the certificate and both clients'", len(txs))
	}
	if took := time.Since(began); took > 30*time.Minute {
		t.Errorf("it waited for %v", took)
	}
}

func TestProposalDoesNotWaitForLong(t *testing.T) {
	const gather = 20 * time.Millisecond
	for name, early := range map[string][]uint64{"one client left": nil, "others came before they were answered": {20, 21}} {
		t.Run(name, func(t *testing.T) {
			c, p := gathering(t, gather, early...)
			p.take(c, 10)
			began := time.Now()
			txs := c.prepare(p.Reap(0)...)
			if took := time.Since(began); took < gather || len(txs) != 2+len(early) {
				t.Errorf("%d transactions proposed after %v", len(txs), took)
			}
		})
	}
}

// Clients that submit when they please are not waited for for long each time. That they have not
// come is known when the next proposal waits.
func TestProposalWaitsLessForClientsThatDoNotComeBack(t *testing.T) {
	c, _ := gathering(t, 64*time.Millisecond)
	for _, want := range []uint{0, 1, 2, 3, 4, 4} {
		if c.prepare(); c.app.patience.Halvings() != want {
			t.Errorf("in a hurry %d, want %d", c.app.patience.Halvings(), want)
		}
	}
}

// Clients that came soon after the wait are waited for longer next time.
func TestProposalLearnsWhenThoseItDidNotWaitForCame(t *testing.T) {
	c, p := gathering(t, time.Hour)
	c.app.patience = propose.InHurry(3)
	c.app.returned.Begin(c.app.expected.Load(), time.Now()) // a wait that ended with the first alone
	p.take(c, 10)
	p.take(c, 11)
	if c.prepare(p.Reap(0)...); c.app.patience.Halvings() != 1 {
		t.Errorf("in a hurry %d, want 1: all came soon after a proposal, and before the next one", c.app.patience.Halvings())
	}
}

// A trip is known from an own proposal and its prevotes, and from nobody else's.
func TestATripIsOfAnOwnProposal(t *testing.T) {
	c, _ := gathering(t, 0) // one own proposal
	if c.app.patience.Trips() != 1 {
		t.Errorf("%d trips after one own proposal", c.app.patience.Trips())
	}
	c.app.prevoted(c.app.ownHeight + 7)
	c.app.prepared(9)
	c.app.prevoted(8)
	if c.app.patience.Trips() != 1 {
		t.Errorf("%d trips after prevotes on another's proposal", c.app.patience.Trips())
	}
}

// Only a proposal that certifies waits: nobody was answered before others.
func TestProposalWithoutACertificateDoesNotWait(t *testing.T) {
	c, _ := gathering(t, time.Hour)
	c.commit = abci.ExtendedCommitInfo{} // no votes
	began := time.Now()
	if txs := c.prepare(); len(txs) != 0 || time.Since(began) > 30*time.Minute {
		t.Errorf("%d transactions proposed after %v", len(txs), time.Since(began))
	}
}
