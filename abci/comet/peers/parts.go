package peers

import (
	"sync"
	"time"

	"github.com/cometbft/cometbft/p2p"
	cons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	"github.com/cometbft/cometbft/types"
	"github.com/cosmos/gogoproto/proto"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/fair"
)

// CometBFT writes each proposal and each part of a block to its log on the disk before it looks
// whether it needs it. So a member pays for them: their bytes, and partLeast for each. When a block
// is decided, the member gets back up to twice what the block took, since two of its nodes may have
// sent all of it. In vain it sends 16 MiB once, which is four of the largest blocks, and 512 KiB a
// second. A part of 64 KiB takes 0.3 ms. CometBFT keeps 1 GiB of its log, with the node's own votes
// among all else. Nodes tell each other in notes where they stand. A member has 10,000 of them
// once, and 2,000 a second. Its first two nodes have as much each (account).
const (
	partsMax  = 16 << 20
	partsEach = time.Second / (512 << 10)
	partLeast = 4 << 10
	notesMax  = 10_000
	notesEach = time.Second / 2_000
	// givenBackMax bounds the blocks that are looked up at once.
	givenBackMax = 16
)

// Parts decides when proposals, parts of blocks and notes of others get to CometBFT. It is safe for
// concurrent use.
type Parts struct {
	conduct      *Conduct
	next         func() int64             // the height that is decided next
	size         func(height int64) int64 // bytes of a decided block; 0: it is not known
	bytes, notes *fair.Budget[string]     // by account

	mu   sync.Mutex       // guards all below
	at   int64            // next, when sent was cleared
	sent map[string]int64 // what each account paid since
}

// NewParts makes one for a node whose peers have this conduct.
func NewParts(conduct *Conduct, next func() int64, size func(height int64) int64) *Parts {
	return &Parts{
		conduct: conduct, next: next, size: size, at: next(), sent: map[string]int64{},
		bytes: fair.NewBudget[string](partsMax, partsEach, conductKept, time.Now),
		notes: fair.NewBudget[string](notesMax, notesEach, conductKept, time.Now),
	}
}

// Admit waits until a message for CometBFT's consensus, other than a vote, may be looked at. The
// routine that reads all of the peer's connection calls it, as it calls Ballots. It returns false
// when the connection ended.
func (p *Parts) Admit(peer p2p.Peer, message proto.Message) bool {
	account, cost := p.conduct.account(peer), int64(0)
	switch m := message.(type) {
	case *cons.BlockPart:
		cost = int64(len(m.Part.Bytes)) + partLeast
	case *cons.Proposal:
		cost = partLeast
	default:
		return p.take(peer, account, p.notes, 1, notesEach, "notes of where they stand")
	}
	p.giveBack()
	if !p.take(peer, account, p.bytes, cost, partLeast*partsEach, "parts of blocks beside those that were decided") {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent[account] += cost
	return true
}

func (p *Parts) take(peer p2p.Peer, account string, of *fair.Budget[string], cost int64, pause time.Duration, what string) bool {
	for of.Left(account) <= 0 {
		p.conduct.Accuse(peer.ID(), accuse.ReadSlowly(p.conduct.member(peer), what))
		if !hold(peer, pause) {
			return false
		}
	}
	of.Spend(account, cost)
	return true
}

// giveBack returns to each account what it paid for blocks that are decided.
func (p *Parts) giveBack() {
	next := p.next()
	p.mu.Lock()
	defer p.mu.Unlock()
	if next <= p.at {
		return
	}
	allowed := int64(0)
	for height := max(p.at, next-givenBackMax); height < next; height++ {
		size := p.size(height)
		pieces := size/int64(types.BlockPartSizeBytes) + 2 // the last part, and the proposal
		allowed += 2 * (size + pieces*partLeast)
	}
	p.at = next
	for account, sent := range p.sent {
		p.bytes.Give(account, min(sent, allowed))
	}
	clear(p.sent)
}
