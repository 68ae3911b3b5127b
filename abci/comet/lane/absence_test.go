package lane

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cometbft/cometbft/consensus"
	cstypes "github.com/cometbft/cometbft/consensus/types"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
)

// Which turns are skipped, after events: "begin 9/0 d", "lost 9/0 d", "heard d". There are four
// validators.
func TestTurnsOfMissingValidatorsAreSkipped(t *testing.T) {
	const missed = "begin 9/0 d, lost 9/0 d"
	for _, c := range []struct {
		name, events, turn string
		skipped            bool
	}{
		{"nothing is known", "", "13/0 d", false},
		{"its proposal came", "begin 9/0 d, heard d", "13/0 d", false},
		{"its turn was lost without a word of it", missed, "13/0 d", true},
		{"another validator's turn", missed, "13/0 c", false},
		{"in a later round", missed, "13/3 d", true},
		{"every validator had a turn", missed, "13/4 d", false},
		{"it missed again", missed + ", begin 13/0 d, lost 13/0 d", "17/0 d", true},
		{"it was heard since", missed + ", heard d", "13/0 d", false},
		{"another one was heard", missed + ", heard c", "13/0 d", true},
		{"it was heard in its lost turn", "begin 9/0 d, heard d, lost 9/0 d", "13/0 d", false},
		{"it was heard before its lost turn alone", "heard d, begin 9/0 d, lost 9/0 d", "13/0 d", true},
		{"the lost turn was not waited for here", "begin 5/0 c, lost 9/0 d", "13/0 d", false},
		{"full turn", missed, "1026/0 d", false},
		{"later round of a full turn", missed, "1026/1 d", true},
		{"height after the full turns", missed, "1028/0 d", true},
	} {
		var a absence
		for event := range strings.SplitSeq(c.events, ", ") {
			switch what, of, _ := strings.Cut(event, " "); what {
			case "begin":
				a.begin(turnOf(t, of))
			case "lost":
				a.lost(turnOf(t, of))
			case "heard":
				a.heard(of)
			}
		}
		if got := a.skips(turnOf(t, c.turn)); got != c.skipped {
			t.Errorf("%s: turn %s is skipped: %t, want %t", c.name, c.turn, got, c.skipped)
		}
	}
}

