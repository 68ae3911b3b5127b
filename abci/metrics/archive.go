package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// archive is how the archive of this node's database is.
type archive struct {
	block, dropped, at prometheus.Gauge
	failures           prometheus.Counter
}

func newArchive(registry *prometheus.Registry) archive {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
	}
	a := archive{
		block:    gauge("archived_block", "The last ledger block that is archived and verified; 0: none since the node's start."),
		dropped:  gauge("dropped_block", "The last ledger block whose rows the database dropped, since the archive has them."),
		at:       gauge("archived_at_seconds", "When archiving last went well, in seconds since the Unix epoch; 0: not since the node's start."),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "archive_failures_total", Help: "Times that archiving, or dropping what is archived, failed."}),
	}
	registry.MustRegister(a.block, a.dropped, a.at, a.failures)
	return a
}

// Archived is told the last blocks archived and dropped, after archiving went well.
func (m *Metrics) Archived(block, dropped uint64) {
	m.archive.block.Set(float64(block))
	m.archive.dropped.Set(float64(dropped))
	m.archive.at.Set(float64(m.now().Unix()))
}

// ArchiveFailed is told that it did not.
func (m *Metrics) ArchiveFailed() { m.archive.failures.Inc() }
