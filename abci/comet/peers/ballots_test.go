package peers

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cometbft/cometbft/p2p"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"

	"github.com/chainify-db/chainify/abci/fair"
)

// ended is a peer whose connection has ended: nothing waits for it.
type ended struct{ named }

func (ended) IsRunning() bool { return true }

func (ended) Quit() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}

// A member pays for votes beyond the first ones of two of its nodes, and is read slowly when it has
// nothing left. Neither another connection of
// its own nor anything it sends takes the place of another node's first vote.
func TestVotesBesideTheFirstAreChargedToTheMember(t *testing.T) {
	conduct := NewConduct(slog.New(slog.DiscardHandler))
	conduct.Member = func(peer p2p.Peer) string {
		return map[p2p.ID]string{"a1": "acme", "a2": "acme", "a3": "acme", "b1": "bolt"}[peer.ID()]
	}
	next := int64(9)
	b := NewBallots(conduct, func() int64 { return next }, func() int { return 5 })
	now := time.Unix(1_700_000_000, 0)
	b.more = fair.NewBudget[string](ballotsMax, ballotsEach, conductKept, func() time.Time { return now })
	b.now = func() time.Time { return now }
	round := int32(0)
	send := func(from p2p.ID, height int64, index int32, kind cmtproto.SignedMsgType, times int) (taken int) {
		for range times {
			if b.Admit(ended{named{id: from}}, &cmtproto.Vote{Height: height, Round: round, ValidatorIndex: index, Type: kind}) {
				taken++
			}
		}
		return taken
	}
	if n := send("a1", 9, 0, cmtproto.PrecommitType, 1+2*ballotsMax); n != 1+ballotsMax {
		t.Errorf("%d votes of one member are admitted, want %d", n, 1+ballotsMax)
	}
	for _, of := range []struct {
		from   p2p.ID
		height int64
		index  int32
		kind   cmtproto.SignedMsgType
		want   int
	}{
		{"a1", 9, 0, cmtproto.PrevoteType, 1},   // another type
		{"a1", 9, 4, cmtproto.PrecommitType, 1}, // another validator
		{"a1", 9, 5, cmtproto.PrecommitType, 0}, // of none
		{"a1", 9, -1, cmtproto.PrecommitType, 0},
		{"a1", 8, 0, cmtproto.PrecommitType, 1}, // of the last height, late
		{"a1", 8, 0, cmtproto.PrevoteType, 0},
		{"a1", 7, 0, cmtproto.PrecommitType, 0},
		{"a1", 10, 0, cmtproto.PrecommitType, 0},
		{"a2", 9, 0, cmtproto.PrecommitType, 1}, // another node of the member
		{"a3", 9, 0, cmtproto.PrecommitType, 0}, // a third one
		{"b1", 9, 0, cmtproto.PrecommitType, 1 + 9},
	} {
		if n := send(of.from, of.height, of.index, of.kind, 10); n != of.want {
			t.Errorf("%+v: %d of 10 are admitted", of, n)
		}
	}
	rounds := func() (admitted int) {
		for round = 0; round < 1000; round++ {
			admitted += send("a1", 9, 2, cmtproto.PrevoteType, 1)
		}
		round = 0
		return admitted
	}
	if n := rounds(); n != 2 {
		t.Errorf("votes of %d rounds are admitted at once, want 2", n)
	}
	b.more = fair.NewBudget[string](0, time.Hour, conductKept, time.Now) // further rounds have time of their own
	now = now.Add(3 * roundLeast)
	if n := rounds(); n != 3 {
		t.Errorf("votes of %d further rounds are admitted, want 3", n)
	}
	b.more = fair.NewBudget[string](ballotsMax, ballotsEach, conductKept, func() time.Time { return now })
	b.more.Spend("acme", ballotsMax)
	next = 10
	if n := send("a3", 10, 0, cmtproto.PrecommitType, 10); n != 1 {
		t.Errorf("%d of 10 are admitted, the first ones of the next height", n)
	}
	if len(b.seen) > 2*voicesMax*5*2 {
		t.Errorf("%d first votes are remembered", len(b.seen))
	}
	now = now.Add(time.Second)
	if n, want := send("a1", 3, 0, cmtproto.PrecommitType, 1000), int(time.Second/ballotsEach); n != want {
		t.Errorf("%d are admitted a second later, want %d", n, want)
	}
}
