package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
)

// A signer hears from nobody how far the order is: without its last signature it does not start.
func TestASignerNeedsItsLastSignature(t *testing.T) {
	homes, err := config.Testnet{
		Dir: filepath.Join(t.TempDir(), "net"), ChainID: "test", Organisations: []string{"acme"}, BasePort: 26656, Mode: config.Balanced, Now: time.Now(),
	}.Create()
	must.Do(t, err)
	home := homes[0]
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	serve := func() error {
		return serveSigner(ended, home, "unix://"+filepath.Join(t.TempDir(), "s"))
	}
	for range 2 {
		if err := serve(); err != nil {
			t.Fatalf("a key of a new home: %v", err)
		}
	}
	must.Do(t, os.Remove(home.UnusedFile()))
	if err := serve(); err == nil || !strings.Contains(err.Error(), "signed last") {
		t.Errorf("without a last signature: %v", err)
	}
}
