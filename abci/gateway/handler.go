package gateway

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// StatusSource gives the node's state as spec/proto/node.proto describes it.
type StatusSource func(ctx context.Context) *wire.StatusResponse

// Handler answers the requests of spec/proto/node.proto.
type Handler struct {
	Gateway *Gateway
	Status  StatusSource
	// ChangePolicy hands an encoded OrderedTx with a policy change to the order's mempool. nil: refused.
	ChangePolicy func(ctx context.Context, ordered []byte) error
	// Rejoin lets an excluded organisation try again; false when it is not excluded. nil: refused.
	Rejoin func() bool
}

func (h *Handler) answer(ctx context.Context, r *wire.NodeRequest) *wire.NodeResponse {
	switch body := r.Body.(type) {
	case *wire.NodeRequest_Submit:
		return h.submit(r.Request, body.Submit)
	case *wire.NodeRequest_Wait:
		return h.wait(ctx, r.Request, body.Wait)
	case *wire.NodeRequest_Status:
		return &wire.NodeResponse{Request: r.Request, Body: &wire.NodeResponse_Status{Status: h.Status(ctx)}}
	case *wire.NodeRequest_Policy:
		return h.changePolicy(ctx, r.Request, body.Policy.GetChange())
	case *wire.NodeRequest_Rejoin:
		return h.rejoin(r.Request)
	default:
		return errorResponse(r.Request, malformed("body: none of submit, wait, status, policy, rejoin"))
	}
}

func (h *Handler) submit(request uint64, s *wire.SubmitRequest) *wire.NodeResponse {
	ids, err := h.Gateway.Submit(s.GetRole(), s.GetStatements())
	if err != nil {
		return errorResponse(request, err)
	}
	out := &wire.SubmitResponse{Ids: make([][]byte, len(ids))}
	for i := range ids {
		out.Ids[i] = ids[i][:]
	}
	return &wire.NodeResponse{Request: request, Body: &wire.NodeResponse_Submit{Submit: out}}
}

func (h *Handler) wait(ctx context.Context, request uint64, w *wire.WaitRequest) *wire.NodeResponse {
	ids := make([]wire.TxID, len(w.GetIds()))
	for i, id := range w.GetIds() {
		if len(id) != len(ids[i]) {
			return errorResponse(request, malformed("ids[%d]: %d bytes, want %d", i, len(id), len(ids[i])))
		}
		copy(ids[i][:], id)
	}
	results, err := h.Gateway.Wait(ctx, ids, time.Duration(w.GetTimeoutMs())*time.Millisecond)
	if err != nil {
		return errorResponse(request, err)
	}
	out := &wire.WaitResponse{Outcomes: make([]*wire.Outcome, len(results))}
	for i := range results {
		r := &results[i]
		out.Outcomes[i] = &wire.Outcome{
			Id: r.ID[:], Block: r.Block, Index: r.Index, Succeeded: r.Succeeded, Rows: r.Rows,
			Sqlstate: r.SQLState, Message: printable(r.Message),
		}
	}
	return &wire.NodeResponse{Request: request, Body: &wire.NodeResponse_Wait{Wait: out}}
}

// changePolicy hands a change to the order. Who sends it does not matter: it stands by the organisations' signatures.
func (h *Handler) changePolicy(ctx context.Context, request uint64, change *wire.SignedPolicyChange) *wire.NodeResponse {
	if h.ChangePolicy == nil {
		return errorResponse(request, malformed("body: this node takes no policy change"))
	}
	err := h.ChangePolicy(ctx, wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Policy{Policy: change}}))
	var rejected *RejectedError
	switch {
	case err == nil, errors.Is(err, ErrKnown):
		return &wire.NodeResponse{Request: request, Body: &wire.NodeResponse_Policy{Policy: &wire.PolicyResponse{}}}
	case errors.As(err, &rejected):
		return errorResponse(request, &Error{
			SQLState: StateRefused, Message: "the order refuses the policy change", Detail: rejected.Log + ".",
			Hint: "\"chainify status --json\" shows how many changes there were; the next one's sequence is one more.",
		})
	default:
		return errorResponse(request, &Error{SQLState: StateCannotOrder, Message: "the node cannot order the policy change now", Detail: err.Error() + ".", Hint: "Retry later."})
	}
}

// rejoin passes the operator's wish on.
func (h *Handler) rejoin(request uint64) *wire.NodeResponse {
	if h.Rejoin == nil || !h.Rejoin() {
		return errorResponse(request, &Error{
			SQLState: StateRefused, Message: "the organisation is not excluded",
			Hint: "\"chainify status\" and the view chainify.status say how the node stands.",
		})
	}
	return &wire.NodeResponse{Request: request, Body: &wire.NodeResponse_Rejoin{Rejoin: &wire.RejoinResponse{}}}
}

func errorResponse(request uint64, err error) *wire.NodeResponse {
	e := asError(err)
	return &wire.NodeResponse{Request: request, Body: &wire.NodeResponse_Error{Error: &wire.NodeError{
		Sqlstate: e.SQLState, Message: printable(e.Message), Detail: printable(e.Detail), Hint: printable(e.Hint),
	}}}
}

// printable makes text fit for a protobuf string; messages may quote what a client or a database sent.
func printable(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// answers writes responses of concurrent requests to one connection, each as a whole.
type answers struct {
	mu   sync.Mutex
	conn net.Conn
	dead bool
}

func (a *answers) send(r *wire.NodeResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dead {
		return
	}
	a.conn.SetWriteDeadline(time.Now().Add(writeLimit))
	if err := wire.WriteMessage(a.conn, r); err != nil {
		a.dead = true // half a frame may be out: nothing sensible can follow
		a.conn.Close()
	}
}

func refuseConn(conn net.Conn, e *Error) {
	(&answers{conn: conn}).send(errorResponse(0, e))
	conn.Close()
}
