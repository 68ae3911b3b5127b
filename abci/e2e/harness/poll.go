package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// pollEvery is how often a condition is looked at.
const pollEvery = 25 * time.Millisecond

// Poll waits until check returns true, at most limit. check returns false with the reason that is
// reported when the limit passes; an error ends the wait at once.
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

// given are the ports that this process was given lately: servers of another test may not listen on
// theirs yet.
var given = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// Ports are given from this one up to before the first that Linux gives to connections
// (ip_local_port_range): one of those may be any connection's when its server starts again.
const (
	firstPort     = 12_000
	portsToChoose = 32_768 - firstPort
	givenMax      = portsToChoose / 2 // then all are given again
)

// FreePorts returns n consecutive free loopback ports, others than it returned lately. They are
// free when looked at; a server that then finds its port taken says so in its log.
func FreePorts(n int) (int, error) {
	given.Lock()
	defer given.Unlock()
	if len(given.ports) > givenMax {
		clear(given.ports)
	}
	const attempts = 50
	for range attempts {
		base, ok := tryPorts(n)
		if !ok {
			continue
		}
		for i := range n {
			given.ports[base+i] = true
		}
		return base, nil
	}
	return 0, fmt.Errorf("no %d consecutive free ports after %d attempts", n, attempts)
}

func tryPorts(n int) (base int, ok bool) {
	base = firstPort + rand.IntN(portsToChoose-n)
	for port := base; port < base+n; port++ {
		if given.ports[port] {
			return 0, false
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return 0, false
		}
		defer l.Close()
	}
	return base, true
}
