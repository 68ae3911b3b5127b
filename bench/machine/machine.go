// Package machine says on what a benchmark ran: processors, load, the disk's fsync, processor time of servers.
package machine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/chainify-db/chainify/bench/report"
)

// What Facts names of it changes while a benchmark runs.
const (
	FsyncBefore = "fsync_ms"
	FsyncAfter  = "fsync_ms_after"
	LoadBefore  = "load"

	// FsyncSamples is how often fsync is timed.
	FsyncSamples = 100
)

// Facts describes the machine. dir is where the databases are.
func Facts(dir string) (map[string]any, error) {
	fsync, err := Fsync(dir, FsyncSamples)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"cores": runtime.NumCPU(), "cpu": field("/proc/cpuinfo", "model name"), "memory": field("/proc/meminfo", "MemTotal"),
		"kernel": firstLine("/proc/sys/kernel/osrelease"), LoadBefore: Load(), FsyncBefore: fsync,
	}, nil
}

// Fsync measures how long it takes to make 8 kB durable: an overwrite and an fdatasync, n times, in milliseconds.
func Fsync(dir string, n int) (report.Spread, error) {
	const page = 8192
	f, err := os.Create(filepath.Join(dir, "fsync.probe"))
	if err != nil {
		return report.Spread{}, fmt.Errorf("measure fsync: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	buffer := make([]byte, page)
	times := make([]float64, n)
	for i := range times {
		buffer[0] = byte(i)
		started := time.Now()
		if _, err := f.WriteAt(buffer, 0); err != nil {
			return report.Spread{}, fmt.Errorf("measure fsync: %w", err)
		}
		if err := fdatasync(f); err != nil {
			return report.Spread{}, fmt.Errorf("measure fsync: %w", err)
		}
		times[i] = float64(time.Since(started).Microseconds()) / 1000
	}
	return report.SpreadOf(times), nil
}

// NoteDisk measures fsync once more and says it beside the figures: what is durable depends on it.
func NoteDisk(r *report.Report, dir string) error {
	after, err := Fsync(dir, FsyncSamples)
	if err != nil {
		return err
	}
	before := r.Machine[FsyncBefore].(report.Spread)
	r.Machine[FsyncAfter] = after
	r.Notes = append(r.Notes, fmt.Sprintf("fdatasync of 8 kB took %.2g ms (%.2g to %.2g) before and %.2g ms (%.2g to %.2g) after; load was %.1f before and is %.1f",
		before.Median, before.Min, before.Max, after.Median, after.Min, after.Max, r.Machine[LoadBefore], Load()))
	return nil
}

// Load is the machine's load of the last minute; 0 when it cannot be read.
func Load() float64 {
	v, _ := strconv.ParseFloat(strings.Fields(firstLine("/proc/loadavg") + " 0")[0], 64)
	return v
}

// Commit names the state of the source; "unknown" outside of a repository.
func Commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func firstLine(path string) string {
	raw, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(raw), "\n")
	return line
}

// field finds "name : value" in a file of /proc.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// ticksPerSecond is USER_HZ, the unit of /proc/PID/stat, on every Linux that Go supports.
const ticksPerSecond = 100

// errProcessGone means that /proc has nothing of the process.
var errProcessGone = errors.New("the process ended")

// process is what /proc/PID/stat says of processor time, in ticks.
type process struct {
	parent        int
	own, children int64 // children: those that ended and were waited for
}

func readProcess(pid int) (process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, errProcessGone
	}
	end := strings.LastIndexByte(string(text), ')') // the command may hold blanks and parentheses
	fields := strings.Fields(string(text[end+1:]))
	const parent, utime, cstime = 1, 11, 14 // fields 4, 14 and 17 of proc(5), counted after the command
	if end < 0 || len(fields) <= cstime {
		return process{}, errProcessGone
	}
	var n [5]int64
	for i, at := range []int{parent, utime, utime + 1, utime + 2, cstime} {
		if n[i], err = strconv.ParseInt(fields[at], 10, 64); err != nil {
			return process{}, fmt.Errorf("read processor time of process %d: %w", pid, err)
		}
	}
	return process{int(n[0]), n[1] + n[2], n[3] + n[4]}, nil
}

// Parent is the parent of a process.
func Parent(pid int) (int, error) {
	p, err := readProcess(pid)
	return p.parent, err
}

// TreeCPU is the processor time of a server: of the process, its children, and those of its children that ended.
// Each living process is rounded down to 10 ms.
func TreeCPU(pid int) (time.Duration, error) {
	for try := 1; ; try++ {
		root, err := readProcess(pid)
		if err != nil {
			return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
		}
		ticks, err := childrenTicks(pid)
		if err != nil {
			return 0, err
		}
		// A child that ended while they were read may be in neither number.
		if after, err := readProcess(pid); try == treeTries || err == nil && after.children == root.children {
			return time.Duration(root.own+root.children+ticks) * time.Second / ticksPerSecond, nil
		}
	}
}

// treeTries bounds reading again because a child ended.
const treeTries = 10

// childrenTicks are of the children that live, or were not waited for yet.
func childrenTicks(pid int) (ticks int64, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := readProcess(child); err == nil && p.parent == pid {
			ticks += p.own + p.children
		}
	}
	return ticks, nil
}

// TreesCPU is the processor time of several servers.
func TreesCPU(pids []int) (sum time.Duration, err error) {
	for _, pid := range pids {
		one, err := TreeCPU(pid)
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
}
