package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

//go:embed openapi.yaml
var openAPI []byte

// API serves the HTTP interface described in openapi.yaml.
type API struct {
	Gateway *Gateway
	Status  StatusSource
	Source  wire.Source // what the order decided
	// Tokens maps the SHA-256 of a bearer token to the role that its bearer submits as. Without tokens nothing can be
	// submitted over HTTP.
	Tokens map[[32]byte]string
	// OpenReads lets reads pass without a token; for a listener on loopback.
	OpenReads bool
	Log       *slog.Logger
}

const (
	bodyBytesMax  = 1 << 20
	headerTime    = 5 * time.Second
	bodyTime      = 30 * time.Second
	shutdownLimit = 3 * time.Second
)

// route is one line of the API; the test holds the table against openapi.yaml.
type route struct {
	method, path string
	submits      bool // needs a token always
	open         bool // needs none ever
	serve        func(*API, http.ResponseWriter, *http.Request, string) error
}

var routes = []route{
	{method: "POST", path: "/v1/transactions", submits: true, serve: (*API).postTransaction},
	{method: "GET", path: "/v1/transactions/{id}", serve: (*API).getTransaction},
	{method: "GET", path: "/v1/blocks/{number}", serve: (*API).getBlock},
	{method: "GET", path: "/v1/status", serve: (*API).getStatus},
	{method: "GET", path: "/v1/openapi.yaml", open: true, serve: (*API).getOpenAPI},
	{method: "GET", path: "/healthz", open: true, serve: (*API).getHealth},
}

// Handler returns the API as an http.Handler.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, req *http.Request) {
			role, err := a.authorise(r, req)
			if err == nil {
				err = r.serve(a, w, req, role)
			}
			if err != nil {
				writeError(w, err)
			}
		})
	}
	return mux
}

// Serve answers on the listener until ctx ends, then lets requests finish for a moment.
func (a *API) Serve(ctx context.Context, l net.Listener) error {
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler: a.Handler(), ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog:    slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		cancel() // waits answer with what they know
		limit, end := context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
		defer end()
		stopped <- srv.Shutdown(limit)
	})
	err := srv.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return errors.Join(<-stopped, ctx.Err())
	}
	stop()
	return fmt.Errorf("serve HTTP: %w", err)
}

// authorise returns the role of the request's token. The comparison is of hashes, in constant time each.
func (a *API) authorise(r route, req *http.Request) (string, error) {
	if r.open {
		return "", nil
	}
	if a.OpenReads && !loopbackHost(req.Host) {
		return "", &httpError{http.StatusForbidden, &Error{
			SQLState: "28000", Message: fmt.Sprintf("host %q is not this machine", req.Host),
			Detail: "The interface listens on loopback and answers requests for loopback names only, so that no web page can read it under another name.",
		}}
	}
	token, given := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	switch {
	case given:
		if role, ok := a.roleOf(token); ok {
			return role, nil
		}
		return "", &httpError{http.StatusUnauthorized, &Error{SQLState: "28000", Message: "unknown bearer token"}}
	case r.submits && len(a.Tokens) == 0:
		return "", &httpError{http.StatusForbidden, &Error{
			SQLState: "28000", Message: "submission over HTTP is off",
			Detail: "No bearer token is configured, so there is no role to submit as.",
			Hint:   "Set tokens_file under [http] in chainify.toml, with lines \"role token\".",
		}}
	case r.submits || !a.OpenReads:
		return "", &httpError{http.StatusUnauthorized, &Error{SQLState: "28000", Message: "a bearer token is needed"}}
	}
	return "", nil
}

func (a *API) roleOf(token string) (string, bool) {
	sum := sha256.Sum256([]byte(token))
	role, found := "", false
	for known, r := range a.Tokens {
		if subtle.ConstantTimeCompare(known[:], sum[:]) == 1 {
			role, found = r, true
		}
	}
	return role, found
}

func loopbackHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

func (a *API) postTransaction(w http.ResponseWriter, req *http.Request, role string) error {
	var body submission
	d := json.NewDecoder(http.MaxBytesReader(w, req.Body, bodyBytesMax))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return beyondBound("size of the request in bytes", bodyBytesMax+1, bodyBytesMax)
		}
		return malformed("body: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return malformed("body: something follows the JSON object")
	}
	statement, err := body.statement()
	if err != nil {
		return err
	}
	wait, err := waitOf(body.WaitMS)
	if err != nil {
		return err
	}
	ids, err := a.Gateway.SubmitAgreed(req.Context(), role, []*wire.Statement{statement})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/transactions/"+hex.EncodeToString(ids[0][:]))
	if wait > 0 {
		// The transaction is accepted whatever the wait says: an error here must not look like a refusal.
		if results, err := a.Gateway.Wait(req.Context(), ids, wait); err == nil && len(results) == 1 {
			return writeJSON(w, http.StatusOK, TransactionOf(results[0]))
		}
	}
	return writeJSON(w, http.StatusAccepted, accepted{ID: hex.EncodeToString(ids[0][:])})
}

