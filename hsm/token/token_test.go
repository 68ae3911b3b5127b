package token

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/comet/holder"
	"github.com/chainify-db/chainify/hsm/softhsm"
)

func settings(t *testing.T) (Settings, string) {
	t.Helper()
	dir := t.TempDir()
	config, err := softhsm.Make(dir, "acme", "1234")
	must(t, err)
	t.Setenv("SOFTHSM2_CONF", config)
	return Settings{Module: softhsm.Module, Label: "acme", PIN: "1234"}, dir
}

func open(t *testing.T, s Settings) *Token {
	t.Helper()
	opened, err := Open(s)
	must(t, err)
	t.Cleanup(opened.Close)
	return opened
}

// Keys that the token made sign as Ed25519 of everybody else, and are there after it is opened anew.
func TestTokenSigns(t *testing.T) {
	s, _ := settings(t)
	first := open(t, s)
	made := map[string]holder.Kind{}
	for _, kind := range []holder.Kind{holder.Gateway, holder.Validator, holder.Gateway} {
		public, err := first.Make(kind)
		must(t, err)
		made[string(public)] = kind
	}
	first.Close()
	keys, err := open(t, s).Keys()
	must(t, err)
	if len(keys) != 3 || len(made) != 3 {
		t.Fatalf("%d keys, %d made", len(keys), len(made))
	}
	for _, key := range keys {
		if made[string(key.Public())] != key.Kind() {
			t.Errorf("%x is a key of kind %v", key.Public(), key.Kind())
		}
		for _, size := range []int{0, 1, 64, 2 << 20} {
			message := bytes.Repeat([]byte{7}, size)
			signature, err := key.Sign(message)
			must(t, err)
			if !ed25519.Verify(key.Public(), message, signature) {
				t.Errorf("the signature of %d bytes is false", size)
			}
		}
	}
}

// A wrong PIN is tried once: not again by the same process, and not by the next one.
func TestAWrongPINIsTriedOnce(t *testing.T) {
	s, _ := settings(t)
	wrong := s
	wrong.PIN = "4321"
	if _, err := Open(wrong); !errors.Is(err, ErrPIN) || !strings.Contains(err.Error(), "CKR_PIN_INCORRECT") {
		t.Fatal(err)
	}
	if _, err := Open(s); !errors.Is(err, ErrPIN) || !strings.Contains(err.Error(), "not tried") {
		t.Fatalf("after a wrong PIN: %v", err)
	}
	s.TryAgain = true
	open(t, s).Close()
	s.TryAgain = false
	open(t, s)
}

// While the token is away its keys sign nothing and say so. They sign when it is back.
func TestTokenGoesAndComesBack(t *testing.T) {
	s, dir := settings(t)
	token := open(t, s)
	_, err := token.Make(holder.Gateway)
	must(t, err)
	keys, err := token.Keys()
	must(t, err)
	_, err = keys[0].Sign([]byte("here"))
	must(t, err)
	must(t, os.Rename(filepath.Join(dir, "tokens"), filepath.Join(dir, "away")))
	if signature, err := keys[0].Sign([]byte("away")); err == nil {
		t.Fatalf("a token that is away signs: %x", signature)
	}
	must(t, os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, "tokens")))
	for end := time.Now().Add(20 * time.Second); ; {
		if _, err = keys[0].Sign([]byte("back")); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestNoTokenOrNoModuleIsAClearError(t *testing.T) {
	s, dir := settings(t)
	other := s
	other.Label = "bolt"
	if _, err := Open(other); err == nil || !strings.Contains(err.Error(), `0 tokens have the label "bolt"`) {
		t.Error(err)
	}
	s.Module = filepath.Join(dir, "none.so")
	if _, err := Open(s); err == nil || !strings.Contains(err.Error(), "no PKCS#11 library") {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
