package archive

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

// Only regular files of a directory are read: a link may lead to a file without end, and the other
// end of a pipe may never be opened.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	d := Directory(t.TempDir())
	must.Do(t, d.Put(t.Context(), "regular", []byte("content")))
	path := func(name string) string { return filepath.Join(string(d), name) }
	large, err := os.Create(path("large"))
	must.Do(t, err)
	if err := errors.Join(
		large.Truncate(FileBytesMax+1), large.Close(), os.Mkdir(path("directory"), 0o700), syscall.Mkfifo(path("pipe"), 0o600),
		os.Symlink("regular", path("link")), os.Symlink("/dev/zero", path("zeros")), os.Symlink("pipe", path(lockName)),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"large", "directory", "pipe", "link", "zeros"} {
		if _, err := d.Get(t.Context(), name); err == nil || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if data, err := d.Get(t.Context(), "regular"); err != nil || string(data) != "content" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := d.Get(t.Context(), "none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	if _, err := d.Lock(); err == nil {
		t.Error("the lock is a link to another file")
	}
}
