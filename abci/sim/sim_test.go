package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/seeded"
)

var (
	schedules = flag.Int("schedules", 5, "how many random schedules run; the seed of each is the one after the seed before")
	abreast   = flag.Int("abreast", 4, "how many schedules run at the same time")
)

// regressions are schedules that showed faults which are mended, or that a guard has to stand.
var regressions = map[string][]step{
	"a take-over while the first block is decided": {
		{kind: stops, a: 1}, {kind: stops, a: 2}, {kind: signs}, {kind: takesOver}, {kind: starts, a: 1}, {kind: starts, a: 2, heights: 3},
	},
	"a take-over where the order stands still": {
		{kind: mends}, {kind: stops, a: 3, heights: 3}, {kind: isolates, heights: 9}, {kind: takesOver}, {kind: parts, b: 1}, {kind: parts, b: 2, heights: 9}, {kind: starts, a: 3, heights: 9},
	},
	"a second take-over, with the disk of the first": {{kind: losesOdd, b: 1, heights: 1}, {kind: takesOverDisk}, {kind: signs, heights: 5}},
}

// Machines are lost, taken over, paused and cut off, and clocks are stepped, by random schedules.
// Nobody signs twice, nobody has evidence against a member, and the order goes on. The seed of a
// schedule does not decide in which order goroutines run.
func TestNoScheduleConvictsAnHonestMember(t *testing.T) {
	if testing.Short() {
		t.Skip("dozens of nodes take minutes: make test-race")
	}
	seed := seeded.Seed(t)
	var names []string
	var all [][]step
	for _, name := range slices.Sorted(maps.Keys(regressions)) {
		names, all = append(names, name), append(all, regressions[name])
	}
	for i := range *schedules {
		names, all = append(names, fmt.Sprint("seed ", seed+uint64(i))), append(all, draw(seed+uint64(i)))
	}
	began := time.Now()
	var next, failed atomic.Int64
	var workers sync.WaitGroup
	for range *abreast {
		workers.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(all); i = next.Add(1) - 1 {
				from := time.Now()
				err := run(all[i], uint32(i))
				took := time.Since(from).Round(time.Millisecond)
				if err != nil {
					failed.Add(1)
					t.Errorf("%s, after %s: %v", names[i], took, err)
					continue
				}
				t.Logf("%s: %s", names[i], took)
			}
		})
	}
	workers.Wait()
	t.Logf("%d schedules, %d failed, %s", len(all), failed.Load(), time.Since(began).Round(time.Second))
}
