package node

import (
	"log/slog"

	"github.com/chainify-db/chainify/abci/app"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet/lane"
	"github.com/chainify-db/chainify/abci/gateway"
)

// orderer is CometBFT as the other parts of a node see it: in this process (ordering), or in one
// of its own (beside).
type orderer interface {
	gateway.Broadcaster
	app.Blocks
	app.Mempool
	// open makes what is needed for CometBFT's handshake with the application. In this process
	// CometBFT shakes hands here, and replays what the application misses.
	open(n *node) error
	// voted returns this node's votes on effects from before the start (E5).
	voted(n *node) (ownVoted, error)
	// start starts CometBFT, or begins to answer it. Parts of r keep it connected.
	start(n *node, r *running) error
	// stop ends what start began, bounded; close releases the rest.
	stop(log *slog.Logger) error
	close()
	// height is that of the newest order block, oldest that of the oldest one that CometBFT keeps.
	height() int64
	oldest() int64
	// aged tells that an order block is too old for evidence against a validator.
	aged(height, last int64) bool
	// hold keeps CometBFT from a block that this program cannot judge, until the node stops.
	hold()
	// catchingUp tells that the node takes no part in consensus yet, stops that it never will.
	catchingUp() bool
	stops() bool
	// peers is how many nodes are connected. programs are the oldest versions of the protocol that
	// their programs know, by organisation; one that is missing told none.
	peers() uint32
	programs() map[string]uint32
	// environments are what databases of other organisations, whose nodes are connected, lean on
	// otherwise than this one's, by organisation.
	environments(n *node) map[string][]backend.EnvironmentDifference
	// reported are the heights that the nodes of each organisation work on, the greatest of those
	// that are connected. Each told its own on a connection made after this process began.
	reported() map[string]int64
	// counted tells that a key was a validator's at a height, or that this is not known; false at
	// height 0.
	counted(height int64, address []byte) bool
	// laneCounts are those of the express lane; false: it is off.
	laneCounts() (lane.Counts, bool)
}

var _ orderer = (*ordering)(nil)
