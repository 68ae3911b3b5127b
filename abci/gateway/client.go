package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// ErrUnreachable says that no node listens on the socket.
var ErrUnreachable = errors.New("the node cannot be reached")

// Client speaks to a node over its socket. It is safe for concurrent use: requests do not wait for
// each other's answers.
type Client struct {
	conn    net.Conn
	writing sync.Mutex    // frames go out whole, in the order of their numbers
	ended   chan struct{} // closed when read has returned

	mu     sync.Mutex
	last   uint64
	asked  map[uint64]chan *wire.NodeResponse // requests under way; closed without an answer when there will be none
	failed error                              // why no further request is answered
}

// Dial connects to a node's socket. The error wraps ErrUnreachable when nobody listens. Close must
// follow.
func Dial(ctx context.Context, path string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		c := &Client{conn: conn, ended: make(chan struct{}), asked: map[uint64]chan *wire.NodeResponse{}}
		go c.read()
		return c, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w: nobody listens on %s", ErrUnreachable, path)
	default:
		return nil, fmt.Errorf("%w: %v", ErrUnreachable, err)
	}
}

// Close ends the connection and every request under way.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.ended
	return err
}

// Call sends a request and returns the answer; a NodeError comes back as *Error. When ctx ends, the
// node goes on with the request and its answer is dropped.
func (c *Client) Call(ctx context.Context, request *wire.NodeRequest) (*wire.NodeResponse, error) {
	answer, err := c.send(ctx, request)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		c.forget(request.Request)
		return nil, ctx.Err()
	case response, answered := <-answer:
		if !answered {
			return nil, c.failure()
		}
		if e := response.GetError(); e != nil {
			return nil, errorOf(e)
		}
		return response, nil
	}
}

func errorOf(e *wire.NodeError) *Error {
	return &Error{SQLState: e.Sqlstate, Message: e.Message, Detail: e.Detail, Hint: e.Hint}
}

// send numbers a request and writes it. A connection on which writing failed is of no more use:
// half a frame may be out.
func (c *Client) send(ctx context.Context, request *wire.NodeRequest) (<-chan *wire.NodeResponse, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	answer, err := c.expect(request)
	if err != nil {
		return nil, err
	}
	c.conn.SetWriteDeadline(time.Now().Add(writeLimit))
	if err := wire.WriteFrame(c.conn, wire.Encode(request)); err != nil {
		c.conn.Close()
		return nil, fmt.Errorf("send request: %w", err)
	}
	return answer, nil
}

// expect numbers a request and lists it, before its answer can be there.
func (c *Client) expect(request *wire.NodeRequest) (<-chan *wire.NodeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return nil, c.failed
	}
	c.last++
	request.Request = c.last
	answer := make(chan *wire.NodeResponse, 1)
	c.asked[c.last] = answer
	return answer, nil
}

func (c *Client) forget(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, number)
}

