package settings

import (
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// CometBFT gets these settings in every mode.
func TestCometConfiguration(t *testing.T) {
	c := config.Default("acme")
	out, err := Inside(c, "/home/x")
	must.Do(t, err)
	for name, right := range map[string]bool{
		"no empty blocks": !out.Consensus.CreateEmptyBlocks, "a commit is not waited for": out.Consensus.SkipTimeoutCommit,
		"restarts in a quiet network": out.Consensus.DoubleSignCheckHeight == 0,
		"bundles are not gossiped":    !out.Mempool.Broadcast, "replaced keys are looked for": out.Mempool.Recheck,
		"bundles fit": out.Mempool.MaxTxBytes == wire.BundleBytesMax+4096, "waiting bundles": out.Mempool.MaxTxsBytes == 256<<20 && out.Mempool.Size == 10_000,
		"no others": !out.P2P.PexReactor, "packets": out.P2P.MaxPacketMsgPayloadSize == 16384,
		"no index": out.TxIndex.Indexer == "null", "no RPC": out.RPC.ListenAddress == "", "no adaptive sync": !out.BlockSync.AdaptiveSync,
		"responses are dropped": out.Storage.DiscardABCIResponses, "metrics are told by ours": out.Instrumentation.Prometheus && out.Instrumentation.PrometheusListenAddr == "",
	} {
		if !right {
			t.Errorf("%s: not so", name)
		}
	}
}

// timing is all that decides how soon things happen, milliseconds and bytes a second, as a node is
// given it.
type timing struct {
	gossipSleep, flushThrottle, bundleDelay, gather                float64
	propose, prevote, precommit, commit                            float64
	proposeDelta, prevoteDelta, precommitDelta, sendRate, recvRate float64
}

// The figures of each mode, as numbers: a setting that does not arrive, or at another's place,
// shows.
func TestTimingOfEachMode(t *testing.T) {
	common := timing{
		propose: 300, prevote: 100, precommit: 100, commit: 0, proposeDelta: 100, prevoteDelta: 100, precommitDelta: 100,
		sendRate: 67_108_864, recvRate: 67_108_864,
	}
	for mode, change := range map[config.Mode]func(*timing){
		config.Latency:    func(w *timing) { w.gossipSleep, w.flushThrottle, w.bundleDelay, w.gather = 1, 0.001, 2, 40 },
		config.Balanced:   func(w *timing) { w.gossipSleep, w.flushThrottle, w.bundleDelay, w.gather = 2, 1, 5, 80 },
		config.Throughput: func(w *timing) { w.gossipSleep, w.flushThrottle, w.bundleDelay, w.gather = 10, 5, 20, 100 },
	} {
		want := common
		change(&want)
		c := config.Default("acme")
		must.Do(t, c.Tune(mode))
		if got := timingOf(t, c); got != want {
			t.Errorf("%s: %+v\nwant %+v", mode, got, want)
		}
	}
}

// Settings that have one value by default have each their own place.
func TestTimeoutsAndRatesArriveEachInItsPlace(t *testing.T) {
	c, err := config.Parse([]byte(`organisation = "acme"
[network]
send_rate = 1000
recv_rate = 2000
[consensus]
timeout_propose = "11ms"
timeout_prevote = "12ms"
timeout_precommit = "13ms"
timeout_commit = "14ms"
timeout_delta = "15ms"
gather = "1ms"`))
	if err != nil {
		t.Fatal(err)
	}
	want := timing{
		gossipSleep: 2, flushThrottle: 1, bundleDelay: 5, gather: 1, propose: 11, prevote: 12, precommit: 13, commit: 14,
		proposeDelta: 15, prevoteDelta: 15, precommitDelta: 15, sendRate: 1000, recvRate: 2000,
	}
	if got := timingOf(t, c); got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func timingOf(t *testing.T, c config.Config) timing {
	t.Helper()
	out, err := Inside(c, "/home/x")
	must.Do(t, err)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	n := out.Consensus
	return timing{
		gossipSleep: ms(n.PeerGossipSleepDuration), flushThrottle: ms(out.P2P.FlushThrottleTimeout),
		bundleDelay: ms(time.Duration(c.Gateway.BundleDelay)), gather: ms(time.Duration(c.Consensus.Gather)),
		propose: ms(n.TimeoutPropose), prevote: ms(n.TimeoutPrevote), precommit: ms(n.TimeoutPrecommit), commit: ms(n.TimeoutCommit),
		proposeDelta: ms(n.TimeoutProposeDelta), prevoteDelta: ms(n.TimeoutPrevoteDelta), precommitDelta: ms(n.TimeoutPrecommitDelta),
		sendRate: float64(out.P2P.SendRate), recvRate: float64(out.P2P.RecvRate),
	}
}
