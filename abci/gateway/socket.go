package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/chainify-db/chainify/abci/fair"
	"github.com/chainify-db/chainify/abci/wire"
)

// SocketOptions describe the Unix socket that PostgreSQL's backends speak to (spec/node-socket.md).
type SocketOptions struct {
	Path           string
	Mode           os.FileMode
	UIDs           []uint32 // operating-system users that may connect, by SO_PEERCRED
	ConnectionsMax int      // at once; more are told so and closed
	RequestsMax    int      // of one connection at once; more are refused
	BytesMax       int      // of requests that are read or answered at once; 0: requestBytesMax
	Log            *slog.Logger
}

const (
	socketPathMax = 107 // sun_path without its terminating zero
	writeLimit    = 10 * time.Second
	// frameTime bounds how long the rest of a frame may take once its first byte is there.
	frameTime = 30 * time.Second
	// requestBytesMax bounds the requests that are read or answered at once, of all connections,
	// where SocketOptions do not say; one alone may have half of it.
	requestBytesMax = 512 << 20
)

// Socket serves the node's socket. Serve owns all its goroutines.
type Socket struct {
	opt      SocketOptions
	listener *net.UnixListener
	handle   *Handler
	bytes    *fair.Shares[string] // of requests under way, by connection
	accepted uint64               // of Serve alone
}

type connectionKey struct{}

// connection names the connection over which something is asked.
func connection(ctx context.Context) string {
	name, _ := ctx.Value(connectionKey{}).(string)
	return name
}

// ListenSocket binds the path, as ListenUnix does.
func ListenSocket(opt SocketOptions, handle *Handler) (*Socket, error) {
	l, err := ListenUnix(opt.Path, opt.Mode)
	if err != nil {
		return nil, err
	}
	if opt.BytesMax == 0 {
		opt.BytesMax = requestBytesMax
	}
	return &Socket{opt: opt, listener: l, handle: handle, bytes: fair.New[string](opt.BytesMax)}, nil
}

// ListenUnix binds a path. It replaces a socket file that nobody listens on, a dead process's. One
// that another process serves is an error, and so is a file that is no socket.
func ListenUnix(path string, mode os.FileMode) (*net.UnixListener, error) {
	if len(path) > socketPathMax {
		return nil, fmt.Errorf("socket path %q is %d bytes, at most %d are possible", path, len(path), socketPathMax)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on socket: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("set mode of socket: %w", err), l.Close())
	}
	return l, nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at socket: %w", err)
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		return errors.Join(fmt.Errorf("another node serves %s", path), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("try existing socket: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale socket: %w", err)
	}
	return nil
}

// Serve accepts connections until ctx ends, then closes them and waits for their requests. Requests
// still waiting for outcomes are answered with those that are known.
func (s *Socket) Serve(ctx context.Context) error {
	return acceptAll(ctx, s.listener, s.opt.ConnectionsMax, s.opt.Log, func(conn net.Conn) func() {
		s.accepted++
		named := context.WithValue(ctx, connectionKey{}, fmt.Sprintf("connection %d", s.accepted))
		return func() { s.serveConn(named, conn.(*net.UnixConn)) }
	})
}

// acceptAll serves each connection in a goroutine, until ctx ends and all of them have. It tells
// those above the limit so, and closes them. It calls begin for one connection after the other.
func acceptAll(ctx context.Context, l net.Listener, connectionsMax int, log *slog.Logger, begin func(net.Conn) (serve func())) error {
	var conns sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer conns.Wait()
	slots := make(chan struct{}, connectionsMax)
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				log.Warn("out of file descriptors for connections", "err", err)
				pause(ctx, 100*time.Millisecond)
				continue
			}
			return fmt.Errorf("accept on socket: %w", err)
		}
		select {
		case slots <- struct{}{}:
			serve := begin(conn)
			conns.Go(func() {
				defer func() { <-slots }()
				serve()
			})
		default:
			refuseConn(conn, &Error{
				SQLState: StateTooMany, Message: "too many connections to the node",
				Detail: fmt.Sprintf("At most %d are allowed.", connectionsMax),
			})
		}
	}
}

