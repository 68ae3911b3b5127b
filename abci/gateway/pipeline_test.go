package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// pipelined are requests under way at once on one connection: as many as one may have by default.
const pipelined = 64

// statementOf makes a statement that tells its number.
func statementOf(n uint64) *wire.Statement { return sql(fmt.Sprintf("UPDATE t SET x = %d", n)) }

// vouched and ownSigned are requests that submit statement n.
func vouched(n uint64) *wire.NodeRequest {
	return &wire.NodeRequest{Request: n, Body: &wire.NodeRequest_Submit{
		Submit: &wire.SubmitRequest{Role: "bank", Statements: []*wire.Statement{statementOf(n)}},
	}}
}

func ownSigned(n uint64) *wire.NodeRequest {
	proposal := signed(clerkKey, func(p *wire.Proposal) { p.Nonce, p.Sql = n, statementOf(n).Sql })
	return &wire.NodeRequest{Request: n, Body: &wire.NodeRequest_SubmitSigned{
		SubmitSigned: &wire.SubmitSignedRequest{Proposals: []*wire.SignedProposal{proposal}},
	}}
}

// pipeline sends requests 1 to n and takes in answers only afterwards: ids by number.
func pipeline(t *testing.T, conn net.Conn, n uint64, request func(uint64) *wire.NodeRequest) map[uint64]wire.TxID {
	t.Helper()
	for i := uint64(1); i <= n; i++ {
		send(t, conn, request(i))
	}
	ids := map[uint64]wire.TxID{}
	for range n {
		r := receive(t, conn)
		if r.GetError() != nil || len(r.GetSubmit().GetIds()) != 1 {
			t.Fatalf("answer %v", r)
		}
		ids[r.Request] = wire.TxID(r.GetSubmit().Ids[0])
	}
	if len(ids) != int(n) {
		t.Fatalf("%d of %d requests were answered", len(ids), n)
	}
	return ids
}

// wantOrder wants transactions 1 to n to be broadcast in this order, with these ids.
func (f *fixture) wantOrder(ids map[uint64]wire.TxID, n uint64) {
	f.t.Helper()
	f.drain()
	at := uint64(0)
	for _, b := range f.mempool.bundles {
		for _, tx := range b.Transactions {
			at++
			var p wire.Proposal
			if err := proto.Unmarshal(tx.Proposal.Proposal, &p); err != nil {
				f.t.Fatal(err)
			}
			if want := statementOf(at).Sql; p.Sql != want || wire.TxIDOf(tx.Proposal.Proposal) != ids[at] {
				f.t.Fatalf("%q stands at %d, answered as %x; want %q", p.Sql, at, ids[at], want)
			}
		}
	}
	if at != n {
		f.t.Fatalf("%d transactions broadcast, want %d", at, n)
	}
}

// Submissions need not wait for each other's answers, nor waits; each answer is that of its
// request, and all are queued in the order sent.
func TestSubmissionsArePipelinedOnOneConnection(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.PendingMax = 2 * pipelined })
	path, _ := serveSocket(t, f, func(o *SocketOptions) { o.RequestsMax = pipelined })
	conn := rawDial(t, path)
	ids := pipeline(t, conn, pipelined, vouched)
	f.wantOrder(ids, pipelined)
	for i := uint64(1); i <= pipelined; i++ {
		id := ids[i]
		send(t, conn, &wire.NodeRequest{Request: pipelined + i, Body: &wire.NodeRequest_Wait{
			Wait: &wire.WaitRequest{Ids: [][]byte{id[:]}, TimeoutMs: 60_000},
		}})
	}
	eventually(t, func() bool { return f.g.waitsNow() == pipelined })
	for half := range uint64(2) { // the even ones first: answers come in the order of the outcomes
		for i := 2 - half; i <= pipelined; i += 2 {
			f.decide(ids[i])
			f.commit(ids[i])
		}
		for range pipelined / 2 {
			r := receive(t, conn)
			i := r.Request - pipelined
			if out := r.GetWait().GetOutcomes(); len(out) != 1 || !out[0].Succeeded || wire.TxID(out[0].Id) != ids[i] || i%2 != half {
				t.Fatalf("request %d in half %d: %v", r.Request, half, r)
			}
		}
	}
}

// The next request of a client that has its answer finds the place free.
func TestAPlaceIsFreeBeforeTheAnswerIsThere(t *testing.T) {
	near, far := net.Pipe() // nothing is written before somebody reads
	defer far.Close()
	free := make(chan struct{})
	var sent sync.WaitGroup
	sent.Go(func() { (&answers{conn: near}).sendAfter(&wire.NodeResponse{Request: 7}, func() { close(free) }) })
	select {
	case <-free:
	case <-time.After(5 * time.Minute):
		t.Error("the place is not free before the answer is read")
	}
	if r := receive(t, far); r.Request != 7 {
		t.Errorf("answer %v", r)
	}
	sent.Wait()
}

// lastFirst is a database with policies in which the first transaction's rehearsal ends when so
// many others' have.
type lastFirst struct {
	others sync.WaitGroup
}

func (*lastFirst) HasPolicies(context.Context) (bool, error) { return true, nil }

func (l *lastFirst) Rehearse(_ context.Context, txs [][]byte) ([]backend.Rehearsal, error) {
	return each(txs, l.rehearse)
}

