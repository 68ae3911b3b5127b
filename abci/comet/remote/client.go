package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cometbft/cometbft/mempool"
	core "github.com/cometbft/cometbft/rpc/core/types"
	jsonrpc "github.com/cometbft/cometbft/rpc/jsonrpc/client"
	"github.com/cometbft/cometbft/types"
)

const (
	// callLimit bounds a call without a limit of its own.
	callLimit = 5 * time.Second
	// answerBytesMax bounds an answer: a block of 100 MiB, in base64, with what is around it.
	answerBytesMax = 160 << 20
	// waitingMax is how many waiting transactions the RPC tells at most.
	waitingMax = 100
	// host stands in requests, which all go to one socket.
	host = "cometbft"
)

// ErrKnown says that CometBFT's mempool holds or held a transaction already.
var ErrKnown = errors.New("the transaction is known to the mempool")

// errTooLong says that an answer is beyond answerBytesMax.
var errTooLong = errors.New("the answer is too long")

// Client asks a CometBFT's RPC. It may be used by any goroutine.
type Client struct {
	dial    func(ctx context.Context) (net.Conn, error)
	carrier bounded
	rpc     *jsonrpc.Client
}

// NewClient makes a client of the RPC at an address as Listen takes it. It connects when it is
// asked.
func NewClient(address string) (*Client, error) {
	network, where := split(address)
	c := &Client{dial: func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, where) }}
	c.carrier = bounded{&http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
	}}
	var err error
	if c.rpc, err = jsonrpc.NewWithHTTPClient("http://"+host, &http.Client{Transport: c.carrier}); err != nil {
		return nil, fmt.Errorf("CometBFT's RPC: %w", err)
	}
	return c, nil
}

// bounded bounds answers.
type bounded struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.Transport.RoundTrip(request)
	if err == nil {
		response.Body = &boundedBody{response.Body, answerBytesMax}
	}
	return response, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

// call asks for a result, bounded in time.
func call[T any](ctx context.Context, c *Client, method string, parameters map[string]any) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	result := new(T)
	if _, err := c.rpc.Call(ctx, method, parameters, result); err != nil {
		return nil, fmt.Errorf("ask CometBFT for %s: %w", method, err)
	}
	return result, nil
}

// Status is where a CometBFT stands.
type Status struct {
	Oldest, Newest int64 // order blocks that it keeps
	CatchingUp     bool  // it takes no part in consensus yet
	Peers          []Peer
}

// Peer is a node that a CometBFT is connected with.
type Peer struct {
	ID      string
	Moniker string // what the node shows of itself, checked by nobody
}

// Status asks where CometBFT stands.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	status, err := call[core.ResultStatus](ctx, c, "status", nil)
	if err != nil {
		return s, err
	}
	net, err := call[core.ResultNetInfo](ctx, c, "net_info", nil)
	if err != nil {
		return s, err
	}
	at := status.SyncInfo
	s = Status{Oldest: at.EarliestBlockHeight, Newest: at.LatestBlockHeight, CatchingUp: at.CatchingUp}
	for _, p := range net.Peers {
		s.Peers = append(s.Peers, Peer{string(p.NodeInfo.ID()), p.NodeInfo.Moniker})
	}
	return s, nil
}

// Heights are those that the connected nodes work on, by their ids; 0: a node did not tell.
func (c *Client) Heights(ctx context.Context) (map[string]int64, error) {
	state, err := call[core.ResultDumpConsensusState](ctx, c, "dump_consensus_state", nil)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, p := range state.Peers {
		var told struct {
			RoundState struct {
				Height int64 `json:"height,string"`
			} `json:"round_state"`
		}
		id, _, _ := strings.Cut(p.NodeAddress, "@")
		if err := json.Unmarshal(p.PeerState, &told); err != nil {
			return nil, fmt.Errorf("ask CometBFT for the height of node %s: %w", id, err)
		}
		out[id] = told.RoundState.Height
	}
	return out, nil
}

// Txs reads the transactions of an order block.
func (c *Client) Txs(ctx context.Context, height int64) ([][]byte, error) {
	block, err := call[core.ResultBlock](ctx, c, "block", map[string]any{"height": height})
	if err != nil {
		return nil, err
	}
	if block.Block == nil || block.Block.Height != height {
		return nil, fmt.Errorf("CometBFT has no block %d", height)
	}
	return block.Block.Txs.ToSliceOfBytes(), nil
}

// Time is when the order block of a height was made.
func (c *Client) Time(ctx context.Context, height int64) (time.Time, error) {
	header, err := call[core.ResultHeader](ctx, c, "header", map[string]any{"height": height})
	if err != nil {
		return time.Time{}, err
	}
	if header.Header == nil || header.Header.Height != height {
		return time.Time{}, fmt.Errorf("CometBFT has no header %d", height)
	}
	return header.Header.Time, nil
}

// Offer hands a transaction to the mempool, and returns what the application said. It is ErrKnown
// when the mempool has, or had, it already.
func (c *Client) Offer(ctx context.Context, tx []byte) (code uint32, log string, err error) {
	answer, err := call[core.ResultBroadcastTx](ctx, c, "broadcast_tx_sync", map[string]any{"tx": tx})
	if err != nil && strings.Contains(err.Error(), mempool.ErrTxInCache.Error()) { // a text is all that the RPC gives
		return 0, "", ErrKnown
	}
	if err != nil {
		return 0, "", err
	}
	return answer.Code, answer.Log, nil
}

// Waiting reads all that waits in the mempool, in its order; nil when that is more than the RPC
// tells, or bytesMax.
func (c *Client) Waiting(ctx context.Context, bytesMax int64) ([][]byte, error) {
	waiting, err := call[core.ResultUnconfirmedTxs](ctx, c, "unconfirmed_txs", map[string]any{"limit": waitingMax})
	if err != nil {
		return nil, err
	}
	if len(waiting.Txs) < waiting.Total || types.ComputeProtoSizeForTxs(waiting.Txs) > bytesMax {
		return nil, nil
	}
	return types.Txs(waiting.Txs).ToSliceOfBytes(), nil
}

// Dial has CometBFT connect with a node, id@host:port. It does not wait for that. The RPC has to
// offer what CometBFT calls unsafe.
func (c *Client) Dial(ctx context.Context, peer string) error {
	_, err := call[core.ResultDialPeers](ctx, c, "dial_peers", map[string]any{"peers": []string{peer}, "persistent": false, "unconditional": false, "private": false})
	return err
}

// Close ends the connections that wait for a next call.
func (c *Client) Close() { c.carrier.CloseIdleConnections() }
