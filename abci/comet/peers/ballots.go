package peers

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cometbft/cometbft/p2p"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/fair"
)

// CometBFT verifies a vote that it does not accept each time that the vote arrives, which takes
// 0.08 ms, and writes it to its log on disk. So a member pays for votes beyond the first one of a
// validator, round and type that each of two of its nodes sends for a height. Its budget is 1,000
// of them once, and 250 a second: 2 % of one processor for their signatures. Honest nodes send such
// votes when gossip repeats a vote of the express lane. A height can have as many rounds as fit
// into its time.
const (
	ballotsMax  = 1_000
	ballotsEach = 4 * time.Millisecond
	// voicesMax is two, since a node's standby may be connected as well.
	voicesMax = 2
	// roundLeast is below the time that CometBFT waits in a round that fails.
	roundLeast = 100 * time.Millisecond
)

// Ballots limits the rate at which other members' votes on order blocks reach CometBFT. It is safe
// for concurrent use.
type Ballots struct {
	conduct    *Conduct
	now        func() time.Time
	next       func() int64 // the height that is decided next
	validators func() int
	more       *fair.Budget[string] // by member

	mu     sync.Mutex // guards all below
	at     int64      // next, when seen and voices were cleared
	since  time.Time  // of that
	seen   map[ballot]bool
	voices map[string][]p2p.ID // nodes of each member whose first votes are free at this height
}

// ballot identifies a vote: validator, height, round and type.
type ballot struct {
	node   p2p.ID
	height int64
	round  int32
	index  int32
	kind   cmtproto.SignedMsgType
}

// NewBallots makes one for a node whose peers have this conduct.
func NewBallots(conduct *Conduct, next func() int64, validators func() int) *Ballots {
	return &Ballots{
		conduct: conduct, now: time.Now, next: next, validators: validators, seen: map[ballot]bool{}, voices: map[string][]p2p.ID{},
		more: fair.NewBudget[string](ballotsMax, ballotsEach, conductKept, time.Now),
	}
}

// Admit waits until a peer's vote may be passed on; false: the connection ended. The routine that
// reads the peer's connection calls it, so a wait leaves further bytes unread, and no vote is lost.
func (b *Ballots) Admit(peer p2p.Peer, vote *cmtproto.Vote) bool {
	member := b.conduct.member(peer)
	if b.first(member, peer.ID(), vote) {
		return true
	}
	for b.more.Left(member) <= 0 {
		b.conduct.Accuse(peer.ID(), accuse.ReadSlowly(member, "votes beside their first ones"))
		if !hold(peer, ballotsEach) {
			return false
		}
	}
	b.more.Spend(member, 1)
	return true
}

// hold leaves a peer's connection unread for a time; false: the connection ended.
func hold(peer p2p.Peer, length time.Duration) bool {
	select {
	case <-peer.Quit():
		return false
	case <-time.After(length):
		return true
	}
}

// first reports whether a vote is the node's first one of a validator, round and type, for the
// height that is decided next or the last one.
func (b *Ballots) first(member string, node p2p.ID, vote *cmtproto.Vote) bool {
	of := ballot{node, vote.GetHeight(), vote.GetRound(), vote.GetValidatorIndex(), vote.GetType()}
	next := b.next()
	late := of.height == next-1 && of.kind == cmtproto.PrecommitType
	if of.height != next && !late || of.index < 0 || int(of.index) >= b.validators() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if next != b.at {
		b.at, b.since = next, b.now()
		clear(b.voices)
		maps.DeleteFunc(b.seen, func(k ballot, _ bool) bool { return k.height < next-1 })
	}
	if int64(of.round) > 1+int64(b.now().Sub(b.since)/roundLeast) {
		return false
	}
	if voices := b.voices[member]; !slices.Contains(voices, node) {
		if len(voices) == voicesMax {
			return false
		}
		b.voices[member] = append(voices, node)
	}
	if b.seen[of] {
		return false
	}
	b.seen[of] = true
	return true
}
