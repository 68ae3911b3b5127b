// Package metrics serves a node's metrics to Prometheus. Packages effects, gateway and order report
// events to it. It reads current values from them when Prometheus asks. It decides nothing, and no
// other package depends on it.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/effects"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

const namespace = "chainify"

// latencies are the buckets of what a client waits for, in seconds; durations those of what may
// take minutes.
var (
	latencies = prometheus.ExponentialBuckets(0.001, 2, 15) // to 16 s
	durations = prometheus.ExponentialBuckets(0.001, 4, 12) // to 70 min
	counts    = prometheus.ExponentialBuckets(1, 2, 14)     // to 8192
	sizes     = prometheus.ExponentialBuckets(256, 4, 8)    // to 4 MiB
)

// Metrics implements the watches of effects and gateway. Safe for concurrent use.
type Metrics struct {
	registry  *prometheus.Registry
	agreement *agreement
	archive   archive
	now       func() time.Time

	ordered, answered               prometheus.Histogram
	bundleTransactions, bundleBytes prometheus.Histogram
	outcomes                        *prometheus.CounterVec
	operations                      *prometheus.HistogramVec
	failures                        *prometheus.CounterVec
	incidents                       *prometheus.CounterVec
	rowsRepaired                    prometheus.Counter
	recovery                        prometheus.Histogram
	blockTransactions, consent      prometheus.Histogram
	votes                           *prometheus.CounterVec
	lastAgreed                      *prometheus.GaugeVec
	lies                            *prometheus.CounterVec
}

var (
	_ effects.Watch = (*Metrics)(nil)
	_ gateway.Watch = (*Metrics)(nil)
)

// New makes the metrics of a node of a chain with these organisations. Standing tells the rest,
// whenever Prometheus asks.
func New(organisations []string, standing Standing) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), agreement: newAgreement(), now: time.Now}
	m.ordered = histogram("order_seconds", "From accepting a client's transaction to the block that orders it.", latencies)
	m.answered = histogram("answer_seconds", "From accepting a client's transaction to its outcome.", latencies)
	m.bundleTransactions = histogram("bundle_transactions", "Transactions in each bundle made here.", counts)
	m.bundleBytes = histogram("bundle_bytes", "Bytes of each bundle made here.", sizes)
	m.outcomes = counter("transactions_total", "Outcomes of this node's clients' transactions: committed, failed or refused.", "outcome")
	m.operations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "operation_seconds", Help: "Operations on the organisation's database and the node's store.", Buckets: durations,
	}, []string{"operation"})
	m.failures = counter("operation_failures_total", "Operations that did not end well, by how they ended.", "operation", "failure")
	m.incidents = counter("incidents_total", "What the node logs of its effect consensus, by its message.", "incident")
	m.rowsRepaired = prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "rows_repaired_total", Help: "Rows that recovery put right."})
	m.recovery = histogram("recovery_seconds", "From a deviation's detection to its cure.", durations)
	m.blockTransactions = histogram("ledger_block_transactions", "Transactions in each ledger block, of all organisations.", counts)
	m.consent = histogram("consent_seconds", "From ordering a ledger block to its effect certificate on the chain.", latencies)
	m.votes = counter("votes_total", "Effect votes on certified executions: agrees, differs, or stuck.", "organisation", "verdict")
	m.lies = counter("false_told_total", "How often an organisation told, for recovery, rows or blocks that are false.", "organisation")
	m.lastAgreed = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "last_agreed_block", Help: "The newest certified ledger block that the organisation voted for.",
	}, []string{"organisation"})
	m.archive = newArchive(m.registry)
	m.registry.MustRegister(
		m.ordered, m.answered, m.bundleTransactions, m.bundleBytes, m.outcomes, m.operations, m.failures, m.incidents, m.rowsRepaired,
		m.recovery, m.blockTransactions, m.consent, m.votes, m.lastAgreed, m.lies, &collector{standing},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.nameAll(organisations)
	return m
}

// nameAll makes the series whose first step is an alarm: one that appears with its first value
// shows no increase.
func (m *Metrics) nameAll(organisations []string) {
	for _, o := range organisations {
		for _, v := range []verdict{agrees, differs, stuck} {
			m.votes.WithLabelValues(o, string(v))
		}
		m.lies.WithLabelValues(o)
	}
	for _, i := range []effects.Incident{effects.Deviation, effects.Recovered, effects.NodeExcluded, effects.BlockAdopted, effects.AnnouncesFull, effects.FullForbidden, effects.DatabaseLost, effects.TransactionStuck, effects.ConflictingVotes} {
		m.incidents.WithLabelValues(string(i))
	}
	for _, o := range []string{"committed", "failed", "refused"} {
		m.outcomes.WithLabelValues(o)
	}
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// Bundled implements gateway.Watch.
func (m *Metrics) Bundled(transactions, bytes int) {
	m.bundleTransactions.Observe(float64(transactions))
	m.bundleBytes.Observe(float64(bytes))
}

// Ordered implements gateway.Watch.
func (m *Metrics) Ordered(after time.Duration) { m.ordered.Observe(after.Seconds()) }

// Settled implements gateway.Watch.
func (m *Metrics) Settled(after time.Duration, r wire.TxResult) {
	m.answered.Observe(after.Seconds())
	outcome := "committed"
	switch {
	case r.Block == 0:
		outcome = "refused"
	case !r.Succeeded:
		outcome = "failed"
	}
	m.outcomes.WithLabelValues(outcome).Inc()
}

// Ended implements effects.Watch.
func (m *Metrics) Ended(operation string, took time.Duration, failure effects.Failure) {
	m.operations.WithLabelValues(operation).Observe(took.Seconds())
	if failure != effects.Fine {
		m.failures.WithLabelValues(operation, failure.String()).Inc()
	}
}

// Accused implements effects.Watch.
func (m *Metrics) Accused(a accuse.Accusation) { m.lies.WithLabelValues(a.Organisation()).Inc() }

// Happened implements effects.Watch.
func (m *Metrics) Happened(r effects.Report) {
	m.incidents.WithLabelValues(string(r.What)).Inc()
	switch r.What {
	case effects.RowsRepaired:
		m.rowsRepaired.Add(float64(r.Rows))
	case effects.Recovered:
		m.recovery.Observe(float64(r.TookMS) / 1000)
	}
}

// Decided is told of every decided block, before effects acts on it.
func (m *Metrics) Decided(d wire.Decision) {
	if c := d.Certificate; c != nil {
		took, judged := m.agreement.certified(c, m.now())
		if took > 0 {
			m.consent.Observe(took.Seconds())
		}
		m.judge(judged)
	}
	if b := d.Ordered; b != nil {
		if m.agreement.ordered(b, m.now()) {
			m.blockTransactions.Observe(float64(len(b.IDs)))
		}
	}
}

// Voted is told of every organisation's effect vote, this one's included.
func (m *Metrics) Voted(organisation string, vote wire.EffectVote) {
	m.judge(m.agreement.voted(organisation, vote))
}

func (m *Metrics) judge(list []judgement) {
	for _, j := range list {
		m.votes.WithLabelValues(j.organisation, string(j.verdict)).Inc()
	}
	for organisation, block := range m.agreement.lastAgreed(list) {
		m.lastAgreed.WithLabelValues(organisation).Set(float64(block))
	}
}
