package lane

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cometbft/cometbft/consensus"
	cstypes "github.com/cometbft/cometbft/consensus/types"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/p2p/mock"
	cmtcons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"
	"github.com/cosmos/gogoproto/proto"
)

// peer keeps what it is sent. Its queue may be full.
type peer struct {
	*mock.Peer
	mu   sync.Mutex
	got  []proto.Message
	full atomic.Bool
}

func (p *peer) Send(e p2p.Envelope) bool { return p.TrySend(e) }

func (p *peer) TrySend(e p2p.Envelope) bool {
	if p.full.Load() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, e.Message)
	return true
}

// takes returns what came since the last call.
func (p *peer) takes() []proto.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.got
	p.got = nil
	return got
}

// at is a line to a peer that said where it stands. Nothing runs: tests call what its goroutine
// calls.
func at(t *testing.T, l *Lane, height int64, round int32) (*line, *peer) {
	t.Helper()
	p := &peer{Peer: mock.NewPeer(nil)}
	n := &line{lane: l, peer: p, told: consensus.NewPeerState(p), wake: make(chan struct{}, 1)}
	l.lines[p.ID()] = n
	n.told.ApplyNewRoundStepMessage(&consensus.NewRoundStepMessage{Height: height, Round: round, Step: cstypes.RoundStepNewHeight})
	return n, p
}

// chain is a block store of blocks with three parts each, decided by four validators.
type chain struct {
	height int64
	parts  *types.PartSet
	loaded *int // how often a commit was
}

func newChain(height int64) chain {
	return chain{height: height, loaded: new(int), parts: types.NewPartSetFromData(make([]byte, 2*types.BlockPartSizeBytes+1), types.BlockPartSizeBytes)}
}

func (c chain) Base() int64   { return 1 }
func (c chain) Height() int64 { return c.height }
func (c chain) id() types.BlockID {
	return types.BlockID{Hash: c.parts.Hash(), PartSetHeader: c.parts.Header()}
}

func (c chain) LoadBlockMeta(int64) *types.BlockMeta     { return &types.BlockMeta{BlockID: c.id()} }
func (c chain) LoadBlockPart(_ int64, i int) *types.Part { return c.parts.GetPart(i) }
func (c chain) LoadBlockExtendedCommit(h int64) *types.ExtendedCommit {
	*c.loaded++
	out := &types.ExtendedCommit{Height: h, Round: 0, BlockID: c.id()}
	for i := range 4 {
		out.ExtendedSignatures = append(out.ExtendedSignatures, types.ExtendedCommitSig{CommitSig: types.CommitSig{
			BlockIDFlag: types.BlockIDFlagCommit, ValidatorAddress: make([]byte, 20), Timestamp: time.Unix(int64(i), 0), Signature: []byte{1},
		}})
	}
	return out
}

func ownVote(height int64, round int32, kind cmtproto.SignedMsgType) *types.Vote {
	return &types.Vote{Type: kind, Height: height, Round: round, ValidatorAddress: make([]byte, 20), ValidatorIndex: 2, Signature: []byte{1}}
}

// An own vote goes to peers that can use it, and CometBFT's knowledge of the peer has it then.
func TestVotesGoWhereTheyCount(t *testing.T) {
	for _, c := range []struct {
		name   string
		height int64
		round  int32
		vote   *types.Vote
		sent   bool
		known  bool
	}{
		{"same round", 5, 0, ownVote(5, 0, cmtproto.PrevoteType), true, true},
		{"next round", 5, 0, ownVote(5, 1, cmtproto.PrevoteType), true, false},
		{"a round too far, which would use up what the peer allows", 5, 0, ownVote(5, 2, cmtproto.PrevoteType), false, false},
		{"round that is over", 5, 1, ownVote(5, 0, cmtproto.PrevoteType), false, false},
		{"peer that may have come along", 4, 0, ownVote(5, 0, cmtproto.PrevoteType), true, false},
		{"peer that is far behind", 3, 0, ownVote(5, 0, cmtproto.PrecommitType), false, false},
		{"late precommit", 6, 0, ownVote(5, 0, cmtproto.PrecommitType), true, true},
		{"late prevote", 6, 0, ownVote(5, 0, cmtproto.PrevoteType), false, false},
	} {
		l := New(Options{})
		l.shown = shown{height: 5, validators: 4, own: 2}
		n, p := at(t, l, c.height, c.round)
		if c.height == 6 {
			n.told.PRS.LastCommitRound = 0
		}
		l.Voted(c.vote)
		l.Voted(&types.Vote{Type: cmtproto.PrevoteType, Height: 5, ValidatorIndex: 1}) // another's
		if got := len(p.takes()) == 1; got != c.sent {
			t.Errorf("%s: sent %t, want %t", c.name, got, c.sent)
		}
		rs := n.told.GetRoundState()
		known := slices.ContainsFunc([]interface{ GetIndex(int) bool }{rs.Prevotes, rs.Precommits, rs.LastCommit}, func(a interface{ GetIndex(int) bool }) bool { return a.GetIndex(2) })
		if known != c.known {
			t.Errorf("%s: known to have it %t, want %t", c.name, known, c.known)
		}
	}
}

