// Package remote connects a node to a CometBFT that runs in a process of its own. It serves the
// ABCI application over a socket, and is a client of CometBFT's RPC.
package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cometbft/cometbft/abci/types"
	"github.com/cometbft/cometbft/libs/protoio"
)

const (
	// connectionsMax bounds the connections at once. CometBFT has four.
	connectionsMax = 8
	// messageBytesMax bounds a request. CometBFT's blocks have 100 MiB at most.
	messageBytesMax = 128 << 20
	// probeLimit bounds an attempt to find out who listens at a socket.
	probeLimit = time.Second
)

// Listen listens at unix:///PATH, for this user alone, or at tcp://HOST:PORT. It takes the place of
// a socket that nobody serves any more.
func Listen(address string) (net.Listener, error) {
	network, where := split(address)
	if network != "unix" {
		return net.Listen(network, where)
	}
	Unstick(address)
	l, err := net.Listen(network, where)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(where, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Unstick removes a Unix socket that nobody serves: a process that was killed left it, and the next
// one could not listen there.
func Unstick(address string) {
	network, where := split(address)
	if network != "unix" {
		return
	}
	c, err := net.DialTimeout(network, where, probeLimit)
	switch {
	case err == nil:
		_ = c.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		_ = os.Remove(where) // a socket that stays is reported by Listen
	}
}

// split gives the network and the place of an address. One without a scheme is a TCP address.
func split(address string) (network, where string) {
	network, where, found := strings.Cut(address, "://")
	if !found {
		return "tcp", address
	}
	return network, where
}

// Server serves an application to one CometBFT. Requests of different connections run beside each
// other, as they do when CometBFT is in the application's process.
type Server struct {
	// Connected is told how many connections there are when that changes. It is not called by two
	// goroutines at once, and must not wait.
	Connected func(connections int)

	app types.Application
	log *slog.Logger

	mu          sync.Mutex // guards all below
	connections map[net.Conn]bool
}

// NewServer makes a server of an application, which may be called from any goroutine.
func NewServer(app types.Application, log *slog.Logger) *Server {
	return &Server{app: app, log: log, Connected: func(int) {}, connections: map[net.Conn]bool{}}
}

// Serve answers until ctx ends. It closes the listener and waits for requests under way.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var all sync.WaitGroup
	defer all.Wait()
	stop := context.AfterFunc(ctx, func() { s.close(l) })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			s.close(l)
			return fmt.Errorf("accept CometBFT's connection: %w", err)
		}
		if !s.add(ctx, c) {
			s.log.Warn("a connection beyond the limit is closed", "limit", connectionsMax)
			_ = c.Close()
			continue
		}
		all.Go(func() {
			defer s.remove(c)
			if err := s.answer(ctx, c); err != nil && ctx.Err() == nil {
				s.log.Error("a connection of CometBFT ends", "error", err)
			}
		})
	}
}

// close ends the listener and all connections; closing twice is harmless.
func (s *Server) close(l net.Listener) {
	_ = l.Close()
	s.Drop()
}

// Drop ends all connections. CometBFT ends then, and may be started again.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.connections {
		_ = c.Close()
	}
}

// add takes a connection, unless there are too many or the server ends.
func (s *Server) add(ctx context.Context, c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.connections) >= connectionsMax || ctx.Err() != nil {
		return false
	}
	s.connections[c] = true
	s.Connected(len(s.connections))
	return true
}

func (s *Server) remove(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.connections, c)
	s.Connected(len(s.connections))
}

// answer answers the requests of a connection in their order until the other side closes it. An
// error of the application goes to CometBFT, which ends then, as the connection does.
func (s *Server) answer(ctx context.Context, c net.Conn) error {
	in, out := bufio.NewReader(c), bufio.NewWriter(c)
	requests := protoio.NewDelimitedReader(in, messageBytesMax)
	for {
		request := &types.Request{}
		if _, err := requests.ReadMsg(request); err != nil {
			return ended(err)
		}
		response, failed := s.call(ctx, request)
		if failed != nil {
			response = types.ToResponseException(failed.Error())
		}
		if err := types.WriteMessage(response, out); err != nil {
			return ended(err)
		}
		_, flush := request.Value.(*types.Request_Flush)
		if flush || failed != nil || in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return ended(err)
			}
		}
		if failed != nil {
			return failed
		}
	}
}
