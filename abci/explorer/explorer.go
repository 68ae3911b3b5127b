// Package explorer serves pages that show a ledger to people: organisations and their votes,
// blocks, transactions, rows through time, deviations. It reads the organisation's database behind
// the interface Ledger, asks the node for its condition, and changes nothing.
package explorer

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/serve"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	requestsMax  = 16 // at once; more are told to come again
	requestLimit = 10 * time.Second
	headerLimit  = 5 * time.Second
	writeLimit   = 30 * time.Second // a receipt over a slow line
	queryMax     = 2_000            // bytes of a request's query
)

// Options say what is shown, and to whom.
type Options struct {
	// Ledger reads the organisation's database; the explorer closes it.
	Ledger Ledger
	// MayLook says whether a request shows a login; nil: none is needed.
	MayLook func(*http.Request) bool
	TLS     *tls.Config // nil: plain HTTP
	// Hosts are the names, besides loopback's, under which requests are answered.
	Hosts  []string
	Status func(context.Context) *wire.StatusResponse
	// Votes returns the votes on recent blocks that this node saw; nil: none.
	Votes func() []Vote
	// Evidence returns the node's evidence against organisations that voted twice; nil: none.
	Evidence func() *wire.EvidenceResponse
	Log      *slog.Logger
}

// Vote is the observed result of an organisation's vote on a certified block.
type Vote struct {
	Block        uint64
	Organisation string
	Verdict      string // agrees, differs, stuck
}

// Explorer serves the pages. Safe for concurrent use.
type Explorer struct {
	opt   Options
	db    Ledger
	live  cache
	slots chan struct{}
}

// New prepares the pages; the first request connects. Close it.
func New(opt Options) *Explorer {
	return &Explorer{opt: opt, db: opt.Ledger, slots: make(chan struct{}, requestsMax)}
}

// Close disconnects.
func (e *Explorer) Close() { e.db.Close() }

// Handler returns the pages as an http.Handler.
func (e *Explorer) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"/{$}":                 e.network,
		"/live":                e.liveRegion,
		"/blocks":              e.blocks,
		"/blocks/{number}":     e.block,
		"/transactions/{id}":   e.transaction,
		"/rows":                e.row,
		"/deviations":          e.deviations,
		"/evidence":            e.evidence,
		"/analytics":           e.analytics,
		"/evidence.json":       e.evidenceFile,
		"/search":              e.search,
		"/receipts/{id}":       e.receiptOfTransaction,
		"/receipts":            e.receiptOfRow,
		"/static/{tag}/{file}": serveStatic,
		"/":                    func(http.ResponseWriter, *http.Request) error { return notFound("There is no such page.") },
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if err := serve(w, r); err != nil {
				e.fail(w, r, err)
			}
		})
	}
	return e.guard(mux)
}

// guard answers only who may ask, only so many at once, and tells browsers to load nothing from
// anywhere else.
func (e *Explorer) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":  "nosniff",
			"Referrer-Policy":         "no-referrer",
			"Cache-Control":           "no-store",
		} {
			w.Header().Set(name, value)
		}
		if !e.answersAs(r.Host) {
			http.Error(w, fmt.Sprintf("This page does not answer as %q: no web page shall read it under another name.\nName it in explorer.hosts of chainify.toml if it should.", r.Host), http.StatusForbidden)
			return
		}
		if e.opt.MayLook != nil && !e.opt.MayLook(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="Chainify", charset="UTF-8"`)
			http.Error(w, "Log in with a token as the password, and any name.", http.StatusUnauthorized)
			return
		}
		if len(r.URL.RawQuery) > queryMax {
			http.Error(w, "The request is too long.", http.StatusRequestURITooLong)
			return
		}
		select {
		case e.slots <- struct{}{}:
			defer func() { <-e.slots }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many requests at once. Try again.", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), requestLimit)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (e *Explorer) answersAs(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback() || slices.Contains(e.opt.Hosts, host)
}

// Serve answers on l, which it closes, until ctx ends.
func (e *Explorer) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler: e.Handler(), ReadHeaderTimeout: headerLimit, ReadTimeout: requestLimit, WriteTimeout: writeLimit, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(e.opt.Log.Handler(), slog.LevelDebug), TLSConfig: e.opt.TLS,
	}
	return serve.Until(ctx, srv, "the explorer", func() error {
		if e.opt.TLS == nil {
			return srv.Serve(l)
		}
		return srv.ServeTLS(l, "", "")
	})
}
