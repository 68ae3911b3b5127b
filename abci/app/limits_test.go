package app

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// limited sets how many transactions of a client and of an organisation a block accepts.
func limited(client, organisation int) func(*ordertest.Consortium) {
	return func(c *ordertest.Consortium) {
		c.Genesis.Parameters.BlockClientMax, c.Genesis.Parameters.BlockOrganisationMax = client, organisation
	}
}

// of makes bundles of so many transactions of a client each, with nonces from first on.
func (c *chain) of(i int, role string, first uint64, sizes ...int) (bundles [][]byte) {
	for _, size := range sizes {
		var proposals []*wire.Proposal
		for range size {
			p := c.consortium.Proposal(i, first, 1000)
			p.Client.Role = role
			proposals = append(proposals, p)
			first++
		}
		bundles = append(bundles, c.consortium.Bundle(i, proposals...))
	}
	return bundles
}

// among reports whether a transaction is one of these.
func among(txs [][]byte, raw []byte) bool {
	return slices.ContainsFunc(txs, func(other []byte) bool { return bytes.Equal(other, raw) })
}

// A proposal holds of an organisation and of a client what governance allows, and what does not fit
// waits, in its order. A proposal that holds more is refused.
func TestAProposalKeepsToTheSharesOfABlock(t *testing.T) {
	c := newChain(t, 4, 3, limited(3, 5))
	mempool := slices.Concat(c.of(0, "a", 0, 2, 2, 1), c.of(0, "b", 100, 3), c.of(1, "a", 0, 9, 1), c.of(2, "a", 0, 1), c.of(2, "b", 0, 3, 2))
	var blocks []string
	for len(mempool) > 0 && len(blocks) < 10 {
		txs := c.prepare(mempool...)
		if !c.process(txs...) {
			t.Fatalf("own proposal %d refused", len(blocks))
		}
		blocks = append(blocks, c.contents(txs))
		mempool = slices.DeleteFunc(mempool, func(raw []byte) bool { return among(txs, raw) })
		waits := map[string]bool{}
		for _, raw := range mempool {
			if owner := wire.PeekOwner(raw); len(blocks) == 1 && !waits[owner] && c.process(append(slices.Clone(txs), raw)...) {
				t.Errorf("the first bundle of %s that waits would have been accepted", owner)
			}
			waits[wire.PeekOwner(raw)] = true
		}
		vote, err := wire.DecodeEffectVote(c.extend(txs...))
		must.Do(t, err)
		hash, _ := c.effects.Hash(vote.Key())
		c.decide(c.votes(hash, vote.Key(), 0, 1, 2), txs...)
	}
	want := "map[o0:2 o1:9 o2:4] map[o0:3 o1:1 o2:2] map[o0:3]"
	if got := strings.Join(blocks, " "); got != want {
		t.Errorf("proposed %s, want %s", got, want)
	}
}

// A change that sets shares binds from when it is in force, also a node that starts again.
func TestSharesHoldFromWhenTheyAreInForce(t *testing.T) {
	c := newChain(t, 4, 3)
	two := func(first uint64) [][]byte { return c.of(0, "a", first, 1, 1) }
	if !c.process(two(0)...) {
		t.Fatal("without shares two bundles are refused")
	}
	c.decide(nil, c.consortium.Governance(&wire.GovernanceChange{Sequence: 1, Actions: []*wire.GovernanceAction{
		{Body: &wire.GovernanceAction_BlockShares{BlockShares: &wire.BlockShares{Client: 1}}},
	}}, 0, 1, 2))
	c.decide(nil)
	if c.process(two(2)...) {
		t.Error("two bundles of a client are accepted")
	}
	c.open()
	c.attach()
	if txs := two(4); c.process(txs...) || !c.process(txs[0]) || len(c.prepare(txs...)) != 1 {
		t.Error("after a restart two bundles of a client are accepted, or one is refused")
	}
}

// contents counts the transactions of a proposal's bundles by organisation.
func (c *chain) contents(txs [][]byte) string {
	c.t.Helper()
	count := map[string]int{}
	for _, raw := range txs {
		tx, err := c.app.state.Registry().Open(raw)
		if err != nil {
			c.t.Fatal(err)
		}
		if tx.Bundle() != nil {
			count[tx.Organisation()] += tx.Bundle().Len()
		}
	}
	return fmt.Sprint(count)
}

// greedy is a proposer that takes all that waits of its organisation, whatever the shares.
type greedy struct {
	*App
	proposed atomic.Int64
}

func (g *greedy) PrepareProposal(ctx context.Context, req *abci.RequestPrepareProposal) (*abci.ResponsePrepareProposal, error) {
	out, err := g.App.PrepareProposal(ctx, req)
	if err != nil || !slices.ContainsFunc(out.Txs, func(raw []byte) bool { return wire.PeekOwner(raw) == "o0" }) {
		return out, err
	}
	before := len(out.Txs)
	for _, raw := range req.Txs {
		if wire.PeekOwner(raw) == "o0" && !among(out.Txs, raw) {
			out.Txs = append(out.Txs, raw)
		}
	}
	if len(out.Txs) > before {
		g.proposed.Add(1)
	}
	return out, nil
}

func (*greedy) ProcessProposal(context.Context, *abci.RequestProcessProposal) (*abci.ResponseProcessProposal, error) {
	return &abci.ResponseProcessProposal{Status: abci.ResponseProcessProposal_ACCEPT}, nil
}

// A10: a member whose gateway floods, and whose proposals take all of it, has in each block as much
// as governance allows. The others' proposals go on, and hold its transactions with the others'.
func TestAMemberCannotFillBlocks(t *testing.T) {
	c := ordertest.New(4, 0)
	limited(0, 2)(c)
	nodes, liar := newNetwork(t, c), (*greedy)(nil)
	nodes[0].lies = func(app *App) abci.Application {
		liar = &greedy{App: app}
		return liar
	}
	for _, n := range nodes {
		n.start(t)
		t.Cleanup(func() { n.stop(t) })
	}
	ids := map[wire.TxID]int{}
	propose := func(i int, nonce uint64) []byte {
		p := c.Proposal(i, nonce, 1000)
		ids[wire.TxIDOf(wire.Encode(p))] = i
		return c.Bundle(i, p)
	}
	for nonce := range uint64(24) {
		submit(t, nodes[0], propose(0, nonce))
	}
	submit(t, nodes[1], propose(1, 0))
	ordered := func() (all int) {
		for n := uint64(1); n <= nodes[3].app.LastCertified(); n++ {
			block, err := nodes[3].app.Ordered(n)
			must.Do(t, err)
			of := map[int]int{}
			for _, id := range block.IDs {
				of[ids[id]]++
				all++
			}
			if of[0] > 2 {
				t.Fatalf("block %d has %d transactions of o0, block_organisation_max is 2", n, of[0])
			}
		}
		return all
	}
	eventually(t, 5*time.Minute, "all transactions are in certified blocks", func() bool { return ordered() == len(ids) })
	if liar.proposed.Load() == 0 {
		t.Error("nobody proposed too much: the test tries nothing")
	}
	wantQuiet(t, nodes)
}
