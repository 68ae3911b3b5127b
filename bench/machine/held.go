package machine

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Held is what running servers hold of the machine.
type Held struct {
	Memory int64 // bytes of their own; what is shared, or the system's cache, is not in it
	Files  int64 // open file descriptors
}

// TreesHeld is what several servers hold, with their children; one that ends meanwhile counts for
// nothing.
func TreesHeld(pids []int) (Held, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return Held{}, err
	}
	roots := map[int]bool{}
	for _, pid := range pids {
		roots[pid] = true
	}
	var sum Held
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, err := Parent(pid); err != nil || !roots[pid] && !roots[parent] {
			continue
		}
		sum.Memory += anonymous(pid)
		if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
			sum.Files += int64(len(files))
		}
	}
	return sum, nil
}

// anonymous is RssAnon of a process, in bytes; 0 when it ended.
func anonymous(pid int) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, is := strings.CutPrefix(lines.Text(), "RssAnon:"); is {
			kb, _ := strconv.ParseInt(strings.Fields(value + " 0")[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// Size is the length of all files below a directory; those that go away meanwhile count for
// nothing.
func Size(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes, err
}
