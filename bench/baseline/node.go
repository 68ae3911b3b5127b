package baseline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/libs/log"
	cometnode "github.com/cometbft/cometbft/node"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/privval"
	"github.com/cometbft/cometbft/proxy"
	"github.com/cometbft/cometbft/types"

	cometsettings "github.com/chainify-db/chainify/abci/comet/settings"
	"github.com/chainify-db/chainify/abci/config"
)

// Homes makes homes of n validators under dir, with one genesis, and returns their directories.
func Homes(dir string, n int, now time.Time) ([]string, error) {
	homes := make([]string, n)
	doc := &types.GenesisDoc{ChainID: "baseline", GenesisTime: now, ConsensusParams: types.DefaultConsensusParams(), InitialHeight: 1}
	for i := range homes {
		homes[i] = filepath.Join(dir, fmt.Sprint(i))
		for _, sub := range []string{"config", "data"} {
			if err := os.MkdirAll(filepath.Join(homes[i], sub), 0o755); err != nil {
				return nil, err
			}
		}
		c := settings(homes[i])
		if _, err := p2p.LoadOrGenNodeKey(c.NodeKeyFile()); err != nil {
			return nil, err
		}
		key, err := privval.LoadOrGenFilePV(c.PrivValidatorKeyFile(), c.PrivValidatorStateFile()).GetPubKey()
		if err != nil {
			return nil, err
		}
		doc.Validators = append(doc.Validators, types.GenesisValidator{Address: key.Address(), PubKey: key, Power: 1})
	}
	if err := doc.ValidateAndComplete(); err != nil {
		return nil, err
	}
	for _, home := range homes {
		if err := doc.SaveAs(settings(home).GenesisFile()); err != nil {
			return nil, err
		}
	}
	return homes, nil
}

// NodeID is how others name the node of a home.
func NodeID(home string) (string, error) {
	key, err := p2p.LoadNodeKey(settings(home).NodeKeyFile())
	if err != nil {
		return "", err
	}
	return string(key.ID()), nil
}

// Options of a node. Addresses are host:port, peers id@host:port.
type Options struct {
	Home, DSN, P2P, RPC, Peers string
	// Tuned: CometBFT is set as Chainify's nodes set it, for the floor under them; otherwise as
	// settings does.
	Tuned bool
}

// pace of gossip: the best that was found for such a design on loopback; CometBFT's default of
// 100 ms takes it fourteen times as long.
const pace = 5 * time.Millisecond

// settings of CometBFT where they are not its default.
func settings(home string) *comet.Config {
	c := comet.DefaultConfig()
	c.SetRoot(home)
	c.P2P.FlushThrottleTimeout, c.Consensus.PeerGossipSleepDuration = pace, pace
	c.Consensus.TimeoutCommit, c.Consensus.SkipTimeoutCommit = 0, true
	c.Consensus.CreateEmptyBlocks = false
	c.Mempool.Size, c.Mempool.CacheSize = 100_000, 200_000
	return c
}

// Comet is how CometBFT is set.
func (o Options) Comet() (*comet.Config, error) {
	c := settings(o.Home)
	if o.Tuned {
		own := config.Default("baseline")
		tuned, err := cometsettings.Inside(own, config.Home(o.Home))
		if err != nil {
			return nil, err
		}
		tuned.Mempool.Broadcast = true // Chainify's nodes send bundles themselves; the floor has nobody who does
		c = tuned
	}
	c.P2P.ListenAddress, c.RPC.ListenAddress = "tcp://"+o.P2P, "tcp://"+o.RPC
	c.P2P.PersistentPeers, c.P2P.PexReactor = o.Peers, false
	c.P2P.AddrBookStrict, c.P2P.AllowDuplicateIP = false, true
	c.TxIndex.Indexer = "null"
	return c, nil
}

// Run runs a node until ctx ends.
func Run(ctx context.Context, o Options, w io.Writer) (err error) {
	app, err := newApplication(ctx, o.DSN)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, app.close(context.WithoutCancel(ctx))) }()
	c, err := o.Comet()
	if err != nil {
		return err
	}
	key, err := p2p.LoadNodeKey(c.NodeKeyFile())
	if err != nil {
		return err
	}
	node, err := cometnode.NewNode(c, privval.LoadFilePV(c.PrivValidatorKeyFile(), c.PrivValidatorStateFile()), key,
		proxy.NewLocalClientCreator(app), cometnode.DefaultGenesisDocProviderFunc(c), comet.DefaultDBProvider,
		cometnode.DefaultMetricsProvider(c.Instrumentation), log.NewFilter(log.NewTMLogger(w), log.AllowError()))
	if err != nil {
		return err
	}
	if err := node.Start(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-node.Quit():
		return errors.New("CometBFT ended by itself")
	}
	err = node.Stop()
	node.Wait()
	return err
}
