package app

import (
	"sync"
	"time"
)

// lentFor is how long a snapshot stays after it was listed to a node that joins. CometBFT waits as
// long for a chunk before it tries another snapshot (chunkTimeout of its package statesync).
const lentFor = 2 * time.Minute

// lent remembers which snapshots were listed to nodes that join. Where order blocks are fast, a
// snapshot would otherwise make room for newer ones before its chunks are asked for.
type lent struct {
	mu     sync.Mutex
	listed map[int64]time.Time
}

func (l *lent) list(height int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listed == nil {
		l.listed = map[int64]time.Time{}
	}
	l.listed[height] = now
}

// held are the heights of snapshots that were listed a short time ago. It forgets the others.
func (l *lent) held(now time.Time) map[int64]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[int64]bool{}
	for height, listed := range l.listed {
		if now.Sub(listed) > lentFor {
			delete(l.listed, height)
			continue
		}
		out[height] = true
	}
	return out
}
