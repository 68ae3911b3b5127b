package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	cmtjson "github.com/cometbft/cometbft/libs/json"
	core "github.com/cometbft/cometbft/rpc/core/types"
	jsonrpc "github.com/cometbft/cometbft/rpc/jsonrpc/types"
	"github.com/cometbft/cometbft/types"
	"github.com/gorilla/websocket"
)

const (
	// eventBytesMax bounds an event. A vote's extension has a few kilobytes at most.
	eventBytesMax = 1 << 20
	// silenceMax is how long CometBFT is waited for: it sends a ping every 27 s.
	silenceMax = time.Minute
	// pongLimit bounds the answer to a ping.
	pongLimit = time.Second
)

// Votes passes on the votes that CometBFT checks and adds, until the connection or ctx ends, which
// is the error. Votes may be missing: those of before, and those that CometBFT drops when this side
// is slow.
func (c *Client) Votes(ctx context.Context, each func(*types.Vote)) error {
	dialer := websocket.Dialer{
		NetDialContext:   func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
		HandshakeTimeout: callLimit,
	}
	conn, response, err := dialer.DialContext(ctx, "ws://"+host+"/websocket", nil)
	if err != nil {
		return fmt.Errorf("listen to votes: %w", err)
	}
	if response.Body != nil {
		_ = response.Body.Close()
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close() // closing twice is harmless
	}()
	conn.SetReadLimit(eventBytesMax)
	conn.SetPingHandler(func(text string) error {
		return errors.Join(
			conn.SetReadDeadline(time.Now().Add(silenceMax)),
			conn.WriteControl(websocket.PongMessage, []byte(text), time.Now().Add(pongLimit)),
		)
	})
	request, err := jsonrpc.MapToRequest(jsonrpc.JSONRPCIntID(1), "subscribe", map[string]any{"query": types.EventQueryVote.String()})
	if err != nil {
		return fmt.Errorf("listen to votes: %w", err)
	}
	if err := conn.WriteJSON(request); err != nil {
		return fmt.Errorf("listen to votes: %w", err)
	}
	for {
		if err := conn.SetReadDeadline(time.Now().Add(silenceMax)); err != nil {
			return fmt.Errorf("listen to votes: %w", err)
		}
		_, text, err := conn.ReadMessage()
		if err != nil {
			return fmt.Errorf("listen to votes: %w", err)
		}
		vote, err := voteIn(text)
		if err != nil {
			return fmt.Errorf("listen to votes: %w", err)
		}
		if vote != nil {
			each(vote)
		}
	}
}

// voteIn reads an answer to the subscription; nil: it holds no vote.
func voteIn(text []byte) (*types.Vote, error) {
	var answer jsonrpc.RPCResponse
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, answer.Error
	}
	var event core.ResultEvent
	if err := cmtjson.Unmarshal(answer.Result, &event); err != nil {
		return nil, err
	}
	if e, ok := event.Data.(types.EventDataVote); ok {
		return e.Vote, nil
	}
	return nil, nil
}
