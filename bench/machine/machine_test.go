package machine

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestFactsAreThere(t *testing.T) {
	facts, err := Facts(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cpu", "memory", "kernel"} {
		if facts[name] == "" {
			t.Errorf("no %s: %v", name, facts)
		}
	}
	if _, err := Fsync("/nowhere", 1); err == nil {
		t.Error("fsync was measured nowhere")
	}
}

// A child that ended is counted with what it used, and one that lives as well.
func TestProcessorTimeIsThatOfTheTree(t *testing.T) {
	before, err := TreeCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	after, err := TreeCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after-before < used-20*time.Millisecond {
		t.Errorf("a child used %v, the tree %v", used, after-before)
	}
	if parent, err := Parent(os.Getpid()); err != nil || parent != os.Getppid() {
		t.Errorf("parent %d, %v", parent, err)
	}
	if _, err := TreeCPU(-1); err == nil {
		t.Error("a process that is none has a processor time")
	}
}
