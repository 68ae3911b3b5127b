package workload

import (
	"math"
	"math/rand/v2"
	"sort"
)

// Zipf draws numbers from 1 to n, of which k has a chance in proportion to k to the power of -s.
// Unlike math/rand's it takes any s from 0 on: 0 draws all alike.
type Zipf struct{ upTo []float64 } // the chance of a number of at most i + 1

// NewZipf prepares for n numbers, at least 1. Cost: 8 bytes a number.
func NewZipf(n int, s float64) *Zipf {
	z := &Zipf{make([]float64, n)}
	sum := 0.0
	for i := range z.upTo {
		sum += math.Pow(float64(i+1), -s)
		z.upTo[i] = sum
	}
	for i := range z.upTo {
		z.upTo[i] /= sum
	}
	return z
}

// Draw draws a number. Cost: O(log n).
func (z *Zipf) Draw(random *rand.Rand) int64 {
	return int64(1 + sort.SearchFloat64s(z.upTo[:len(z.upTo)-1], random.Float64()))
}
