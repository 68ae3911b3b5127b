package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// serveSocket serves the fixture's gateway on a socket; stop ends it and waits for it.
func serveSocket(t *testing.T, f *fixture, change func(*SocketOptions)) (path string, stop func() error) {
	t.Helper()
	opt := SocketOptions{
		Path: filepath.Join(t.TempDir(), "node.sock"), Mode: 0o600, UIDs: []uint32{uint32(os.Getuid())},
		ConnectionsMax: 4, RequestsMax: 4, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&opt)
	}
	status := func(context.Context) *wire.StatusResponse {
		return &wire.StatusResponse{Organisation: "acme", State: "serving"}
	}
	s, err := ListenSocket(opt, &Handler{Gateway: f.g, Status: status})
	must.Do(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	var err2 error
	stopped := false
	stop = func() error {
		if !stopped {
			stopped = true
			cancel()
			select {
			case err2 = <-done:
			case <-time.After(5 * time.Minute):
				err2 = errors.New("the socket did not stop in 10 s")
			}
		}
		return err2
	}
	t.Cleanup(func() {
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return opt.Path, stop
}

func dial(t *testing.T, path string) *Client {
	t.Helper()
	c, err := Dial(context.Background(), path)
	must.Do(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func wantState(t *testing.T, err error, sqlstate string) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.SQLState != sqlstate {
		t.Fatalf("error %v, want SQLSTATE %s", err, sqlstate)
	}
	return e
}

func TestSocketSubmitWaitStatus(t *testing.T) {
	f := newFixture(t, nil)
	path, _ := serveSocket(t, f, nil)
	c := dial(t, path)
	ctx := context.Background()
	ids, err := c.Submit(ctx, "bank", sql("UPDATE a SET x = 1"), sql("UPDATE a SET x = 2"))
	if err != nil || len(ids) != 2 {
		t.Fatal(ids, err)
	}
	if out, err := c.Wait(ctx, 0, ids...); err != nil || len(out) != 0 {
		t.Fatal(out, err)
	}
	f.decide(wire.TxID(ids[0]), wire.TxID(ids[1]))
	f.commit(wire.TxID(ids[0]), wire.TxID(ids[1]))
	out, err := c.Wait(ctx, 10_000, ids...)
	if err != nil || len(out) != 2 || out[1].Index != 1 || out[1].Block != 1 || !out[1].Succeeded || out[1].Rows != 1 {
		t.Fatal(out, err)
	}
	s, err := c.Status(ctx)
	if err != nil || s.Organisation != "acme" {
		t.Fatal(s, err)
	}
}

func TestSocketAnswersErrorsWithTheirSQLSTATE(t *testing.T) {
	f := newFixture(t, nil)
	path, _ := serveSocket(t, f, nil)
	c := dial(t, path)
	_, err := c.Submit(context.Background(), "bank", sql(strings.Repeat("x", wire.ProposalBytesMax)))
	if e := wantState(t, err, StateBound); e.Detail == "" {
		t.Error("no detail")
	}
	_, err = c.Submit(context.Background(), "", sql("SELECT 1"))
	wantState(t, err, StateMalformed)
	_, err = c.Wait(context.Background(), 0, []byte{1, 2})
	if e := wantState(t, err, StateMalformed); !strings.Contains(e.Message, "ids[0]") {
		t.Errorf("message %q does not name the field", e.Message)
	}
	_, err = c.Call(context.Background(), &wire.NodeRequest{})
	wantState(t, err, StateMalformed)
	if _, err := c.Status(context.Background()); err != nil {
		t.Fatalf("the connection did not survive refused requests: %v", err)
	}
}

// A slow wait does not hold up other requests of its connection; answers carry their request's
// number.
func TestSocketAnswersOutOfOrder(t *testing.T) {
	f := newFixture(t, nil)
	path, _ := serveSocket(t, f, nil)
	conn := rawDial(t, path)
	ids := f.submit("bank", 1)
	send(t, conn, &wire.NodeRequest{Request: 1, Body: &wire.NodeRequest_Wait{Wait: &wire.WaitRequest{Ids: [][]byte{ids[0][:]}, TimeoutMs: 60_000}}})
	send(t, conn, &wire.NodeRequest{Request: 2, Body: &wire.NodeRequest_Status{Status: &wire.StatusRequest{}}})
	if r := receive(t, conn); r.Request != 2 || r.GetStatus() == nil {
		t.Fatalf("first answer %v", r)
	}
	f.decide(ids...)
	f.commit(ids...)
	if r := receive(t, conn); r.Request != 1 || len(r.GetWait().GetOutcomes()) != 1 {
		t.Fatalf("second answer %v", r)
	}
}

// A submission that waits for its outcomes holds up none behind it. Its answer has the outcomes, or
// comes without them after a second at most.
func TestSubmissionsWaitForTheirOutcomes(t *testing.T) {
	f := newFixture(t, nil)
	path, _ := serveSocket(t, f, nil)
	conn := rawDial(t, path)
	waiting := func(n uint64, wait uint32) *wire.NodeRequest {
		r := vouched(n)
		r.GetSubmit().WaitMs = wait
		return r
	}
	send(t, conn, waiting(1, 900))
	send(t, conn, waiting(2, 0))
	if r := receive(t, conn); r.Request != 2 || len(r.GetSubmit().GetIds()) != 1 || len(r.GetSubmit().Outcomes) != 0 {
		t.Fatalf("first answer %v", r)
	}
	f.drain()
	ids := f.ordered(0)
	f.decide(ids...)
	f.commit(ids...)
	first := receive(t, conn).GetSubmit()
	if len(first.GetIds()) != 1 || wire.TxID(first.Ids[0]) != ids[0] || len(first.Outcomes) != 1 || wire.TxID(first.Outcomes[0].Id) != ids[0] || !first.Outcomes[0].Succeeded {
		t.Fatalf("second answer %v, want the outcome of %x", first, ids[0])
	}
	began := time.Now()
	send(t, conn, waiting(3, 3_600_000))
	if r := receive(t, conn); r.Request != 3 || len(r.GetSubmit().GetIds()) != 1 || len(r.GetSubmit().Outcomes) != 0 || time.Since(began) < submitWaitMax {
		t.Fatalf("third answer %v after %s", r, time.Since(began))
	}
}

func rawDial(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path)
	must.Do(t, err)
	conn.SetDeadline(time.Now().Add(5 * time.Minute))
	t.Cleanup(func() { conn.Close() })
	return conn
}

func send(t *testing.T, conn net.Conn, r *wire.NodeRequest) {
	t.Helper()
	must.Do(t, wire.WriteMessage(conn, r))
}

func receive(t *testing.T, conn net.Conn) *wire.NodeResponse {
	t.Helper()
	frame, err := wire.ReadFrame(conn)
	must.Do(t, err)
	r, err := wire.DecodeNodeResponse(frame)
	must.Do(t, err)
	return r
}

func TestSocketClosesOnMalformedFrames(t *testing.T) {
	f := newFixture(t, nil)
	path, _ := serveSocket(t, f, nil)
	oversized := binary.BigEndian.AppendUint32(nil, wire.FrameBytesMax+1)
	unknownField := append([]byte{0, 0, 0, 3}, 0xf8, 0x07, 0x01)
	noMessage := append([]byte{0, 0, 0, 2}, 0xff, 0xff)
	for name, raw := range map[string][]byte{"oversized": oversized, "unknown field": unknownField, "no message": noMessage} {
		conn := rawDial(t, path)
		if _, err := conn.Write(raw); err != nil {
			t.Fatal(err)
		}
		r := receive(t, conn)
		if r.GetError().GetSqlstate() != StateMalformed || r.Request != 0 {
			t.Errorf("%s: answer %v", name, r)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection is still open: %v", name, err)
		}
	}
	half := rawDial(t, path)
	half.Write([]byte{0, 0, 1})
	half.Close()
	if _, err := dial(t, path).Status(context.Background()); err != nil {
		t.Fatalf("others suffer: %v", err)
	}
}

func TestSocketRefusesOtherUsers(t *testing.T) {
	f := newFixture(t, nil)
	path, _ := serveSocket(t, f, func(o *SocketOptions) { o.UIDs = []uint32{uint32(os.Getuid()) + 1} })
	conn := rawDial(t, path)
	r := receive(t, conn)
	if r.GetError().GetSqlstate() != "28000" || r.GetError().GetHint() == "" {
		t.Fatalf("answer %v", r)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("the connection is still open: %v", err)
	}
}

func TestSocketBoundsConnectionsAndRequests(t *testing.T) {
	f := newFixture(t, nil)
	path, _ := serveSocket(t, f, func(o *SocketOptions) { o.ConnectionsMax, o.RequestsMax = 1, 2 })
	conn := rawDial(t, path)
	wait := &wire.NodeRequest_Wait{Wait: &wire.WaitRequest{Ids: [][]byte{make([]byte, 32)}, TimeoutMs: 60_000}}
	for i := range uint64(2) {
		send(t, conn, &wire.NodeRequest{Request: i + 1, Body: wait})
	}
	send(t, conn, &wire.NodeRequest{Request: 3, Body: &wire.NodeRequest_Status{Status: &wire.StatusRequest{}}})
	r := receive(t, conn)
	if r.Request != 3 || r.GetError().GetSqlstate() != StateFull {
		t.Fatalf("the third request beside two: %v", r)
	}
	r = receive(t, rawDial(t, path))
	if r.GetError().GetSqlstate() != StateTooMany {
		t.Fatalf("second connection: %v", r)
	}
	conn.Close()
	eventually(t, func() bool { return f.g.waitsNow() == 0 }) // a client that went away waits no longer
}

func (g *Gateway) waitsNow() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waits
}

func TestSocketStopsWithWaitingClients(t *testing.T) {
	f := newFixture(t, nil)
	path, stop := serveSocket(t, f, nil)
	conn := rawDial(t, path)
	send(t, conn, &wire.NodeRequest{Request: 1, Body: &wire.NodeRequest_Wait{
		Wait: &wire.WaitRequest{Ids: [][]byte{make([]byte, 32)}, TimeoutMs: 60_000},
	}})
	eventually(t, func() bool { return f.g.waitsNow() == 1 })
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if r := receive(t, conn); r.Request != 1 || r.GetWait() == nil {
		t.Fatalf("answer %v", r)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the socket file is left")
	}
}

// Clients that stay connected, and never pause, do not keep the node from ending.
func TestSocketStopsUnderLoad(t *testing.T) {
	const clients = 32
	path, stop := serveSocket(t, newFixture(t, nil), func(o *SocketOptions) { o.ConnectionsMax = clients })
	var loaded, ended sync.WaitGroup
	for range clients {
		conn := rawDial(t, path)
		loaded.Add(1)
		ended.Go(func() {
			for i := 0; ; i++ {
				if i == 100 {
					loaded.Done()
				}
				request := &wire.NodeRequest{Request: 1, Body: &wire.NodeRequest_Status{Status: &wire.StatusRequest{}}}
				if wire.WriteMessage(conn, request) != nil {
					return
				}
				if _, err := wire.ReadFrame(conn); err != nil {
					return
				}
			}
		})
	}
	loaded.Wait()
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ended.Wait()
}

func TestSocketFile(t *testing.T) {
	f := newFixture(t, nil)
	path, _ := serveSocket(t, f, nil)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	handler := &Handler{Gateway: f.g}
	if _, err := ListenSocket(SocketOptions{Path: path}, handler); err == nil || !strings.Contains(err.Error(), "another node") {
		t.Fatalf("a served socket was taken over: %v", err)
	}
	stale := filepath.Join(t.TempDir(), "stale.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	must.Do(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
	s, err := ListenSocket(SocketOptions{Path: stale, Mode: 0o600}, handler)
	if err != nil {
		t.Fatalf("a stale socket is in the way: %v", err)
	}
	s.listener.Close()
	plain := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(plain, nil, 0o600))
	if _, err := ListenSocket(SocketOptions{Path: plain}, handler); err == nil {
		t.Fatal("a file that is no socket was replaced")
	}
	if _, err := ListenSocket(SocketOptions{Path: "/" + strings.Repeat("x", socketPathMax)}, handler); err == nil {
		t.Fatal("a path that is too long was accepted")
	}
	if _, err := Dial(context.Background(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrUnreachable) {
		t.Fatalf("dial: %v", err)
	}
}
