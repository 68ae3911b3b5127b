package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Store is a place outside: a Directory, or an S3-compatible store (package anchor has one). A
// manifest that was put there stays as it is.
type Store interface {
	// Put keeps data under a name; the same again is fine.
	Put(ctx context.Context, name string, data []byte) error
	// Get gives it back; os.ErrNotExist when there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	String() string
}

// ErrAnother says that a name is taken by other content.
var ErrAnother = errors.New("there is another file of that name")

// unfinished is how names of files begin that are not whole yet.
const unfinished = ".new-"

// Directory is one in the file system, of one archive or several chains'.
type Directory string

func (d Directory) String() string { return string(d) }

// Put implements Store. The file has its name once it is whole on the disk and was read back; one
// that no manifest names yet is replaced.
func (d Directory) Put(ctx context.Context, name string, data []byte) error {
	f, err := os.CreateTemp(string(d), unfinished+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o444), f.Sync(), f.Close()); err != nil {
		return err
	}
	again, err := d.Get(ctx, filepath.Base(f.Name()))
	if err != nil {
		return err
	}
	if !bytes.Equal(again, data) {
		return fmt.Errorf("%s: read back, it is not what was written", name)
	}
	path := filepath.Join(string(d), name)
	if strings.HasSuffix(name, manifestSuffix) {
		err = os.Link(f.Name(), path)
	} else {
		err = os.Rename(f.Name(), path)
	}
	if errors.Is(err, os.ErrExist) {
		if kept, err := d.Get(ctx, name); err != nil || !bytes.Equal(kept, data) {
			return errors.Join(fmt.Errorf("%s: %w", name, ErrAnother), err)
		}
		err = nil
	}
	return errors.Join(err, d.sync())
}

// sync makes names durable.
func (d Directory) sync() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// carefully opens nothing through a link, and waits for nobody at the other end of a pipe: others
// may write into the directory.
const carefully = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// Get implements Store, for regular files.
func (d Directory) Get(_ context.Context, name string) ([]byte, error) {
	f, err := os.OpenFile(filepath.Join(string(d), name), os.O_RDONLY|carefully, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %s, want a regular file", name, info.Mode())
	case info.Size() > FileBytesMax:
		return nil, fmt.Errorf("%s: %d bytes, want at most %d", name, info.Size(), FileBytesMax)
	}
	data := make([]byte, info.Size())
	_, err = io.ReadFull(f, data)
	return data, err
}

// lockName is the file whose lock keeps a second writer away.
const lockName = ".lock"

// Lock keeps other processes from archiving there until it is undone, and clears away what one that
// crashed left unfinished.
func (d Directory) Lock() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(string(d), lockName), os.O_CREATE|os.O_RDWR|carefully, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: another process archives there: %w", d, err)
	}
	left, err := filepath.Glob(filepath.Join(string(d), unfinished+"*"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// Strangers are the chain's files there that none of these names is.
func (d Directory) Strangers(chainID string, known map[string]bool) ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	var strangers []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, chainID+".") && !known[name] {
			strangers = append(strangers, name)
		}
	}
	return strangers, nil
}
