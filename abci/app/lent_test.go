package app

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A snapshot that was listed to a node that joins is there for its chunks, however many order
// blocks come meanwhile. Nodes that list without end hold as many as are kept without them, and no
// more.
func TestAListedSnapshotStaysForItsChunks(t *testing.T) {
	c := newChain(t, 4, 0, withSnapshots)
	c.run(35)
	listed := c.listed()
	c.run(105)
	for _, s := range listed {
		if !slices.Contains(heightsOf(c.listed()), s.Height) {
			t.Errorf("snapshot %d went while a node may ask for its chunks: %v are left", s.Height, heightsOf(c.listed()))
		}
	}
	for c.height < 205 {
		c.run(c.height + 10)
		if n := len(c.listed()); n > 2*c.app.opt.Retention.Snapshots {
			t.Fatalf("%d snapshots at height %d, twice %d at most", n, c.height, c.app.opt.Retention.Snapshots)
		}
	}
}

func TestASnapshotIsHeldForAWhile(t *testing.T) {
	var l lent
	start := time.Now()
	l.list(10, start)
	l.list(20, start.Add(lentFor))
	for after, want := range map[time.Duration]string{lentFor: "map[10:true 20:true]", lentFor + 1: "map[20:true]", 2*lentFor + 1: "map[]"} {
		one := lent{listed: map[int64]time.Time{}}
		for height, listed := range l.listed {
			one.list(height, listed)
		}
		if got := fmt.Sprint(one.held(start.Add(after))); got != want {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
}
