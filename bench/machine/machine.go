// Package machine describes the machine of a benchmark: processors, load, the disk's fsync,
// processor time of servers.
package machine

import (
	"bufio"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
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
	LoadBefore  = "load"         // before anything was set up
	LoadSettled = "load_settled" // when the first repetition began
	SettledFor  = "settled_s"    // how long that was waited for

	// FsyncSamples is how often fsync is timed.
	FsyncSamples = 100

	// SettleLimit is how long a benchmark waits for the machine after its set-up.
	SettleLimit = 3 * time.Minute
)

// NoteLoad keeps the machine's load before a benchmark sets anything up.
func NoteLoad(r *report.Report) {
	r.Machine = map[string]any{LoadBefore: Load()}
}

// Facts adds to a report what the machine is. dir is where the databases are.
func Facts(r *report.Report, dir string) error {
	fsync, err := Fsync(dir, FsyncSamples)
	if err != nil {
		return err
	}
	if r.Machine == nil {
		NoteLoad(r)
	}
	maps.Copy(r.Machine, map[string]any{
		"cores": runtime.NumCPU(), "cpu": field("/proc/cpuinfo", "model name"), "memory": field("/proc/meminfo", "MemTotal"),
		"kernel": firstLine("/proc/sys/kernel/osrelease"), FsyncBefore: fsync,
	})
	return nil
}

// settledBy is how much more than before the set-up the load may be when the first repetition begins.
const settledBy = 0.5

// Settle waits, no longer than the limit, until what the set-up did to the machine's load is over.
func Settle(ctx context.Context, r *report.Report, limit time.Duration, progress io.Writer) error {
	return settle(ctx, r, limit, time.Second, progress, Load)
}

func settle(ctx context.Context, r *report.Report, limit, every time.Duration, progress io.Writer, load func() float64) error {
	before, _ := r.Machine[LoadBefore].(float64)
	began := time.Now()
	now := load()
	if limit > 0 && now > before+settledBy {
		fmt.Fprintf(progress, "load is %.1f after the set-up and was %.1f before: waiting, %s at most\n", now, before, limit)
	}
	for ; now > before+settledBy && time.Since(began) < limit; now = load() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
	r.Machine[LoadSettled], r.Machine[SettledFor] = now, math.Round(time.Since(began).Seconds())
	return nil
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
	load := fmt.Sprintf("load was %.1f before the set-up", r.Machine[LoadBefore])
	if settled, is := r.Machine[LoadSettled]; is {
		load += fmt.Sprintf(", %.1f when the first repetition began", settled)
	}
	r.Notes = append(r.Notes, fmt.Sprintf("fdatasync of 8 kB took %.2g ms (%.2g to %.2g) before and %.2g ms (%.2g to %.2g) after; %s and is %.1f",
		before.Median, before.Min, before.Max, after.Median, after.Min, after.Max, load, Load()))
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

// BuiltWith is the version of a module that a program of Go was built with.
func BuiltWith(program, module string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", err
	}
	for _, one := range info.Deps {
		if one.Path == module {
			return one.Version, nil
		}
	}
	return "", fmt.Errorf("%s was built without %s", program, module)
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
