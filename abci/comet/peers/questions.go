package peers

import (
	"fmt"
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/fair"
	"github.com/chainify-db/chainify/abci/wire"
)

// Bounds of spec/agreement.md. Another organisation and its client pay for the time that this
// database works for their question, and for questionWork of this node. They get the charge back
// once the transaction is ordered, since every organisation executes it then in any case. So
// another organisation can make this database work in vain for 4 s once, and for a sixteenth of one
// processor. One client can do half of that. Refusing all further questions of a second takes 40 ms
// of this node (BenchmarkQuestion). That is a tenth of one processor in all.
const (
	memberTime, clientTime = 4 * time.Second, 2 * time.Second
	memberPart, clientPart = 16, 32 // each gets one such part of the time that passes
	// grantLeast is the least time that a question is begun with.
	grantLeast = 50 * time.Millisecond
	// questionWork is the time to verify a question and sign the answer, rounded up.
	questionWork = 250 * time.Microsecond
	// clientsKept bounds the clients with a charge, answersKept the transactions of one
	// organisation that may still be ordered.
	clientsKept, answersKept = 10_000, 2_048
	// questionsPerSecond bounds the questions of one member that this node decodes.
	questionsPerSecond = 1000
)

// questions decides which questions of other organisations this database works on, and for how
// long.
type questions struct {
	now             func() time.Time
	members, client *fair.Budget[string] // of microseconds, by organisation, and by client

	mu     sync.Mutex // guards all below
	second int64      // of the clock
	heard  map[string]int
	// answered has the charges for transactions that are not ordered yet. lately has their ids by
	// organisation, the oldest first.
	answered map[wire.TxID]charge
	lately   map[string][]wire.TxID
}

// charge is time that the database worked for a question.
type charge struct {
	organisation, client string
	micros               int64
}

func newQuestions(now func() time.Time) *questions {
	return &questions{
		now:     now,
		members: fair.NewBudget[string](memberTime.Microseconds(), memberPart*time.Microsecond, wire.OrganisationsMax, now),
		client:  fair.NewBudget[string](clientTime.Microseconds(), clientPart*time.Microsecond, clientsKept, now),
		heard:   map[string]int{}, answered: map[wire.TxID]charge{}, lately: map[string][]wire.TxID{},
	}
}

// hears counts a question, before anything of it is decoded; false: its member sent too many in
// this second.
func (q *questions) hears(member string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := q.now().Unix(); now != q.second {
		q.second = now
		clear(q.heard)
	}
	q.heard[member]++
	return q.heard[member] <= questionsPerSecond
}

// refuses returns why this node refuses all questions of an organisation now; "": it does not.
func (q *questions) refuses(organisation string) string {
	return usedUp(fmt.Sprintf("organisation %q", organisation), q.members, organisation)
}

func usedUp(whose string, budget *fair.Budget[string], name string) string {
	wait := budget.Wait(name, 2*grantLeast.Microseconds())
	if wait == 0 {
		return ""
	}
	return fmt.Sprintf("its time for questions of %s is used up; ask again in %s", whose, (wait + time.Second - 1).Truncate(time.Second))
}

// grant gives a question half of the time left to its organisation and client, so that others of
// them find some left. settle returns the unused part. Or it returns why there is none.
func (q *questions) grant(organisation string, client *wire.Client) (granted charge, refusal string) {
	name, said := organisation+"/"+client.Role, fmt.Sprintf("role %q", client.Role)
	if len(client.Key) > 0 {
		name, said = organisation+"#"+string(client.Key), fmt.Sprintf("the client with key %x…", client.Key[:4])
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if refusal = q.refuses(organisation); refusal == "" {
		refusal = usedUp(said+" of "+organisation, q.client, name)
	}
	if refusal != "" {
		return granted, refusal
	}
	granted = charge{organisation, name, min(q.members.Left(organisation), q.client.Left(name)) / 2}
	q.spend(granted)
	return granted, ""
}

func (q *questions) spend(c charge) {
	q.members.Spend(c.organisation, c.micros)
	q.client.Spend(c.client, c.micros)
}

func (q *questions) give(c charge) {
	q.members.Give(c.organisation, c.micros)
	q.client.Give(c.client, c.micros)
}

// settle replaces the granted time by the time that the question took.
func (q *questions) settle(granted charge, id wire.TxID, worked time.Duration) {
	took := charge{granted.organisation, granted.client, (worked + questionWork).Microseconds()}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.give(granted)
	q.spend(took)
	if _, again := q.answered[id]; again {
		return // a transaction that was asked about twice is refunded once
	}
	q.answered[id] = took
	lately := append(q.lately[took.organisation], id)
	if len(lately) > answersKept {
		delete(q.answered, lately[0])
		lately = lately[1:]
	}
	q.lately[took.organisation] = lately
}

// ordered gives back what was charged for transactions that are in a block.
func (q *questions) ordered(ids []wire.TxID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.answered) == 0 {
		return
	}
	for _, id := range ids {
		if c, asked := q.answered[id]; asked {
			delete(q.answered, id)
			q.give(c)
		}
	}
}
