package network

import (
	"context"
	"errors"
	"fmt"

	comet "github.com/cometbft/cometbft/config"

	cometsettings "github.com/chainify-db/chainify/abci/comet/settings"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/baseline"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/server"
)

// describeServer records the version and the settings of an organisation's PostgreSQL.
func describeServer(ctx context.Context, r *report.Report, name string, o *harness.Organisation) (err error) {
	conn, err := o.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return server.Describe(ctx, r, name, conn)
}

// describeOrder records which CometBFT orders, and how the nodes, the baseline and CometBFT alone
// are set.
func describeOrder(r *report.Report, of *ours, theirs, floor *theirs) error {
	if err := describeNodes(r, of.cfg.Chainify, of.net, of.mode); err != nil {
		return err
	}
	for name, from := range map[string]struct {
		home  string
		tuned bool
	}{"baseline": {theirs.homes[0], false}, "CometBFT alone": {floor.homes[0], true}} {
		set, err := baseline.Options{Home: from.home, Tuned: from.tuned}.Comet()
		if err != nil {
			return err
		}
		r.Settings[name] = cometSettings(set)
	}
	return nil
}

// describeNodes records the CometBFT that a node was built with, the mode, and what else its file
// and its CometBFT say in this mode.
func describeNodes(r *report.Report, program string, net *harness.Network, mode config.Mode) error {
	var err error
	if r.Versions["cometbft"], err = machine.BuiltWith(program, "github.com/cometbft/cometbft"); err != nil {
		return err
	}
	home := net.Organisations[0].Home()
	set, err := config.Load(home)
	if err != nil {
		return err
	}
	if err := set.Tune(mode); err != nil {
		return err
	}
	order, err := cometsettings.Inside(set, config.Home(home))
	if err != nil {
		return err
	}
	nodes := cometSettings(order)
	for name, value := range map[string]any{
		"mode": mode, "bundle_delay": set.Gateway.BundleDelay, "bundle_transactions": set.Gateway.BundleTransactions, "bundle_bytes": set.Gateway.BundleBytes,
		"pending_max": set.Gateway.PendingMax, "gather": set.Consensus.Gather, "express_lane": set.Consensus.ExpressLane, "vote_timeout": set.Effects.VoteTimeout,
	} {
		nodes[name] = fmt.Sprint(value)
	}
	r.Settings["nodes"] = nodes
	return nil
}

// cometSettings are those that decide latency and throughput.
func cometSettings(c *comet.Config) map[string]any {
	out := map[string]any{}
	for name, value := range map[string]any{
		"gossip_sleep": c.Consensus.PeerGossipSleepDuration, "flush_throttle": c.P2P.FlushThrottleTimeout, "send_rate": c.P2P.SendRate, "recv_rate": c.P2P.RecvRate,
		"packet_bytes": c.P2P.MaxPacketMsgPayloadSize, "timeout_propose": c.Consensus.TimeoutPropose, "timeout_prevote": c.Consensus.TimeoutPrevote,
		"timeout_precommit": c.Consensus.TimeoutPrecommit, "timeout_commit": c.Consensus.TimeoutCommit, "skip_timeout_commit": c.Consensus.SkipTimeoutCommit,
		"create_empty_blocks": c.Consensus.CreateEmptyBlocks, "mempool_size": c.Mempool.Size, "mempool_broadcast": c.Mempool.Broadcast, "mempool_recheck": c.Mempool.Recheck,
	} {
		out[name] = fmt.Sprint(value)
	}
	return out
}
