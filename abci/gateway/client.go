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

	"github.com/chainify-db/chainify/abci/wire"
)

// ErrUnreachable says that no node listens on the socket.
var ErrUnreachable = errors.New("the node cannot be reached")

// Client speaks to a node over its socket, one request at a time. It is safe for concurrent use.
type Client struct {
	mu   sync.Mutex
	conn net.Conn
	last uint64
}

// Dial connects to a node's socket. The error wraps ErrUnreachable when nobody listens.
func Dial(ctx context.Context, path string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return &Client{conn: conn}, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w: nobody listens on %s", ErrUnreachable, path)
	default:
		return nil, fmt.Errorf("%w: %v", ErrUnreachable, err)
	}
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Call sends a request and returns the answer; a NodeError comes back as *Error. When ctx ends the connection is
// closed, because an answer may still be on its way.
func (c *Client) Call(ctx context.Context, request *wire.NodeRequest) (*wire.NodeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	c.last++
	request.Request = c.last
	response, err := c.exchange(wire.Encode(request))
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	if e := response.GetError(); e != nil {
		return nil, &Error{SQLState: e.Sqlstate, Message: e.Message, Detail: e.Detail, Hint: e.Hint}
	}
	if response.Request != c.last {
		return nil, fmt.Errorf("node answered request %d, want %d", response.Request, c.last)
	}
	return response, nil
}

func (c *Client) exchange(message []byte) (*wire.NodeResponse, error) {
	if err := wire.WriteFrame(c.conn, message); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	frame, err := wire.ReadFrame(c.conn)
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the node closed the connection: %w", io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return wire.DecodeNodeResponse(frame)
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

// Rejoin lets an excluded organisation try again.
func (c *Client) Rejoin(ctx context.Context) error {
	_, err := c.Call(ctx, &wire.NodeRequest{Body: &wire.NodeRequest_Rejoin{Rejoin: &wire.RejoinRequest{}}})
	return err
}

// Status asks the node how it stands.
func (c *Client) Status(ctx context.Context) (*wire.StatusResponse, error) {
	r, err := c.Call(ctx, &wire.NodeRequest{Body: &wire.NodeRequest_Status{Status: &wire.StatusRequest{}}})
	if err != nil {
		return nil, err
	}
	return r.GetStatus(), nil
}
