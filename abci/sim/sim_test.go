package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/seeded"
)

var (
	schedules = flag.Int("schedules", 5, "how many random schedules run; the seed of each is the one after the seed before")
	abreast   = flag.Int("abreast", 4, "how many schedules run at the same time")
	batch     = flag.Int("batch", 100, "how many schedules run in one process")
	only      = flag.String("only", "", "the cases that this process runs itself, divided by "+between)
	dir       = flag.String("dir", "", "where that process keeps its files")
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

// endedMax is how often CometBFT's own panic may end the process of one batch.
const endedMax = 10

// Machines are lost, taken over, paused and cut off, and clocks are stepped, by random schedules.
// Nobody signs twice, nobody has evidence against a member, and the order goes on. The seed of a
// schedule does not decide in which order goroutines run.
//
// Each batch of schedules has a process of its own, since a panic of CometBFT's ends one. The
// schedules that had not passed by then run again, and the test's log says so.
func TestNoScheduleConvictsAnHonestMember(t *testing.T) {
	if testing.Short() {
		t.Skip("dozens of nodes take minutes: make test-race")
	}
	if *only != "" {
		runHere(t, strings.Split(*only, between))
		return
	}
	seed := seeded.Seed(t)
	cases := slices.Sorted(maps.Keys(regressions))
	for i := range *schedules {
		cases = append(cases, seedCase(seed+uint64(i)))
	}
	began, passedAll, ended := time.Now(), 0, 0
	for part := range slices.Chunk(cases, *batch) {
		for left, tries := part, 1; ; tries++ {
			passed, output, err := apart(t.Context(), left)
			passedAll += len(passed)
			left = without(left, passed)
			if err == nil && len(left) == 0 {
				break
			}
			if !endedByCometBFT(output) || tries > endedMax {
				t.Errorf("did not pass: %s: %v", strings.Join(left, ", "), err)
				break
			}
			ended++
			t.Logf("CometBFT's own panic (BlockPool.PopRequest) ended the process; these run again: %s", strings.Join(left, ", "))
		}
	}
	t.Logf("%d cases, %d passed, CometBFT's own panic ended a process %d times, %s", len(cases), passedAll, ended, time.Since(began).Round(time.Second))
}

func seedCase(seed uint64) string { return fmt.Sprint("seed ", seed) }

// stepsOf are the steps of a case by its name.
func stepsOf(name string) (steps []step, err error) {
	if known, found := regressions[name]; found {
		return known, nil
	}
	var seed uint64
	if _, err = fmt.Sscanf(name, "seed %d", &seed); err != nil {
		return nil, fmt.Errorf("no case has the name %q: %w", name, err)
	}
	return draw(seed), nil
}

// runHere runs cases in this process, some at a time.
func runHere(t *testing.T, cases []string) {
	go endWithParent()
	var next atomic.Int64
	var workers sync.WaitGroup
	for range *abreast {
		workers.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(cases); i = next.Add(1) - 1 {
				from := time.Now()
				steps, err := stepsOf(cases[i])
				if err == nil {
					err = run(steps, uint32(i))
				}
				took := time.Since(from).Round(time.Millisecond)
				if err == nil {
					t.Logf("%s: %s", cases[i], took)
					err = notePassed(cases[i])
				}
				if err != nil {
					t.Errorf("%s, after %s: %v", cases[i], took, err)
				}
			}
		})
	}
	workers.Wait()
}
