package harness

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"time"
)

// ClockVariable names the file by which a node that is built for it (cmd/faults overlay) moves its
// wall clock.
const ClockVariable = "CHAINIFY_TEST_CLOCK"

func (n *Node) clock() string { return filepath.Join(n.net.Dir, n.machine(), "clock") }

// clockEnvironment has a program of the node's machine read the clock that SetClock moves.
func (n *Node) clockEnvironment() []string {
	if !n.net.clocks {
		return nil
	}
	return []string{ClockVariable + "=" + n.clock()}
}

// SetClock moves the node's wall clock to so much from the machine's, at once. Seconds count. The
// network must have Clocks.
func (n *Node) SetClock(ahead time.Duration) error {
	f, err := os.OpenFile(n.clock(), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], uint64(int64(ahead/time.Second)))
	if _, err := f.WriteAt(b[:], 0); err != nil {
		return err
	}
	return f.Close()
}
