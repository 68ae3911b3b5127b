package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

type fakeSource struct{}

func (fakeSource) LastOrdered() uint64   { return 2 }
func (fakeSource) LastCertified() uint64 { return 1 }
func (fakeSource) Ordered(n uint64) (*wire.OrderedBlock, error) {
	return &wire.OrderedBlock{Number: n, Height: 5, IDs: []wire.TxID{{1}}}, nil
}

func (fakeSource) Certificate(n uint64) (*wire.Certificate, error) {
	return &wire.Certificate{Number: n, Votes: []wire.CertifiedVote{{Organisation: "acme"}}}, nil
}

const testToken = "0123456789abcdef"

// newAPI serves the fixture's gateway; with a role, testToken is for it.
func newAPI(t *testing.T, f *fixture, role string) *API {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.json")
	if role != "" {
		text := fmt.Sprintf(`{"tokens":[{"name":"till","role":%q,"sha256":"%x"}]}`, role, sha256.Sum256([]byte(testToken)))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	tokens, err := access.OpenTokens(path)
	must.Do(t, err)
	return &API{
		Gateway: f.g, Source: fakeSource{}, Access: &access.Access{Tokens: tokens}, OpenReads: true,
		Limits: DefaultHTTPLimits(), Log: slog.New(slog.DiscardHandler),
		Status: func(context.Context) *wire.StatusResponse {
			return &wire.StatusResponse{Organisation: "acme", State: "serving"}
		},
	}
}

type answer struct {
	code int
	head http.Header
	body string
}

func (a *API) ask(method, path, token, body string) answer {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Host = "127.0.0.1:8645"
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, req)
	return answer{w.Code, w.Header(), w.Body.String()}
}

func TestHTTPSubmitAndOutcome(t *testing.T) {
	f := newFixture(t, nil)
	a := newAPI(t, f, "bank")
	r := a.ask("POST", "/v1/transactions", testToken, `{"sql":"UPDATE a SET x=$1","parameters":[{"type":"integer","value":"1"},{"value":null}]}`)
	if r.code != 202 {
		t.Fatal(r)
	}
	var ok accepted
	must.Do(t, json.Unmarshal([]byte(r.body), &ok))
	raw, _ := hex.DecodeString(ok.ID)
	f.step()
	if p := f.mempool.bundles[0].Transactions[0].Proposal.Proposal; !strings.Contains(string(p), "bank") {
		t.Error("the role is not the token's")
	}
	if r := a.ask("GET", "/v1/transactions/"+ok.ID, "", ""); r.code != 404 {
		t.Fatal(r)
	}
	f.decide(wire.TxID(raw))
	f.commit(wire.TxID(raw))
	for _, path := range []string{"/v1/transactions/" + ok.ID, r.head.Get("Location") + "?wait_ms=1000"} {
		r := a.ask("GET", path, "", "")
		want := fmt.Sprintf(`{"id":"%s","block":1,"index":0,"succeeded":true,"rows":1}`+"\n", ok.ID)
		if r.code != 200 || r.body != want {
			t.Fatalf("%+v, want %s", r, want)
		}
	}
}

func TestHTTPSubmitWaits(t *testing.T) {
	f := newFixture(t, nil)
	a := newAPI(t, f, "bank")
	done := make(chan answer, 1)
	go func() { done <- a.ask("POST", "/v1/transactions", testToken, `{"sql":"SELECT 1","wait_ms":60000}`) }()
	eventually(t, func() bool { return f.g.waitsNow() == 1 })
	f.g.mu.Lock()
	var id wire.TxID
	for id = range f.g.entries {
	}
	f.g.mu.Unlock()
	f.decide(id)
	f.commit(id)
	if r := <-done; r.code != 200 || !strings.Contains(r.body, `"succeeded":true`) {
		t.Fatal(r)
	}
}

