package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// procStat is what /proc/PID/stat says of a process.
type procStat struct {
	pid, parent int
	started     string // clock ticks after boot: with the pid it names one process for good
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
	const parent, started = 1, 19 // fields 4 and 22 of proc(5), counted after the command
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) <= started {
		return procStat{}, false
	}
	ppid, err := strconv.Atoi(fields[parent])
	if err != nil {
		return procStat{}, false
	}
	return procStat{pid, ppid, fields[started]}, true
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

// killTree kills a process and its children. The parent goes first, so that it starts no further child.
func killTree(pid int) {
	kids := children(pid)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for _, kid := range kids {
		_ = syscall.Kill(kid, syscall.SIGKILL)
	}
}

func writePid(path string, pid int) error {
	s, ok := readStat(pid)
	if !ok {
		return nil // ended already
	}
	return os.WriteFile(path, []byte(fmt.Sprintf("%d %s\n", pid, s.started)), 0o644)
}

// killLeftovers ends the processes that an earlier run named in pidDir and did not end itself. A process id that
// was given to another process since has another start time and is left alone.
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
