package node

import (
	"runtime"
	"strings"
	"testing"
)

// ours are the goroutines of other tests' and of libraries' left out: those in which, or by which,
// code of this module runs.
func ours() []string {
	buf := make([]byte, 16<<20)
	var out []string
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if isOurs(stack) {
			out = append(out, stack)
		}
	}
	return out
}

// isOurs leaves out a goroutine that has ended and is about to go. It also leaves out one of
// CometBFT's that is just writing to our log: CometBFT does not wait for those that read from a
// peer.
func isOurs(stack string) bool {
	if _, frames, _ := strings.Cut(stack, "\n"); strings.HasPrefix(frames, "runtime.goexit") {
		return false
	}
	if strings.Contains(stack, "testing.tRunner") {
		return false
	}
	for _, line := range strings.Split(stack, "\n") {
		if strings.Contains(line, "github.com/chainify-db/chainify/abci/") && !strings.Contains(line, "node.(*cometLog).") {
			return true
		}
	}
	return false
}

// A node that has stopped leaves no goroutine behind: each has an owner that waits for it. One node
// dials in vain when the test stops it.
func TestNoGoroutineOutlivesItsNode(t *testing.T) {
	before := len(ours())
	nodes := newNetwork(t, "a", "b", "c")
	clients := startAll(t, nodes)
	nodes[2].stop()
	if len(ours()) <= before {
		t.Fatal("no goroutine of a running node is seen")
	}
	for _, c := range clients {
		c.Close()
	}
	for _, n := range nodes[:2] {
		n.stop()
	}
	if left := ours(); len(left) > before {
		t.Errorf("%d goroutines before, %d after:\n%s", before, len(left), strings.Join(left, "\n\n"))
	}
}
