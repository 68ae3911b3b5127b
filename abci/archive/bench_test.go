package archive

import (
	"testing"
)

// Verification of an archive of blocks with three votes and some thousand changes.
func BenchmarkVerify(b *testing.B) {
	d := newDatabaseOf(b, 60, 1000)
	o := options(b, d, memory{})
	o.RangeBlocks = 60
	archiveAll(b, New(o))
	changes := 0
	for b.Loop() {
		changes += int(verified(b, o.Store).Changes)
	}
	b.ReportMetric(float64(changes)/b.Elapsed().Seconds(), "changes/s")
}