func (l *lastFirst) rehearse(raw []byte) (backend.Rehearsal, error) {
	tx, err := wire.DecodeChainedTx(raw)
	if err != nil {
		return backend.Rehearsal{}, err
	}
	if tx.Proposal.Sql == statementOf(1).Sql {
		l.others.Wait()
	} else {
		l.others.Done()
	}
	return backend.Rehearsal{}, nil
}

// The organisations that have to agree are found out for all at once. Transactions that are ready
// first wait, so that all are queued in the order sent.
func TestWhatIsReadyFirstIsQueuedInItsTurn(t *testing.T) {
	for name, request := range map[string]func(uint64) *wire.NodeRequest{"vouched for": vouched, "signed": ownSigned} {
		t.Run(name, func(t *testing.T) {
			database := &lastFirst{}
			database.others.Add(roundsMax/2 - 1)
			f := newFixture(t, func(o *Options) {
				registerClerk(o)
				o.Agreements = &Agreements{Database: database, Limit: waitMax}
			})
			path, _ := serveSocket(t, f, func(o *SocketOptions) { o.RequestsMax = roundsMax })
			f.wantOrder(pipeline(t, rawDial(t, path), roundsMax/2, request), roundsMax/2)
		})
	}
}

// A submission that is refused leaves its turn to the next one.
func TestARefusedSubmissionHoldsUpNothing(t *testing.T) {
	f := newFixture(t, nil)
	path, _ := serveSocket(t, f, nil)
	conn := rawDial(t, path)
	for i, text := range []string{"", "SELECT 1"} { // requests 0 and 1
		send(t, conn, &wire.NodeRequest{Request: uint64(i), Body: &wire.NodeRequest_Submit{
			Submit: &wire.SubmitRequest{Role: "bank", Statements: []*wire.Statement{sql(text)}},
		}})
	}
	for range 2 {
		if r := receive(t, conn); (r.GetSubmit() != nil) != (r.Request == 1) {
			t.Errorf("answer %v", r)
		}
	}
}

// One client has many requests under way; one given up leaves the others and the connection as they
// are.
func TestClientHasManyRequestsUnderWay(t *testing.T) {
	f := newFixture(t, nil)
	path, stop := serveSocket(t, f, func(o *SocketOptions) { o.RequestsMax = pipelined })
	c, ctx := dial(t, path), context.Background()
	forgotten, forget := context.WithCancel(ctx)
	gone := make(chan error, 1)
	go func() {
		_, err := c.Wait(forgotten, 60_000, make([]byte, 32))
		gone <- err
	}()
	var under sync.WaitGroup
	ids := make(chan wire.TxID, 8)
	for i := range uint64(cap(ids)) {
		under.Go(func() {
			id, err := c.Submit(ctx, "bank", statementOf(i))
			if err != nil {
				t.Error(err)
				ids <- wire.TxID{}
				return
			}
			ids <- wire.TxID(id[0])
			out, err := c.Wait(ctx, 60_000, id...)
			if err != nil || len(out) != 1 || wire.TxID(out[0].Id) != wire.TxID(id[0]) {
				t.Errorf("%v, %v", out, err)
			}
		})
	}
	eventually(t, func() bool { return f.g.waitsNow() == cap(ids)+1 })
	forget()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	for range cap(ids) {
		id := <-ids
		f.decide(id)
		f.commit(id)
	}
	under.Wait()
	go func() {
		_, err := c.Wait(ctx, 60_000, make([]byte, 32), make([]byte, 32))
		gone <- err
	}()
	eventually(t, func() bool { return f.g.waitsNow() == 2 })
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := <-gone; err != nil { // the node's last answer: what it knows
		t.Error(err)
	}
	<-c.ended
	if _, err := c.Status(ctx); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("after the node's end: %v", err)
	}
}

// Every request gets what the node says of the whole connection.
func TestClientTellsWhyItIsRefused(t *testing.T) {
	path, _ := serveSocket(t, newFixture(t, nil), func(o *SocketOptions) { o.UIDs = nil })
	c := dial(t, path)
	<-c.ended
	for range 2 {
		_, err := c.Status(context.Background())
		wantState(t, err, StateNotRegistered)
	}
}

// A connection that ends, or on which something is answered that was not asked, ends every request
// under way.
func TestClientEndsRequestsWithTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		answers []*wire.NodeResponse
		says    string
	}{
		"no answer":           {nil, "the node closed the connection"},
		"never asked":         {[]*wire.NodeResponse{{Request: 3, Body: &wire.NodeResponse_Status{}}}, "request 3, the last was 2"},
		"no number, no error": {[]*wire.NodeResponse{{Body: &wire.NodeResponse_Status{}}}, "request 0"},
	} {
		path := filepath.Join(t.TempDir(), "node.sock")
		l, err := net.Listen("unix", path)
		must.Do(t, err)
		defer l.Close()
		client := dial(t, path)
		conn, err := l.Accept()
		must.Do(t, err)
		var under sync.WaitGroup
		for range 2 {
			under.Go(func() {
				if _, err := client.Status(context.Background()); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		for range 2 {
			if _, err := wire.ReadFrame(conn); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range c.answers {
			must.Do(t, wire.WriteMessage(conn, r))
		}
		if c.answers == nil {
			conn.Close()
		}
		under.Wait()
		conn.Close()
	}
}
