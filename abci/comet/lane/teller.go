package lane

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cometbft/cometbft/consensus"
	"github.com/cometbft/cometbft/libs/bits"
	"github.com/cometbft/cometbft/p2p"
	cmtcons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	"github.com/cosmos/gogoproto/proto"
)

const (
	// tellAfter is how long what only gossip needs is kept back.
	tellAfter = 30 * time.Millisecond
	// votesWaitingMax bounds the votes that wait to be told of. Gossip sends a vote once more to a
	// peer that was not told.
	votesWaitingMax = 256
)

// teller is CometBFT's switch, as its consensus reactor sees it. It keeps back what other nodes'
// gossip alone needs: the votes that this node has, its steps within a round, and that it has a
// whole valid block. A note whose height is over is never told. A new height, a new
// round, and that parts of a block are missing, it tells at once.
type teller struct {
	p2p.Switcher
	untold *atomic.Uint64

	mu     sync.Mutex // guards all below
	height int64
	round  int32
	step   *cmtcons.NewRoundStep // nil: none waits
	valid  *cmtcons.NewValidBlock
	votes  []*cmtcons.HasVote
	timer  *time.Timer
	armed  bool
	closed bool
}

func newTeller(net p2p.Switcher, untold *atomic.Uint64) *teller {
	t := &teller{Switcher: net, untold: untold}
	t.timer = time.AfterFunc(time.Hour, t.tell)
	t.timer.Stop()
	return t
}

// BroadcastAsync implements p2p.Switcher.
func (t *teller) BroadcastAsync(e p2p.Envelope) {
	if !t.keep(e) {
		t.Switcher.BroadcastAsync(e)
	}
}

// TryBroadcast implements p2p.Switcher.
func (t *teller) TryBroadcast(e p2p.Envelope) {
	if !t.keep(e) {
		t.Switcher.TryBroadcast(e)
	}
}

// keep takes over what can wait.
func (t *teller) keep(e p2p.Envelope) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch m := e.Message.(type) {
	case *cmtcons.NewRoundStep:
		if m.Height > t.height || m.Height == t.height && m.Round > t.round {
			t.enter(m)
			return false
		}
		if m.Height == t.height && m.Round == t.round && (t.step == nil || m.Step > t.step.Step) {
			t.step = m
		}
	case *cmtcons.NewValidBlock:
		if !whole(m) {
			return false
		}
		if m.Height == t.height {
			t.valid = m
		}
	case *cmtcons.HasVote:
		if m.Height == t.height && len(t.votes) < votesWaitingMax {
			t.votes = append(t.votes, m)
		}
	default:
		return false
	}
	if !t.armed && !t.closed {
		t.armed = true
		t.timer.Reset(tellAfter)
	}
	return true
}

// enter begins a height or a round. Called with mu held.
func (t *teller) enter(m *cmtcons.NewRoundStep) {
	if m.Height > t.height {
		t.untold.Add(uint64(len(t.votes)))
		t.valid, t.votes = nil, t.votes[:0]
	}
	t.height, t.round, t.step = m.Height, m.Round, nil
	if t.armed && len(t.votes) == 0 && t.valid == nil {
		t.armed = false
		t.timer.Stop()
	}
}

// tell tells what waits.
func (t *teller) tell() {
	t.mu.Lock()
	step, valid, votes := t.step, t.valid, t.votes
	t.step, t.valid, t.votes, t.armed = nil, nil, nil, false
	closed := t.closed
	t.mu.Unlock()
	if closed {
		return
	}
	if step != nil {
		t.Switcher.BroadcastAsync(envelope(step))
	}
	if valid != nil {
		t.Switcher.BroadcastAsync(envelope(valid))
	}
	for _, v := range votes {
		t.Switcher.TryBroadcast(envelope(v))
	}
}

func (t *teller) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.timer.Stop()
}

func envelope(m proto.Message) p2p.Envelope {
	return p2p.Envelope{ChannelID: consensus.StateChannel, Message: m}
}

// whole reports whether all parts of a block are there.
func whole(m *cmtcons.NewValidBlock) bool {
	var parts bits.BitArray
	parts.FromProto(m.BlockParts)
	return parts.Size() > 0 && parts.IsFull()
}
