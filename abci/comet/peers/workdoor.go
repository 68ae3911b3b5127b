package peers

import (
	"time"

	"github.com/cometbft/cometbft/p2p"
	blocks "github.com/cometbft/cometbft/proto/tendermint/blocksync"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/fair"
)

// A member pays for the time in which CometBFT's reactors work for its messages, and messageLeast
// for each message. A request of a few bytes for a block has the block read and encoded. So the
// nodes of one member have half a second once, and a sixteenth of one processor. Its first two
// nodes have as much each (Conduct.account). A node that fetches all blocks gets hundreds of them a
// second for that.
const (
	workTime     = time.Second / 2
	workPart     = 16 // of the time that passes, one part
	messageLeast = 20 * time.Microsecond
	workPause    = 5 * time.Millisecond
)

// Work is what members had CometBFT's reactors do, together. It is safe for concurrent use.
type Work struct {
	conduct *Conduct
	now     func() time.Time
	spent   *fair.Budget[string] // of microseconds, by account
}

// NewWork makes one for a node whose peers have this conduct.
func NewWork(conduct *Conduct) *Work {
	return &Work{conduct, time.Now, fair.NewBudget[string](workTime.Microseconds(), workPart*time.Microsecond, conductKept, time.Now)}
}

var _ p2p.MsgBytesFilter = (*WorkDoor)(nil)

// WorkDoor is a reactor of CometBFT's that works for a member in the bounds of Work. It must not
// wait for anything in Receive.
type WorkDoor struct {
	p2p.Reactor
	work *Work
	// CatchesUp tells whether this node fetches blocks. Others are dropped before they are decoded.
	catchesUp func() bool
}

// NewWorkDoor takes the place of a node's own reactor.
func NewWorkDoor(inner p2p.Reactor, work *Work, catchesUp func() bool) *WorkDoor {
	return &WorkDoor{inner, work, catchesUp}
}

// Receive implements p2p.Reactor. It is called by the routine that reads all of a peer's channels.
func (d *WorkDoor) Receive(e p2p.Envelope) {
	w, account := d.work, d.work.conduct.account(e.Src)
	for w.spent.Left(account) <= 0 {
		w.conduct.Accuse(e.Src.ID(), accuse.ServedSlowly(w.conduct.member(e.Src)))
		if !hold(e.Src, workPause) {
			return
		}
	}
	began := w.now()
	if _, told := e.Message.(*blocks.BlockResponse); !told || d.catchesUp() {
		d.Reactor.Receive(e)
	}
	w.spent.Spend(account, max(w.now().Sub(began), messageLeast).Microseconds())
}

// FilterMsgBytes implements p2p.MsgBytesFilter, where the reactor does.
func (d *WorkDoor) FilterMsgBytes(channel byte, src p2p.Peer, raw []byte) error {
	filter, has := d.Reactor.(p2p.MsgBytesFilter)
	if !has {
		return nil
	}
	return filter.FilterMsgBytes(channel, src, raw)
}
