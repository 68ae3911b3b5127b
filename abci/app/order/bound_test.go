package order_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// The number of rounds of a block that end with stuck votes is bounded, whichever transactions c
// organisations are stuck at and whatever the others say. It is 2·2 + 1 for each organisation whose
// transactions are slow, and one for the block. In the end nothing of the block runs. A4: until
// these rounds quarantine the whole block, they quarantine only transactions that stuck votes name,
// and others of the same clients.
func TestStuckVotesEndABlockInBoundedRounds(t *testing.T) {
	random := seeded.Random(t)
	for range 200 {
		n := 2 + random.IntN(5)
		c := 1 + random.IntN(n)
		consortium := ordertest.New(n, c)
		registry := consortium.Registry(t)
		block := order.Block{Height: 1, Hash: wire.Hash{1}}
		organisations := 1 + random.IntN(n)
		var whose []int
		for i := range 30 {
			proposal := consortium.Proposal(i%organisations, uint64(i), 1000)
			proposal.Client.Role = fmt.Sprintf("role%d", random.IntN(5))
			block.Txs = append(block.Txs, opened(t, registry, consortium.Bundle(i%organisations, proposal)))
			whose = append(whose, i%organisations)
		}
		state, _, err := registry.Genesis(1).Apply(block)
		must.Do(t, err)
		state.Settle()
		slow := random.IntN(organisations)
		rounds := 0
		for !state.Pending().QuarantineAll {
			p := state.Pending()
			var open []uint32 // what can be slow still: transactions of few organisations
			for i := range p.TxCount {
				if whose[i] <= slow && !slices.Contains(p.Quarantined, i) {
					open = append(open, i)
				}
			}
			if len(open) == 0 {
				break
			}
			at := open[random.IntN(len(open))]
			var votes []*wire.ExtendedVote
			for _, i := range random.Perm(n)[:c] {
				if random.IntN(3) == 0 { // machines that are not alike
					at = open[random.IntN(len(open))]
				}
				votes = append(votes, consortium.Sign(i, state.Height(), wire.NewStuckVote(p.Key(), at)))
			}
			certificate := state.Certificate(votes, func(wire.Key) (wire.Hash, bool) { return wire.Hash{}, false })
			raw := wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Certificate{Certificate: certificate}})
			next, result, err := state.Apply(order.Block{
				Height: state.Height() + 1, TimeMicro: (state.Height() + 1) * 100_000_000, Hash: wire.Hash{2}, Txs: []order.Tx{opened(t, registry, raw)},
			})
			if err != nil {
				t.Fatal(err)
			}
			next.Settle()
			if state = next; result.Advanced {
				rounds++
			} else if next, _, err = state.Apply(order.Block{Height: state.Height() + 1, TimeMicro: (state.Height() + 1) * 100_000_000, Hash: wire.Hash{3}}); err != nil {
				t.Fatal(err)
			} else {
				next.Settle()
				state = next // time has gone on: the votes did not come together
				rounds++
			}
			if q := state.Pending(); !q.QuarantineAll {
				for _, i := range q.Quarantined {
					if whose[i] > slow {
						t.Fatalf("n=%d c=%d: transaction %d of o%d is quarantined, slow are those of o0 to o%d", n, c, i, whose[i], slow)
					}
				}
			}
			if undecided := state.Pending().Undecided; rounds-undecided > 5*(slow+1)+1 {
				t.Fatalf("n=%d c=%d: %d rounds, %d of them undecided, and %d of %d transactions quarantined",
					n, c, rounds, undecided, len(state.Pending().Quarantined), len(whose))
			}
			if rounds > 1000 {
				t.Fatalf("n=%d c=%d: no end after %d rounds, undecided %d", n, c, rounds, state.Pending().Undecided)
			}
		}
	}
}

func opened(t *testing.T, registry *order.Registry, raw []byte) order.Tx {
	t.Helper()
	tx, err := registry.Open(raw)
	must.Do(t, err)
	return tx
}

// A round that decided nothing gives the next one more time, so that the slow ones can come to an
// end; stuck votes do not.
func TestTheBudgetGrowsWhileNothingIsDecided(t *testing.T) {
	p := &order.Pending{TxCount: 100, TimeMaxMS: 1000, DeployTimeMaxMS: 2000}
	for _, c := range []struct {
		undecided int
		out       []uint32
		want      string
	}{{0, nil, "1.1s 2s"}, {0, []uint32{3, 4}, "1.098s 2s"}, {2, nil, "3.1s 6s"}, {1000, nil, "1m0.1s 2m0s"}} {
		p.Undecided, p.Quarantined = c.undecided, c.out
		if got := fmt.Sprint(p.Budget().Statements, " ", p.Budget().Deploys); got != c.want {
			t.Errorf("undecided %d: %s, want %s", c.undecided, got, c.want)
		}
	}
	p.QuarantineAll = true
	if got := p.Budget().Statements.String(); got != "1m0s" {
		t.Errorf("of a quarantined block %s", got)
	}
}
