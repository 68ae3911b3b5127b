// Package node assembles one organisation's process: CometBFT, the ordered application, the effect
// consensus, the database, the gateway and its doors. It decides nothing. Its life: assemble.go
// makes the parts, run.go starts them and owns their goroutines, stop.go ends them in order;
// answers.go tells what the node knows of itself.
package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/chainify-db/chainify/abci/app"
	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet"
	"github.com/chainify-db/chainify/abci/comet/files"
	"github.com/chainify-db/chainify/abci/comet/keyring"
	"github.com/chainify-db/chainify/abci/comet/lane"
	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/effects"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/metrics"
	"github.com/chainify-db/chainify/abci/nodestore"
	"github.com/chainify-db/chainify/abci/private"
	"github.com/chainify-db/chainify/abci/wire"
)

// Options say which node to run.
type Options struct {
	Home    config.Home
	Config  config.Config
	Version string
	Log     *slog.Logger
	// Beside runs the node without CometBFT. A CometBFT in a process of its own calls this node.
	Beside bool
	// Backend replaces PostgreSQL; nil: as the configuration says.
	Backend backend.Backend
	// Ready is called once when the node takes requests.
	Ready func()
	// Application is put between CometBFT and the node's own application; nil: nothing is. For
	// tests of organisations that lie.
	Application func(comet.Application) comet.Application
	// Signer is put between CometBFT and the keys of the home; nil: nothing is. For tests of what a
	// node signs.
	Signer func(comet.Signer) comet.Signer
	// Header is put between the node and those that ask it for headers; nil: nothing is. For the
	// same tests.
	Header func(*comet.LightBlock) *comet.LightBlock
	// Lane is for tests of the express lane.
	Lane lane.Options
	// Knows is the newest version of the protocol that the node knows; 0: wire.ProtocolVersion. For
	// tests of upgrades.
	Knows wire.Protocol
}

const (
	settleLimit = 3 * time.Second // for the open block, at the end
	lookEvery   = 2 * time.Second // whether the scrubber of an idle database found something
	settlePoll  = 20 * time.Millisecond
	// agreementLimit bounds how long a client waits for other organisations' agreement, and how
	// long this one decides.
	agreementLimit = 5 * time.Second
)

// ErrConsensusFailed says that CometBFT halted this node's consensus: its state contradicts itself
// or the genesis.
var ErrConsensusFailed = errors.New("CometBFT stopped this node's consensus")

// node holds the parts between start and end.
type node struct {
	opt          Options
	log          *slog.Logger
	founded      *order.Registry // at the start, or by the genesis: chain and parameters do not change
	genesis      *files.Genesis
	genesisState *order.Genesis
	keys         *keyring.Keyring
	signer       comet.Signer // keys, as CometBFT asks them
	guards       *keyring.Guards
	backend      backend.Backend // nil: ordering only
	standby      bool            // the node keeps the order alone (Home.Standby)
	store        nodestore.DB
	gateway      *gateway.Gateway
	effects      *effects.Shell
	peers        *peers.Reactor    // nil: ordering only
	asking       *peers.Agreements // nil: ordering only, or a database that knows of no policies
	private      *private.Keeper
	carrying     *peers.Private // private values; nil: ordering only
	conduct      *peers.Conduct
	environments *peers.Environments
	app          *app.App
	order        comet.Order
	join         *config.Join // how the node joins the order; nil: it has it, or fetches all of it
	metrics      *metrics.Metrics
	// height is that of the last block decided.
	height   atomic.Int64
	archived atomic.Uint64 // the last ledger block that the archive has; 0: none is known
	failed   chan string   // CometBFT's consensus ended by itself
	newer    chan error    // a version of the protocol comes into force that the program does not know
}

// Run runs a node until ctx ends or a part fails. A nil error means that it ended because ctx did,
// with everything closed. A database that is down is no failure: the node orders and waits for it.
func Run(ctx context.Context, opt Options) (err error) {
	if err := checkDescriptors(); err != nil {
		return err
	}
	n := &node{opt: opt, log: opt.Log, conduct: peers.NewConduct(opt.Log.With("part", "peers")), environments: peers.NewEnvironments(), failed: make(chan string, 1), newer: make(chan error, 1)}
	defer func() { err = errors.Join(err, n.close()) }()
	if n.standby, err = opt.Home.Standby(); err != nil {
		return err
	}
	if n.standby {
		n.opt.Config = opt.Config.AsStandby()
	}
	if err := n.assemble(); err != nil {
		return err
	}
	doors, err := n.openDoors()
	if err != nil {
		return err
	}
	return n.run(ctx, doors)
}
