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
	// Order hands an encoded OrderedTx with a signed change to the order's mempool. nil: refused.
	Order func(ctx context.Context, ordered []byte) error
	// Clients says which keys the organisation's clients sign with. nil: refused.
	Clients func() *wire.ClientsResponse
	// Registry says who takes part. nil: refused.
	Registry func() (*wire.RegistryResponse, error)
	// Evidence says who contradicted itself. nil: refused.
	Evidence func() *wire.EvidenceResponse
	// Rejoin lets an excluded organisation try again; false when it is not excluded. nil: refused.
	Rejoin func() bool
	// GiveUp has the organisation vote that a transaction does not end (CancelRequest). nil:
	// refused.
	GiveUp func(block uint64, index uint32, id []byte) (uint64, uint32, bool)
}

// submits tells which requests take turns.
func submits(r *wire.NodeRequest) bool {
	switch r.Body.(type) {
	case *wire.NodeRequest_Submit, *wire.NodeRequest_SubmitSigned:
		return true
	}
	return false
}

// answer queues what a request submits when turn is closed.
func (h *Handler) answer(ctx context.Context, turn <-chan struct{}, r *wire.NodeRequest) *wire.NodeResponse {
	switch body := r.Body.(type) {
	case *wire.NodeRequest_Submit:
		return h.submit(ctx, turn, r.Request, body.Submit)
	case *wire.NodeRequest_Wait:
		return h.wait(ctx, r.Request, body.Wait)
	case *wire.NodeRequest_Status:
		return &wire.NodeResponse{Request: r.Request, Body: &wire.NodeResponse_Status{Status: h.Status(ctx)}}
	case *wire.NodeRequest_Governance:
		ordered := &wire.OrderedTx{Body: &wire.OrderedTx_Governance{Governance: body.Governance.GetChange()}}
		done := &wire.NodeResponse{Request: r.Request, Body: &wire.NodeResponse_Governance{Governance: &wire.GovernanceResponse{}}}
		return h.order(ctx, ordered, done, "\"chainify governance status\" shows how many changes there were and how many must approve the next one.")
	case *wire.NodeRequest_Client:
		ordered := &wire.OrderedTx{Body: &wire.OrderedTx_Client{Client: body.Client.GetChange()}}
		done := &wire.NodeResponse{Request: r.Request, Body: &wire.NodeResponse_Client{Client: &wire.ClientChangeResponse{}}}
		return h.order(ctx, ordered, done, "\"chainify client list\" shows the clients.")
	case *wire.NodeRequest_Clients:
		if h.Clients == nil {
			return errorResponse(r.Request, malformed("body: this node does not tell its clients"))
		}
		return &wire.NodeResponse{Request: r.Request, Body: &wire.NodeResponse_Clients{Clients: h.Clients()}}
	case *wire.NodeRequest_SubmitSigned:
		ids, err := h.Gateway.submitSigned(ctx, turn, body.SubmitSigned.GetProposals())
		return queued(r.Request, ids, err)
	case *wire.NodeRequest_Registry:
		return h.registry(r.Request)
	case *wire.NodeRequest_Evidence:
		if h.Evidence == nil {
			return errorResponse(r.Request, malformed("body: this node keeps no evidence"))
		}
		return &wire.NodeResponse{Request: r.Request, Body: &wire.NodeResponse_Evidence{Evidence: h.Evidence()}}
	case *wire.NodeRequest_Rejoin:
		return h.rejoin(r.Request)
	case *wire.NodeRequest_Cancel:
		return h.cancel(r.Request, body.Cancel)
	default:
		return errorResponse(r.Request, malformed("body: no request that this node knows"))
	}
}

func (h *Handler) submit(ctx context.Context, turn <-chan struct{}, request uint64, s *wire.SubmitRequest) *wire.NodeResponse {
	if err := h.Gateway.Admit("role "+s.GetRole(), len(s.GetStatements())); err != nil {
		return errorResponse(request, err)
	}
	ids, err := h.Gateway.submitAgreed(ctx, turn, s.GetRole(), s.GetStatements())
	return queued(request, ids, err)
}

func queued(request uint64, ids []wire.TxID, err error) *wire.NodeResponse {
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
	outcomes, err := h.outcomes(ctx, ids, time.Duration(w.GetTimeoutMs())*time.Millisecond)
	if err != nil {
		return errorResponse(request, err)
	}
	return &wire.NodeResponse{Request: request, Body: &wire.NodeResponse_Wait{Wait: &wire.WaitResponse{Outcomes: outcomes}}}
}

