package gateway

import (
	"strings"

	"github.com/chainify-db/chainify/abci/wire"
)

const (
	// messageKept bounds the text of one failure kept in memory, messagesKept that of all; the
	// database has the whole.
	messageKept  = 2_000
	messagesKept = 16 << 20
)

// recentOutcomes remembers the last outcomes, at most limit of them, with messages of at most
// messagesKept bytes.
//
// They are in two halves, and all of the older one is forgotten when the younger one is full. To
// forget them one by one would cost twice the memory: a map of Go's that loses as many entries as
// it gains grows until its tables are half empty. Cost of each: about 100 bytes, at most 150; of a
// failure 50 more and its message.
type recentOutcomes struct {
	younger, older half
	limit          int
}

type half struct {
	byID  map[wire.TxID]outcome
	bytes int // of messages
}

// outcome is a wire.TxResult without its id; what only failures have is apart.
type outcome struct {
	block     uint64
	rows      int64
	reason    *reason // nil: it succeeded
	index     uint32
	succeeded bool
}

type reason struct{ sqlState, message string }

func newRecentOutcomes(limit int) *recentOutcomes {
	return &recentOutcomes{younger: half{byID: map[wire.TxID]outcome{}}, limit: limit}
}

func (o *recentOutcomes) get(id wire.TxID) (wire.TxResult, bool) {
	kept, ok := o.younger.byID[id]
	if !ok {
		kept, ok = o.older.byID[id]
	}
	if !ok {
		return wire.TxResult{}, false
	}
	r := wire.TxResult{ID: id, Block: kept.block, Index: kept.index, Succeeded: kept.succeeded, Rows: kept.rows}
	if why := kept.reason; why != nil {
		r.SQLState, r.Message = why.sqlState, why.message
	}
	return r, true
}

// add remembers an outcome that is not remembered yet.
func (o *recentOutcomes) add(r wire.TxResult) {
	kept := outcome{block: r.Block, rows: r.Rows, index: r.Index, succeeded: r.Succeeded}
	if r.SQLState != "" || r.Message != "" {
		if len(r.Message) > messageKept {
			r.Message = strings.Clone(strings.ToValidUTF8(r.Message[:messageKept], "")) // not half a character, and not the rest beside it
		}
		kept.reason = &reason{r.SQLState, r.Message}
	}
	if y := &o.younger; len(y.byID) >= max(o.limit/2, 1) || y.bytes+len(r.Message) > messagesKept/2 {
		o.younger, o.older = half{byID: map[wire.TxID]outcome{}}, o.younger
	}
	o.younger.byID[r.ID] = kept
	o.younger.bytes += len(r.Message)
}
