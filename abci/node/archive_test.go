package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/archive"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// archivedDatabase is a database whose archive has all, and that drops some blocks at each call.
type archivedDatabase struct {
	archive.Database
	mu    sync.Mutex
	head  archive.Head
	keep  uint64
	grows uint64 // certified blocks that come during a call
	calls int
	fails error
}

func (f *archivedDatabase) ArchiveHead(context.Context) (archive.Head, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.head, f.fails
}

func (f *archivedDatabase) archives(block uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.head.Archived = block
}

func (f *archivedDatabase) DropArchived(_ context.Context, keep, rowsMax uint64) (block, rows uint64, err error) {
	f.calls++
	if f.keep = keep; f.head.Dropped+10+keep > f.head.Certified || rowsMax == 0 {
		return 0, 0, nil
	}
	f.head.Dropped += 10
	f.head.Certified += f.grows
	return f.head.Dropped, 100, nil
}

// seen is what the figures are told.
type seen struct {
	mu                sync.Mutex
	archived, dropped uint64
	failures          int
}

func (s *seen) Archived(block, dropped uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.archived, s.dropped = block, dropped
}

func (s *seen) said() (archived, dropped uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.archived, s.dropped
}

func (s *seen) ArchiveFailed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
}

// whole is an archive that has all, or lost some of it.
type whole struct {
	err       error
	after, to uint64
}

func (w *whole) Run(context.Context, uint64, func(*archive.Manifest)) error { return nil }

func (w *whole) Holds(_ context.Context, after, to uint64) error {
	w.after, w.to = after, to
	return w.err
}

func newArchiving(t *testing.T, d *archivedDatabase, s *seen) *archiving {
	t.Helper()
	return &archiving{&whole{}, d, archive.Directory(t.TempDir()), time.Millisecond, time.Millisecond, 25, s, slog.New(slog.DiscardHandler)}
}

// The node has dropped what may go, a little at a time, and nothing when all is kept.
func TestTheNodeHasDroppedWhatIsArchived(t *testing.T) {
	d, s := &archivedDatabase{head: archive.Head{Certified: 100, Archived: 90}}, &seen{}
	a, w := newArchiving(t, d, s), &whole{err: archive.ErrFalse}
	a.archiver = w
	if err := a.drop(t.Context()); !errors.Is(err, archive.ErrFalse) || d.calls != 0 || w.to != 75 {
		t.Errorf("%+v: %v", w, err)
	}
	w.err = nil
	if err := a.drop(t.Context()); err != nil || d.head.Dropped != 70 || d.calls != 8 || d.keep != 25 {
		t.Errorf("%+v, %v", d, err)
	}
	a.keep = 0
	if err := a.drop(t.Context()); err != nil || d.calls != 8 {
		t.Errorf("%d calls, %v", d.calls, err)
	}
}

// Dropping ends with the blocks that might go when it began, though the chain grows as fast.
func TestDroppingEndsWhileTheChainGrows(t *testing.T) {
	d := &archivedDatabase{head: archive.Head{Certified: 100, Archived: 100}, grows: 10}
	a := newArchiving(t, d, &seen{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := a.drop(ctx); err != nil || d.head.Dropped != 80 || d.calls != 8 {
		t.Errorf("%+v, %v", d, err)
	}
}

// Archiving that fails is counted, and tried again.
func TestFailuresOfTheArchiveAreCounted(t *testing.T) {
	d, s := &archivedDatabase{fails: errors.New("away")}, &seen{}
	a := newArchiving(t, d, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { a.run(ctx); close(done) }()
	eventually(t, patience, "it is tried again", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.failures > 2
	})
	cancel()
	<-done
}

// A node learns of what a command archived, long before its own turn comes.
func TestTheNodeSeesWhatACommandArchived(t *testing.T) {
	d, s := &archivedDatabase{head: archive.Head{Certified: 100, Archived: 10}}, &seen{}
	a := newArchiving(t, d, s)
	a.every, a.keep = time.Hour, 0
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { a.run(ctx); close(done) }()
	for _, block := range []uint64{10, 90} {
		d.archives(block)
		eventually(t, patience, "the node sees it", func() bool {
			archived, _ := s.said()
			return archived == block
		})
	}
	cancel()
	<-done
}

// Authorities follow the organisations, keys and c by block.
func TestAuthoritiesOfTheArchiveFollowTheRegistry(t *testing.T) {
	all := authoritiesOf("trade", &wire.RegistryHistory{
		Consents: []wire.ConsentFrom{{Block: 1, Consent: 2}, {Block: 50, Consent: 3}},
		Organisations: []wire.OrganisationPeriod{
			{Name: "acme", GatewayKey: []byte("a"), From: 1, Until: 30}, {Name: "acme", GatewayKey: []byte("A"), From: 30}, {Name: "bolt", GatewayKey: []byte("b"), From: 1, Until: 50},
		},
		Validators: []wire.ValidatorPeriod{{Organisation: "acme", PublicKey: []byte("v"), From: 1}, {Organisation: "bolt", PublicKey: []byte("w"), From: 1, Until: 50}},
	})
	for block, want := range map[uint64]struct {
		key        string
		consent, n int
	}{1: {"a", 2, 2}, 29: {"a", 2, 2}, 30: {"A", 2, 2}, 49: {"A", 2, 2}, 50: {"A", 3, 1}, 900: {"A", 3, 1}} {
		a := all.For(block)
		if string(a.GatewayKeys["acme"]) != want.key || a.Consent != want.consent || len(a.Validators) != want.n {
			t.Errorf("block %d: %+v, want %+v", block, a, want)
		}
	}
}

// An S3-compatible store takes files and gives them back, and refuses another one of the name.
func TestAnArchiveIsInAStore(t *testing.T) {
	kept := map[string][]byte{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch data, there := kept[r.URL.Path]; {
		case r.Header.Get("Authorization") == "":
			w.WriteHeader(http.StatusForbidden)
		case r.Method == http.MethodPut:
			kept[r.URL.Path] = body
		case !there:
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = w.Write(data)
		}
	}))
	defer server.Close()
	home := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(home, "keys"), []byte("aws_access_key_id = A\naws_secret_access_key = B\n"), 0o600))
	store, err := OpenArchive(config.Home(home), config.Retention{Archive: server.URL + "/bucket/acme", ArchiveS3Region: "x", ArchiveS3CredentialsFile: "keys"})
	must.Do(t, err)
	if _, err := store.Get(t.Context(), "f"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	data := make([]byte, 24<<20)
	for range 2 {
		must.Do(t, store.Put(t.Context(), "f", data))
	}
	if got, err := store.Get(t.Context(), "f"); err != nil || len(got) != len(data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := store.Put(t.Context(), "f", data[1:]); err == nil {
		t.Error("another file of the name is taken")
	}
}
