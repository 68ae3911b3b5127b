package comet

import (
	"slices"
	"strings"
	"testing"

	comet "github.com/cometbft/cometbft/config"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chainify-db/chainify/abci/must"
)

func TestNoMessageOfTheNetworkIsCounted(t *testing.T) {
	settings := &comet.InstrumentationConfig{Prometheus: true, Namespace: "counted"} // the process has CometBFT's own names once
	_, network, _, _, _, _, _ := cometMetrics(settings)("chain")
	network.Peers.Add(3)
	network.MessageSendBytesTotal.With("message_type", "vote").Add(1)
	network.PeerReceiveBytesTotal.With("peer_id", "acme", "chID", "0x20").Add(1)
	families, err := prometheus.DefaultGatherer.Gather()
	must.Do(t, err)
	var names []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "counted_p2p_") {
			names = append(names, f.GetName())
		}
	}
	if !slices.Equal(names, []string{"counted_p2p_peers"}) {
		t.Errorf("counted: %q", names)
	}
}
