package node

import (
	"fmt"
	"syscall"
)

// descriptorsMin are for connections, clients, peers and the files of the order. With fewer,
// CometBFT's stores end the process in the middle of a block.
const descriptorsMin = 256

// checkDescriptors refuses to start under a limit of open files that is too low.
func checkDescriptors() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	return enoughDescriptors(limit.Cur)
}

func enoughDescriptors(limit uint64) error {
	if limit < descriptorsMin {
		return fmt.Errorf("the limit of open files is %d, a node needs at least %d: raise it with ulimit -n, or LimitNOFILE of its systemd unit", limit, descriptorsMin)
	}
	return nil
}
