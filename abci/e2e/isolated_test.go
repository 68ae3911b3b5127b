package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// isolated has a test run once more in namespaces of its own, for networks and disks that it may
// change. It is false in the outer run, which does nothing else. Where nobody may make namespaces,
// the test is skipped.
func isolated(t *testing.T) bool {
	t.Helper()
	const inside = "CHAINIFY_E2E_ISOLATED"
	if os.Getenv("CHAINIFY_E2E") == "" {
		t.Skip("a network of processes takes minutes: run by make e2e and make soak (CHAINIFY_E2E=1)")
	}
	if os.Getenv(inside) != "" {
		must(t, unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		must(t, unix.Mount("proc", "/proc", "proc", 0, ""))
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			t.Fatalf("ip link set lo up: %v: %s", err, out)
		}
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs the command ip (package iproute2)")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "0")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = innerOutput{}, innerOutput{}
	// As the first process of its namespace it takes all others along, however it ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if errors.Is(err, unix.EPERM) {
		t.Skip("no namespaces may be made here")
	}
	if err != nil {
		t.Fatal(err)
	}
	return false
}

// innerOutput marks the lines of an inner run, which tools would take for those of the outer one.
type innerOutput struct{}

func (innerOutput) Write(text []byte) (int, error) {
	_, err := os.Stdout.Write(bytes.ReplaceAll(text, []byte("\n"), []byte("\n| ")))
	return len(text), err
}
