package remote

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	abcicli "github.com/cometbft/cometbft/abci/client"
	abci "github.com/cometbft/cometbft/abci/types"
	cmtjson "github.com/cometbft/cometbft/libs/json"
	core "github.com/cometbft/cometbft/rpc/core/types"
	jsonrpc "github.com/cometbft/cometbft/rpc/jsonrpc/types"
	"github.com/cometbft/cometbft/types"
	"github.com/gorilla/websocket"

	"github.com/chainify-db/chainify/abci/must"
)

// limit is how long something may take that happens at once on a quiet machine.
const limit = 5 * time.Minute

// application waits in ExtendVote until it may go on, and fails in Commit.
type application struct {
	abci.BaseApplication
	extends, goOn chan struct{}
}

func (a *application) ExtendVote(context.Context, *abci.RequestExtendVote) (*abci.ResponseExtendVote, error) {
	a.extends <- struct{}{}
	<-a.goOn
	return &abci.ResponseExtendVote{VoteExtension: []byte("vote")}, nil
}

func (a *application) CheckTx(_ context.Context, r *abci.RequestCheckTx) (*abci.ResponseCheckTx, error) {
	return &abci.ResponseCheckTx{Code: uint32(len(r.Tx))}, nil
}

func (a *application) Commit(context.Context, *abci.RequestCommit) (*abci.ResponseCommit, error) {
	return nil, errors.New("the disk is full")
}

// place is the address of a socket in a short directory.
func place(t *testing.T) (address, path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "chainify-remote")
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "s")
	return "unix://" + path, path
}

// serve serves an application until the test ends, and returns how many are connected.
func serve(t *testing.T, app abci.Application, address string) *atomic.Int64 {
	t.Helper()
	l, err := Listen(address)
	must.Do(t, err)
	s, connected := NewServer(app, slog.New(slog.DiscardHandler)), new(atomic.Int64)
	s.Connected = func(n int) { connected.Store(int64(n)) }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("serving ends with %v", err)
			}
		case <-time.After(limit):
			t.Error("serving does not end")
		}
	})
	return connected
}

func connect(t *testing.T, address string) abcicli.Client {
	t.Helper()
	c := abcicli.NewSocketClient(address, true)
	must.Do(t, c.Start())
	t.Cleanup(func() { _ = c.Stop() })
	return c
}

// eventually polls.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in %s", what, limit)
		}
	}
}

// While the application waits for a vote, it answers another connection.
func TestConnectionsDoNotWaitForEachOther(t *testing.T) {
	address, path := place(t)
	app := &application{extends: make(chan struct{}), goOn: make(chan struct{})}
	connected := serve(t, app, address)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	one, two := connect(t, address), connect(t, address)
	answer := make(chan *abci.ResponseExtendVote, 1)
	go func() {
		r, _ := one.ExtendVote(context.Background(), &abci.RequestExtendVote{})
		answer <- r
	}()
	<-app.extends
	r, err := two.CheckTx(context.Background(), &abci.RequestCheckTx{Tx: []byte("abc")})
	if err != nil || r.Code != 3 {
		t.Errorf("%v, %v", r, err)
	}
	close(app.goOn)
	if r := <-answer; r == nil || string(r.VoteExtension) != "vote" {
		t.Errorf("vote %v", r)
	}
	if n := connected.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// CometBFT is told of an error, and has to connect anew.
func TestAnErrorEndsTheConnection(t *testing.T) {
	address, _ := place(t)
	connected := serve(t, &application{}, address)
	c := connect(t, address)
	if _, err := c.Commit(context.Background(), &abci.RequestCommit{}); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("error %v", err)
	}
	eventually(t, "the connection is closed", func() bool { return connected.Load() == 0 })
	if echo, err := connect(t, address).Echo(context.Background(), "still here"); err != nil || echo.Message != "still here" {
		t.Errorf("%v, %v", echo, err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	address, path := place(t)
	connected := serve(t, &application{}, address)
	for range connectionsMax {
		c, err := net.Dial("unix", path)
		must.Do(t, err)
		defer c.Close()
	}
	eventually(t, "all are connected", func() bool { return connected.Load() == connectionsMax })
	c, err := net.Dial("unix", path)
	must.Do(t, err)
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(limit))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("one too many: %v", err)
	}
}

// A request beyond the bound ends the connection before memory is taken for it.
func TestARequestIsBounded(t *testing.T) {
	address, path := place(t)
	connected := serve(t, &application{}, address)
	c, err := net.Dial("unix", path)
	must.Do(t, err)
	defer c.Close()
	eventually(t, "connected", func() bool { return connected.Load() == 1 })
	if _, err := c.Write([]byte{0xff, 0xff, 0xff, 0xff, 0x07}); err != nil { // 2 GiB
		t.Fatal(err)
	}
	eventually(t, "the connection is closed", func() bool { return connected.Load() == 0 })
}

