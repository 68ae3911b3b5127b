package signer

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	cmtlog "github.com/cometbft/cometbft/libs/log"
	"github.com/cometbft/cometbft/privval"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/must"
)

const patience = 30 * time.Second

// asks is a node that waits for its signer at a socket, and asks for the key.
func asks(t *testing.T, path string, key types.PrivValidator) (end func()) {
	t.Helper()
	l, err := net.Listen("unix", path)
	must.Do(t, err)
	endpoint := privval.NewSignerListenerEndpoint(cmtlog.NewNopLogger(), privval.NewUnixListener(l))
	client, err := privval.NewSignerClient(endpoint, "test")
	must.Do(t, err)
	must.Do(t, client.WaitForConnection(patience))
	public, err := client.GetPubKey()
	want, _ := key.GetPubKey()
	if err != nil || !public.Equals(want) {
		t.Fatalf("%v, %v", public, err)
	}
	return func() {
		if err := endpoint.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// A node that was started again is signed for as before.
func TestTheSignerFollowsItsNode(t *testing.T) {
	dir, err := os.MkdirTemp("", "chainify-signer") // short: a socket's path is bounded
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path, key := filepath.Join(dir, "s"), types.NewMockPV()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Serve(ctx, "unix://"+path, time.Millisecond, "test", key, func(error) {})
	}()
	for range 3 {
		asks(t, path, key)()
	}
	end := asks(t, path, key)
	cancel()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("it does not end while a node is connected")
	}
	end()
}
