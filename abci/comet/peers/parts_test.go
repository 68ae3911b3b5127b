package peers

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/cometbft/cometbft/p2p"
	blocks "github.com/cometbft/cometbft/proto/tendermint/blocksync"
	cons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"
	"github.com/cosmos/gogoproto/proto"

	"github.com/chainify-db/chainify/abci/fair"
)

// twoMembers is the conduct of nodes of acme, a1 to a4, and of bolt, b1.
func twoMembers() *Conduct {
	conduct := NewConduct(slog.New(slog.DiscardHandler))
	conduct.Member = func(peer p2p.Peer) string {
		return map[p2p.ID]string{"a1": "acme", "a2": "acme", "a3": "acme", "a4": "acme", "b1": "bolt"}[peer.ID()]
	}
	return conduct
}

// A member pays for parts of blocks and proposals, whichever of its nodes sends them, and for notes
// apart from these. It gets back what decided blocks took, twice.
func TestPartsOfBlocksAreChargedToTheMember(t *testing.T) {
	const size = 10 * int64(types.BlockPartSizeBytes)
	next, now := int64(9), time.Unix(1_700_000_000, 0)
	p := NewParts(twoMembers(), func() int64 { return next }, func(int64) int64 { return size })
	clock := func() time.Time { return now }
	p.bytes = fair.NewBudget[string](partsMax, partsEach, conductKept, clock)
	p.notes = fair.NewBudget[string](notesMax, notesEach, conductKept, clock)
	send := func(from p2p.ID, message proto.Message, times int) (taken int) {
		for range times {
			if p.Admit(ended{named{id: from}}, message) {
				taken++
			}
		}
		return taken
	}
	part := &cons.BlockPart{Height: 9, Part: cmtproto.Part{Bytes: make([]byte, types.BlockPartSizeBytes)}}
	const each = int64(types.BlockPartSizeBytes) + partLeast
	own := func() int { return send("a1", part, 2) + send("a2", part, 2) }
	if n := own(); n != 4 {
		t.Errorf("%d of 4 parts of a member's first nodes are admitted", n)
	}
	all := int(partsMax/each) + 1
	if n := send("a3", part, 10*all); n != all {
		t.Errorf("%d parts of one member are admitted, want %d", n, all)
	}
	if n := send("a4", part, 10) + send("a3", &cons.Proposal{}, 10); n != 0 {
		t.Errorf("%d more of the same member are admitted", n)
	}
	if n := send("b1", part, 10); n != 10 {
		t.Errorf("%d of 10 of another member are admitted", n)
	}
	if n := own(); n != 4 {
		t.Errorf("%d of 4 parts of a member's first nodes are admitted, whose further nodes have none left", n)
	}
	next++
	if n, want := send("a3", part, 10*all), int(2*(size+12*partLeast)/each); n < want || n > want+1 {
		t.Errorf("%d parts are admitted when a block is decided, want %d", n, want)
	}
	next += 1000
	if n, most := send("a3", part, 10*all), int(2*givenBackMax*(size+12*partLeast)/each); n > most {
		t.Errorf("%d parts are admitted when many blocks are decided, want at most %d", n, most)
	}
	send("a3", part, 10*all)
	now = now.Add(10 * time.Second)
	if n, want := send("a3", part, 10*all), int(10*(512<<10)/each); n < want || n > want+1 {
		t.Errorf("%d parts are admitted ten seconds later, want %d", n, want)
	}
	if n := send("a3", &cons.HasVote{}, 3*notesMax); n != notesMax {
		t.Errorf("%d notes are admitted, want %d", n, notesMax)
	}
	now = now.Add(time.Second)
	if n, want := send("a4", &cons.NewRoundStep{}, notesMax), int(time.Second/notesEach); n != want {
		t.Errorf("%d notes are admitted a second later, want %d", n, want)
	}
}

