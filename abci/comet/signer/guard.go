package signer

import (
	"errors"
	"maps"
	"math"
	"slices"

	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
)

// Step is where a key signs once. Kind is 1 for a proposal, 2 for a prevote, 3 for a precommit.
type Step struct {
	Height int64
	Round  int32
	Kind   int8
}

// StepOf is the step of a vote.
func StepOf(height int64, round int32, kind cmtproto.SignedMsgType) Step {
	if kind == cmtproto.PrecommitType {
		return Step{height, round, stepPrecommit}
	}
	return Step{height, round, stepPrevote}
}

func (s Step) before(other Step) bool {
	l := Last{Height: s.Height, Round: s.Round, Step: s.Kind}
	return l.compare(other.Height, other.Round, other.Kind) < 0
}

// ProposalStep is the step of a proposal.
func ProposalStep(height int64, round int32) Step { return Step{height, round, stepPropose} }

// Powers are the votes of the order, as one of its keys sees them.
type Powers struct {
	Key    int64            // of the key itself
	Others map[string]int64 // of all other keys, by organisation
}

func (p Powers) total() int64 {
	total := p.Key
	for _, power := range p.Others {
		total += power
	}
	return total
}

// OthersSuffice reports whether the others decide blocks without the key.
func (p Powers) OthersSuffice() bool { return 3*(p.total()-p.Key) > 2*p.total() }

// Reports are the heights that nodes of other organisations work on, asked for after this process
// began.
type Reports struct{ heights map[string]int64 }

// Take notes one look at the connected nodes: of each organisation the greatest height that one of
// them works on. Looks are over once Reach is known: what comes later cannot lower it. An
// organisation whose standby alone is connected counts by that standby.
func (r *Reports) Take(look map[string]int64) {
	if r.heights == nil {
		r.heights = map[string]int64{}
	}
	for organisation, height := range look {
		if height > 0 {
			r.heights[organisation] = max(r.heights[organisation], height)
		}
	}
}

// Reach is the least height that organisations with more than two thirds of all votes, without the
// key's own, work on at most; 0: too few have reported.
//
// No process that ended before this one began decided a higher order block. More than two thirds of
// the votes decide a block, and an honest one of them is among those that reported. So the key
// signed for no height beyond Reach + 1.
func (r *Reports) Reach(p Powers) int64 {
	votes := int64(0)
	for _, organisation := range slices.SortedFunc(maps.Keys(r.heights), func(a, b string) int { return sign(r.heights[a] - r.heights[b]) }) {
		if votes += p.Others[organisation]; 3*votes > 2*p.total() {
			return r.heights[organisation]
		}
	}
	return 0
}

// Missing are the organisations with votes that have not reported, by name.
func (r *Reports) Missing(p Powers) (missing []string) {
	for organisation, power := range p.Others {
		if r.heights[organisation] == 0 && power > 0 {
			missing = append(missing, organisation)
		}
	}
	slices.Sort(missing)
	return missing
}

// Begins reports whether nobody is known to be beyond a height, by nodes that can decide it
// together with the key.
func (r *Reports) Begins(height int64, p Powers) bool {
	votes := p.Key
	for organisation, at := range r.heights {
		if at > height {
			return false
		}
		votes += p.Others[organisation]
	}
	return 3*votes > 2*p.total()
}

// Progress is how far the order is, as far as it matters to a guard.
type Progress struct {
	Reach int64 // as Reports tell it
	First bool  // the key counts for the first time, and nobody is known to be beyond
}

// Why a key does not sign.
var (
	ErrSilent    = errors.New("what this key signed last is not known here")
	ErrElsewhere = errors.New("another process signs with this key")
)

// madeMax bounds how many signatures of this process are remembered.
const madeMax = 512

// Guard decides when a key may sign, and notices signatures of the key that come from elsewhere. It
// holds no clock, no lock and no file. Its calls come in the order of what happened.
//
// Invariant A14: a key without its last signature signs only for heights beyond those that an
// earlier process can have signed for. Invariant A15: a key that signs elsewhere while this process
// runs signs nothing here any more.
type Guard struct {
	doubt   bool // what the key signed last is not known
	found   bool // the guard found that out, by signatures whose process may still run
	stopped bool
	// open: this process has signed nothing, and knows of no signature before.
	open bool
	// from is the first step from which on the guard knows each signature of this process.
	from      Step
	made      []signed // ascending
	elsewhere int64    // greatest height of a signature that was not made here; 0: there is none
	began     int64    // height of the first signature of this process; 0: none yet
}

