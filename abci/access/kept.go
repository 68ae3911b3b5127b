package access

import (
	"os"
	"sync"
)

// kept is a value parsed from files. It is made again when one of them has changed, so that a token
// revoked or a TLS identity renewed counts without a restart.
type kept[T any] struct {
	paths []string
	read  func() (T, error)

	mu    sync.Mutex
	seen  []os.FileInfo
	value T
	err   error
}

// unchanged tells that a file is the one it was; nil is one that was not there.
func unchanged(before, now os.FileInfo) bool {
	if before == nil || now == nil {
		return before == nil && now == nil
	}
	return os.SameFile(before, now) && before.ModTime().Equal(now.ModTime()) && before.Size() == now.Size() && before.Mode() == now.Mode()
}

// current returns what the files say now. When they cannot be read, it is the value from before,
// with the error.
func (k *kept[T]) current() (T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := make([]os.FileInfo, len(k.paths))
	same := len(k.seen) == len(now)
	for i, path := range k.paths {
		if info, err := os.Stat(path); err == nil {
			now[i] = info
		}
		same = same && unchanged(k.seen[i], now[i])
	}
	if same && k.err == nil {
		return k.value, nil
	}
	value, err := k.read()
	if k.seen, k.err = now, err; err == nil {
		k.value = value
	}
	return k.value, err
}
