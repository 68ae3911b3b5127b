package node

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// waits is the nice value that archiving runs at: about a tenth of the processor where all of it is
// wanted. Blocks cannot wait, and the archive can.
const waits = 10

// GiveWay calls a function on a thread of low priority, and returns when it has ended. A system
// that refuses the priority runs it at the usual one.
func GiveWay(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with this goroutine, and its priority with it
		thread := unix.Gettid()
		if got, err := unix.Getpriority(unix.PRIO_PROCESS, thread); err == nil && 20-got < waits { // the call gives 1 to 40
			_ = unix.Setpriority(unix.PRIO_PROCESS, thread, waits)
		}
		f()
	}()
	<-done
}
