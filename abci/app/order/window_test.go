package order

import (
	"crypto/sha256"
	"encoding/binary"
	"runtime"
	"testing"
)

// A minute of many transactions does not cost memory for good.
func TestTheWindowGivesBackWhatExpired(t *testing.T) {
	const heights, each, validity, bytes = 200, 500, 100, 100
	held := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	accepted := func(height int64) []Accepted {
		out := make([]Accepted, each)
		for i := range out {
			out[i] = Accepted{sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(height*each)+uint64(i))), uint64(height + validity)}
		}
		return out
	}
	before, w := held(), newWindow(0)
	for height := int64(1); height <= heights; height++ {
		w.settle(height, accepted(height))
	}
	if grown := held() - before; grown > validity*each*bytes {
		t.Errorf("%d bytes for each id, want at most %d", grown/validity/each, bytes)
	}
	for _, height := range []int64{heights - validity, heights - validity + 1, heights} {
		if a := accepted(height)[each-1]; w.has(a) != (a.ValidUntil > heights) {
			t.Errorf("id valid until %d known at %d: %v", a.ValidUntil, heights, w.has(a))
		}
	}
	w.settle(heights+validity, nil)
	if grown := held() - before; grown > validity*each {
		t.Errorf("%d bytes held when all have expired", grown)
	}
	runtime.KeepAlive(w)
}
