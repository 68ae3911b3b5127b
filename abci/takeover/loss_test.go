package takeover

import (
	"testing"

	"github.com/chainify-db/chainify/abci/comet/votelog"
	"github.com/chainify-db/chainify/abci/effects"
)

// E5, decision by decision: when a node in a lost one's place votes on effects again.
func TestWhenANodeVotesAgain(t *testing.T) {
	pending := func() effects.Unknown { return effects.Unknown{Number: 7, Round: 2} }
	for name, c := range map[string]struct {
		loss   Loss
		height int64
		again  bool
		votes  bool
		after  int64 // that it waits for from then on
	}{
		"nothing is lost":                            {Loss{}, 9, false, false, 0},
		"the first signature of its own":             {Loss{All: true}, 9, false, true, 0},
		"a signature for where the lost node signed": {Loss{All: true, After: 9}, 9, false, false, 9},
		"a signature beyond":                         {Loss{All: true, After: 9}, 10, false, true, 0},
		"a signer may give one of before":            {Loss{All: true}, 9, true, false, 9},
		"a signer's second height":                   {Loss{All: true, After: 9}, 10, true, true, 0},
	} {
		next, votes := c.loss.signed(c.height, c.again, pending)
		if votes != c.votes || next.After != c.after || votes && (next.All || *next.Unknown != pending()) {
			t.Errorf("%s: votes %v, %+v", name, votes, next)
		}
	}
}

// Votes count as lost from the height on that neither the log nor the lost node's disk tells of.
func TestWhenALogIsLost(t *testing.T) {
	own := votelog.Own{From: 7, Reach: 8}
	for _, c := range []struct {
		loss Loss
		last int64
		want bool
	}{
		{Loss{}, 6, false}, {Loss{}, 8, false}, {Loss{}, 9, true}, {Loss{Known: 9}, 9, false}, {Loss{Known: 9}, 10, true},
	} {
		if got := c.loss.misses(own, c.last); got != c.want {
			t.Errorf("%+v, signed for height %d: lost %v", c.loss, c.last, got)
		}
	}
	if l := (Loss{After: 9}).doubt(3); !l.All || l.After != 9 {
		t.Errorf("a later doubt waits for height %d, want 9", l.After)
	}
}
