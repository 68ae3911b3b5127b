// Package report holds the measurements of a benchmark and their presentation: series, figures,
// tables, files.
package report

import (
	"fmt"
	"math"
	"slices"
)

// Spread is a median with the range around it.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Count  int     `json:"count"`
}

// SpreadOf summarises values; all zero when there are none.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	return Spread{Median(values), slices.Min(values), slices.Max(values), len(values)}
}

// Median is the middle value, the mean of the two middle ones for an even count, NaN of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Quantile is the value that a share q of the values, which are ascending, does not exceed; 0 of none.
func Quantile(ascending []float64, q float64) float64 {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[min(len(ascending)-1, int(q*float64(len(ascending))))]
}

// Ratios divides a by b, repetition by repetition. What slows the machine for a while slows both sides of a
// repetition, so the median of these is steadier than the ratio of the medians.
func Ratios(a, b []float64) ([]float64, error) {
	if len(a) != len(b) {
		return nil, fmt.Errorf("ratio of %d to %d repetitions", len(a), len(b))
	}
	out := make([]float64, len(a))
	for i := range a {
		if b[i] == 0 {
			return nil, fmt.Errorf("ratio to 0 in repetition %d", i+1)
		}
		out[i] = a[i] / b[i]
	}
	return out, nil
}