// turnOf reads "height/round proposer".
func turnOf(t *testing.T, text string) turn {
	t.Helper()
	at, proposer, _ := strings.Cut(text, " ")
	height, round, _ := strings.Cut(at, "/")
	h, err := strconv.ParseInt(height, 10, 64)
	must.Do(t, err)
	r, err := strconv.ParseInt(round, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return turn{height: h, round: int32(r), proposer: proposer, validators: 4}
}

// happening is an event of the model, which keeps them all.
type happening struct {
	what string // begin, lost, or heard
	of   turn   // heard: its proposer alone
}

// missing decides from all that happened: some turn of the validator was lost, which was the last
// that began, and it was not heard since that beginning.
func missing(all []happening, validator string) bool {
	for i, lost := range all {
		if lost.what != "lost" || lost.of.proposer != validator {
			continue
		}
		began := -1
		for j, e := range all[:i] {
			if e.what == "begin" {
				began = j
			}
		}
		heard := func(e happening) bool { return e.what == "heard" && e.of.proposer == validator }
		if began >= 0 && all[began].of == lost.of && !slices.ContainsFunc(all[began:], heard) {
			return true
		}
	}
	return false
}

// The record of the missing agrees with one that keeps all events, whatever happens.
func TestMissingIsAsAllEventsTell(t *testing.T) {
	random := seeded.Random(t)
	for range 300 {
		const validators = 4
		var a absence
		var all []happening
		for range 60 {
			e := happening{what: []string{"begin", "begin", "lost", "lost", "heard"}[random.IntN(5)], of: randomTurn(random, validators)}
			if len(all) > 0 && random.IntN(2) == 0 {
				e.of = all[len(all)-1].of
			}
			switch all = append(all, e); e.what {
			case "begin":
				a.begin(e.of)
			case "lost":
				a.lost(e.of)
			case "heard":
				a.heard(e.of.proposer)
			}
			probe := randomTurn(random, validators)
			full := probe.round == 0 && probe.height/validators%fullTurnEvery == 0
			want := missing(all, probe.proposer) && probe.round < validators && !full
			if got := a.skips(probe); got != want {
				t.Fatalf("after %v, turn %v is skipped: %t, want %t", all, probe, got, want)
			}
		}
	}
}

func randomTurn(random *rand.Rand, validators int) turn {
	return turn{
		height: 1 + random.Int64N(2*fullTurnEvery*int64(validators)), round: random.Int32N(int32(validators) + 2),
		proposer: strconv.Itoa(random.IntN(validators)), validators: validators,
	}
}

// Validators that left are forgotten: there are never more missing ones than validators.
func TestMissingAreNoMoreThanValidators(t *testing.T) {
	var a absence
	for i := range 100 {
		one := turn{height: int64(i + 1), proposer: strconv.Itoa(i), validators: 4}
		a.begin(one)
		if !a.lost(one) || a.lost(one) {
			t.Fatalf("turn %d was not missed once", i)
		}
		if len(a.missing) > 4 {
			t.Fatalf("%d validators are missing, of 4", len(a.missing))
		}
	}
}

const chainID = "lane"

// consortium are four validators in height 9, as the lane of the first sees them.
type consortium struct {
	lane   *Lane
	keys   map[string]types.PrivValidator
	height int64
}

func newConsortium(t *testing.T) *consortium {
	t.Helper()
	c := &consortium{lane: New(Options{}), keys: map[string]types.PrivValidator{}, height: 9}
	var all []*types.Validator
	for range 4 {
		key := types.NewMockPV()
		public, err := key.GetPubKey()
		must.Do(t, err)
		c.keys[string(public.Address())] = key
		all = append(all, types.NewValidator(public, 1))
	}
	set := types.NewValidatorSet(all)
	c.lane.state = &consensus.State{RoundState: cstypes.RoundState{
		Height: c.height, Validators: set, Votes: cstypes.NewHeightVoteSet(chainID, c.height, set),
	}}
	return c
}

// precommit adds precommits of a block, or of none, by so many of those that do not propose.
func (c *consortium) precommit(t *testing.T, of types.BlockID, count int) {
	t.Helper()
	rs := &c.lane.state.RoundState
	for i, v := range rs.Validators.Validators {
		if v.Address.String() == rs.Validators.GetProposer().Address.String() || count == 0 {
			continue
		}
		count--
		vote := &types.Vote{
			Type: cmtproto.PrecommitType, Height: c.height, BlockID: of, Timestamp: time.Unix(1, 0),
			ValidatorAddress: v.Address, ValidatorIndex: int32(i),
		}
		p := vote.ToProto()
		must.Do(t, c.keys[string(v.Address)].SignVote(chainID, p))
		vote.Signature = p.Signature
		if added, err := rs.Votes.AddVote(vote, "", false); !added || err != nil {
			t.Fatalf("vote added: %t, %v", added, err)
		}
	}
}

// vain is told by the ticker of a wait of a second.
func (c *consortium) vain(step cstypes.RoundStepType) bool {
	return c.lane.vain(wait{Duration: time.Second, Height: c.height, Step: step})
}

// Waits for a proposer end at once when it let its turn pass without a word, until it is heard.
func TestWaitsForTheMissingAreInVain(t *testing.T) {
	some := types.BlockID{Hash: make([]byte, 32), PartSetHeader: types.PartSetHeader{Total: 1, Hash: make([]byte, 32)}}
	speaks := func(c *consortium) { c.lane.heard(c.proposer()) }
	for _, c := range []struct {
		name       string
		turn       func(c *consortium) // between the wait for its proposal and that for precommits
		of         types.BlockID       // of the precommits of the others
		count      int                 // of these
		after      func(c *consortium)
		missed     uint64
		last, next bool // the wait for more precommits is in vain, and that for the next proposal
	}{
		{"nothing came", nil, types.BlockID{}, 3, nil, 1, true, true},
		{"its proposal came", func(c *consortium) { c.lane.state.Proposal = &types.Proposal{} }, types.BlockID{}, 3, nil, 0, false, false},
		{"too few precommitted", nil, types.BlockID{}, 2, nil, 0, false, false},
		{"a block was precommitted, whose proposal did not come", nil, some, 3, nil, 0, false, false},
		{"its vote came in the turn", speaks, types.BlockID{}, 3, nil, 0, false, false},
		{"its vote came after the turn", nil, types.BlockID{}, 3, speaks, 1, true, false},
		{"its proposal came after the turn", nil, types.BlockID{}, 3, func(c *consortium) {
			c.lane.state.Proposal = &types.Proposal{}
			c.lane.look()
		}, 1, true, false},
		{"the own turn", func(c *consortium) { c.lane.own = c.proposer() }, types.BlockID{}, 3, nil, 1, false, false},
	} {
		one := newConsortium(t)
		if one.vain(cstypes.RoundStepPropose) {
			t.Errorf("%s: the first turn is not waited for", c.name)
		}
		if c.turn != nil {
			c.turn(one)
		}
		one.precommit(t, c.of, c.count)
		if got := one.vain(cstypes.RoundStepPrecommitWait); got != c.last {
			t.Errorf("%s: waiting for more precommits is in vain: %t, want %t", c.name, got, c.last)
		}
		if c.after != nil {
			c.after(one)
		}
		one.lane.state.Proposal = nil
		for _, step := range []cstypes.RoundStepType{cstypes.RoundStepNewHeight, cstypes.RoundStepNewRound, cstypes.RoundStepPrevoteWait} {
			if one.vain(step) {
				t.Errorf("%s: %s is in vain", c.name, step)
			}
		}
		if got := one.vain(cstypes.RoundStepPropose); got != c.next {
			t.Errorf("%s: waiting for the next proposal is in vain: %t, want %t", c.name, got, c.next)
		}
		counts, skipped := one.lane.Counts(), uint64(0)
		if c.next {
			skipped = 1
		}
		if counts.Missed != c.missed || counts.Skipped != skipped {
			t.Errorf("%s: %d turns were missed and %d skipped, want %d and %d", c.name, counts.Missed, counts.Skipped, c.missed, skipped)
		}
	}
}

// proposer is the address of the one whose turn it is.
func (c *consortium) proposer() []byte { return c.lane.state.Validators.GetProposer().Address }

// A wait in vain ends at once, and every other lasts as long as CometBFT says.
func TestTickerEndsWaitsInVain(t *testing.T) {
	type info wait // stands for CometBFT's timeoutInfo
	var got []info
	tick := newTicker(consensus.NewTimeoutTicker(), func(i info) { got = append(got, i) }, func(w wait) bool { return w.Height == 2 })
	want := []info{{time.Second, 1, 3, cstypes.RoundStepPropose}, {0, 2, 4, cstypes.RoundStepPropose}}
	for _, w := range want {
		w.Duration = time.Second
		tick.ScheduleTimeout(w)
	}
	if !slices.Equal(got, want) {
		t.Errorf("scheduled: %v, want %v", got, want)
	}
}
