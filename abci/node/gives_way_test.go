package node

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/chainify-db/chainify/abci/must"
)

// A function that gives way runs at a low priority, and no other thread does, then or later.
func TestArchivingGivesWay(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	priority := func() int {
		got, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
		must.Do(t, err)
		return 20 - got // the call gives 1 to 40
	}
	usual, low := priority(), 0
	GiveWay(func() { low = priority() })
	if low != max(usual, waits) {
		t.Errorf("priority %d, want %d", low, waits)
	}
	for range 100 {
		done := make(chan int)
		go func() { done <- priority() }()
		if got := <-done; got != usual {
			t.Fatalf("a thread stays at priority %d, usual is %d", got, usual)
		}
	}
}
