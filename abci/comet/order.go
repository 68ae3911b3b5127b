// Package comet is CometBFT as a node sees it. It and the packages below it are the only ones that
// know CometBFT; package app knows the messages of ABCI.
package comet

import (
	"context"
	"log/slog"
	"time"

	dbm "github.com/cometbft/cometbft-db"
	abci "github.com/cometbft/cometbft/abci/types"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app"
	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet/admission"
	"github.com/chainify-db/chainify/abci/comet/files"
	"github.com/chainify-db/chainify/abci/comet/keyring"
	"github.com/chainify-db/chainify/abci/comet/lane"
	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/comet/votelog"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

// Order is CometBFT as the other parts of a node see it: in this process (Inside), or in one of its
// own (Beside).
type Order interface {
	gateway.Broadcaster
	app.Blocks
	app.Mempool
	keyring.Order
	// Open makes what is needed for CometBFT's handshake with the application. In this process
	// CometBFT shakes hands here, and replays what the application misses.
	Open(Options) error
	// Voted returns this node's votes on effects from before the start (E5).
	Voted() (votelog.Own, error)
	// Start starts CometBFT, or begins to answer it, and runs the parts that keep it connected.
	Start(Parts) error
	// Stop ends what Start began, bounded; Close releases the rest.
	Stop() error
	Close()
	// Height is that of the newest order block, Oldest that of the oldest one that CometBFT keeps.
	Height() int64
	Oldest() int64
	// Aged tells that an order block is too old for evidence against a validator.
	Aged(height, last int64) bool
	// Hold keeps CometBFT from a block that this program cannot judge, until the node stops.
	Hold()
	// CatchingUp tells that the node takes no part in consensus yet, Stops that it never will.
	CatchingUp() bool
	Stops() bool
	// Peers is how many nodes are connected. Programs are the oldest versions of the protocol that
	// their programs know, by organisation; one that is missing told none.
	Peers() uint32
	Programs() map[string]uint32
	// Environments are what databases of other organisations, whose nodes are connected, lean on
	// otherwise than this one's, by organisation.
	Environments() map[string][]backend.EnvironmentDifference
	// LaneCounts are those of the express lane; false: it is off.
	LaneCounts() (lane.Counts, bool)
}

var (
	_ Order = (*Inside)(nil)
	_ Order = (*Beside)(nil)
)

// Parts between CometBFT and a node, by names of this package.
type (
	Application = abci.Application
	Signer      = types.PrivValidator
	LightBlock  = types.LightBlock
)

// Parts runs the parts of an order.
type Parts struct {
	// Run runs a part, whose context ends before CometBFT stops. The part is waited for.
	Run func(part func(ctx context.Context))
	// Lasting ends after CometBFT has stopped.
	Lasting context.Context
}

// Options is what an order works with.
type Options struct {
	Home    config.Home
	Config  config.Config
	Genesis *files.Genesis
	Founded *order.Registry // at the start, or by the genesis
	Store   dbm.DB          // the node's own
	Log     *slog.Logger

	App    *app.App
	Keys   *keyring.Keyring
	Guards *keyring.Guards
	// Signer signs what CometBFT asks for: Keys, or what a test puts before them.
	Signer types.PrivValidator

	// Registry is that in force, Waiting the one that an accepted change leads to; nil: none waits.
	Registry, Waiting func() *order.Registry
	// Decided is the height of the last block decided, Next the one that is decided next, as far as
	// the application has come.
	Decided, Next func() int64

	// Reactors of nodes, beside CometBFT's. State, Agreements and Private are nil in a node
	// without a database.
	Conduct      *peers.Conduct
	Environments *peers.Environments
	State        *peers.Reactor
	Agreements   *peers.Agreements
	Private      *peers.Private
	Knows        wire.Protocol // the newest that the program knows

	// Join is how the node joins the order; nil: it has it, or fetches all of it.
	Join *config.Join
	// Failed is told why CometBFT's consensus ended by itself.
	Failed func(why string)
	// TakeMetrics tells that CometBFT's metrics may be registered: once for each process.
	TakeMetrics func() bool

	// For tests. Between puts something between CometBFT and the application, Header between this
	// node and those that ask it for headers. nil: nothing is.
	Between func(abci.Application) abci.Application
	Header  func(*types.LightBlock) *types.LightBlock
	Lane    lane.Options
}

// application is the node's, as CometBFT asks it.
func (o Options) application() abci.Application {
	application := abci.Application(o.App)
	if o.Between != nil {
		application = o.Between(application)
	}
	return showing{application, o.Guards}
}

// admission makes the door of the node's network.
func (o Options) admission(behind, stops func() bool) *admission.Door {
	return admission.New(admission.Options{
		ChainID: o.Founded.ChainID(), Peers: o.Config.Network.Peers, Registry: o.Registry, Waiting: o.Waiting, Behind: behind, Height: o.Decided,
		Named: func() (map[string]bool, error) { return o.Home.Admitted(o.Config) }, Stops: stops, Store: o.Store, Log: o.Log.With("part", "peers"),
	})
}

// precommitted passes a vote on: to the guards, and its effect vote to the application.
func (o Options) precommitted(v *types.Vote) {
	o.Guards.Heard(v)
	if signed := effectVoteOf(v); signed != nil {
		o.App.Precommitted(signed)
	}
}

// effectVoteOf is the effect vote of a precommit, as its validator signed it; nil: it has none.
func effectVoteOf(v *types.Vote) *wire.ExtendedVote {
	if v.Type != cmtproto.PrecommitType || len(v.Extension) == 0 {
		return nil
	}
	return &wire.ExtendedVote{
		ValidatorAddress: v.ValidatorAddress, Height: v.Height, Round: v.Round, Extension: v.Extension, Signature: v.ExtensionSignature,
	}
}

// stopLimit bounds the end of CometBFT.
const stopLimit = 10 * time.Second
