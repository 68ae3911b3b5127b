package gateway

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/fair"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// drain steps until nothing is queued: all is in bundles, on their way to the order.
func (f *fixture) drain() {
	f.t.Helper()
	for range 1000 {
		if f.g.queue.count == 0 {
			return
		}
		f.now = f.now.Add(5 * time.Millisecond)
		f.step()
	}
	f.t.Fatal("the queue does not empty")
}

// refusedShare wants a refusal that says that the role, not the queue, is at its limit.
func (f *fixture) refusedShare(role string, n int) {
	f.t.Helper()
	e := f.refusedWith(StateFull, role, n)
	if !strings.Contains(e.Message, "share") || !strings.Contains(e.Detail, role) || e.Hint == "" {
		f.t.Errorf("%s: %q, %q, %q", role, e.Message, e.Detail, e.Hint)
	}
}

// A role's transactions count until they have their outcome, wherever they are: queued, in bundles,
// in blocks.
func TestARolesShareIsCountedUntilTheOutcome(t *testing.T) {
	f := newFixture(t, nil) // 100 transactions
	var ids []wire.TxID
	for range 5 {
		ids = append(ids, f.submit("flood", 10)...)
		f.drain()
	}
	f.refusedShare("flood", 1)
	f.submit("desk", 10)
	f.decide(ids...)
	f.refusedShare("flood", 1) // in a block, and without outcome
	f.commit(ids[:20]...)
	f.submit("flood", 15) // 45 beside 10 of others, and 45 free
	f.refusedShare("flood", 1)
}

// So do the bytes of those not ordered yet; who has nothing of them may submit whatever all
// together may.
func TestARolesBytesAreCountedUntilTheOrder(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.PendingBytesMax = 4 * wire.ProposalBytesMax })
	large := func(role string) ([]wire.TxID, error) {
		return f.g.Submit(role, []*wire.Statement{sql(strings.Repeat("x", wire.ProposalBytesMax-1000))})
	}
	var ids []wire.TxID
	for range 2 {
		id, err := large("flood")
		must.Do(t, err)
		ids = append(ids, id...)
		f.drain()
	}
	_, err := large("flood")
	if e := wantState(t, err, StateFull); !strings.Contains(e.Message, "share") || !strings.Contains(e.Detail, "bytes") {
		t.Errorf("%q, %q", e.Message, e.Detail)
	}
	if _, err := large("desk"); err != nil {
		t.Fatal(err)
	}
	f.decide(ids...)
	if _, err := large("flood"); err != nil {
		t.Fatalf("after the order: %v", err)
	}
}

// However a transaction leaves, its part of the share comes back, and none is left that counts for
// nobody.
func TestSharesComeBack(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.ValidityBlocks, o.Limits.StallAfter = 3, time.Hour })
	f.mempool.answer = func(*wire.Bundle) error { return &RejectedError{Code: 3, Log: "unknown organisation"} }
	f.submit("refused", 10)
	f.drain()
	f.mempool.answer = nil
	f.submit("expired", 50)
	f.submit("replayed", 1)
	ids := f.submit("committed", 4)
	f.g.Refused([]wire.TxResult{{ID: f.submit("replayed", 1)[0], SQLState: StateRefused}})
	f.drain()
	f.decide(ids...)
	f.commit(ids...)
	if len(f.g.shares) != 2 || f.g.shares["expired"].pending != 50 || f.g.shares["replayed"].pending != 1 {
		t.Fatalf("shares %+v", f.g.shares)
	}
	for range 3 {
		f.decide()
	}
	if s := f.g.Stats(); len(f.g.shares) != 0 || s.Pending != 0 || f.g.unorderedBytes != 0 {
		t.Fatalf("shares %+v, %d bytes, %+v", f.g.shares, f.g.unorderedBytes, s)
	}
}

// Roles that flood together leave a further one room, however many they are.
func TestSeveralGreedyRolesLeaveRoom(t *testing.T) {
	f := newFixture(t, nil) // 100 transactions
	for _, role := range []string{"first", "second", "third"} {
		for {
			if _, err := f.g.Submit(role, []*wire.Statement{sql("SELECT 1")}); err != nil {
				wantState(t, err, StateFull)
				break
			}
		}
	}
	f.submit("fourth", 5)
	f.refusedShare("first", 1)
}