// A full queue leaves a vote to gossip: nothing is noted.
func TestAFullQueueLeavesAVoteToGossip(t *testing.T) {
	l := New(Options{})
	l.shown = shown{height: 5, validators: 4, own: 2}
	n, p := at(t, l, 5, 0)
	p.full.Store(true)
	l.Voted(ownVote(5, 0, cmtproto.PrevoteType))
	if n.told.GetRoundState().Prevotes.GetIndex(2) || l.Counts().Dropped != 1 {
		t.Errorf("noted as sent; %+v", l.Counts())
	}
}

// A peer that is behind gets the votes that decided its block, and the parts once it says which it
// lacks, each once.
func TestAPeerBehindGetsTheDecidedBlock(t *testing.T) {
	l, blocks := New(Options{}), newChain(7)
	l.store, l.shown = blocks, shown{height: 8, validators: 4, own: 2}
	n, p := at(t, l, 3, 0)
	count := func(what string, votes, parts int) {
		t.Helper()
		n.help()
		got := map[bool]int{}
		for _, m := range p.takes() {
			_, part := m.(*cmtcons.BlockPart)
			got[part]++
		}
		if got[false] != votes || got[true] != parts {
			t.Errorf("%s: %d votes and %d parts, want %d and %d", what, got[false], got[true], votes, parts)
		}
	}
	count("at first", 4, 0)
	for range 100 {
		count("again", 0, 0)
	}
	if *blocks.loaded != 1 {
		t.Errorf("the commit was loaded %d times for a peer that says the same again and again", *blocks.loaded)
	}
	lacks := types.NewPartSetFromHeader(blocks.parts.Header())
	if _, err := lacks.AddPart(blocks.parts.GetPart(1)); err != nil {
		t.Fatal(err)
	}
	n.told.ApplyNewValidBlockMessage(&consensus.NewValidBlockMessage{
		Height: 3, BlockPartSetHeader: lacks.Header(), BlockParts: lacks.BitArray(), IsCommit: true,
	})
	count("told what it lacks", 0, 2)
	count("told once more", 0, 0)
	n.told.ApplyNewRoundStepMessage(&consensus.NewRoundStepMessage{Height: 9, Step: cstypes.RoundStepNewHeight})
	count("ahead of this node", 0, 0)
}

// An own proposal and its parts go to a peer of the same round, once, and to one that comes later.
func TestProposalsGoToPeersOfTheRound(t *testing.T) {
	l, blocks := New(Options{}), newChain(4)
	proposal := types.NewProposal(5, 1, -1, blocks.id())
	l.store, l.shown = blocks, shown{height: 5, validators: 4, own: -1, proposal: proposal, proposed: blocks.parts}
	for _, c := range []struct {
		height int64
		round  int32
		want   int
	}{{5, 1, 4}, {5, 0, 0}, {4, 1, 4}} { // the last one is behind: four votes
		n, p := at(t, l, c.height, c.round)
		n.help()
		n.help()
		if got := len(p.takes()); got != c.want {
			t.Errorf("peer at %d/%d: %d messages, want %d", c.height, c.round, got, c.want)
		}
	}
}

// net keeps what is broadcast.
type net struct {
	p2p.Switcher
	peer
}

func (n *net) BroadcastAsync(e p2p.Envelope) { n.TrySend(e) }
func (n *net) TryBroadcast(e p2p.Envelope)   { n.TrySend(e) }

// Notes that gossip alone needs wait, and are not told once the height is over. The rest is told at
// once.
func TestTellingWaits(t *testing.T) {
	var untold atomic.Uint64
	out := &net{}
	told := newTeller(out, &untold)
	t.Cleanup(told.close)
	step := func(height int64, round int32, step uint32) {
		told.BroadcastAsync(envelope(&cmtcons.NewRoundStep{Height: height, Round: round, Step: step}))
	}
	vote := func(height int64) { told.TryBroadcast(envelope(&cmtcons.HasVote{Height: height})) }
	valid := func(height int64, parts *types.PartSet) {
		told.BroadcastAsync(envelope(&cmtcons.NewValidBlock{Height: height, BlockParts: parts.BitArray().ToProto()}))
	}
	whole := newChain(1).parts
	now := func(what string, want int) {
		t.Helper()
		if got := len(out.takes()); got != want {
			t.Fatalf("%s: %d messages at once, want %d", what, got, want)
		}
	}
	step(5, 0, 1)
	now("a new height", 1)
	step(5, 0, 2)
	vote(5)
	vote(5)
	valid(5, whole)
	now("within the round", 0)
	valid(5, types.NewPartSetFromHeader(whole.Header()))
	now("parts are missing", 1)
	step(6, 0, 1)
	now("the next height", 1)
	if untold.Load() != 2 {
		t.Errorf("%d notes are counted as untold, want 2", untold.Load())
	}
	vote(5) // late, of a height that is over
	step(5, 0, 3)
	vote(6)
	step(6, 1, 1)
	now("a new round", 1)
	step(6, 1, 2)
	step(6, 1, 3)
	var later []proto.Message
	for end := time.Now().Add(10 * time.Second); len(later) < 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		later = append(later, out.takes()...)
	}
	if len(later) != 2 {
		t.Fatalf("later: %v, want the last step and the vote of height 6", later)
	}
	if s, ok := later[0].(*cmtcons.NewRoundStep); !ok || s.Step != 3 || s.Height != 6 {
		t.Errorf("later: %v", later)
	}
	told.close() // nothing is told from here on, and what waits stays
	for range 2 * votesWaitingMax {
		vote(6)
	}
	if len(told.votes) != votesWaitingMax {
		t.Errorf("%d votes wait, want at most %d", len(told.votes), votesWaitingMax)
	}
}
