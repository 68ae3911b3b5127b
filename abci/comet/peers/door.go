package peers

import (
	"errors"
	"fmt"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"
	"github.com/cometbft/cometbft/mempool"
	"github.com/cometbft/cometbft/p2p"
	protomem "github.com/cometbft/cometbft/proto/tendermint/mempool"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/fair"
)

// MempoolName is that of CometBFT's own reactor, whose place a MempoolDoor takes.
const MempoolName = "MEMPOOL"

// errNeverRight is why a peer is disconnected.
var errNeverRight = errors.New("a transaction that no organisation could have signed")

// ErrShareFull is why the mempool takes nothing more of an organisation for now.
var ErrShareFull = errors.New("the organisation's share of the mempool is full")

// MempoolOptions configures a MempoolDoor.
type MempoolOptions struct {
	Conduct *Conduct
	// Take offers a peer's transaction to the mempool; a nil answer means that it was not checked.
	// ErrShareFull drops the rest of the message.
	Take func(tx types.Tx, info mempool.TxInfo) (*abci.ResponseCheckTx, error)
	// NeverRight reports whether a refused transaction could be in no honest mempool: neither under
	// the registry in force, nor under the one before, nor under one that waits.
	NeverRight func(tx []byte, code uint32) bool
}

// A member pays for transactions that its nodes pass on and the mempool refuses: their bytes, and
// refusedLeast for each. While its budget is empty, its transactions are dropped unchecked. So a
// member can make this node check 16 MiB in vain once, and then 2 MiB and 256 transactions a
// second. A byte takes 19 ns, and a small transaction 110 µs (BenchmarkRefused of package app).
// Hence that is 3 to 4 % of one processor. A transaction that the mempool knows costs its hash,
// hence a knownPart of one that it refuses. Honest nodes pass on what waits, up to 4 MiB of it,
// where the order stands still.
const (
	refusedMax   = 16 << 20
	refusedEach  = time.Second / (2 << 20)
	refusedLeast = 8 << 10
	knownPart    = 8
)

// MempoolDoor is CometBFT's mempool reactor with a budget: it charges members for transactions that
// the mempool refuses.
type MempoolDoor struct {
	*mempool.Reactor
	opt     MempoolOptions
	refused *fair.Budget[string]
}

var _ p2p.MsgBytesFilter = (*MempoolDoor)(nil)

// NewMempoolDoor takes the place of a node's own mempool reactor.
func NewMempoolDoor(inner *mempool.Reactor, opt MempoolOptions) *MempoolDoor {
	return &MempoolDoor{Reactor: inner, opt: opt, refused: fair.NewBudget[string](refusedMax, refusedEach, conductKept, time.Now)}
}

// AddPeer implements p2p.Reactor. It disconnects a banned peer.
func (r *MempoolDoor) AddPeer(peer p2p.Peer) {
	if r.opt.Conduct.Barred(peer.ID()) {
		r.Switch.StopPeerForError(peer, errors.New("it sent what could never be right, and is barred for a while"))
		return
	}
	r.Reactor.AddPeer(peer)
}

// Receive implements p2p.Reactor. It is called by the routine that reads all of a peer's channels,
// so that a peer that is disconnected is not heard any more.
func (r *MempoolDoor) Receive(e p2p.Envelope) {
	m, ok := e.Message.(*protomem.Txs)
	if !ok {
		r.Reactor.Receive(e) // which ends the connection
		return
	}
	if r.WaitSync() || r.opt.Conduct.Barred(e.Src.ID()) {
		return
	}
	member := r.opt.Conduct.member(e.Src)
	for _, tx := range m.Txs {
		if r.refused.Left(member) <= 0 {
			r.opt.Conduct.Accuse(e.Src.ID(), accuse.ChargeUsedUp(member))
			return
		}
		answer, err := r.opt.Take(tx, mempool.TxInfo{SenderP2PID: e.Src.ID()})
		if errors.Is(err, ErrShareFull) {
			return // nodes send one bundle at a time (Bundles): checking the rest would be in vain
		}
		if errors.Is(err, mempool.ErrTxInCache) {
			r.refused.Spend(member, int64(len(tx)+refusedLeast)/knownPart)
		}
		if err != nil || answer == nil || answer.Code == abci.CodeTypeOK {
			continue // known already, or no room: the sender cannot know that
		}
		r.refused.Spend(member, int64(len(tx)+refusedLeast))
		if r.opt.NeverRight(tx, answer.Code) {
			r.opt.Conduct.Forged(r.Switch, e.Src, "another node sent a transaction that could never be right", fmt.Errorf("%w: %s", errNeverRight, answer.Log))
			return
		}
	}
}
