// Package serve runs HTTP servers.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// shutdownLimit is how long requests may go on when a server ends.
const shutdownLimit = 3 * time.Second

// Until runs a server by start until ctx ends, then lets requests finish for a moment. It returns
// ctx's error, or the reason why the server failed.
func Until(ctx context.Context, srv *http.Server, what string, start func() error) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limit, end := context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
		defer end()
		stopped <- srv.Shutdown(limit)
	})
	err := start()
	if errors.Is(err, http.ErrServerClosed) {
		return errors.Join(<-stopped, ctx.Err())
	}
	stop()
	return fmt.Errorf("serve %s: %w", what, err)
}
