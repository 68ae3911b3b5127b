// Package isolated runs tests that change the machine's network in a network namespace of their
// own.
package isolated

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Network has a test run once more, in a network namespace of its own, so that nothing of this
// machine's network changes. It is false in the outer run, which does nothing else. Where nobody
// may make a namespace, and where the inner run skips, the test is skipped.
func Network(t *testing.T) bool {
	t.Helper()
	const inside = "CHAINIFY_TEST_ISOLATED"
	if os.Getenv(inside) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) {
		t.Skip("no network namespace may be made here")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP: "+t.Name()) {
		t.Skipf("%s", out)
	}
	return false
}