func (c *Client) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// read hands out answers until the connection ends, and then says why to all that wait.
func (c *Client) read() {
	defer close(c.ended)
	var err error
	for err == nil {
		var response *wire.NodeResponse
		if response, err = c.receive(); err == nil {
			err = c.deliver(response)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = err
	for _, answer := range c.asked {
		close(answer)
	}
	clear(c.asked)
}

func (c *Client) receive() (*wire.NodeResponse, error) {
	frame, err := wire.ReadFrame(c.conn)
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the node closed the connection: %w", io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return wire.DecodeNodeResponse(frame)
}

// deliver passes an answer to the request that waits for it, if it still waits. An error with
// number 0 is about the connection.
func (c *Client) deliver(response *wire.NodeResponse) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	number, e := response.Request, response.GetError()
	answer, asked := c.asked[number]
	switch {
	case asked:
		delete(c.asked, number)
		answer <- response
	case number == 0 && e != nil:
		return errorOf(e)
	case number == 0 || number > c.last:
		return fmt.Errorf("node answered request %d, the last was %d", number, c.last)
	}
	return nil
}

// Submit queues one transaction per statement and returns their ids.
func (c *Client) Submit(ctx context.Context, role string, statements ...*wire.Statement) ([][]byte, error) {
	r, err := c.Call(ctx, &wire.NodeRequest{Body: &wire.NodeRequest_Submit{
		Submit: &wire.SubmitRequest{Role: role, Statements: statements},
	}})
	if err != nil {
		return nil, err
	}
	return r.GetSubmit().GetIds(), nil
}

// Wait returns the outcomes there are after at most timeoutMS milliseconds.
func (c *Client) Wait(ctx context.Context, timeoutMS uint32, ids ...[]byte) ([]*wire.Outcome, error) {
	r, err := c.Call(ctx, &wire.NodeRequest{Body: &wire.NodeRequest_Wait{
		Wait: &wire.WaitRequest{Ids: ids, TimeoutMs: timeoutMS},
	}})
	if err != nil {
		return nil, err
	}
	return r.GetWait().GetOutcomes(), nil
}

// Govern hands an approved change of the registry to the order.
func (c *Client) Govern(ctx context.Context, change *wire.SignedGovernanceChange) error {
	_, err := c.Call(ctx, &wire.NodeRequest{Body: &wire.NodeRequest_Governance{Governance: &wire.GovernanceRequest{Change: change}}})
	return err
}

// ChangeClient hands a change of an organisation's clients to the order.
func (c *Client) ChangeClient(ctx context.Context, change *wire.SignedClientChange) error {
	_, err := c.Call(ctx, &wire.NodeRequest{Body: &wire.NodeRequest_Client{Client: &wire.ClientChangeRequest{Change: change}}})
	return err
}

// Clients asks the node which keys its organisation's clients sign with.
func (c *Client) Clients(ctx context.Context) (*wire.ClientsResponse, error) {
	r, err := c.Call(ctx, &wire.NodeRequest{Body: &wire.NodeRequest_Clients{Clients: &wire.ClientsRequest{}}})
	if err != nil {
		return nil, err
	}
	return r.GetClients(), nil
}

// SubmitSigned queues transactions that their client has signed and returns their ids.
func (c *Client) SubmitSigned(ctx context.Context, signed ...*wire.SignedProposal) ([][]byte, error) {
	r, err := c.Call(ctx, &wire.NodeRequest{Body: &wire.NodeRequest_SubmitSigned{SubmitSigned: &wire.SubmitSignedRequest{Proposals: signed}}})
	if err != nil {
		return nil, err
	}
	return r.GetSubmit().GetIds(), nil
}

// Registry asks the node who takes part.
func (c *Client) Registry(ctx context.Context) (*wire.RegistryResponse, error) {
	r, err := c.Call(ctx, &wire.NodeRequest{Body: &wire.NodeRequest_Registry{Registry: &wire.RegistryRequest{}}})
	if err != nil {
		return nil, err
	}
	return r.GetRegistry(), nil
}

// Evidence asks the node which organisations contradicted themselves.
func (c *Client) Evidence(ctx context.Context) (*wire.EvidenceResponse, error) {
	r, err := c.Call(ctx, &wire.NodeRequest{Body: &wire.NodeRequest_Evidence{Evidence: &wire.EvidenceRequest{}}})
	if err != nil {
		return nil, err
	}
	return r.GetEvidence(), nil
}

// Rejoin lets an excluded organisation try again.
func (c *Client) Rejoin(ctx context.Context) error {
	_, err := c.Call(ctx, &wire.NodeRequest{Body: &wire.NodeRequest_Rejoin{Rejoin: &wire.RejoinRequest{}}})
	return err
}

// Cancel has the organisation vote that a transaction of the pending block does not end, and
// returns which one.
func (c *Client) Cancel(ctx context.Context, which *wire.CancelRequest) (*wire.CancelResponse, error) {
	r, err := c.Call(ctx, &wire.NodeRequest{Body: &wire.NodeRequest_Cancel{Cancel: which}})
	if err != nil {
		return nil, err
	}
	return r.GetCancel(), nil
}

// Status asks the node for its state.
func (c *Client) Status(ctx context.Context) (*wire.StatusResponse, error) {
	r, err := c.Call(ctx, &wire.NodeRequest{Body: &wire.NodeRequest_Status{Status: &wire.StatusRequest{}}})
	if err != nil {
		return nil, err
	}
	return r.GetStatus(), nil
}
