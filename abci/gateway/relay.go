package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/access"
)

// Relay carries connections between PostgreSQL's backends and a node on another machine: one relay
// beside each, and TLS between them by which each knows the other (spec/node-socket.md, "Over
// TLS"). It reads none of the messages.
type Relay struct {
	Listener net.Listener
	// Admit refuses sides that may not connect, and returns the connection to carry.
	Admit func(context.Context, net.Conn) (net.Conn, error)
	// Dial connects to the node, or to the relay beside it.
	Dial           func(context.Context) (net.Conn, error)
	ConnectionsMax int // at once; more are told so and closed
	Log            *slog.Logger
}

// relayLimit bounds the time until a connection is carried: TLS, and the way to the other end.
const relayLimit = 10 * time.Second

// Serve carries until ctx ends, then closes all connections and waits for them.
func (r *Relay) Serve(ctx context.Context) error {
	return acceptAll(ctx, r.Listener, r.ConnectionsMax, r.Log, func(conn net.Conn) func() {
		return func() { r.serve(ctx, conn) }
	})
}

func (r *Relay) serve(ctx context.Context, raw net.Conn) {
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	limited, cancel := context.WithTimeout(ctx, relayLimit)
	defer cancel()
	from, err := r.Admit(limited, raw)
	if err != nil {
		r.Log.Warn("connection refused", "from", raw.RemoteAddr(), "err", err)
		return
	}
	to, err := r.Dial(limited)
	if err != nil {
		r.Log.Warn("the other end cannot be reached", "err", err)
		refuseConn(from, &Error{SQLState: StateCannotOrder, Message: "the relay to the node does not reach it", Detail: err.Error()})
		return
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { to.Close() })()
	if err := carry(from, to); err != nil && ctx.Err() == nil {
		r.Log.Debug("connection lost", "err", err)
	}
}

// carry copies both ways until both sides have ended. A side that is lost ends the other.
func carry(a, b net.Conn) error {
	var ways sync.WaitGroup
	var lost [2]error
	for i, way := range [2][2]net.Conn{{a, b}, {b, a}} {
		ways.Go(func() {
			if _, lost[i] = io.Copy(way[0], way[1]); lost[i] == nil {
				if half, ok := way[0].(interface{ CloseWrite() error }); ok {
					lost[i] = half.CloseWrite()
				}
			}
			if lost[i] != nil {
				a.Close()
				b.Close()
			}
		})
	}
	ways.Wait()
	return errors.Join(lost[:]...)
}

// AdmitUsers admits processes of these operating-system users over a Unix socket.
func AdmitUsers(uids []uint32) func(context.Context, net.Conn) (net.Conn, error) {
	return func(_ context.Context, conn net.Conn) (net.Conn, error) {
		err := checkPeer(conn.(*net.UnixConn), uids)
		if err != nil {
			refuseConn(conn, &Error{SQLState: "28000", Message: err.Error(), Hint: "Allow the user with --user of chainify relay."})
		}
		return conn, err
	}
}

// AdmitTLS admits machines that show credentials with one of the names that clients have.
func AdmitTLS(server *tls.Config, clients *access.Access) func(context.Context, net.Conn) (net.Conn, error) {
	return func(ctx context.Context, raw net.Conn) (net.Conn, error) {
		conn := tls.Server(raw, server)
		if err := conn.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		state := conn.ConnectionState()
		client, err := clients.Of(&http.Request{TLS: &state})
		if err == nil && !client.Known() {
			err = errors.New("it shows no TLS client credentials")
		}
		return conn, err
	}
}

// DialTLS connects with dial, shows own credentials, and believes a server whose name the authority
// vouches for. The files are read for each connection.
func DialTLS(dial func(ctx context.Context, network, address string) (net.Conn, error), address string, files access.TLSFiles) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config, err := files.Client(host)
		if err != nil {
			return nil, err
		}
		raw, err := dial(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("TLS with %s: %w", address, err), raw.Close())
		}
		return conn, nil
	}
}
