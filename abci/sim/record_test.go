package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"

	"github.com/chainify-db/chainify/abci/comet/signer"
	"github.com/chainify-db/chainify/abci/wire"
)

// record is all that the keys of a world ever signed, by whichever machine.
type record struct {
	mu      sync.Mutex
	steps   map[string]map[signer.Step]string       // what was signed, but its time, by organisation
	effects map[string]map[wire.Key]wire.EffectVote // the first vote
	last    map[*machine]int64                      // height of the last signature
	odd     map[string]map[int64]bool               // heights with two signatures of one step
	twice   []string                                // signatures of the order, in words
	revoted []string                                // votes on effects, in words
	height  int64                                   // the greatest one that anybody signed for
}

func newRecord() *record {
	return &record{
		steps: map[string]map[signer.Step]string{}, effects: map[string]map[wire.Key]wire.EffectVote{},
		last: map[*machine]int64{}, odd: map[string]map[int64]bool{},
	}
}

func (r *record) vote(by *machine, v *cmtproto.Vote) {
	r.signed(by, signer.StepOf(v.Height, v.Round, v.Type), fmt.Sprintf("%v", v.BlockID))
	vote, err := wire.DecodeEffectVote(v.Extension)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.effects[by.of.name]
	if of == nil {
		of = map[wire.Key]wire.EffectVote{}
		r.effects[by.of.name] = of
	}
	first, voted := of[vote.Key()]
	if !voted {
		of[vote.Key()] = vote
	} else if first != vote {
		r.revoted = append(r.revoted, fmt.Sprintf("%s at height %d: votes on effects %v, before %v", by, v.Height, vote, first))
	}
}

func (r *record) proposal(by *machine, p *cmtproto.Proposal) {
	r.signed(by, signer.ProposalStep(p.Height, p.Round), fmt.Sprintf("%v %d", p.BlockID, p.PolRound))
}

func (r *record) signed(by *machine, at signer.Step, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.steps[by.of.name]
	if of == nil {
		of, r.odd[by.of.name] = map[signer.Step]string{}, map[int64]bool{}
		r.steps[by.of.name] = of
	}
	if before, signed := of[at]; !signed {
		of[at] = what
	} else if before != what {
		r.odd[by.of.name][at.Height] = true
		r.twice = append(r.twice, fmt.Sprintf("%s at %+v: %s, before %s", by, at, what, before))
	}
	r.last[by], r.height = at.Height, max(r.height, at.Height)
}

// reached is the greatest height that anybody signed for.
func (r *record) reached() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.height
}

// signs is the height for which a machine signed last; 0: it signed nothing.
func (r *record) signs(m *machine) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[m]
}

// stuck is on how many executions an organisation voted that a transaction does not end.
func (r *record) stuck(organisation string) (votes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.effects[organisation] {
		if v.Kind == wire.VoteStuck {
			votes++
		}
	}
	return votes
}

// twices are the double signatures of the order in words, their heights by organisation, and the
// double votes on effects in words.
func (r *record) twices() (twice []string, heights map[string][]int64, revoted []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	heights = map[string][]int64{}
	for name, odd := range r.odd {
		heights[name] = slices.SortedFunc(maps.Keys(odd), cmp.Compare[int64])
	}
	return slices.Clone(r.twice), heights, slices.Clone(r.revoted)
}
