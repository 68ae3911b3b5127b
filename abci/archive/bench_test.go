package archive

import (
	"testing"
)

// Verification of an archive with three votes a block, on one core.
func BenchmarkVerify(b *testing.B) {
	d := newDatabase(b, 2000)
	o := options(b, d, memory{})
	o.RangeBlocks = 2000
	archiveAll(b, New(o))
	changes := 0
	for b.Loop() {
		changes += int(verified(b, o.Store).Changes)
	}
	b.ReportMetric(float64(changes)/b.Elapsed().Seconds(), "changes/s")
}
