package signer

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/cometbft/cometbft/crypto/ed25519"
	"github.com/cometbft/cometbft/libs/protoio"
	"github.com/cometbft/cometbft/privval"
	privvalproto "github.com/cometbft/cometbft/proto/tendermint/privval"
	"github.com/cometbft/cometbft/types"
)

const (
	// requestBytesMax bounds a request: a vote with its extension, or a proposal. CometBFT's own
	// bound is a sixth of it.
	requestBytesMax = 64 << 10
	// silenceMax is how long a node may ask nothing. CometBFT sends a ping every 3 s.
	silenceMax = 15 * time.Second
	// answerLimit bounds writing an answer.
	answerLimit = 5 * time.Second
	// dialLimit bounds an attempt to reach a node by TCP.
	dialLimit = 5 * time.Second
)

// dialer dials a node at unix://PATH or tcp://HOST:PORT.
func dialer(address string) privval.SocketDialer {
	if path, unix := strings.CutPrefix(address, "unix://"); unix {
		return privval.DialUnixFn(path)
	}
	return privval.DialTCPFn(strings.TrimPrefix(address, "tcp://"), dialLimit, ed25519.GenPrivKey())
}

// Serve signs for the node that listens at an address, unix://PATH or tcp://HOST:PORT, by
// CometBFT's protocol for remote signers, until ctx ends. After each connection it pauses and dials
// again. CometBFT's own server of this protocol (privval.SignerServer of v0.40.0) keeps a
// connection that has ended, and reads from it for ever.
func Serve(ctx context.Context, address string, pause time.Duration, chainID string, key types.PrivValidator, ended func(error)) {
	dial := dialer(address)
	for ctx.Err() == nil {
		if err := serveOne(ctx, dial, chainID, key); ctx.Err() == nil {
			ended(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// serveOne answers the requests of one connection until it ends, which is the error.
func serveOne(ctx context.Context, dial privval.SocketDialer, chainID string, key types.PrivValidator) error {
	c, err := dial()
	if err != nil {
		return fmt.Errorf("reach the node: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	defer func() { _ = c.Close() }() // closing twice is harmless
	for {
		if err := serveRequest(c, chainID, key); err != nil {
			return err
		}
	}
}

func serveRequest(c net.Conn, chainID string, key types.PrivValidator) error {
	if err := c.SetReadDeadline(time.Now().Add(silenceMax)); err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	var request privvalproto.Message
	if _, err := protoio.NewDelimitedReader(c, requestBytesMax).ReadMsg(&request); err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	// An error stands in the answer, too: the node knows what was refused.
	answer, refused := privval.DefaultValidationRequestHandler(key, request, chainID)
	if err := c.SetWriteDeadline(time.Now().Add(answerLimit)); err != nil {
		return fmt.Errorf("write an answer: %w", err)
	}
	if answer.Sum == nil { // a request that the protocol does not know
		return refused
	}
	if _, err := protoio.NewDelimitedWriter(c).WriteMsg(&answer); err != nil {
		return fmt.Errorf("write an answer: %w", err)
	}
	return nil
}
