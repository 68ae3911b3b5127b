package votelog

import (
	"slices"
	"testing"

	dbm "github.com/cometbft/cometbft-db"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

func TestOwnVotesOutliveTheProcess(t *testing.T) {
	o := NewStore(dbm.NewMemDB())
	if votes, err := o.Open(); err != nil || len(votes) != 0 {
		t.Fatalf("%v, %v", votes, err)
	}
	vote := func(number uint64, hash byte) wire.EffectVote {
		return wire.NewEffectsVote(wire.Key{Number: number}, "acme", wire.Hash{hash})
	}
	const all = 3 * Max
	for number := uint64(1); number <= all; number++ {
		for _, hash := range []byte{1, 2} { // the first word counts
			v := vote(number, hash)
			must.Do(t, o.Keep(v.Encode()))
		}
	}
	if err := o.Keep([]byte{1}); err == nil {
		t.Error("garbage is kept")
	}
	again := NewStore(o.db)
	votes, err := again.Open()
	if err != nil || len(votes) != Max || len(o.of) > 2*Max {
		t.Fatalf("%d votes, %d known, %v", len(votes), len(o.of), err)
	}
	for i, v := range votes {
		if want := vote(uint64(all-Max+1+i), 1); v != want {
			t.Errorf("vote %d is %v, want %v", i, v, want)
		}
	}
	if !slices.Contains(votes, vote(all, 1)) {
		t.Error("the newest vote is missing")
	}
}
