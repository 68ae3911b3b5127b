// Package settings makes CometBFT's configuration of a node's.
package settings

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	comet "github.com/cometbft/cometbft/config"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/wire"
)

// MempoolTxsMax and MempoolBytesMax bound the bundles that wait for the order, of all
// organisations, which have fair shares of both; CometBFT's default is 1 GiB.
const (
	MempoolTxsMax   = 10_000
	MempoolBytesMax = 256 << 20
)

// Inside is the configuration of a CometBFT in the node's process. Settings that it does not
// mention have CometBFT's default.
func Inside(c config.Config, home config.Home) (*comet.Config, error) {
	out := comet.DefaultConfig()
	out.SetRoot(string(home))
	out.Moniker = c.Organisation
	out.Genesis, out.NodeKey = filepath.Join("config", "genesis.json"), filepath.Join("config", "node_key.json")
	out.PrivValidatorKey = filepath.Join("config", "priv_validator_key.json")
	out.PrivValidatorState = filepath.Join("data", "priv_validator_state.json")

	out.P2P.ListenAddress = "tcp://" + c.Network.Listen
	out.P2P.ExternalAddress = c.Network.ExternalAddress
	var ids []string
	for _, peer := range c.Network.Peers { // package dial connects with them
		id, _, _ := strings.Cut(peer, "@")
		ids = append(ids, id)
	}
	out.P2P.UnconditionalPeerIDs = strings.Join(ids, ",") // none is turned away because there are many
	out.P2P.PexReactor = false                            // organisations name each other; nobody else has a reason to connect
	out.P2P.AddrBookStrict = c.Network.StrictAddresses
	out.P2P.AllowDuplicateIP = !c.Network.StrictAddresses
	out.P2P.FlushThrottleTimeout = time.Duration(c.Network.FlushThrottle)
	out.P2P.SendRate, out.P2P.RecvRate = c.Network.SendRate, c.Network.RecvRate
	out.P2P.MaxPacketMsgPayloadSize = 16 << 10 // blocks are megabytes; 1 kB packets cost more than they smooth

	out.RPC.ListenAddress = ""
	if c.Network.RPCListen != "" {
		out.RPC.ListenAddress = "tcp://" + c.Network.RPCListen
	}

	out.Consensus.TimeoutPropose = time.Duration(c.Consensus.TimeoutPropose)
	out.Consensus.TimeoutPrevote = time.Duration(c.Consensus.TimeoutPrevote)
	out.Consensus.TimeoutPrecommit = time.Duration(c.Consensus.TimeoutPrecommit)
	out.Consensus.TimeoutProposeDelta = time.Duration(c.Consensus.TimeoutDelta)
	out.Consensus.TimeoutPrevoteDelta = time.Duration(c.Consensus.TimeoutDelta)
	out.Consensus.TimeoutPrecommitDelta = time.Duration(c.Consensus.TimeoutDelta)
	out.Consensus.TimeoutCommit = time.Duration(c.Consensus.TimeoutCommit)
	out.Consensus.SkipTimeoutCommit = true
	out.Consensus.CreateEmptyBlocks = false // a quiet network makes none; a changed AppHash calls for the certificate
	out.Consensus.PeerGossipSleepDuration = time.Duration(c.Network.GossipSleep)
	// double_sign_check_height stays 0: with it, a node that restarts finds its own signatures in
	// the newest blocks and waits for others to make new ones, which a quiet network never does.
	// The key's state file guards instead.

	out.Mempool.Broadcast = false // bundles are sent once, by their gateway (peers.Bundles), not by everybody to everybody
	out.Mempool.Recheck = true    // a bundle signed with a key that was replaced fits no block; the application looks when one was
	out.Mempool.Size, out.Mempool.MaxTxsBytes = MempoolTxsMax, MempoolBytesMax
	out.Mempool.MaxTxBytes = wire.BundleBytesMax + 4096 // with its signature and framing
	out.TxIndex.Indexer = "null"                        // outcomes are looked up in the database
	out.BlockSync.AdaptiveSync = false
	out.Storage.DiscardABCIResponses = true // only the last one is needed, for recovery
	// With no address of its own, CometBFT's metrics are told by ours.
	out.Instrumentation.Prometheus, out.Instrumentation.PrometheusListenAddr = c.Metrics.Listen != "", ""
	if err := out.ValidateBasic(); err != nil {
		return nil, fmt.Errorf("configuration of CometBFT: %w", err)
	}
	return out, nil
}
