package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet/lane"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

// Standing holds values that a node can report at any time.
type Standing struct {
	Status   func(context.Context) *wire.StatusResponse
	Queue    func() gateway.Stats
	Evidence func() uint64 // conflicting votes on record, on effects and on the order
	Offences func() uint64 // peers that sent what could never be right; nil: not told
	// Suspended counts the clients and organisations of which nothing is ordered, since their
	// transactions did not end.
	Suspended func() int
	// Oldest is the oldest order block that the node has.
	Oldest   func() int64
	Keep     int64             // how many of the newest order blocks the node keeps; 0: all
	Database backend.Inspector // nil: there is none, or it does not tell
	// Lane tells what the express lane has done, and false when it is off; nil: it is off.
	Lane func() (lane.Counts, bool)
}

// States are all that a node can be in (spec/proto/node.proto).
var States = []string{"serving", "executing", "recovering", "failing", "catching_up", "database_down", "excluded", "ordering_only", "standby", "signed_elsewhere"}

// inspectLimit bounds what a database that hangs adds to Prometheus' question.
const inspectLimit = 2 * time.Second

var (
	state         = describe("state", "1 for the state the node is in, 0 for the others.", "state")
	build         = describe("build_info", "1, with the node's version.", "version", "organisation", "chain")
	height        = describe("height", "The last block of the order.")
	oldest        = describe("oldest_order_block", "The oldest block of the order that this node still has.")
	kept          = describe("order_blocks_kept", "How many of the newest order blocks this node keeps ([retention] order_blocks); 0: all.")
	blocks        = describe("ledger_blocks", "The last ledger block ordered, certified, and committed in the organisation's database.", "stage")
	peersUp       = describe("peers", "Other nodes that are connected.")
	organisations = describe("organisations", "Organisations with a database.")
	consentOf     = describe("consent", "How many organisations must report the same effects.")
	protocol      = describe("protocol_version", "Version of the protocol: in force, the newest that this node's program knows, and the one that comes (next, 0: none).", "standing")
	protocolNext  = describe("protocol_next_height", "The order height before which the next version of the protocol is not in force; 0: none comes.")
	protocolKnown = describe("protocol_known", "The oldest version of the protocol that the programs of an organisation's connected nodes know at most.", "organisation")
	pending       = describe("queue_transactions", "Transactions accepted here: without an outcome yet (pending), and not in a block yet (unordered).", "stage")
	earlyAborts   = describe("early_aborts_total", "EFFECTS transactions refused and not ordered, since a row that they saw had changed.")
	stalled       = describe("stalled", "1 while transactions wait and no block is made: the order has no quorum.")
	evidence      = describe("evidence", "Conflicting votes on record: on effects, and on the order in CometBFT's evidence.")
	suspended     = describe("suspended_clients", "Clients and organisations of which nothing is ordered, since their transactions did not end in the time of a block.")
	offences      = describe("peer_offences", "How often another node sent what could never be right, since the start, and was disconnected for it.")
	laneSent      = describe("lane_messages_total", "Messages of consensus that the express lane sent, to each peer: votes, proposals, parts of blocks.", "kind")
	laneHelped    = describe("lane_helped_total", "Those of the express lane's messages that went to a peer which said where it stands, and lacked them.")
	laneDropped   = describe("lane_dropped_total", "Messages that the express lane left to gossip, since the peer's queue was full.")
	laneUntold    = describe("lane_untold_total", "Notes on received votes that were never sent, since their height was over before.")
	laneTurns     = describe("lane_turns_total", "Turns to propose that passed without a word of the proposer's node (missed), and those of such a node that were not waited for until it was heard again (skipped).", "kind")
	deviations    = describe("deviations_open", "Deviations found in the database and not put right.")
	scrubAge      = describe("scrub_age_seconds", "Since the ledger table that waits longest was last found well by the scrubber.")
	scrubEvery    = describe("scrub_interval_seconds", "In which time every ledger table should be read (chainify.scrub_interval); 0 when the scrubber is off.")
	mirrors       = describe("mirrors", "Tables that the analytics worker mirrors: those that it should (wanted), and those that queries get answers from (serving).", "stage")
	mirrorLag     = describe("mirror_lag_blocks", "How many blocks the slowest serving mirror is behind the database.")
	mirrorBytes   = describe("mirror_bytes", "Memory of all mirrors of the analytics worker.")
	snapshots     = describe("snapshots", "Snapshots that the analytics worker keeps: those with a name (pinned), and those of the newest blocks (recent).", "kind")
	readers       = describe("snapshot_readers", "Queries that read a snapshot of the analytics worker now.")
	servers       = describe("database_servers", "The organisation's database servers beside the one that the node works on: that follow it (standby), that follow another or none (left_behind), that take changes (other_primary), that do not answer (silent).", "standing")
	standbyLag    = describe("standby_lag_blocks", "How many blocks the slowest standby that follows is behind the database.")
	databaseUp    = describe("database_up", "1 when the database answered in time.")

	all = []*prometheus.Desc{
		state, build, height, oldest, kept, blocks, peersUp, organisations, consentOf, protocol, protocolNext, protocolKnown, pending, earlyAborts, stalled, evidence, suspended, offences, laneSent, laneHelped, laneDropped, laneUntold, laneTurns, deviations, scrubAge, scrubEvery, mirrors, mirrorLag, mirrorBytes, snapshots, readers, servers, standbyLag, databaseUp,
	}
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

// collector asks when it is asked.
type collector struct{ Standing }

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range all {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), inspectLimit)
	defer cancel()
	s, q := c.Status(ctx), c.Queue()
	for _, name := range States {
		gauge(state, number(s.State == name), name)
	}
	gauge(build, 1, s.Version, s.Organisation, s.ChainId)
	gauge(height, float64(s.Height))
	gauge(oldest, float64(c.Oldest()))
	gauge(kept, float64(c.Keep))
	gauge(blocks, float64(s.LastOrdered), "ordered")
	gauge(blocks, float64(s.LastCertified), "certified")
	gauge(blocks, float64(s.LastCommitted), "committed")
	gauge(peersUp, float64(s.Peers))
	gauge(organisations, float64(s.Organisations))
	gauge(consentOf, float64(s.Consent))
	if p := s.Protocol; p != nil {
		gauge(protocol, float64(p.InForce), "in_force")
		gauge(protocol, float64(p.Known), "known")
		gauge(protocol, float64(p.Next), "next")
		gauge(protocolNext, float64(p.NextHeight))
		for _, o := range p.Organisations {
			if o.Version != 0 {
				gauge(protocolKnown, float64(o.Version), o.Organisation)
			}
		}
	}
	gauge(pending, float64(q.Pending), "pending")
	gauge(pending, float64(q.Unordered), "unordered")
	out <- prometheus.MustNewConstMetric(earlyAborts, prometheus.CounterValue, float64(q.EarlyAborts))
	gauge(stalled, number(q.Stalled))
	gauge(evidence, float64(c.Evidence()))
	gauge(suspended, float64(c.Suspended()))
	if c.Offences != nil {
		gauge(offences, float64(c.Offences()))
	}
	c.lane(out)
	if c.Database == nil {
		return
	}
	beside := c.Database.Servers()
	gauge(servers, float64(beside.Standbys), "standby")
	gauge(servers, float64(beside.LeftBehind), "left_behind")
	gauge(servers, float64(beside.OtherPrimaries), "other_primary")
	gauge(servers, float64(beside.Silent), "silent")
	gauge(standbyLag, float64(beside.Lag()))
	health, err := c.Database.Inspect(ctx)
	gauge(databaseUp, number(err == nil))
	if err == nil {
		gauge(deviations, float64(health.Deviations))
		gauge(scrubAge, health.ScrubAge.Seconds())
		gauge(scrubEvery, health.ScrubInterval.Seconds())
	}
	// A worker that does not answer says nothing of the database.
	if analytics, err := c.Database.Mirrors(ctx); err == nil {
		gauge(mirrors, float64(analytics.Wanted), "wanted")
		gauge(mirrors, float64(analytics.Serving), "serving")
		gauge(mirrorLag, float64(analytics.Lag))
		gauge(mirrorBytes, float64(analytics.Bytes))
		gauge(snapshots, float64(analytics.Pinned), "pinned")
		gauge(snapshots, float64(analytics.Recent), "recent")
		gauge(readers, float64(analytics.Readers))
	}
}

func (c *collector) lane(out chan<- prometheus.Metric) {
	if c.Lane == nil {
		return
	}
	did, on := c.Lane()
	if !on {
		return
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	count(laneSent, did.Votes, "vote")
	count(laneSent, did.Proposals, "proposal")
	count(laneSent, did.Parts, "part")
	count(laneHelped, did.Helped)
	count(laneDropped, did.Dropped)
	count(laneUntold, did.Untold)
	count(laneTurns, did.Missed, "missed")
	count(laneTurns, did.Skipped, "skipped")
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
