package anchor

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

// Others may write into the directory of digests: a link may lead to a file without end, and the
// other end of a pipe may never be opened.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	d := Directory(t.TempDir())
	path := func(name string) string { return filepath.Join(string(d), name) }
	err := errors.Join(d.Put(t.Context(), "regular", []byte("digest")), syscall.Mkfifo(path("pipe"), 0o600),
		os.Symlink("regular", path("link")), os.Symlink("/dev/zero", path("zeros")), os.Mkdir(path("directory"), 0o700))
	must.Do(t, err)
	for _, name := range []string{"pipe", "link", "zeros", "directory"} {
		if text, err := d.Get(t.Context(), name); err == nil || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is read: %q, %v", name, text, err)
		}
		if err := d.Put(t.Context(), name, []byte("digest")); err == nil {
			t.Errorf("%s counts as the digest", name)
		}
	}
	if text, err := d.Get(t.Context(), "regular"); err != nil || string(text) != "digest" {
		t.Errorf("%q, %v", text, err)
	}
}
