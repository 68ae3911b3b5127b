package metrics

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

var cometTaken atomic.Bool

// TakeCometBFT is true once in a process: CometBFT registers its metrics with the process, and a
// second time panics.
func TakeCometBFT() bool { return cometTaken.CompareAndSwap(false, true) }

// cometbft gives CometBFT's metrics without the others of the process' registry, which m's own
// registry has.
type cometbft struct{}

// Gather implements prometheus.Gatherer.
func (cometbft) Gather() ([]*dto.MetricFamily, error) {
	families, err := prometheus.DefaultGatherer.Gather()
	var out []*dto.MetricFamily
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "cometbft_") {
			out = append(out, f)
		}
	}
	return out, err
}
