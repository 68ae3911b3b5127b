package comet

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/light"
	cometnode "github.com/cometbft/cometbft/node"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/state"
	cometstore "github.com/cometbft/cometbft/store"

	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/comet/trust"
	"github.com/chainify-db/chainify/abci/config"
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

// errJoinsInside is why a home that joins cannot have its CometBFT in another process.
var errJoinsInside = errors.New("a node joins with CometBFT in its process: run \"chainify start\" until it has joined, then \"chainify app\"")

// Joining finds out whether a home's node joins by a snapshot, and clears CometBFT's part of the
// order when it does. One that has order blocks of its own goes on with them. nil: it does not
// join.
func Joining(home config.Home, beside bool, log *slog.Logger) (*config.Join, error) {
	join, err := home.Joining()
	if join == nil || err != nil {
		return nil, err
	}
	if beside {
		return nil, errJoinsInside
	}
	blocks, heights, err := orderOf(home)
	switch {
	case err != nil:
		return nil, err
	case blocks > 0:
		log.Info("the node has joined the order already", "height", heights)
		return nil, home.Joined()
	case heights > 0: // it stopped between the snapshot and the first block
		if err := home.DropOrder(); err != nil {
			return nil, fmt.Errorf("join: %w", err)
		}
	}
	return join, nil
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

// joinBy has CometBFT begin with a snapshot.
func (o *Inside) joinBy(settings *comet.Config) cometnode.Option {
	join := o.opt.Join
	if join == nil {
		return func(*cometnode.Node) {}
	}
	s := settings.StateSync
	s.Enable, s.DiscoveryTime, s.ChunkRequestTimeout, s.ChunkFetchers, s.TempDir = true, discovery, chunkLimit, chunkFetchers, o.opt.Home.Data()
	return func(comet *cometnode.Node) {
		log := o.opt.Log.With("part", "join")
		inner, _ := comet.Switch().Reactor(peers.SnapshotsName) // it is always there
		door := peers.NewSnapshotDoor(inner, peers.SnapshotsOptions{
			Voice: o.admits.VoiceOf, Peers: func() []p2p.Peer { return comet.Switch().Peers().Copy() }, Log: log,
		})
		cometnode.CustomReactors(map[string]p2p.Reactor{peers.SnapshotsName: door})(comet)
		cometnode.StateProvider(trust.New(trust.Options{
			ChainID: o.opt.Genesis.ChainID, Params: o.opt.Genesis.ConsensusParams, Headers: o.headers, Voice: o.voice, Tried: door.Tried,
			Ends: o.stopping.Load, Log: log,
			Trust: light.TrustOptions{Period: time.Duration(join.Period), Height: join.Height, Hash: join.HashBytes()},
		}))(comet)
	}
}

// voice is whose word that of a connected node is.
func (o *Inside) voice(id p2p.ID) string {
	if peer := o.comet.Switch().Peers().Get(id); peer != nil {
		return o.admits.VoiceOf(peer)
	}
	return string(id)
}
