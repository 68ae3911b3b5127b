package gateway

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// manyTokens is an API with the tokens "0", "1", … as they are named, beside which nobody may read.
func manyTokens(t *testing.T, f *fixture, n int) *API {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.json")
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"name":"%d","role":"bank","sha256":"%x"}`, i, sha256.Sum256([]byte(strconv.Itoa(i)))))
	}
	must.Do(t, os.WriteFile(path, []byte(`{"tokens":[`+strings.Join(list, ",")+`]}`), 0o600))
	a := newAPI(t, f, "")
	var err error
	if a.Access.Tokens, err = access.OpenTokens(path); err != nil {
		t.Fatal(err)
	}
	a.OpenReads = false
	return a
}

// asking asks an API from an address, and returns code and message.
func asking(t *testing.T, handler http.Handler, method, path, address, token string, body io.Reader) (int, string) {
	req := httptest.NewRequest(method, "http://localhost"+path, body)
	req.RemoteAddr = address
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// Requests at once are bounded; strangers leave room for who is known, and each client for the
// others.
func TestHTTPRequestsAtOnceAreBounded(t *testing.T) {
	f := newFixture(t, registerClerk)
	a := manyTokens(t, f, 6)
	a.Limits.Requests, a.Limits.Strangers = 8, 4 // of which one client may have 2, one stranger 1
	handler := a.Handler()
	unknown := "/v1/transactions/" + strings.Repeat("0", 64) + "?wait_ms=60000"
	var ended sync.WaitGroup
	waits := func(method, path, address, token, body string) {
		t.Helper()
		before := f.g.waitsNow()
		ended.Go(func() {
			if code, said := asking(t, handler, method, path, address, token, strings.NewReader(body)); code != 200 {
				t.Errorf("who waited got %d: %s", code, said)
			}
		})
		eventually(t, func() bool { return f.g.waitsNow() == before+1 })
	}
	refused := func(path, address, token, says string) {
		t.Helper()
		if code, said := asking(t, handler, "GET", path, address, token, nil); code != 429 || !strings.Contains(said, says) {
			t.Errorf("%s of %q at %s got %d: %s, want 429 with %q", path, token, address, code, said, says)
		}
	}
	p := signed(clerkKey, unchanged)
	proposal := fmt.Sprintf(`{"proposal":"%x","signature":"%x","wait_ms":60000}`, p.Proposal, p.Signature)
	waits("POST", "/v1/transactions/signed", "203.0.113.7:1", "", proposal)
	refused("/healthz", "203.0.113.7:2", "", "At most 1 of one client")
	if code, _ := asking(t, handler, "GET", "/v1/openapi.yaml", "203.0.113.8:1", "", nil); code != 200 {
		t.Errorf("another stranger got %d", code)
	}
	for token := range 3 {
		for port := range 2 {
			if code, _ := asking(t, handler, "GET", "/v1/status", "203.0.113.7:9", strconv.Itoa(token), nil); code != 200 {
				t.Errorf("who is known got %d", code)
			}
			waits("GET", unknown, fmt.Sprintf("203.0.113.%d:1", 20+port), strconv.Itoa(token), "")
		}
		refused("/v1/status", "203.0.113.9:1", strconv.Itoa(token), "At most 2 of one client")
	}
	waits("GET", unknown, "203.0.113.7:1", "3", "")
	refused("/v1/status", "203.0.113.7:1", "4", "At most 8 of all clients")
	refused("/healthz", "203.0.113.8:1", "", "At most 8 of all clients")
	f.decide(wire.TxID(idOf(p)), wire.TxID{})
	f.commit(wire.TxID(idOf(p)), wire.TxID{})
	ended.Wait()
	for token := range 6 { // every place was left
		if code, said := asking(t, handler, "GET", "/v1/status", "203.0.113.7:1", strconv.Itoa(token), nil); code != 200 {
			t.Errorf("afterwards: %d %s", code, said)
		}
	}
}

// slowSource reads blocks when it is told to.
type slowSource struct {
	fakeSource
	reading chan struct{}
	goOn    chan struct{}
}

func (s slowSource) Ordered(n uint64) (*wire.OrderedBlock, error) {
	s.reading <- struct{}{}
	<-s.goOn
	return s.fakeSource.Ordered(n)
}

// Blocks are read in few places: a quarter of them for each client, and none for what is written to
// a client. Other requests go on.
func TestBlocksReadAtOnceAreBounded(t *testing.T) {
	a := manyTokens(t, newFixture(t, nil), 6)
	slow := slowSource{reading: make(chan struct{}), goOn: make(chan struct{})}
	a.Source = slow
	handler := a.Handler()
	var ended sync.WaitGroup
	reads := func(token string) {
		ended.Go(func() {
			if code, said := asking(t, handler, "GET", "/v1/blocks/1", "203.0.113.7:1", token, nil); code != 200 {
				t.Errorf("who reads got %d: %s", code, said)
			}
		})
		<-slow.reading
	}
	refused := func(token, says string) {
		t.Helper()
		req := httptest.NewRequest("GET", "http://localhost/v1/blocks/1", nil)
		req.Header.Set("Authorization", "Bearer "+token)
		w, answered := httptest.NewRecorder(), make(chan struct{})
		go func() { handler.ServeHTTP(w, req); close(answered) }()
		select {
		case <-slow.reading:
			t.Fatalf("%s reads a block beyond the bound", token)
		case <-answered:
		}
		if w.Code != 429 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s got %d, %v: %s, want 429 with %q", token, w.Code, w.Header(), w.Body, says)
		}
	}
	for client := range 4 {
		for range shareOf(blocksAtOnce) {
			reads(strconv.Itoa(client))
		}
		if client < 3 {
			refused(strconv.Itoa(client), fmt.Sprintf("At most %d for blocks, of one client,", shareOf(blocksAtOnce)))
		}
	}
	refused("4", fmt.Sprintf("At most %d for blocks are", blocksAtOnce))
	if code, said := asking(t, handler, "GET", "/v1/status", "203.0.113.7:1", "0", nil); code != 200 {
		t.Errorf("another request got %d: %s", code, said)
	}
	close(slow.goOn)
	ended.Wait()
	if len(a.blocks.all) > 0 || len(a.blocks.of.held) > 0 {
		t.Errorf("%d places, %v are left taken", len(a.blocks.all), a.blocks.of.held)
	}
}

// A body that comes slowly takes a place of its client, whose others are refused meanwhile; other
// clients are served.
func TestSlowBodiesTakeTheirClientsPlaces(t *testing.T) {
	a := manyTokens(t, newFixture(t, nil), 2)
	a.Limits.Requests = 8
	handler := a.Handler()
	var ended sync.WaitGroup
	var bodies []*io.PipeWriter
	for range 2 {
		body, slow := io.Pipe()
		bodies = append(bodies, slow)
		ended.Go(func() {
			if code, said := asking(t, handler, "POST", "/v1/transactions", "203.0.113.7:1", "0", body); code != 400 {
				t.Errorf("a body that ends in the middle: %d %s", code, said)
			}
		})
		if _, err := io.WriteString(slow, `{"sql":`); err != nil { // it is read: the request has its place
			t.Fatal(err)
		}
	}
	if code, _ := asking(t, handler, "POST", "/v1/transactions", "203.0.113.8:1", "0", strings.NewReader(`{"sql":"SELECT 1"}`)); code != 429 {
		t.Errorf("the client's third request got %d, want 429", code)
	}
	if code, said := asking(t, handler, "POST", "/v1/transactions", "203.0.113.7:1", "1", strings.NewReader(`{"sql":"SELECT 1"}`)); code != 202 {
		t.Errorf("another client got %d: %s", code, said)
	}
	for _, slow := range bodies {
		slow.Close()
	}
	ended.Wait()
}

// One address has a quarter of the connections; a place is free again when its connection ends.
func TestConnectionsOfOneAddressAreBounded(t *testing.T) {
	a := newAPI(t, newFixture(t, nil), "bank")
	a.OpenReads, a.Limits.Connections = false, 8
	address := serveHTTP(t, a)
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", address)
		must.Do(t, err)
		t.Cleanup(func() { c.Close() })
		must.Do(t, c.SetDeadline(time.Now().Add(5*time.Minute)))
		return c
	}
	answered := func(c net.Conn) bool {
		_, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		n := 0
		if err == nil {
			n, _ = c.Read(make([]byte, 12))
		}
		return n > 0
	}
	open := []net.Conn{dial(), dial()}
	for _, c := range open {
		if !answered(c) {
			t.Error("a connection within the bound is not served")
		}
	}
	if answered(dial()) {
		t.Error("a third connection of one address is served, of 8 for all")
	}
	open[0].Close()
	eventually(t, func() bool { return answered(dial()) })
}

func TestAddressesOfClients(t *testing.T) {
	for remote, want := range map[string]string{
		"203.0.113.7:80": "address 203.0.113.7", "[::ffff:203.0.113.7]:80": "address 203.0.113.7", "[2001:db8::1]:1": "address 2001:db8::/64",
		"[2001:db8:0:0:ffff::2]:2": "address 2001:db8::/64", "[fe80::1%eth0]:3": "address fe80::/64", "@": "address @",
	} {
		if got := addressOf(remote); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}
