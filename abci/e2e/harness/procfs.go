package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// procStat is what /proc/PID/stat says of a process.
type procStat struct {
	pid, parent int
	started     string // clock ticks after boot: with the pid it names one process for good
	ended       bool   // nothing of it is left but its entry, which its parent has not read yet
}

// readStat reads one process; the command, which may hold blanks and parentheses, is skipped.
func readStat(pid int) (procStat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, false
	}
	end := strings.LastIndexByte(string(text), ')')
	if end < 0 {
		return procStat{}, false
	}
	const state, parent, started = 0, 1, 19 // fields 3, 4 and 22 of proc(5), counted after the command
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) <= started {
		return procStat{}, false
	}
	ppid, err := strconv.Atoi(fields[parent])
	if err != nil {
		return procStat{}, false
	}
	return procStat{pid, ppid, fields[started], fields[state] == "Z" || fields[state] == "X"}, true
}

// children lists the direct children of a process.
func children(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, ok := readStat(child); ok && s.parent == pid {
			out = append(out, child)
		}
	}
	return out
}

// killTree kills a process and its children, and waits until these are gone: they may hold what the
// next start needs. The parent rests meanwhile, so that it starts no further child.
func killTree(pid int) {
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	var kids []procStat
	for _, kid := range children(pid) {
		if s, ok := readStat(kid); ok {
			kids = append(kids, s)
		}
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for _, kid := range kids {
		_ = syscall.Kill(kid.pid, syscall.SIGKILL)
	}
	for end := time.Now().Add(killLimit); slices.ContainsFunc(kids, procStat.lives) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// killLimit bounds the wait for killed processes; one that hangs in the kernel for longer stays.
const killLimit = 2 * time.Minute

// lives says whether the process has not ended.
func (s procStat) lives() bool {
	now, ok := readStat(s.pid)
	return ok && now.started == s.started && !now.ended
}

func writePid(path string, pid int) error {
	s, ok := readStat(pid)
	if !ok {
		return nil // ended already
	}
	return os.WriteFile(path, []byte(fmt.Sprintf("%d %s\n", pid, s.started)), 0o644)
}

// killLeftovers ends the processes that an earlier run named in pidDir and did not end itself. A
// process id that was given to another process since has another start time and is left alone.
func killLeftovers(pidDir string) error {
	entries, err := os.ReadDir(pidDir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(pidDir, e.Name()))
		if err != nil {
			return err
		}
		var pid int
		var started string
		if _, err := fmt.Sscan(string(text), &pid, &started); err != nil {
			continue
		}
		if s, ok := readStat(pid); ok && s.started == started {
			killTree(pid)
		}
	}
	return nil
}
