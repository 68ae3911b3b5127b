package anchor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
)

// digests are two of spec/vectors, of blocks 1 and 7.
func digests(t *testing.T) [][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "spec", "vectors", "receipts.json"))
	must.Do(t, err)
	var v struct {
		Receipts []struct{ Receipt json.RawMessage }
	}
	must.Do(t, json.Unmarshal(text, &v))
	return [][]byte{v.Receipts[1].Receipt, v.Receipts[2].Receipt}
}

// source is a database.
type source struct {
	digest   []byte
	findings []string
	verified [][]byte
}

func (s *source) Digest(context.Context) ([]byte, error) {
	if s.digest == nil {
		return nil, ErrNoDigest
	}
	return s.digest, nil
}

func (s *source) VerifyDigest(_ context.Context, digest []byte) ([]string, error) {
	s.verified = append(s.verified, digest)
	return s.findings, nil
}

// server keeps what is PUT, as S3 does with If-None-Match.
type server struct {
	mu    sync.Mutex
	kept  map[string][]byte
	loses bool // what is PUT is something else afterwards
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, there := s.kept[r.URL.Path]
	switch {
	case r.Header.Get("Authorization") != "Bearer secret":
		w.WriteHeader(http.StatusUnauthorized)
	case r.Method == http.MethodPut && there:
		w.WriteHeader(http.StatusPreconditionFailed)
	case r.Method == http.MethodPut:
		text, _ = io.ReadAll(r.Body)
		if s.loses {
			text = text[1:]
		}
		s.kept[r.URL.Path] = text
	case !there:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = w.Write(text)
	}
}

// places are a store of each kind, with a way to change what is kept behind its back.
func places(t *testing.T) map[string]struct {
	store  Store
	change func(name string, text []byte)
} {
	t.Helper()
	type place = struct {
		store  Store
		change func(name string, text []byte)
	}
	dir := t.TempDir()
	s := &server{kept: map[string][]byte{}}
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	web, err := NewHTTP(listening.URL+"/bucket/", "secret")
	must.Do(t, err)
	return map[string]place{
		"directory": {Directory(dir), func(name string, text []byte) {
			_ = os.Remove(filepath.Join(dir, name))
			must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}},
		"HTTP": {web, func(name string, text []byte) { s.mu.Lock(); defer s.mu.Unlock(); s.kept["/bucket/"+name] = text }},
	}
}

func TestDigestsAreExportedReadBackAndNeverReplaced(t *testing.T) {
	both := digests(t)
	for kind, place := range places(t) {
		src := &source{}
		a := anchorOf(t, Options{Source: src, Stores: []Store{place.store}, Every: time.Hour, VerifyEvery: time.Hour, Log: slog.New(slog.DiscardHandler)})
		began := time.Now()
		step := func(after time.Duration, want string) {
			t.Helper()
			err := a.Step(t.Context(), began.Add(after))
			if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
				t.Fatalf("%s: %v, want %q", kind, err, want)
			}
		}
		step(0, "") // no block is certified yet
		src.digest = both[0]
		step(0, "")
		step(0, "") // the same again
		src.digest = both[1]
		step(0, "")
		for i, name := range []string{Name("trade-1", 1), Name("trade-1", 7)} {
			if kept, err := place.store.Get(t.Context(), name); err != nil || !bytes.Equal(kept, both[i]) {
				t.Fatalf("%s: %s is kept as %.60q, %v", kind, name, kept, err)
			}
		}
		if len(src.verified) > 0 {
			t.Fatalf("%s: verified before its time", kind)
		}
		step(2*time.Hour, "")
		if len(src.verified) != 1 || !bytes.Equal(src.verified[0], both[1]) {
			t.Fatalf("%s: verified %d times against %.60q", kind, len(src.verified), src.verified)
		}
		src.findings = []string{"2 digest: hash: another"}
		step(4*time.Hour, "does not verify against "+Name("trade-1", 7))
		src.findings = nil
		place.change(Name("trade-1", 7), both[0])
		step(4*time.Hour, "another digest of that block is there already")
		step(6*time.Hour, Name("trade-1", 7)+" of "+place.store.String()+" is not what was exported")
	}
}

