package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	requestsMax   = 4 // at once; more are told to come again
	requestTime   = 10 * time.Second
	shutdownLimit = 3 * time.Second
)

// Handler answers /metrics with this node's figures and those CometBFT keeps in the process, /healthz while the process runs.
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
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limit, end := context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
		defer end()
		stopped <- srv.Shutdown(limit)
	})
	err := srv.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return errors.Join(<-stopped, ctx.Err())
	}
	stop()
	return fmt.Errorf("serve metrics: %w", err)
}
