package harness

import (
	"context"
	"fmt"
	"net"
	"time"
)

// pollEvery is how often a condition is looked at.
const pollEvery = 25 * time.Millisecond

// Poll waits until check returns true, at most limit. check returns false with the reason that is reported
// when the limit passes; an error ends the wait at once.
func Poll(ctx context.Context, limit time.Duration, what string, check func(context.Context) (ok bool, why string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last := "not looked at yet"
	for {
		ok, why, err := check(ctx)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if ok {
			return nil
		}
		if ctx.Err() == nil {
			last = why
		}
		select {
		case <-ctx.Done():
			if context.Cause(ctx) == context.Canceled {
				return fmt.Errorf("%s: %w", what, context.Canceled)
			}
			return fmt.Errorf("%s: not within %s: %s", what, limit, last)
		case <-tick.C:
		}
	}
}

// FreePorts returns n consecutive free loopback ports. They are free when looked at; a server that then finds
// its port taken says so in its log.
func FreePorts(n int) (int, error) {
	const attempts = 50
	for range attempts {
		base, ok := tryPorts(n)
		if ok {
			return base, nil
		}
	}
	return 0, fmt.Errorf("no %d consecutive free ports after %d attempts", n, attempts)
}

func tryPorts(n int) (int, bool) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, false
	}
	defer first.Close()
	base := first.Addr().(*net.TCPAddr).Port
	for i := 1; i < n; i++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+i))
		if err != nil {
			return 0, false
		}
		defer l.Close()
	}
	return base, true
}