// One client that waits for all it can leaves others their waits, in number and in ids.
func TestAGreedyClientLeavesOthersTheirWaits(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.WaitsMax = 8 })
	ids := f.submit("bank", 1)
	ctx, cancel := context.WithCancel(context.Background())
	var waits sync.WaitGroup
	defer waits.Wait()
	defer cancel()
	wait := func(client string, want int) {
		for range want {
			waits.Go(func() { _, _ = f.g.WaitAs(ctx, client, ids, time.Minute) })
		}
	}
	wait("greedy", 4)
	eventually(t, func() bool { return f.g.waitsNow() == 4 })
	_, err := f.g.WaitAs(ctx, "greedy", ids, 0)
	wantState(t, err, StateFull)
	wait("other", 2)
	eventually(t, func() bool { return f.g.waitsNow() == 6 })
	if _, err := f.g.WaitAs(ctx, "third", ids, 0); err != nil {
		t.Errorf("a third one: %v", err)
	}
	f.g.idShares = fair.New[string](4 * waitIDsMax)
	for _, taken := range []struct {
		client string
		ids    int
	}{{"greedy", waitIDsMax}, {"greedy", waitIDsMax}} {
		if !f.g.idShares.Take(taken.client, taken.ids) {
			t.Fatal("no room alone")
		}
	}
	f.g.waitShares = fair.New[string](100)
	_, err = f.g.WaitAs(ctx, "greedy", make([]wire.TxID, 1000), 0)
	wantState(t, err, StateFull)
	if _, err := f.g.WaitAs(ctx, "other", make([]wire.TxID, 1000), 0); err != nil {
		t.Errorf("beside one that waits for many ids: %v", err)
	}
	f.g.idShares.Give("greedy", 2*waitIDsMax)
}

// One connection that sends large requests without end leaves others room for theirs; it is told
// which of its requests found none, and goes on.
func TestAGreedyConnectionLeavesOthersBytes(t *testing.T) {
	f := newFixture(t, nil)
	ids := make([][]byte, 1000)
	for i := range ids {
		ids[i] = make([]byte, 32)
		ids[i][0], ids[i][1] = byte(i), byte(i>>8)
	}
	wait := func(number uint64) *wire.NodeRequest {
		return &wire.NodeRequest{Request: number, Body: &wire.NodeRequest_Wait{Wait: &wire.WaitRequest{Ids: ids, TimeoutMs: 60_000}}}
	}
	one := len(wire.Encode(wait(100)))
	path, _ := serveSocket(t, f, func(o *SocketOptions) { o.RequestsMax, o.BytesMax = 20, 9*one })
	greedy := rawDial(t, path)
	for number := range uint64(5) {
		send(t, greedy, wait(100+number))
	}
	if r := receive(t, greedy); r.Request != 104 || r.GetError().GetSqlstate() != StateFull || r.GetError().GetHint() == "" {
		t.Fatalf("answered %v", r)
	}
	send(t, greedy, &wire.NodeRequest{Request: 200, Body: &wire.NodeRequest_Status{Status: &wire.StatusRequest{}}})
	if r := receive(t, greedy); r.Request != 200 || r.GetError() == nil && r.GetStatus() == nil {
		t.Fatalf("the connection does not go on: %v", r)
	}
	other := rawDial(t, path)
	for number := range uint64(2) {
		send(t, other, wait(300+number))
	}
	send(t, other, &wire.NodeRequest{Request: 400, Body: &wire.NodeRequest_Status{Status: &wire.StatusRequest{}}})
	if r := receive(t, other); r.Request != 400 || r.GetStatus() == nil {
		t.Fatalf("another one is answered %v", r)
	}
	greedy.Close()
	eventually(t, func() bool { return f.g.waitsNow() == 2 })
	third := rawDial(t, path)
	send(t, third, wait(500))
	eventually(t, func() bool { return f.g.waitsNow() == 3 })
}
