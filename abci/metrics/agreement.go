package metrics

import (
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// executionsKept bounds the executions whose votes are remembered: one is pending at a time, and
// votes come a few blocks late at most.
const executionsKept = 64

type verdict string

const (
	agrees  verdict = "agrees"
	differs verdict = "differs"
	stuck   verdict = "stuck"
)

// judgement is the result of one organisation's vote, once its execution is certified.
type judgement struct {
	organisation string
	block        uint64
	verdict      verdict
}

// execution gathers the votes on one execution until its certificate is there, and those that come
// after.
type execution struct {
	key       wire.Key
	orderedAt time.Time // zero: votes came first
	certified *wire.Hash
	votes     map[string]wire.EffectVote // by organisation, the first of each
}

// agreement judges every vote on a certified execution once.
type agreement struct {
	mu         sync.Mutex
	executions []*execution // oldest first
	last       map[string]uint64
}

func newAgreement() *agreement { return &agreement{last: map[string]uint64{}} }

func (a *agreement) find(key wire.Key) *execution {
	for i := len(a.executions) - 1; i >= 0; i-- {
		if a.executions[i].key == key {
			return a.executions[i]
		}
	}
	if len(a.executions) == executionsKept {
		a.executions = a.executions[1:]
	}
	e := &execution{key: key, votes: map[string]wire.EffectVote{}}
	a.executions = append(a.executions, e)
	return e
}

// ordered notes when an execution was decided; false when it was known, as after a restart or when
// told again.
func (a *agreement) ordered(b *wire.OrderedBlock, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.find(b.Key())
	if !e.orderedAt.IsZero() {
		return false
	}
	e.orderedAt = now
	return b.Round == 0
}

// certified judges what was voted on the execution; took is 0 when its order was not seen.
func (a *agreement) certified(c *wire.Certificate, now time.Time) (took time.Duration, judged []judgement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var e *execution
	for _, known := range a.executions {
		if known.key.Number == c.Number && known.key.Round == c.Round && !known.orderedAt.IsZero() {
			e = known
		}
	}
	if e == nil || e.certified != nil {
		return 0, nil
	}
	hash := c.Hash
	e.certified = &hash
	for _, v := range c.Votes {
		if vote, err := wire.DecodeEffectVote(v.Extension); err == nil && vote.Key() == e.key {
			e.votes[v.Organisation] = vote
		}
	}
	for organisation, vote := range e.votes {
		judged = append(judged, e.judge(organisation, vote))
	}
	return now.Sub(e.orderedAt), judged
}

func (a *agreement) voted(organisation string, vote wire.EffectVote) []judgement {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.find(vote.Key())
	if _, known := e.votes[organisation]; known {
		return nil
	}
	e.votes[organisation] = vote
	if e.certified == nil {
		return nil
	}
	return []judgement{e.judge(organisation, vote)}
}

// lastAgreed gives, for whom the list moves it, the newest block each organisation agreed to.
func (a *agreement) lastAgreed(list []judgement) map[string]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	moved := map[string]uint64{}
	for _, j := range list {
		if j.verdict == agrees && j.block > a.last[j.organisation] {
			a.last[j.organisation], moved[j.organisation] = j.block, j.block
		}
	}
	return moved
}

// Judged is the result of an organisation's vote on a certified block: agrees, differs or stuck.
type Judged struct {
	Block        uint64
	Organisation string
	Verdict      string
}

// Judged are the votes on the newest certified executions that are remembered.
func (m *Metrics) Judged() []Judged {
	a := m.agreement
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Judged
	for _, e := range a.executions {
		if e.certified == nil {
			continue
		}
		for organisation, vote := range e.votes {
			j := e.judge(organisation, vote)
			out = append(out, Judged{j.block, j.organisation, string(j.verdict)})
		}
	}
	return out
}

func (e *execution) judge(organisation string, vote wire.EffectVote) judgement {
	j := judgement{organisation, e.key.Number, differs}
	if vote.IsFor(organisation, *e.certified) {
		j.verdict = agrees
	} else if _, is := vote.StuckAt(); is {
		j.verdict = stuck
	}
	return j
}