func TestHTTPRefusals(t *testing.T) {
	f := newFixture(t, nil)
	without, with := newAPI(t, f, ""), newAPI(t, f, "bank")
	closed := newAPI(t, f, "bank")
	closed.OpenReads = false
	id := strings.Repeat("0", 64)
	for _, c := range []struct {
		a                         *API
		method, path, token, body string
		code                      int
		says                      string
	}{
		{without, "POST", "/v1/transactions", "", `{"sql":"SELECT 1"}`, 403, "client token add"},
		{with, "POST", "/v1/transactions", "", `{"sql":"SELECT 1"}`, 401, "bearer token"},
		{with, "POST", "/v1/transactions", "wrong", `{"sql":"SELECT 1"}`, 401, "unknown"},
		{with, "POST", "/v1/transactions", testToken, `{"sql":"SELECT 1","sync":1}`, 400, "sync"},
		{with, "POST", "/v1/transactions", testToken, `{"sql":"SELECT 1"} x`, 400, "follows"},
		{with, "POST", "/v1/transactions", testToken, `{"sql":"SELECT 1","wait_ms":600001}`, 400, "wait_ms"},
		{with, "POST", "/v1/transactions", testToken, `{"sql":"SELECT 1","kind":"x"}`, 400, "kind"},
		{with, "POST", "/v1/transactions", testToken, `{"sql":""}`, 400, "sql"},
		{with, "POST", "/v1/transactions", testToken, `{"sql":"SELECT 1","plan":{"action":"plan"}}`, 400, "of another kind"},
		{with, "POST", "/v1/transactions", testToken, `{"kind":"plan"}`, 400, "plan: missing"},
		{with, "POST", "/v1/transactions", testToken, `{"kind":"plan","plan":{"action":"now"}}`, 400, "plan.action"},
		{with, "POST", "/v1/transactions", testToken, `{"kind":"plan","plan":{"action":"approve","planned":"0a"}}`, 400, "plan.planned"},
		{with, "POST", "/v1/transactions", testToken, `{"kind":"plan","sql":"SELECT 1","plan":{"action":"plan","expires":"tomorrow"}}`, 400, "plan.expires"},
		{with, "POST", "/v1/transactions", testToken, `{"kind":"plan","plan":{"action":"plan","sync":1}}`, 400, "sync"},
		{with, "POST", "/v1/transactions", testToken, "{\"sql\":\"SELECT 'a\xff'\"}", 400, "UTF-8"},
		{with, "POST", "/v1/transactions", testToken, `{"sql":"` + strings.Repeat("x", wire.ProposalBytesMax) + `"}`, 413, "54000"},
		{with, "POST", "/v1/transactions", testToken, `{"sql":"` + strings.Repeat("x", bodyBytesMax) + `"}`, 413, "54000"},
		{with, "GET", "/v1/transactions/xyz", "", "", 400, "id"},
		{with, "GET", "/v1/transactions/" + id, "", "", 404, "02000"},
		{with, "GET", "/v1/transactions/" + id + "?wait_ms=x", "", "", 400, "wait_ms"},
		{with, "GET", "/v1/blocks/0", "", "", 400, "number"},
		{with, "GET", "/v1/blocks/3", "", "", 404, "not ordered"},
		{with, "DELETE", "/v1/status", "", "", 405, ""},
		{closed, "GET", "/v1/status", "", "", 401, "bearer"},
	} {
		r := c.a.ask(c.method, c.path, c.token, c.body)
		if r.code != c.code || !strings.Contains(r.body, c.says) {
			t.Errorf("%s %s %.40s: %d %s, want %d with %q", c.method, c.path, c.body, r.code, r.body, c.code, c.says)
		}
	}
	if r := closed.ask("GET", "/healthz", "", ""); r.code != 200 {
		t.Errorf("health needs a token: %+v", r)
	}
	req := httptest.NewRequest("GET", "/v1/status", nil)
	req.Host = "evil.example"
	w := httptest.NewRecorder()
	with.Handler().ServeHTTP(w, req)
	if w.Code != 403 {
		t.Errorf("a request for another host was answered with %d", w.Code)
	}
	if s := f.g.Stats(); s.Accepted != 0 {
		t.Errorf("%d refused transactions were queued", s.Accepted)
	}
}

func TestHTTPBackPressureAndHealth(t *testing.T) {
	f := newFixture(t, nil)
	a := newAPI(t, f, "bank")
	f.submit("x", 50)
	f.submit("y", 50)
	if r := a.ask("POST", "/v1/transactions", testToken, `{"sql":"SELECT 1"}`); r.code != 429 {
		t.Error(r)
	}
	if r := a.ask("GET", "/healthz", "", ""); r.code != 200 {
		t.Error(r)
	}
	f.now = f.now.Add(time.Minute)
	if r := a.ask("POST", "/v1/transactions", testToken, `{"sql":"SELECT 1"}`); r.code != 503 {
		t.Error(r)
	}
	if r := a.ask("GET", "/healthz", "", ""); r.code != 503 || !strings.Contains(r.body, `"stalled":true`) {
		t.Error(r)
	}
}

