package gateway

import (
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// entry is one accepted transaction without an outcome.
type entry struct {
	id         wire.TxID
	role       string
	validUntil uint64
	queuedAt   time.Time
	size       int // bytes it adds to a bundle
	tx         *wire.ChainedTx
	deploys    bool
	effects    bool
	snapshot   uint64  // of its write set
	rows       int     // that it names; 0: no limit counts them
	keyed      bool    // its client signed it
	flies      bool    // counted in Gateway.flight
	bundle     *bundle // nil while it is queued
	ordered    bool
	orderedAt  time.Time
	settled    bool // has its outcome; queue and expiry list drop it when they meet it
}

// fairQueue hands transactions out role by role in turn, so that one role's batch of thousands
// delays another role's single transaction by one transaction. Within a role the order of
// submission is kept.
type fairQueue struct {
	roles map[string]*roleQueue
	turns []*roleQueue // those with something waiting, next to serve first
	count int
	bytes int
}

type roleQueue struct {
	role    string
	waiting []*entry
}

func newFairQueue() *fairQueue { return &fairQueue{roles: map[string]*roleQueue{}} }

func (q *fairQueue) push(e *entry) {
	r := q.roles[e.role]
	if r == nil {
		r = &roleQueue{role: e.role}
		q.roles[e.role] = r
		q.turns = append(q.turns, r)
	}
	r.waiting = append(r.waiting, e)
	q.count++
	q.bytes += e.size
}

// take removes up to countMax transactions of together at most bytesMax bytes and, unless it is 0,
// rowsMax rows that they name, one role after the other. It stops at the first one that does not
// fit, so that no large transaction is passed over for ever. A role whose next client has no key
// waits when ofRole has no room for it; nil: there is room for all.
func (q *fairQueue) take(countMax, bytesMax, rowsMax int, ofRole func(role string) int) []*entry {
	var taken []*entry
	var full []*roleQueue // they keep their turns
	bytes, rows, of := 0, 0, map[string]int{}
	for len(q.turns) > 0 && len(taken) < countMax {
		r := q.turns[0]
		e := r.waiting[0]
		if ofRole != nil && !e.settled && !e.keyed && of[e.role] >= ofRole(e.role) {
			full, q.turns = append(full, r), q.turns[1:]
			continue
		}
		if !e.settled && len(taken) > 0 && (bytes+e.size > bytesMax || rowsMax > 0 && rows > 0 && rows+e.rows > rowsMax) {
			break
		}
		r.waiting[0] = nil
		r.waiting = r.waiting[1:]
		q.count--
		q.bytes -= e.size
		q.turns = q.turns[1:]
		if len(r.waiting) > 0 {
			q.turns = append(q.turns, r)
		} else {
			delete(q.roles, r.role)
		}
		if e.settled {
			continue
		}
		bytes, rows = bytes+e.size, rows+e.rows
		if taken = append(taken, e); !e.keyed {
			of[e.role]++
		}
	}
	q.turns = append(full, q.turns...)
	return taken
}

// oldest returns when the transaction that waits longest was queued. Cost: one step per role.
func (q *fairQueue) oldest() time.Time {
	var t time.Time
	for _, r := range q.turns {
		if at := r.waiting[0].queuedAt; t.IsZero() || at.Before(t) {
			t = at
		}
	}
	return t
}