// An honest member sends each block from two nodes, and nothing of it is held up.
func TestAMemberThatSendsEachBlockTwiceIsNotHeldUp(t *testing.T) {
	const size = int64(4 << 20)
	next, now := int64(1), time.Unix(1_700_000_000, 0)
	p := NewParts(twoMembers(), func() int64 { return next }, func(int64) int64 { return size })
	p.bytes = fair.NewBudget[string](partsMax, partsEach, conductKept, func() time.Time { return now })
	part := &cons.BlockPart{Part: cmtproto.Part{Bytes: make([]byte, types.BlockPartSizeBytes)}}
	for ; next < 500; next++ { // at once
		for _, from := range []p2p.ID{"a1", "a2"} {
			taken := p.Admit(ended{named{id: from}}, &cons.Proposal{})
			for range size / int64(types.BlockPartSizeBytes) {
				taken = taken && p.Admit(ended{named{id: from}}, part)
			}
			if !taken {
				t.Fatalf("%s is held up at block %d", from, next)
			}
		}
	}
}

// slowReactor works for each message.
type slowReactor struct {
	p2p.Reactor
	works func()
	done  int
}

var errFiltered = errors.New("filtered")

func (r *slowReactor) FilterMsgBytes(byte, p2p.Peer, []byte) error { return errFiltered }

func (r *slowReactor) Receive(p2p.Envelope) {
	r.done++
	r.works()
}

// A member pays for the time that CometBFT works for its nodes, all nodes and reactors together.
// Blocks that nobody asked for are not looked at.
func TestWorkForAMemberHasAPartOfOneProcessor(t *testing.T) {
	now, catchesUp := time.Unix(1_700_000_000, 0), false
	work := NewWork(twoMembers())
	work.now = func() time.Time { return now }
	work.spent = fair.NewBudget[string](workTime.Microseconds(), workPart*time.Microsecond, conductKept, work.now)
	inner := &slowReactor{works: func() { now = now.Add(100 * time.Millisecond) }}
	doors := []*WorkDoor{NewWorkDoor(inner, work, func() bool { return catchesUp }), NewWorkDoor(inner, work, func() bool { return catchesUp })}
	ask := func(from p2p.ID, times int) int {
		before := inner.done
		for i := range times {
			doors[i%2].Receive(p2p.Envelope{Src: ended{named{id: from}}, Message: &blocks.BlockRequest{Height: 1}})
		}
		return inner.done - before
	}
	inner.works, inner.done = func() {}, 0
	if n := ask("a1", 1) + ask("a2", 1); n != 2 { // the first ones pay for themselves
		t.Errorf("%d of 2 are looked at", n)
	}
	inner.works = func() { now = now.Add(100 * time.Millisecond) }
	if n := ask("a3", 1000); n < 5 || n > 7 {
		t.Errorf("CometBFT works %d times for 100 ms, want half a second and what comes back meanwhile", n)
	}
	if n := ask("a4", 10); n != 0 {
		t.Errorf("%d requests of another node of the member are looked at", n)
	}
	inner.works = func() { now = now.Add(time.Millisecond) }
	if n := ask("b1", 10); n != 10 {
		t.Errorf("%d of 10 requests of another member are looked at", n)
	}
	from := now
	spent := 0
	for now.Sub(from) < 100*time.Second {
		spent += ask("a3", 10)
		now = now.Add(10 * time.Millisecond)
	}
	if part := float64(spent) / 1000 / now.Sub(from).Seconds(); part < 1./20 || part > 1./12 {
		t.Errorf("works for a member %.3f of the time, want a sixteenth", part)
	}
	if err := doors[0].FilterMsgBytes(0x40, ended{}, nil); !errors.Is(err, errFiltered) {
		t.Errorf("what the reactor filters before it is decoded: %v", err)
	}
	before := inner.done
	doors[0].Receive(p2p.Envelope{Src: ended{named{id: "b1"}}, Message: &blocks.BlockResponse{}})
	if inner.done != before {
		t.Error("a block that nobody asked for is looked at")
	}
	catchesUp = true
	doors[0].Receive(p2p.Envelope{Src: ended{named{id: "b1"}}, Message: &blocks.BlockResponse{}})
	if inner.done != before+1 {
		t.Error("a block is not looked at while the node fetches blocks")
	}
}
