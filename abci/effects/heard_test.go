package effects

import (
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// However many votes an organisation casts on invented next blocks, its first vote on the pending
// one stays: another vote is reported, and does not count (E3).
func TestVotesOnInventedBlocksHaveNoFirstVoteForgotten(t *testing.T) {
	for _, invented := range []int{0, wire.HeardMax - 1, wire.HeardMax, 3 * wire.HeardMax} {
		for _, next := range []bool{false, true} { // the block is ordered before the first vote, or after the others
			c := fourOf(t)
			c.Step(1, Started{})
			c.Step(1, DatabaseAt{Position: backend.Position{}})
			block := &wire.OrderedBlock{Organisations: 4, Consent: 3, Number: 1, Height: 1, OrderHash: wire.Hash{1}}
			key, good, bad := block.Key(), wire.Hash{7}, wire.Hash{8}
			order := func() {
				c.Step(1, Decided{Height: 1, Ordered: block})
				c.Step(1, Executed{Key: key, Hash: good})
			}
			if !next {
				order()
			}
			c.Step(1, VoteSeen{Organisation: "b", Vote: wire.NewEffectsVote(key, "b", good)})
			c.Step(1, VoteSeen{Organisation: "c", Vote: wire.NewEffectsVote(key, "c", bad)})
			for i := range invented {
				k := wire.Key{Number: 2, OrderHash: wire.Hash{9, byte(i)}}
				if next {
					k.Number = 1
				}
				c.Step(1, VoteSeen{Organisation: "c", Vote: wire.NewEffectsVote(k, "c", bad)})
			}
			if next {
				order()
			}
			out := c.Step(1, VoteSeen{Organisation: "c", Vote: wire.NewEffectsVote(key, "c", good)})
			if len(out) != 1 || out[0].(Report).What != ConflictingVotes {
				t.Errorf("%d invented, ordered after them %t: %+v, want a report of conflicting votes and no COMMIT", invented, next, out)
			}
		}
	}
}
