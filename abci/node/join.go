package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/light"
	cometnode "github.com/cometbft/cometbft/node"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/state"
	cometstore "github.com/cometbft/cometbft/store"

	"github.com/chainify-db/chainify/abci/app"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	// discovery is how long a node that joins waits for others to tell their snapshots. CometBFT
	// takes no less.
	discovery = 5 * time.Second
	// chunkLimit is how long a node has to send a chunk, until another one is asked.
	chunkLimit = 10 * time.Second
	// chunkFetchers is how many chunks are asked for at once.
	chunkFetchers = 4
)

// errEnds says that the node stops before it has joined.
var errEnds = errors.New("the node stops")

// prepareJoin decides whether the node joins by a snapshot, and clears the home's state of the
// order when it does. A home with order blocks goes on with these.
func (n *node) prepareJoin() error {
	join, err := n.opt.Home.Joining()
	if join == nil || err != nil {
		return err
	}
	if n.opt.Beside {
		return errors.New("a node joins with CometBFT in its process: run \"chainify start\" until it has joined, then \"chainify app\"")
	}
	blocks, heights, err := orderOf(n.opt.Home)
	switch {
	case err != nil:
		return err
	case blocks > 0:
		n.log.Info("the node has joined the order already", "height", heights)
		return n.opt.Home.Joined()
	case heights > 0: // it stopped between the snapshot and the first block
		if err := n.opt.Home.DropOrder(); err != nil {
			return fmt.Errorf("join: %w", err)
		}
	}
	if err := app.NewStore(n.store).Forget(); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	if err := n.silence.joins(); err != nil {
		return err
	}
	n.join = join
	if n.doc.state.Parameters.SnapshotEvery == 0 {
		n.log.Warn("the genesis does not set snapshot_every: there is a snapshot to join by only if governance has set it since")
	}
	n.log.Info("joining the order by a snapshot", "trust_height", join.Height, "trust_hash", join.Hash)
	return nil
}

// orderOf reads the newest order block of a home, and the height of its state; zeros: none.
func orderOf(home config.Home) (block, height int64, err error) {
	if has, err := home.HasOrder(); !has || err != nil {
		return 0, 0, err
	}
	settings := comet.DefaultConfig().SetRoot(string(home))
	blocks, err := openStore(&comet.DBContext{ID: "blockstore", Config: settings})
	if err != nil {
		return 0, 0, fmt.Errorf("read order blocks: %w", err)
	}
	defer blocks.Close()
	states, err := openStore(&comet.DBContext{ID: "state", Config: settings})
	if err != nil {
		return 0, 0, fmt.Errorf("read the order's state: %w", err)
	}
	defer states.Close()
	last, err := state.NewStore(states, state.StoreOptions{}).Load()
	if err != nil {
		return 0, 0, fmt.Errorf("read the order's state: %w", err)
	}
	return cometstore.NewBlockStore(blocks).Height(), last.LastBlockHeight, nil
}

// joining returns the application's settings for joining by a snapshot; nil: it does not join.
func (n *node) joining() *app.Joining {
	if n.join == nil {
		return nil
	}
	j := &app.Joining{ChainID: n.doc.doc.ChainID}
	if n.backend != nil {
		j.Certified = n.databaseAhead
	}
	return j
}

// registryHistory returns the registries of all blocks so far. nil: the node is joining and does
// not know them yet; the database then goes on with those that it has stored.
func (n *node) registryHistory() (*wire.RegistryHistory, error) {
	if n.join != nil && n.app.Registry() == nil {
		return nil, nil
	}
	return n.app.RegistryHistory()
}

// databaseAhead returns the last block for which the database has a certificate, and at most the
// one before its last block. For an empty database that takes the ledger over, it returns the
// largest number. It waits until the database answers.
func (n *node) databaseAhead(ctx context.Context) (uint64, error) {
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for {
		if s := n.effects.Status(); s.Known {
			if _, joins := n.backend.(backend.Joiner); joins && s.LastCommitted == 0 {
				return math.MaxUint64, nil // it is empty, and takes the ledger over from another organisation
			}
			return min(s.Stored, max(s.LastCommitted, 1)-1), nil
		}
		if n.order.stops() {
			return 0, errEnds
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-tick.C:
		}
	}
}

// joinBy has CometBFT begin with a snapshot.
func (o *ordering) joinBy(n *node, settings *comet.Config) cometnode.Option {
	if n.join == nil {
		return func(*cometnode.Node) {}
	}
	s := settings.StateSync
	s.Enable, s.DiscoveryTime, s.ChunkRequestTimeout, s.ChunkFetchers, s.TempDir = true, discovery, chunkLimit, chunkFetchers, n.opt.Home.Data()
	return func(comet *cometnode.Node) {
		inner, _ := comet.Switch().Reactor(peers.SnapshotsName) // it is always there
		door := peers.NewSnapshotDoor(inner, peers.SnapshotsOptions{
			Voice: o.admits.voiceOf, Peers: func() []p2p.Peer { return comet.Switch().Peers().Copy() }, Log: n.log.With("part", "join"),
		})
		cometnode.CustomReactors(map[string]p2p.Reactor{peers.SnapshotsName: door})(comet)
		cometnode.StateProvider(&trusted{
			chainID: n.doc.doc.ChainID, params: n.doc.doc.ConsensusParams, headers: o.headers, voice: o.voice, tried: door.Tried,
			ends: o.stopping.Load, log: n.log.With("part", "join"),
			trust: light.TrustOptions{Period: time.Duration(n.join.Period), Height: n.join.Height, Hash: n.join.HashBytes()},
		})(comet)
	}
}

// voice returns the organisation for which a connected node speaks.
func (o *ordering) voice(id p2p.ID) string {
	if peer := o.comet.Switch().Peers().Get(id); peer != nil {
		return o.admits.voiceOf(peer)
	}
	return string(id)
}

// tellTrust writes height and hash of a snapshot's order block to data/trust, for the operator.
func (n *node) tellTrust(height int64, block wire.Hash) {
	path := n.opt.Home.Trust()
	err := os.WriteFile(path+".new", fmt.Appendf(nil, "%d:%X\n", height, block), 0o644)
	if err = errors.Join(err, os.Rename(path+".new", path)); err != nil {
		n.log.Warn("the order block of the newest snapshot is not written", "file", path, "error", err)
	}
}
