package gateway

import (
	"context"
	"crypto/tls"
	_ "embed"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/serve"
	"github.com/chainify-db/chainify/abci/wire"
)

//go:embed openapi.yaml
var openAPI []byte

// API serves the HTTP interface described in openapi.yaml.
type API struct {
	Gateway *Gateway
	Status  StatusSource
	Source  wire.Source // what the order decided
	Access  *access.Access
	// OpenReads permits reads without authentication; for a listener on loopback.
	OpenReads bool
	TLS       *tls.Config // nil: plain HTTP
	Limits    HTTPLimits
	Log       *slog.Logger

	blocks *blockPlaces
}

// HTTPLimits bound what clients can take of the node. The zero value is none.
type HTTPLimits struct {
	Connections int // at once; further ones wait to be accepted
	Requests    int // at once, those that wait for outcomes included; more are refused
	Strangers   int // of these, of clients that have not shown who they are
	HeaderTime  time.Duration
	BodyTime    time.Duration // header included
	AnswerTime  time.Duration // for taking in an answer
	IdleTime    time.Duration // between two requests
}

// DefaultHTTPLimits are the values of a fresh chainify.toml.
func DefaultHTTPLimits() HTTPLimits {
	return HTTPLimits{
		Connections: 1_000, Requests: 1_000, Strangers: 64,
		HeaderTime: 5 * time.Second, BodyTime: 30 * time.Second, AnswerTime: 30 * time.Second, IdleTime: time.Minute,
	}
}

const (
	// bodyBytesMax holds the largest proposal in hexadecimal digits.
	bodyBytesMax   = 2*wire.ProposalBytesMax + 4<<10
	headerBytesMax = 16 << 10
	// blocksAtOnce bounds the blocks being read: each is of megabytes, and its bundles are decoded.
	blocksAtOnce = 16
)

// need says what a route asks of a client.
type need int

const (
	needsRole   need = iota // somebody with a role: he submits
	needsClient             // somebody known, or anybody where reads are open
	needsNobody
)

// route is one line of the API; the test holds the table against openapi.yaml.
type route struct {
	method, path string
	needs        need
	serve        func(*API, http.ResponseWriter, *http.Request, access.Client) error
}

var routes = []route{
	{"POST", "/v1/transactions", needsRole, (*API).postTransaction},
	{"POST", "/v1/transactions/signed", needsNobody, (*API).postSigned}, // the proposal's signature says who it is
	{"GET", "/v1/transactions/{id}", needsClient, (*API).getTransaction},
	{"GET", "/v1/blocks/{number}", needsClient, (*API).getBlock},
	{"GET", "/v1/status", needsClient, (*API).getStatus},
	{"GET", "/v1/openapi.yaml", needsNobody, (*API).getOpenAPI},
	{"GET", "/healthz", needsNobody, (*API).getHealth},
}

// Handler returns the API as an http.Handler.
func (a *API) Handler() http.Handler {
	places := places{
		all: newSlots(a.Limits.Requests), strangers: newSlots(a.Limits.Strangers),
		ofAll: newClientPlaces(a.Limits.Requests), ofStrangers: newClientPlaces(a.Limits.Strangers),
	}
	a.blocks = newBlockPlaces(blocksAtOnce)
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, req *http.Request) {
			client, err := a.authorise(r, req)
			if err == nil {
				err = a.serve(r, w, req, client, places)
			}
			if err != nil {
				a.writeError(w, err)
			}
		})
	}
	return mux
}

// places bound the requests at once, from before their body is read until they are answered, waits
// included: of all, of clients that are not known, and of each client.
type places struct {
	all, strangers     slots
	ofAll, ofStrangers *clientPlaces
}

// serve takes the request's place among those at once. Strangers have few, so that they leave room
// for who is known, and nobody has all.
func (a *API) serve(r route, w http.ResponseWriter, req *http.Request, client access.Client, places places) error {
	who, each := nameOf(client, req), places.ofAll
	stranger := !client.Known() && !a.OpenReads
	if stranger {
		each = places.ofStrangers
	}
	if !each.enter(who) {
		return tooManyRequests(each.each, "of one client")
	}
	defer each.leave(who)
	if !places.all.enter() {
		return tooManyRequests(cap(places.all), "of all clients together")
	}
	defer places.all.leave()
	if stranger {
		if !places.strangers.enter() {
			return tooManyRequests(cap(places.strangers), "of clients that have not shown who they are")
		}
		defer places.strangers.leave()
	}
	return r.serve(a, w, req, client)
}

// nameOf tells clients apart: by the name that one has shown to bear, else by its address.
func nameOf(client access.Client, req *http.Request) string {
	if client.Known() {
		return client.Name
	}
	return addressOf(req.RemoteAddr)
}

// slots are places for requests at once.
type slots chan struct{}

func newSlots(n int) slots { return make(slots, n) }

func (s slots) enter() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) leave() { <-s }

func tooManyRequests(limit int, of string) *Error {
	return &Error{
		SQLState: StateTooMany, Message: "too many requests to the node at once",
		Detail: fmt.Sprintf("At most %d %s are answered at once.", limit, of), Hint: "Ask again later.",
	}
}

// Serve answers on the listener until ctx ends, then lets requests finish for a moment. HTTP/1.1
// alone: the times for header, body and answer are those of a connection.
func (a *API) Serve(ctx context.Context, l net.Listener) error {
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	srv := &http.Server{
		Handler: a.Handler(), Protocols: &protocols, TLSConfig: a.TLS, MaxHeaderBytes: headerBytesMax,
		ReadHeaderTimeout: a.Limits.HeaderTime, ReadTimeout: a.Limits.BodyTime, IdleTimeout: a.Limits.IdleTime,
		BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog:    slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
	}
	srv.RegisterOnShutdown(cancel) // waits answer with what they know
	if !a.OpenReads {              // on loopback all have one address
		l = byAddress{l, newClientPlaces(a.Limits.Connections)}
	}
	return serve.Until(ctx, srv, "HTTP", func() error { return a.serveOn(srv, netutil.LimitListener(l, a.Limits.Connections)) })
}

func (a *API) serveOn(srv *http.Server, l net.Listener) error {
	if a.TLS == nil {
		return srv.Serve(l)
	}
	return srv.ServeTLS(l, "", "")
}