func (h *Handler) outcomes(ctx context.Context, ids []wire.TxID, limit time.Duration) ([]*wire.Outcome, error) {
	results, err := h.Gateway.WaitAs(ctx, connection(ctx), ids, limit)
	if err != nil {
		return nil, err
	}
	out := make([]*wire.Outcome, len(results))
	for i := range results {
		r := &results[i]
		out[i] = &wire.Outcome{
			Id: r.ID[:], Block: r.Block, Index: r.Index, Succeeded: r.Succeeded, Rows: r.Rows,
			Sqlstate: r.SQLState, Message: printable(r.Message),
		}
	}
	return out, nil
}

// submitWaitMax bounds the time in which a submission waits for its own outcomes.
const submitWaitMax = time.Second

// await adds to the answer of a submission the outcomes that its client waits for. A wait that is
// refused adds none: the client asks by itself, and is told why.
func (h *Handler) await(ctx context.Context, r *wire.NodeRequest, answer *wire.NodeResponse) {
	limit := min(time.Duration(r.GetSubmit().GetWaitMs())*time.Millisecond, submitWaitMax)
	submitted := answer.GetSubmit()
	if limit == 0 || submitted == nil {
		return
	}
	ids := make([]wire.TxID, len(submitted.Ids))
	for i, id := range submitted.Ids {
		copy(ids[i][:], id)
	}
	if outcomes, err := h.outcomes(ctx, ids, limit); err == nil {
		submitted.Outcomes = outcomes
	}
}

// order hands a signed change to the order. Its sender does not matter: it stands by its
// signatures.
func (h *Handler) order(ctx context.Context, change *wire.OrderedTx, done *wire.NodeResponse, hint string) *wire.NodeResponse {
	request := done.Request
	if h.Order == nil {
		return errorResponse(request, malformed("body: this node takes no changes"))
	}
	err := h.Order(ctx, wire.Encode(change))
	var rejected *RejectedError
	switch {
	case err == nil, errors.Is(err, ErrKnown):
		return done
	case errors.As(err, &rejected):
		return errorResponse(request, &Error{
			SQLState: StateRefused, Message: "the order refuses the change", Detail: rejected.Log + ".",
			Hint: hint,
		})
	default:
		return errorResponse(request, &Error{SQLState: StateCannotOrder, Message: "the node cannot order the change now", Detail: err.Error() + ".", Hint: "Retry later."})
	}
}

// registry says who takes part.
func (h *Handler) registry(request uint64) *wire.NodeResponse {
	if h.Registry == nil {
		return errorResponse(request, malformed("body: this node does not tell who takes part"))
	}
	registry, err := h.Registry()
	if err != nil {
		return errorResponse(request, err)
	}
	return &wire.NodeResponse{Request: request, Body: &wire.NodeResponse_Registry{Registry: registry}}
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

// cancel passes the operator's wish on.
func (h *Handler) cancel(request uint64, c *wire.CancelRequest) *wire.NodeResponse {
	if n := len(c.GetId()); n != 0 && n != len(wire.TxID{}) || (n == 0) != (c.GetBlock() > 0) {
		return errorResponse(request, malformed("cancel: want a block from 1 on or an id of %d bytes", len(wire.TxID{})))
	}
	if h.GiveUp != nil {
		if block, index, done := h.GiveUp(c.GetBlock(), c.GetIndex(), c.GetId()); done {
			return &wire.NodeResponse{Request: request, Body: &wire.NodeResponse_Cancel{Cancel: &wire.CancelResponse{Block: block, Index: index}}}
		}
	}
	return errorResponse(request, &Error{
		SQLState: StateRefused, Message: "the transaction is not under way here",
		Detail: "Its block is not pending, or has no such transaction, or the organisation has voted on it, or the others have agreed on it.",
		Hint:   "pg_stat_activity shows as application_name which transaction of which block runs; chainify.transactions has those that ended.",
	})
}

func errorResponse(request uint64, err error) *wire.NodeResponse {
	e := asError(err)
	return &wire.NodeResponse{Request: request, Body: &wire.NodeResponse_Error{Error: &wire.NodeError{
		Sqlstate: e.SQLState, Message: printable(e.Message), Detail: printable(e.Detail), Hint: printable(e.Hint),
	}}}
}

// printable makes text fit for a protobuf string; messages may quote what a client or a database
// sent.
func printable(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// answers writes responses of concurrent requests to one connection, each as a whole.
type answers struct {
	mu   sync.Mutex
	conn net.Conn
	dead bool
}

func (a *answers) send(r *wire.NodeResponse) { a.sendAfter(r, func() {}) }

// sendAfter calls first when it is the answer's turn to be written, and before any of it is.
func (a *answers) sendAfter(r *wire.NodeResponse, first func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	first()
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
