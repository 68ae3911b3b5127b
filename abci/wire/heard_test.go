package wire

import (
	"slices"
	"testing"

	"github.com/chainify-db/chainify/abci/seeded"
)

// firstOf is the vote of an organisation that counts; nil: none does.
func firstOf(h *HeardVotes[EffectVote], organisation string, k Key) *EffectVote {
	for name, v := range h.First(k) {
		if name == organisation {
			return &v
		}
	}
	return nil
}

// An organisation that has no room for its vote on a next block is not counted live on what comes
// of it, since another vote may have been its first. A contradiction is noticed all the same, and
// its votes on other blocks count.
func TestAVoteThatFoundNoRoomIsNotReplaced(t *testing.T) {
	h := &HeardVotes[EffectVote]{}
	real := Key{Number: 1, OrderHash: Hash{1}}
	invent := func(number uint64) {
		for i := range HeardMax + 1 {
			h.Take("b", NewStuckVote(Key{Number: number, OrderHash: Hash{9, byte(i)}}, 0), number-1)
		}
	}
	invent(1)
	h.Take("b", NewStuckVote(real, 1), 0)
	h.Decided(real)
	invent(2) // and none on the pending one counts for it
	h.Take("b", NewStuckVote(real, 2), 1)
	h.Decided(real)
	if v := firstOf(h, "b", real); v != nil {
		t.Errorf("%+v counts", v)
	}
	if before := h.Take("b", NewStuckVote(real, 3), 1); before == nil || *before != NewStuckVote(real, 2) {
		t.Errorf("before another vote: %v", before)
	}
	again := real
	again.Round = 1
	h.Take("b", NewStuckVote(again, 3), 1)
	if firstOf(h, "b", again) == nil {
		t.Error("a vote on the next round does not count")
	}
	if h.Forget(2); h.Organisations() > 0 {
		t.Errorf("%+v is kept for good", h)
	}
}

// With any votes of organisations, in any order, a vote that counts is its organisation's first on
// that execution, as a memory without bounds has it. The first vote heard on the pending execution
// is never forgotten while it is pending, whatever votes come. An organisation that cast few on
// next blocks is always counted.
func TestHeardVotesAreThoseOfAMemoryWithoutBounds(t *testing.T) {
	r := seeded.Random(t)
	for range 200 {
		h := &HeardVotes[EffectVote]{}
		type memory struct {
			first  map[Key]EffectVote
			inNext map[uint64][]Key
			heard  EffectVote // first on the pending execution since that is pending
		}
		of := map[string]*memory{}
		for _, name := range []string{"b", "c"} {
			of[name] = &memory{first: map[Key]EffectVote{}, inNext: map[uint64][]Key{}}
		}
		pending, choices := Key{}, 2+r.IntN(20)
		decided := func(k Key) {
			pending = k
			h.Decided(k)
			for _, m := range of {
				m.heard = EffectVote{}
			}
		}
		for range 200 {
			name := []string{"b", "c"}[r.IntN(2)]
			m, next := of[name], Key{Number: pending.Number + 1, OrderHash: Hash{byte(pending.Number), byte(r.IntN(choices))}}
			take := func(k Key) {
				vote := NewStuckVote(k, r.Uint32N(3))
				before := h.Take(name, vote, pending.Number)
				if _, known := m.first[k]; !known {
					m.first[k] = vote
				}
				if k != pending {
					return
				}
				if m.heard == (EffectVote{}) {
					m.heard = vote
					if before != nil {
						m.heard = *before
					}
				} else if before == nil || *before != m.heard {
					t.Fatalf("before a further vote on what is pending: %v, want %v", before, m.heard)
				}
			}
			switch r.IntN(9) {
			case 0:
				decided(next)
			case 1:
				if k := pending; k.Number > 0 {
					k.Round++
					decided(k)
				}
			case 2:
				h.Forget(pending.Number - min(pending.Number, uint64(r.IntN(3)+1)))
			case 3, 4, 5:
				if !slices.Contains(m.inNext[next.Number], next) {
					m.inNext[next.Number] = append(m.inNext[next.Number], next)
				}
				take(next)
			case 6: // some on executions that are over
				for range min(pending.Number, r.Uint64N(2*HeardMax)) {
					take(Key{Number: 1 + r.Uint64N(pending.Number), Round: r.Uint32N(3), OrderHash: Hash{200, byte(r.IntN(9))}})
				}
			default:
				if pending.Number > 0 {
					take(pending)
				}
			}
			for name, m := range of {
				got, want := firstOf(h, name, pending), m.first[pending]
				if got != nil && *got != want {
					t.Fatalf("%+v counts, the first was %+v", *got, want)
				}
				few := len(m.inNext[pending.Number]) <= HeardMax
				if got == nil && want != (EffectVote{}) && few {
					t.Fatalf("the first, %+v, does not count", want)
				}
				if ordered, next := h.Kept(name); ordered > HeardMax || next > HeardMax {
					t.Fatalf("%d and %d are kept", ordered, next)
				}
			}
		}
	}
}