func TestWhatAStoreLosesIsFound(t *testing.T) {
	s := &server{kept: map[string][]byte{}, loses: true}
	listening := httptest.NewServer(s)
	defer listening.Close()
	web, err := NewHTTP(listening.URL, "secret")
	must.Do(t, err)
	a := anchorOf(t, Options{Source: &source{digest: digests(t)[0]}, Stores: []Store{web}, Every: time.Hour})
	if err := a.Step(t.Context(), time.Now()); err == nil || !strings.Contains(err.Error(), "is not what was put there") {
		t.Fatal(err)
	}
}

func TestStoresThatCannotBeUsed(t *testing.T) {
	for _, bad := range []string{"", "ftp://host/x", "http://", "://", "dir"} {
		if _, err := NewHTTP(bad, ""); err == nil {
			t.Errorf("%q is taken for a URL", bad)
		}
	}
	listening := httptest.NewServer(&server{kept: map[string][]byte{}})
	web, err := NewHTTP(listening.URL, "other")
	must.Do(t, err)
	digest := digests(t)[0]
	if err := web.Put(t.Context(), "x", digest); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a wrong token: %v", err)
	}
	listening.Close()
	if err := web.Put(t.Context(), "x", digest); err == nil {
		t.Error("a server that is gone: no error")
	}
	if err := Directory(filepath.Join(t.TempDir(), "none")).Put(t.Context(), "x", digest); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// A store that sends elsewhere is not followed to where the token would go in clear.
func TestTokensFollowNoRedirectInClear(t *testing.T) {
	var heard atomic.Bool
	clear := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard.Store(true) }))
	defer clear.Close()
	store := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, clear.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer store.Close()
	h, err := NewHTTP(store.URL, "secret")
	must.Do(t, err)
	h.client.Transport = store.Client().Transport
	for what, ask := range map[string]func() error{
		"get": func() error { _, err := h.Get(t.Context(), "1"); return err },
		"put": func() error { return h.Put(t.Context(), "1", []byte("{}")) },
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), "not https") || heard.Load() {
			t.Errorf("%s: %v; asked in clear: %t", what, err, heard.Load())
		}
	}
}

func anchorOf(t *testing.T, opt Options) *Anchor {
	t.Helper()
	a, err := New(opt)
	must.Do(t, err)
	return a
}

// memory is what a node keeps.
type memory struct{ kept Kept }

func (m *memory) Anchored() (Kept, error) { return m.kept, nil }

func (m *memory) KeepAnchored(kept Kept) error { m.kept = kept; return nil }

// A node that restarts more often than it verifies verifies all the same, against the digest that
// it exported before the restart.
func TestADigestOfBeforeARestartIsVerified(t *testing.T) {
	both := digests(t)
	for name, kept := range map[string]Memory{"kept": &memory{}, "forgotten": nil} {
		src, store, now := &source{digest: both[0]}, Directory(t.TempDir()), time.Now()
		for range 4 {
			a := anchorOf(t, Options{Source: src, Stores: []Store{store}, Every: time.Hour, VerifyEvery: time.Hour, Memory: kept, Log: slog.New(slog.DiscardHandler)})
			if name == "forgotten" {
				a.kept.VerifiedAt = now
			}
			must.Do(t, a.Step(t.Context(), now))
			src.digest = both[1]
			now = now.Add(40 * time.Minute)
		}
		if want := map[string]int{"kept": 1}[name]; len(src.verified) != want {
			t.Errorf("%s: verified %d times in two hours, want %d", name, len(src.verified), want)
		}
	}
	src, store, kept := &source{digest: both[0]}, Directory(t.TempDir()), &memory{}
	opt := Options{Source: src, Stores: []Store{store}, Every: time.Hour, VerifyEvery: time.Hour, Memory: kept, Log: slog.New(slog.DiscardHandler)}
	must.Do(t, anchorOf(t, opt).Step(t.Context(), time.Now()))
	src.digest = both[1]
	must.Do(t, anchorOf(t, opt).Step(t.Context(), time.Now().Add(2*time.Hour)))
	if len(src.verified) != 1 || !bytes.Equal(src.verified[0], both[0]) || kept.kept.Last == "" {
		t.Errorf("verified %q, want the digest of before the restart", src.verified)
	}
}