// A socket that a killed process left is taken over; one that is served is not.
func TestASocketThatIsLeftIsTakenOver(t *testing.T) {
	address, path := place(t)
	left, err := net.Listen("unix", path)
	must.Do(t, err)
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	Unstick(address)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("a socket that is served: %v", err)
	}
	if _, err := Listen(address); err == nil {
		t.Fatal("listening where another process does")
	}
	must.Do(t, left.Close())
	l, err := Listen(address)
	if err != nil {
		t.Fatalf("a socket that is left: %v", err)
	}
	_ = l.Close()
}

// rpc answers as CometBFT's RPC does, from texts by method.
func rpc(t *testing.T, answers map[string]string) *Client {
	t.Helper()
	address, path := place(t)
	l, err := net.Listen("unix", path)
	must.Do(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request jsonrpc.RPCRequest
		body, _ := io.ReadAll(r.Body)
		if err := request.UnmarshalJSON(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+request.ID.(jsonrpc.JSONRPCIntID).String()+`,`+answers[request.Method]+`}`)
	}), ReadHeaderTimeout: limit}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	c, err := NewClient(address)
	must.Do(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestTheMempoolAnswers(t *testing.T) {
	for name, of := range map[string]struct {
		answer string
		code   uint32
		err    error
	}{
		"taken":   {`"result":{"code":0,"data":"","log":"","hash":""}`, 0, nil},
		"refused": {`"result":{"code":3,"data":"","log":"no","hash":""}`, 3, nil},
		"known":   {`"error":{"code":-32603,"message":"Internal error","data":"tx already exists in cache"}`, 0, ErrKnown},
	} {
		code, _, err := rpc(t, map[string]string{"broadcast_tx_sync": of.answer}).Offer(context.Background(), []byte("tx"))
		if code != of.code || !errors.Is(err, of.err) {
			t.Errorf("%s: %d, %v", name, code, err)
		}
	}
	full := rpc(t, map[string]string{"broadcast_tx_sync": `"error":{"code":-32603,"message":"Internal error","data":"mempool is full"}`})
	if _, _, err := full.Offer(context.Background(), []byte("tx")); err == nil || errors.Is(err, ErrKnown) {
		t.Errorf("a full mempool: %v", err)
	}
	for name, of := range map[string]struct {
		answer string
		want   int
	}{
		"all": {`"result":{"n_txs":"2","total":"2","total_bytes":"2","txs":["YQ==","Yg=="]}`, 2},
		"a part, which no proposer may take for all": {`"result":{"n_txs":"2","total":"3","total_bytes":"3","txs":["YQ==","Yg=="]}`, -1},
	} {
		waiting, err := rpc(t, map[string]string{"unconfirmed_txs": of.answer}).Waiting(context.Background(), 1000)
		if err != nil || of.want < 0 != (waiting == nil) || waiting != nil && len(waiting) != of.want {
			t.Errorf("%s: %q, %v", name, waiting, err)
		}
	}
}

// An answer about another block than the one asked for is an error.
func TestAnotherBlockIsNoAnswer(t *testing.T) {
	c := rpc(t, map[string]string{"block": `"result":{"block_id":{},"block":null}`, "header": `"result":{"header":null}`})
	if txs, err := c.Txs(context.Background(), 7); err == nil {
		t.Errorf("block 7 is %v", txs)
	}
	if at, err := c.Time(context.Background(), 7); err == nil {
		t.Errorf("block 7 was made at %v", at)
	}
}

func TestVotesComeFromTheEvents(t *testing.T) {
	vote := &types.Vote{Type: 2, Height: 7, Round: 1, ValidatorAddress: make([]byte, 20), Signature: []byte{1}, Extension: []byte("effects"), ExtensionSignature: []byte{2, 3}}
	event, err := cmtjson.Marshal(&core.ResultEvent{Query: "tm.event='Vote'", Data: types.EventDataVote{Vote: vote}})
	must.Do(t, err)
	address, path := place(t)
	l, err := net.Listen("unix", path)
	must.Do(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		if _, text, err := conn.ReadMessage(); err != nil || !strings.Contains(string(text), "subscribe") {
			return
		}
		for _, result := range []string{"{}", string(event)} {
			_ = conn.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","id":1,"result":`+result+`}`))
		}
		_ = conn.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the client is slow","data":""}}`))
	}), ReadHeaderTimeout: limit}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	c, err := NewClient(address)
	must.Do(t, err)
	var heard []*types.Vote
	err = c.Votes(context.Background(), func(v *types.Vote) { heard = append(heard, v) })
	if err == nil || !strings.Contains(err.Error(), "slow") {
		t.Errorf("it ends with %v", err)
	}
	if len(heard) != 1 || heard[0].Height != 7 || string(heard[0].Extension) != "effects" || string(heard[0].ExtensionSignature) != string(vote.ExtensionSignature) {
		t.Errorf("heard %v", heard)
	}
}
