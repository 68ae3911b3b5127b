package config

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/comet/holder"
	"github.com/chainify-db/chainify/abci/must"
)

type heldKey struct {
	kind holder.Kind
	ed25519.PrivateKey
}

func (k heldKey) Kind() holder.Kind         { return k.kind }
func (k heldKey) Public() ed25519.PublicKey { return k.PrivateKey.Public().(ed25519.PublicKey) }
func (k heldKey) Sign(message []byte) ([]byte, error) {
	return ed25519.Sign(k.PrivateKey, message), nil
}

// A home whose keys are with a key holder has no file of them. The holder signs its part, and names
// the one key that may take the place of another.
func TestAHomeWithAKeyHolder(t *testing.T) {
	keyOf := func(kind holder.Kind, seed byte) holder.Key {
		return heldKey{kind, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))}
	}
	keys := []holder.Key{keyOf(holder.Gateway, 1), keyOf(holder.Validator, 2)}
	path := filepath.Join(t.TempDir(), "keys.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must.Do(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	s := &holder.Server{Users: []uint32{uint32(os.Getuid())}, Keys: func() ([]holder.Key, error) { return keys, nil }, Log: slog.New(slog.DiscardHandler)}
	done := make(chan error)
	go func() { done <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		must.Do(t, <-done)
	})

	home, c := Home(filepath.Join(t.TempDir(), "home")), Default("acme")
	c.Keys.Holder = "unix://" + path
	must.Do(t, home.Create(c))
	if files := home.KeyFiles(); len(files) > 0 {
		t.Errorf("the home has %v", files)
	}
	part, err := home.Part("acme", "acme.example:26656")
	must.Do(t, err)
	if part, err = home.SignPart(part); err != nil || !bytes.Equal(part.ValidatorKey, keys[1].Public()) {
		t.Errorf("part %+v: %v", part, err)
	}
	counts := func(key ed25519.PublicKey) bool { return key.Equal(keys[0].Public()) }
	if _, err := home.NewGatewayKey(counts); err == nil || !strings.Contains(err.Error(), "0 gateway keys beside") {
		t.Errorf("no key may take the place: %v", err)
	}
	keys = append(keys, keyOf(holder.Gateway, 3))
	if next, err := home.NewGatewayKey(counts); err != nil || !next.Equal(keys[2].Public()) {
		t.Errorf("the next key is %x: %v", next, err)
	}
	ids, err := home.ValidatorIDs()
	if err != nil || len(ids) != 1 {
		t.Errorf("validators %v: %v", ids, err)
	}
	must.Do(t, os.WriteFile(home.gatewayKey(), nil, 0o600))
	if files := home.KeyFiles(); len(files) != 1 {
		t.Errorf("a key file that should not be there is not named: %v", files)
	}
	must.Do(t, home.BecomeStandby())
	if address, err := home.KeyHolder(); address != "" || err != nil {
		t.Errorf("a standby has the keys of %q: %v", address, err)
	}
}