type signed struct {
	at        Step
	signature string
}

// NewGuard makes the guard of a key. last is its last signature, nil where another process keeps
// that. With doubt the key may have signed more since.
func NewGuard(last *Last, doubt, stopped bool) *Guard {
	g := &Guard{doubt: doubt, stopped: stopped, open: last == nil}
	if last != nil && len(last.Signature) > 0 {
		g.from = Step{last.Height, last.Round, last.Step}
		g.made = []signed{{g.from, string(last.Signature)}}
	} else if last != nil {
		g.from = Step{last.Height, last.Round, last.Step}
	}
	return g
}

// Doubts reports whether the key waits, or has stopped: May needs to know how far the order is.
func (g *Guard) Doubts() bool { return g.doubt || g.stopped }

// Doubt is told that the key may have signed more than is known here.
func (g *Guard) Doubt() { g.doubt = true }

// Stopped reports whether the key signs elsewhere.
func (g *Guard) Stopped() bool { return g.stopped }

// May says why the key signs nothing for a height; nil: it signs.
func (g *Guard) May(height int64, order Progress) error {
	switch g.judge(order); {
	case g.stopped:
		return ErrElsewhere
	case !g.doubt:
		return nil
	case order.First && g.elsewhere == 0 && g.from.Height == 0:
		return nil
	case order.Reach > 0 && height > g.Until(order.Reach):
		return nil
	}
	return ErrSilent
}

// Suspect has a doubt be one that a guard of before found out.
func (g *Guard) Suspect() { g.found = true }

// watched is for how many more heights a guard looks on whose key signed what it did not make. A
// process that still signs is heard of by then: votes of a height are in the next block.
const watched = 8

// Until is the last height for which a key in doubt signs nothing.
func (g *Guard) Until(reach int64) int64 {
	if g.found {
		return beyond(min(reach, math.MaxInt64-1-watched)) + watched
	}
	return beyond(reach)
}

// beyond is the last height that an earlier process can have signed for.
func beyond(reach int64) int64 { return min(reach, math.MaxInt64-1) + 1 }

// judge finds whether signatures made elsewhere are those of a process that ran beside this one.
// They are, for heights that no process of before reached, or that this one has signed for.
func (g *Guard) judge(order Progress) {
	g.stopped = g.stopped || order.Reach > 0 && g.elsewhere > beyond(order.Reach) || g.began > 0 && g.elsewhere >= g.began
}

// Made is told of each signature, before it leaves. From the first one on each is known.
func (g *Guard) Made(at Step, signature []byte) {
	switch {
	case g.doubt:
		g.doubt, g.found, g.open, g.elsewhere, g.from, g.made = false, false, false, 0, Step{Height: at.Height}, nil
	case g.open:
		g.open, g.from = false, at
	}
	if g.began == 0 {
		g.began = at.Height
	}
	if n := len(g.made); n > 0 && !g.made[n-1].at.before(at) {
		return // signed again
	}
	if len(g.made) == madeMax {
		g.made = slices.Delete(g.made, 0, madeMax/2)
		g.from = g.made[0].at
	}
	g.made = append(g.made, signed{at, string(signature)})
}

// Heard takes a vote with a valid signature of the key, from any sender. It reports whether the
// vote was made elsewhere.
func (g *Guard) Heard(at Step, signature []byte, order Progress) bool {
	if g.open || at.before(g.from) {
		return false
	}
	known := slices.IndexFunc(g.made, func(s signed) bool { return s.at == at })
	if known >= 0 && g.made[known].signature == string(signature) || known < 0 && at == g.from {
		return false
	}
	return g.doubts(at.Height, order)
}

// Decided is told of each decided order block that the key has precommitted. It reports whether the
// precommit was made elsewhere.
func (g *Guard) Decided(height int64, order Progress) bool {
	if g.open || height <= g.from.Height || slices.ContainsFunc(g.made, func(s signed) bool { return s.at.Height == height }) {
		return false
	}
	return g.doubts(height, order)
}

// Twice is told of each height of which the order has evidence that the key signed twice. It
// reports whether that is news.
func (g *Guard) Twice(height int64, order Progress) bool {
	if g.open || height < g.from.Height {
		return false
	}
	return g.doubts(height, order)
}

func (g *Guard) doubts(height int64, order Progress) bool {
	g.found = g.found || !g.doubt
	g.doubt, g.elsewhere = true, max(g.elsewhere, height)
	g.judge(order)
	return true
}