func TestHTTPServesAndStops(t *testing.T) {
	f := newFixture(t, nil)
	a := newAPI(t, f, "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, l) }()
	waiting := make(chan int, 1)
	go func() {
		r, err := http.Get("http://" + l.Addr().String() + "/v1/transactions/" + strings.Repeat("0", 64) + "?wait_ms=60000")
		if err != nil {
			waiting <- 0
			return
		}
		defer r.Body.Close()
		io.Copy(io.Discard, r.Body)
		waiting <- r.StatusCode
	}()
	eventually(t, func() bool { return f.g.waitsNow() == 1 })
	cancel()
	if code := <-waiting; code != 404 {
		t.Errorf("the waiting request got %d, want 404", code)
	}
	if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("serve ended with %v: a waiting request held it up", err)
	}
}

// The description names exactly the routes there are and, for each type, exactly its fields.
func TestOpenAPIMatchesTheHandlers(t *testing.T) {
	var doc struct {
		OpenAPI    string                               `yaml:"openapi"`
		Paths      map[string]map[string]map[string]any `yaml:"paths"`
		Components struct {
			Schemas map[string]struct {
				Properties map[string]map[string]any `yaml:"properties"`
				Required   []string                  `yaml:"required"`
			} `yaml:"schemas"`
		} `yaml:"components"`
	}
	must.Do(t, yaml.Unmarshal(openAPI, &doc))
	var described, served []string
	for path, methods := range doc.Paths {
		for method, operation := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
			for _, r := range routes {
				_, noToken := operation["security"]
				if r.path == path && (r.needs == needsNobody) != noToken {
					t.Errorf("%s: described as open: %v, needs %v", path, noToken, r.needs)
				}
			}
		}
	}
	for _, r := range routes {
		served = append(served, r.method+" "+r.path)
	}
	wantSame(t, "routes", described, served)
	types := map[string]any{
		"Submission": submission{}, "SignedSubmission": signedSubmission{}, "Parameter": jsonParameter{}, "Plan": PlanWords{}, "Accepted": accepted{}, "Transaction": Transaction{},
		"Block": block{}, "Certificate": certificate{}, "Vote": wire.VoteJSON{}, "Status": Status{}, "Protocol": Protocol{}, "EnvironmentDifference": EnvironmentDifference{}, "Queue": Queue{},
		"Health": health{}, "Failure": failure{},
	}
	for name, schema := range doc.Components.Schemas {
		v, known := types[name]
		if !known {
			t.Errorf("schema %s describes no type", name)
			continue
		}
		delete(types, name)
		fields, always := jsonFields(reflect.TypeOf(v))
		var properties []string
		for p := range schema.Properties {
			properties = append(properties, p)
		}
		wantSame(t, name, properties, fields)
		wantSame(t, name+" required", schema.Required, always)
	}
	for name := range types {
		t.Errorf("type %s is not described", name)
	}
}

func jsonFields(t reflect.Type) (all, always []string) {
	for i := range t.NumField() {
		name, rest, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		all = append(all, name)
		if rest == "" {
			always = append(always, name)
		}
	}
	return all, always
}

func wantSame(t *testing.T, what string, described, served []string) {
	t.Helper()
	slices.Sort(described)
	slices.Sort(served)
	if !slices.Equal(described, served) {
		t.Errorf("%s: described %v, served %v", what, described, served)
	}
}

// An answer has exactly the shape of its type: decoded strictly, nothing is unknown.
func TestHTTPAnswersHaveTheDescribedFields(t *testing.T) {
	f := newFixture(t, nil)
	a := newAPI(t, f, "")
	for path, into := range map[string]any{
		"/v1/blocks/1": &block{}, "/v1/blocks/2": &block{}, "/v1/status": &Status{}, "/healthz": &health{}, "/v1/blocks/9": &failure{},
	} {
		d := json.NewDecoder(strings.NewReader(a.ask("GET", path, "", "").body))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if r := a.ask("GET", "/v1/openapi.yaml", "", ""); r.body != string(openAPI) {
		t.Error("the description is not served")
	}
}