func waitOf(ms int64) (time.Duration, error) {
	if ms < 0 || ms > waitMax.Milliseconds() {
		return 0, malformed("wait_ms: %d, want 0 to %d", ms, waitMax.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func (a *API) getTransaction(w http.ResponseWriter, req *http.Request, _ string) error {
	raw, err := hex.DecodeString(req.PathValue("id"))
	if err != nil || len(raw) != len(wire.TxID{}) {
		return malformed("id: %q is not 64 hexadecimal digits", req.PathValue("id"))
	}
	var ms int64
	if q := req.URL.Query().Get("wait_ms"); q != "" {
		if ms, err = strconv.ParseInt(q, 10, 64); err != nil {
			return malformed("wait_ms: %q is not a number", q)
		}
	}
	wait, err := waitOf(ms)
	if err != nil {
		return err
	}
	results, err := a.Gateway.Wait(req.Context(), []wire.TxID{wire.TxID(raw)}, wait)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		return &httpError{http.StatusNotFound, &Error{
			SQLState: "02000", Message: "no outcome of this transaction is known",
			Detail: "It may still wait for its block, or never have been ordered.",
		}}
	}
	return writeJSON(w, http.StatusOK, TransactionOf(results[0]))
}

func (a *API) getBlock(w http.ResponseWriter, req *http.Request, _ string) error {
	n, err := strconv.ParseUint(req.PathValue("number"), 10, 64)
	if err != nil || n == 0 {
		return malformed("number: %q is not a block number", req.PathValue("number"))
	}
	if last := a.Source.LastOrdered(); n > last {
		return &httpError{http.StatusNotFound, &Error{
			SQLState: "02000", Message: fmt.Sprintf("block %d is not ordered yet", n), Detail: fmt.Sprintf("The last one is %d.", last),
		}}
	}
	ordered, err := a.Source.Ordered(n)
	if err != nil {
		return fmt.Errorf("read block %d: %w", n, err)
	}
	answer := blockOf(ordered)
	if n <= a.Source.LastCertified() {
		certificate, err := a.Source.Certificate(n)
		if err != nil {
			return fmt.Errorf("read certificate of block %d: %w", n, err)
		}
		answer.Certificate = certificateOf(certificate)
	}
	return writeJSON(w, http.StatusOK, answer)
}

func (a *API) getStatus(w http.ResponseWriter, req *http.Request, _ string) error {
	return writeJSON(w, http.StatusOK, StatusOf(a.Status(req.Context()), a.Gateway.Stats()))
}

func (a *API) getHealth(w http.ResponseWriter, req *http.Request, _ string) error {
	s := a.Status(req.Context())
	h := health{State: s.State, Stalled: a.Gateway.Stats().Stalled}
	h.OK = (s.State == "serving" || s.State == "executing" || s.State == "ordering_only") && !h.Stalled
	code := http.StatusOK
	if !h.OK {
		code = http.StatusServiceUnavailable
	}
	return writeJSON(w, code, h)
}

func (a *API) getOpenAPI(w http.ResponseWriter, _ *http.Request, _ string) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, err := w.Write(openAPI)
	return err
}

func writeJSON(w http.ResponseWriter, code int, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	w.Write(append(raw, '\n')) // a client that went away is no error of ours
	return nil
}

// httpError is an Error with a status of its own; others get it by their SQLSTATE.
type httpError struct {
	code int
	err  *Error
}

func (e *httpError) Error() string { return e.err.Error() }
func (e *httpError) Unwrap() error { return e.err }

func writeError(w http.ResponseWriter, err error) {
	e := asError(err)
	code := statusOf(e.SQLState)
	var own *httpError
	if errors.As(err, &own) {
		code = own.code
	}
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, code, failure{Error: failureBody{SQLState: e.SQLState, Message: e.Message, Detail: e.Detail, Hint: e.Hint}})
}

func statusOf(sqlstate string) int {
	switch sqlstate {
	case StateCannotOrder:
		return http.StatusServiceUnavailable
	case StateFull, StateTooMany:
		return http.StatusTooManyRequests
	case StateBound:
		return http.StatusRequestEntityTooLarge
	case StateMalformed:
		return http.StatusBadRequest
	case StateUnsupported:
		return http.StatusNotImplemented
	case stateLacksAgreement:
		return http.StatusConflict
	default:
		return http.StatusInternalServerError
	}
}
