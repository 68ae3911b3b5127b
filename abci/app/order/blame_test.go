package order

import (
	"slices"
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
)

// votesWith are the votes of organisations that gave the block these effects hashes each,
// transaction by transaction.
func votesWith(p *Pending, all ...[]wire.Hash) (votes []Vote) {
	for i, effects := range all {
		v := wire.NewEffectsVote(p.Key(), string(rune('a'+i)), wire.Hash{byte(i)})
		v.Parts = p.inQuestion().Hashes(effects)
		votes = append(votes, Vote{vote: v})
	}
	return votes
}

// A block of more transactions than a vote has parts is narrowed down: groups first, then single
// transactions.
func TestManyTransactionsAreNarrowedDown(t *testing.T) {
	const count = 5000
	same := make([]wire.Hash, count)
	for i := range same {
		same[i] = wire.Hash{byte(i), byte(i >> 8)}
	}
	other := slices.Clone(same)
	other[17], other[4711] = wire.Hash{99}, wire.Hash{98}
	p := &Pending{Number: 1, TxCount: count, Round: 1}
	for round := range 2 {
		p.Votes = votesWith(p, same, same, other, other)
		p = p.nextRound(verdict{kind: nextRoundVerdict, hopeless: true}, 4, 3, Parameters{EffectRoundsMax: 3})
		if round == 0 && (len(p.Quarantined) > 0 || len(p.Suspects) > 2*count/wire.PartsMax+2 || !slices.Contains(p.Suspects, 17) || !slices.Contains(p.Suspects, 4711)) {
			t.Fatalf("after the first round suspects %v, quarantined %v", p.Suspects, p.Quarantined)
		}
	}
	if !slices.Equal(p.Quarantined, []uint32{17, 4711}) || p.Suspects != nil || p.QuarantineAll || p.Round != 3 {
		t.Fatalf("round %d quarantined %v, all %t, suspects %v", p.Round, p.Quarantined, p.QuarantineAll, p.Suspects)
	}
}

// Organisations differ about transaction 1 of 3, each in its own way, for all n, c and numbers of
// them. That transaction is blamed and no other, and it is blamed exactly when no c organisations
// agree about it.
func TestBlameForEveryPolicyAndEveryNumberOfDeviating(t *testing.T) {
	for n := 2; n <= 7; n++ {
		for c := 1; c <= n; c++ {
			for deviating := 0; deviating <= n; deviating++ {
				p := &Pending{Number: 1, TxCount: 3, Round: 1}
				var all [][]wire.Hash
				for i := range n {
					effects := []wire.Hash{{1}, {2}, {3}}
					if i < deviating {
						effects[1] = wire.Hash{byte(10 + i)}
					}
					all = append(all, effects)
				}
				p.Votes = votesWith(p, all...)
				most := max(n-deviating, min(deviating, 1))
				var want []uint32
				if deviating > 0 && most < n { // differs at all: all have said all, so it is to blame in any case
					want = []uint32{1}
				}
				if got := p.blamed(n, c); !slices.Equal(got, want) {
					t.Errorf("n=%d c=%d deviating=%d: blamed %v, want %v", n, c, deviating, got, want)
				}
				// With one silent it is blamed only when not even that one could help.
				p.Votes = p.Votes[:n-1]
				want = nil
				most = max(n-1-deviating, min(deviating, 1))
				if named := n - 1; deviating > 0 && most < named && most+1 < c {
					want = []uint32{1}
				}
				if got := p.blamed(n, c); !slices.Equal(got, want) {
					t.Errorf("n=%d c=%d deviating=%d, one silent: blamed %v, want %v", n, c, deviating, got, want)
				}
			}
		}
	}
}

func TestPartsOfVotesThatNameNone(t *testing.T) {
	p := &Pending{Number: 1, TxCount: 2, Round: 1}
	p.Votes = []Vote{{vote: wire.NewEffectsVote(p.Key(), "a", wire.Hash{1})}, {vote: wire.NewStuckVote(p.Key(), 1)}}
	if got := p.blamed(2, 2); got != nil {
		t.Fatalf("blamed %v without a part named", got)
	}
}