// serveConn reads frames and answers each in its own goroutine, at most RequestsMax at once; what
// they submit is queued in the order sent.
func (s *Socket) serveConn(ctx context.Context, conn *net.UnixConn) {
	ctx, cancel := context.WithCancel(ctx)
	var requests sync.WaitGroup
	defer conn.Close()
	if err := checkPeer(conn, s.opt.UIDs); err != nil {
		s.opt.Log.Warn("connection refused", "err", err)
		refuseConn(conn, &Error{SQLState: "28000", Message: err.Error(), Hint: "Allow the user under [clients] users in chainify.toml."})
		cancel()
		return
	}
	defer requests.Wait()
	defer cancel()
	// Nothing is read any more when the node stops; answers can still be written.
	defer context.AfterFunc(ctx, func() { conn.CloseRead() })()
	out := &answers{conn: conn}
	slots, turns := make(chan struct{}, s.opt.RequestsMax), turns{atOnce}
	name := connection(ctx)
	for {
		frame, err := s.nextFrame(conn, name)
		if errors.Is(err, wire.ErrNoRoom) {
			out.send(errorResponse(wire.PeekRequest(frame), &Error{
				SQLState: StateFull, Message: "too many bytes of requests at the node at once",
				Detail: fmt.Sprintf("One connection may have as many as are free beside it of %d.", s.opt.BytesMax), Hint: "Ask again later, or for less at once.",
			}))
			continue
		}
		give := func() { s.bytes.Give(name, len(frame)) }
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				s.opt.Log.Debug("connection closed", "err", err)
				out.send(errorResponse(0, malformed("%v", err)))
			}
			return
		}
		request, err := wire.DecodeNodeRequest(frame)
		if request == nil {
			give()
			out.send(errorResponse(0, malformed("%v", err)))
			return
		}
		// A request that only breaks a bound is refused by whoever answers it, with the bound's
		// SQLSTATE.
		select {
		case slots <- struct{}{}:
		default: // reading goes on, or a client that went away would not be noticed
			give()
			out.send(errorResponse(request.Request, &Error{
				SQLState: StateFull, Message: "too many requests at once on this connection",
				Detail: fmt.Sprintf("At most %d are allowed.", s.opt.RequestsMax), Hint: "Wait for an answer first.",
			}))
			continue
		}
		turn, over := atOnce, func() {}
		if submits(request) {
			turn, over = turns.next()
		}
		requests.Go(func() {
			answer := s.handle.answer(ctx, turn, request)
			give()
			over() // before it is sent: who does not take in answers holds up nothing else
			s.handle.await(ctx, request, answer)
			// A client that has the answer may ask again at once, and needs the place.
			out.sendAfter(answer, func() { <-slots })
		})
	}
}

// nextFrame waits without limit for a frame's first byte, and frameTime for the rest. Its bytes are
// the connection's until they are given back.
func (s *Socket) nextFrame(conn *net.UnixConn, name string) ([]byte, error) {
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return nil, err
	}
	conn.SetReadDeadline(time.Now().Add(frameTime))
	defer conn.SetReadDeadline(time.Time{})
	taken := 0
	frame, err := wire.ReadFrameWithin(io.MultiReader(bytes.NewReader(first[:]), conn), func(bytes int) bool {
		if !s.bytes.Take(name, bytes) {
			return false
		}
		taken = bytes
		return true
	})
	if err != nil && taken > 0 {
		s.bytes.Give(name, taken)
	}
	return frame, err
}

// checkPeer reads the user of the other process from the kernel, and refuses all but these.
func checkPeer(conn *net.UnixConn, uids []uint32) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	var cred *syscall.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	if credErr != nil {
		return fmt.Errorf("peer credentials: %w", credErr)
	}
	if !slices.Contains(uids, cred.Uid) {
		return fmt.Errorf("operating-system user %d may not connect to the node", cred.Uid)
	}
	return nil
}

// Close releases a socket that was never served.
func (s *Socket) Close() error { return s.listener.Close() }
