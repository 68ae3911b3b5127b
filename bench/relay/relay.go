// Package relay stands in the place of a node before an organisation's sessions.
package relay

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/chainify-db/chainify/abci/wire"
)

// Relay takes what sessions submit, and tells them at once that their transactions were applied. So
// sessions do all that they do with a node, and do not wait for the order.
type Relay struct {
	listener net.Listener
	serving  sync.WaitGroup
	take     func(*wire.Statement)

	mu    sync.Mutex
	err   error // the first thing that went wrong
	conns []net.Conn
}

// New listens on a Unix socket, which any user may connect to. take gets each transaction, from
// several goroutines at once. Close must follow.
func New(path string, take func(*wire.Statement)) (*Relay, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("relay transactions: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	r := &Relay{listener: listener, take: take}
	r.serving.Add(1)
	go r.accept()
	return r, nil
}

func (r *Relay) accept() {
	defer r.serving.Done()
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.mu.Lock()
		r.conns = append(r.conns, conn)
		r.mu.Unlock()
		r.serving.Add(1)
		go func() {
			defer r.serving.Done()
			defer conn.Close()
			if err := r.serve(conn); err != nil && !gone(err) {
				r.mu.Lock()
				r.err = errors.Join(r.err, err)
				r.mu.Unlock()
			}
		}()
	}
}

// gone tells whether the session, or the relay, ended the connection: a session does when a block
// has it give up.
func gone(err error) bool {
	for _, end := range []error{io.EOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// serve answers one session until it is gone.
func (r *Relay) serve(conn net.Conn) error {
	for {
		raw, err := wire.ReadFrame(conn)
		if err != nil {
			return err
		}
		request, err := wire.DecodeNodeRequest(raw)
		if err != nil {
			return err
		}
		if err := wire.WriteMessage(conn, r.answer(request)); err != nil {
			return err
		}
	}
}

func (r *Relay) answer(request *wire.NodeRequest) *wire.NodeResponse {
	response := &wire.NodeResponse{Request: request.Request}
	switch body := request.Body.(type) {
	case *wire.NodeRequest_Submit:
		ids := make([][]byte, len(body.Submit.Statements))
		for i, s := range body.Submit.Statements {
			ids[i] = make([]byte, len(wire.TxID{}))
			r.take(s)
		}
		submitted := &wire.SubmitResponse{Ids: ids}
		if body.Submit.WaitMs > 0 {
			submitted.Outcomes = applied(ids)
		}
		response.Body = &wire.NodeResponse_Submit{Submit: submitted}
	case *wire.NodeRequest_Wait:
		response.Body = &wire.NodeResponse_Wait{Wait: &wire.WaitResponse{Outcomes: applied(body.Wait.Ids)}}
	default:
		response.Body = &wire.NodeResponse_Error{Error: &wire.NodeError{Sqlstate: "0A000", Message: "only transactions are taken here"}}
	}
	return response
}

func applied(ids [][]byte) []*wire.Outcome {
	outcomes := make([]*wire.Outcome, len(ids))
	for i, id := range ids {
		outcomes[i] = &wire.Outcome{Id: id, Block: 1, Succeeded: true, Rows: 1}
	}
	return outcomes
}

// Err is the first thing that went wrong.
func (r *Relay) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close ends it and its connections, and returns what went wrong.
func (r *Relay) Close() error {
	err := r.listener.Close()
	r.mu.Lock()
	for _, conn := range r.conns {
		_ = conn.Close() // it may be closed
	}
	r.mu.Unlock()
	r.serving.Wait()
	return errors.Join(err, r.Err())
}
