package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
)

// numbered is an id as good as a transaction's: a hash.
func numbered(i int) wire.TxID {
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
}

// kept counts what is remembered, and of that the newest without a gap, of those added with numbers
// below n.
func (o *recentOutcomes) kept(n int) (all, newest int) {
	for newest < n {
		if _, ok := o.get(numbered(n - 1 - newest)); !ok {
			break
		}
		newest++
	}
	return len(o.younger.byID) + len(o.older.byID), newest
}

func TestOutcomesRememberedAreBounded(t *testing.T) {
	for _, limit := range []int{2, 7, 10} {
		o := newRecentOutcomes(limit)
		for i := range 5 * limit {
			o.add(wire.TxResult{ID: numbered(i)})
			all, newest := o.kept(i + 1)
			if all > limit || all != newest || newest < min(i+1, limit/2) {
				t.Fatalf("%d outcomes kept, of the newest %d, after %d with a limit of %d", all, newest, i+1, limit)
			}
		}
	}
}

func TestOutcomesAreRememberedWhole(t *testing.T) {
	o := newRecentOutcomes(10)
	for i, r := range []wire.TxResult{
		{Block: 7, Index: 3, Succeeded: true, Rows: 5},
		{Block: 8, Index: 1, SQLState: "23505", Message: "duplicate key"},
		{SQLState: StateRefused, Message: "the order refused the transaction"},
	} {
		r.ID = numbered(i)
		o.add(r)
		if got, ok := o.get(r.ID); !ok || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v, %v; want %+v", got, ok, r)
		}
	}
}

// Failures with long messages cannot fill the memory: neither one, nor many.
func TestMessagesRememberedAreBounded(t *testing.T) {
	const limit = 4 * messagesKept / messageKept
	o := newRecentOutcomes(limit)
	before := held()
	for i := range limit {
		o.add(wire.TxResult{ID: numbered(i), SQLState: "P0001", Message: strings.Repeat("ä", 2*messageKept)})
	}
	if grown := held() - before; grown > messagesKept+limit*(150+50) {
		t.Errorf("%d bytes held", grown)
	}
	if all, newest := o.kept(limit); all != newest || newest < messagesKept/messageKept/2 {
		t.Errorf("%d outcomes kept, of the newest %d", all, newest)
	}
	if r, ok := o.get(numbered(limit - 1)); !ok || r.Message != strings.Repeat("ä", messageKept/2) {
		t.Errorf("%v, %d bytes of a message", ok, len(r.Message))
	}
}

// The bytes of an outcome that the operator's guide tells do not grow with the number of
// transactions that were.
func TestMemoryOfOutcomes(t *testing.T) {
	const limit, each = 20_000, 150
	before := held()
	o := newRecentOutcomes(limit)
	for i := range 10 * limit {
		o.add(wire.TxResult{ID: numbered(i), Block: uint64(i), Succeeded: true})
	}
	if grown := held() - before; grown > limit*each {
		t.Errorf("%d bytes for each of %d outcomes, want at most %d", grown/limit, limit, each)
	}
	runtime.KeepAlive(o)
}

// held is what the heap holds after a collection.
func held() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
