package effects

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// However many votes an organisation casts on invented next blocks, its first vote on the pending
// one stays: another vote is reported, and does not count (E3).
func TestVotesOnInventedBlocksHaveNoFirstVoteForgotten(t *testing.T) {
	for _, invented := range []int{0, votesPerOrgMax - 1, votesPerOrgMax, 3 * votesPerOrgMax} {
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

// An organisation that has no room for its vote on a next block is not counted live on what comes
// of it, since another vote may have been its first. Its votes on other blocks count.
func TestAVoteThatFoundNoRoomIsNotReplaced(t *testing.T) {
	h := &heard{}
	real := wire.Key{Number: 1, OrderHash: wire.Hash{1}}
	invent := func(number uint64) {
		for i := range votesPerOrgMax + 1 {
			h.take(wire.NewStuckVote(wire.Key{Number: number, OrderHash: wire.Hash{9, byte(i)}}, 0), number-1)
		}
	}
	invent(1)
	h.take(wire.NewStuckVote(real, 1), 0)
	h.decided(real)
	invent(2) // and none on the pending one counts for it
	h.take(wire.NewStuckVote(real, 2), 1)
	h.decided(real)
	h.next.Forget(func(wire.EffectVote) bool { return true })
	if v := h.of(real); v != nil || len(h.next) > 0 {
		t.Errorf("%+v counts, and %d on invented blocks are kept", v, len(h.next))
	}
	again := real
	again.Round = 1
	h.take(wire.NewStuckVote(again, 3), 1)
	if h.of(again) == nil {
		t.Error("a vote on the next round does not count")
	}
	if h.forget(2); !h.empty() {
		t.Errorf("%+v is kept for good", h)
	}
}

// With any votes of an organisation, in any order, a vote that counts is its first on that
// execution, as a memory without bounds has it. One that cast few on next blocks is always counted.
func TestFirstVotesAreThoseOfAMemoryWithoutBounds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	for range 500 {
		h, first, inNext := &heard{}, map[wire.Key]wire.EffectVote{}, map[uint64][]wire.Key{}
		pending, choices := wire.Key{}, 2+r.IntN(20)
		next := func() wire.Key {
			return wire.Key{Number: pending.Number + 1, OrderHash: wire.Hash{byte(pending.Number), byte(r.IntN(choices))}}
		}
		for range 200 {
			switch k := next(); r.IntN(8) {
			case 0:
				pending = k
				h.decided(k)
			case 1:
				if pending.Round++; pending.Number == 0 {
					pending.Round = 0
				}
				h.decided(pending)
			case 2:
				h.forget(pending.Number - min(pending.Number, uint64(r.IntN(3)+1)))
			case 3, 4, 5:
				vote := wire.NewStuckVote(k, r.Uint32N(3))
				if h.take(vote, pending.Number); !slices.Contains(inNext[k.Number], k) {
					inNext[k.Number] = append(inNext[k.Number], k)
				}
				if _, known := first[k]; !known {
					first[k] = vote
				}
			default:
				if pending.Number == 0 {
					continue
				}
				vote := wire.NewStuckVote(pending, r.Uint32N(3))
				if h.take(vote, pending.Number); first[pending] == (wire.EffectVote{}) {
					first[pending] = vote
				}
			}
			got, want := h.of(pending), first[pending]
			if got != nil && *got != want {
				t.Fatalf("%+v counts, the first was %+v", *got, want)
			}
			few := len(inNext[pending.Number]) <= votesPerOrgMax
			if got == nil && want != (wire.EffectVote{}) && few {
				t.Fatalf("the first, %+v, does not count", want)
			}
			if len(h.ordered) > votesPerOrgMax || len(h.next) > votesPerOrgMax {
				t.Fatalf("%d and %d are kept", len(h.ordered), len(h.next))
			}
		}
	}
}
