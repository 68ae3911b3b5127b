package effects

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/backend"
)

// askedKept bounds the nodes that are remembered as of no help. Beyond it the oldest entry is
// forgotten.
const askedKept = 1_000

// askingOrder chooses the order in which nodes of other organisations are asked.
type askingOrder struct {
	random *rand.Rand
	rounds uint64
	noHelp map[string]uint64 // node to the number of its last useless answer
}

func newAskingOrder(seed uint64) *askingOrder {
	return &askingOrder{random: rand.New(rand.NewPCG(seed, 0)), noHelp: map[string]uint64{}}
}

// order is random, so that the questions of many nodes spread. Nodes that were of no help come
// last, the latest of them at the end. So a node that lies or is slow is asked before the others
// only once.
func (t *askingOrder) order(nodes []string) []string {
	nodes = slices.Sorted(slices.Values(nodes))
	t.random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	slices.SortStableFunc(nodes, func(a, b string) int { return int(int64(t.noHelp[a]) - int64(t.noHelp[b])) })
	return nodes
}

// wasNoHelp puts a node behind all others.
func (t *askingOrder) wasNoHelp(node string) {
	t.rounds++
	t.noHelp[node] = t.rounds
	if len(t.noHelp) <= askedKept {
		return
	}
	oldest := node
	for n, at := range t.noHelp {
		if at < t.noHelp[oldest] {
			oldest = n
		}
	}
	delete(t.noHelp, oldest)
}

// inquiry is one round of asking other organisations, one after the other: whether the next is
// asked, who told what is false, and what came of it.
type inquiry struct {
	// past: a block as it is kept is asked for, not rows.
	past bool
	// adopts: such a block is about to be applied here, and what is as certified may not be of use.
	adopts  bool
	helper  string   // organisation whose word was taken; empty: none yet
	useless []string // organisations whose word may be at fault, or something here
	// beyond: received rows cannot repair this database, so a further step of recovery may help.
	beyond bool
}

// verdict says how a round of questions goes on after an answer.
type verdict uint8

const (
	enough verdict = iota // no other organisation is asked
	next                  // the next one is asked
	lied                  // the next one is asked, and this one named
	broken                // the round ends: the failure is this database's
)

// answered judges the result of using an organisation's answer.
func (q *inquiry) answered(organisation string, err error) verdict {
	switch {
	case err == nil:
		q.helper = organisation
		return enough
	case q.adopts && errors.Is(err, backend.ErrBeyondRepair):
		return broken
	case errors.Is(err, backend.ErrFalse):
		if _, proven := accuse.FalseTold(organisation, 0, err); !proven {
			return broken // an error of this database stands beside it
		}
		return lied
	case errors.Is(err, backend.ErrUnfit), errors.Is(err, backend.ErrBeyondRepair):
		q.useless = append(q.useless, organisation)
		q.beyond = q.beyond || !q.past && errors.Is(err, backend.ErrBeyondRepair)
		return next
	case errors.Is(err, backend.ErrNoHelp):
		return next
	}
	return broken
}

// ended returns the result of the round, and the organisations that sent false data. An answer
// counts as false once another organisation's answer about the same block was right and was used
// here. Until then nobody is named, since this database may be at fault.
func (q *inquiry) ended() (liars []string, err error) {
	switch {
	case q.helper != "":
		return q.useless, nil
	case q.beyond:
		return nil, backend.ErrBeyondRepair
	}
	return nil, backend.ErrNoHelp
}
