package executor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/chainify-db/chainify/abci/wire"
)

// recorder stands in the place of a node: it keeps the write sets that sessions submit, and tells
// them at once that their transactions were applied. So sessions do all that they do with a node,
// and nothing else takes processor time of the server.
type recorder struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	sets  [][]byte
	err   error // the first thing that went wrong
	conns []net.Conn
}

// newRecorder listens on a Unix socket, which any user may connect to.
func newRecorder(path string) (*recorder, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("record write sets: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	r := &recorder{listener: listener}
	r.serving.Add(1)
	go r.accept()
	return r, nil
}

func (r *recorder) accept() {
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
			if err := r.serve(conn); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				r.mu.Lock()
				r.err = errors.Join(r.err, err)
				r.mu.Unlock()
			}
		}()
	}
}

// serve answers one session until it is gone.
func (r *recorder) serve(conn net.Conn) error {
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

func (r *recorder) answer(request *wire.NodeRequest) *wire.NodeResponse {
	response := &wire.NodeResponse{Request: request.Request}
	switch body := request.Body.(type) {
	case *wire.NodeRequest_Submit:
		ids := make([][]byte, len(body.Submit.Statements))
		r.mu.Lock()
		for i, s := range body.Submit.Statements {
			r.sets = append(r.sets, s.Effects)
			ids[i] = make([]byte, len(wire.TxID{}))
		}
		r.mu.Unlock()
		response.Body = &wire.NodeResponse_Submit{Submit: &wire.SubmitResponse{Ids: ids}}
	case *wire.NodeRequest_Wait:
		outcomes := make([]*wire.Outcome, len(body.Wait.Ids))
		for i, id := range body.Wait.Ids {
			outcomes[i] = &wire.Outcome{Id: id, Block: 1, Succeeded: true, Rows: 1}
		}
		response.Body = &wire.NodeResponse_Wait{Wait: &wire.WaitResponse{Outcomes: outcomes}}
	default:
		response.Body = &wire.NodeResponse_Error{Error: &wire.NodeError{Sqlstate: "0A000", Message: "only write sets are recorded here"}}
	}
	return response
}

// take gives what was recorded since the last time.
func (r *recorder) take() ([][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sets := r.sets
	r.sets = nil
	return sets, r.err
}

// close ends it and its connections.
func (r *recorder) close() error {
	err := r.listener.Close()
	r.mu.Lock()
	for _, conn := range r.conns {
		_ = conn.Close() // it may be closed
	}
	r.mu.Unlock()
	r.serving.Wait()
	return err
}
