package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/chainify-db/chainify/abci/serve"
)

const (
	requestsMax = 4 // at once; more are told to come again
	requestTime = 10 * time.Second
)

// Handler answers /metrics with this node's figures and those CometBFT keeps in the process,
// /healthz while the process runs.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{m.registry, cometbft{}}, promhttp.HandlerOpts{
		MaxRequestsInFlight: requestsMax, Timeout: requestTime, ErrorHandling: promhttp.ContinueOnError,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// Serve answers on l, which it closes, until ctx ends.
func (m *Metrics) Serve(ctx context.Context, l net.Listener, log *slog.Logger) error {
	srv := &http.Server{
		Handler: m.Handler(), ReadHeaderTimeout: requestTime, ReadTimeout: requestTime, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return serve.Until(ctx, srv, "metrics", func() error { return srv.Serve(l) })
}
