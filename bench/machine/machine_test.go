package machine

import (
	"context"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chainify-db/chainify/bench/report"
)

func TestFactsAreThere(t *testing.T) {
	r := &report.Report{Machine: map[string]any{LoadBefore: 0.25}}
	if err := Facts(r, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cpu", "memory", "kernel"} {
		if text, is := r.Machine[name].(string); !is || text == "" {
			t.Errorf("no %s: %v", name, r.Machine)
		}
	}
	if r.Machine[LoadBefore] != 0.25 {
		t.Errorf("the load before the set-up is now %v", r.Machine[LoadBefore])
	}
	if _, err := Fsync("/nowhere", 1); err == nil {
		t.Error("fsync was measured nowhere")
	}
}

// The first repetition waits until the load of the set-up is over, and not for ever.
func TestTheLoadOfTheSetUpIsWaitedFor(t *testing.T) {
	falling := []float64{5, 3, 1.5, 0.6, 0.4}
	looks := 0
	load := func() float64 {
		looks++
		return falling[min(looks, len(falling))-1]
	}
	r := &report.Report{Machine: map[string]any{LoadBefore: 0.2}}
	if err := settle(t.Context(), r, time.Minute, time.Microsecond, io.Discard, load); err != nil || r.Machine[LoadSettled] != 0.6 || looks != 4 {
		t.Errorf("after %d looks %v, %v", looks, r.Machine, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := settle(ctx, r, time.Millisecond, time.Microsecond, io.Discard, func() float64 { return 7 }); err != nil || r.Machine[LoadSettled] != 7.0 {
		t.Errorf("a load that stays: %v, %v", r.Machine, err)
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
