package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"
	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/evidence"
	"github.com/cometbft/cometbft/p2p"
	cometstore "github.com/cometbft/cometbft/store"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet/lane"
	"github.com/chainify-db/chainify/abci/comet/remote"
	"github.com/chainify-db/chainify/abci/comet/settings"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
)

const (
	// reapLimit bounds how long a proposer waits for the contents of CometBFT's mempool.
	reapLimit = 200 * time.Millisecond
	// besideDials is how many rounds of watch pass between two dials of a peer: CometBFT waits up
	// to 3 s before it dials.
	besideDials = 6
	// restEvery is how often CometBFT is asked while all is well; its answers are long.
	restEvery = 2 * time.Second
	// silentBlocks is the number of order blocks without a vote after which the subscription to
	// CometBFT's votes is renewed.
	silentBlocks = 16
)

// beside implements orderer by an unmodified CometBFT in a process of its own, which calls the
// application over a socket (docs/operator/server.md).
//
// CometBFT may stop and come back meanwhile. When it connects, it asks for the application's height
// and sends the missing blocks. The node itself keeps the transactions of the pending ledger block
// and its own votes, which it needs while CometBFT is away.
type beside struct {
	n        *node
	sockets  config.Sockets
	rpc      *remote.Client
	server   *remote.Server
	bodies   bodies
	votes    ownVotes
	admits   *admission
	evidence types.EvidenceParams
	ending   chan struct{} // closed when the node stops
	stopping atomic.Bool
	attached atomic.Bool        // CometBFT is connected
	end      context.CancelFunc // of the server
	ended    chan error         // holds the server's error
	gone     chan struct{}      // holds one while watch has not seen that CometBFT went away

	mu     sync.Mutex // guards all below
	status remote.Status
	known  bool // CometBFT answered when it was asked last
	// heights are the peers' heights by organisation, while the node's key waits for them (A14).
	heights map[string]int64
}

var _ orderer = (*beside)(nil)

func newBeside(n *node) *beside {
	return &beside{n: n, ending: make(chan struct{}), gone: make(chan struct{}, 1), bodies: bodies{db: n.store}, votes: ownVotes{db: n.store}}
}

// open implements orderer.
func (b *beside) open(n *node) (err error) {
	if b.sockets, err = n.opt.Config.Sockets(n.opt.Home); err != nil {
		return err
	}
	if err := configure(n); err != nil {
		return err
	}
	b.evidence, n.conduct.Behind = n.doc.doc.ConsensusParams.Evidence, b.catchingUp
	b.admits = newAdmission(n, b.catchingUp, b.stops)
	if b.rpc, err = remote.NewClient(b.sockets.RPC); err != nil {
		return err
	}
	application := abci.Application(n.app)
	if n.opt.Application != nil {
		application = n.opt.Application(application)
	}
	application = showing{application, n.silence}
	b.server = remote.NewServer(besideApp{application, b}, n.log.With("part", "cometbft"))
	b.server.Connected = b.connected
	if err := b.bodies.open(); err != nil {
		return err
	}
	return b.adoptPending()
}

// configure writes CometBFT's configuration beside the node's.
func configure(n *node) error {
	changed, err := settings.WriteBeside(n.opt.Config, n.opt.Home, n.keys.Vouch())
	if err == nil && changed {
		n.log.Info("CometBFT's configuration is new; it takes effect when CometBFT starts next", "file", n.opt.Home.CometFile())
	}
	return err
}

// Configure writes the configuration of a CometBFT in a process of its own. No node runs on the
// home meanwhile.
func Configure(opt Options) (err error) {
	n := &node{opt: opt, log: opt.Log}
	defer func() { err = errors.Join(err, n.close()) }()
	if err := n.openHome(); err != nil {
		return err
	}
	return errors.Join(n.keys.check(), configure(n))
}

// adoptPending takes the pending block's transactions from CometBFT's store when they are not here:
// until now CometBFT was in this process.
func (b *beside) adoptPending() error {
	height, _, pending := b.n.app.Voting()
	if pending.Number == 0 || b.bodies.has(height) {
		return nil
	}
	db, err := openStore(&comet.DBContext{ID: "blockstore", Config: comet.DefaultConfig().SetRoot(string(b.n.opt.Home))})
	if err != nil {
		return fmt.Errorf("read the pending block in CometBFT's store (does a CometBFT run on this home?): %w", err)
	}
	defer db.Close()
	block := cometstore.NewBlockStore(db).LoadBlock(height)
	if block == nil {
		return nil // before the snapshot that this node joined by: its database has it
	}
	return b.bodies.keep(height, block.Txs.ToSliceOfBytes(), height)
}

// voted implements orderer. It returns the votes that this process stored, and those in CometBFT's
// log from a time when CometBFT ran in this process.
func (b *beside) voted(n *node) (ownVoted, error) {
	kept, err := b.votes.open()
	if err != nil {
		return ownVoted{}, err
	}
	from, next, pending := n.app.Voting()
	logged, err := voted(filepath.Join(n.opt.Home.Data(), "cs.wal", "wal"), from, next, pending)
	logged.votes = append(kept, logged.votes...)
	if len(kept) > 0 {
		logged.reach = math.MaxInt64
	}
	return logged, err
}

// start implements orderer.
func (b *beside) start(n *node, r *running) error {
	remote.Unstick(b.sockets.RPC)
	remote.Unstick(b.sockets.Signer)
	l, err := remote.Listen(b.sockets.Application)
	if err != nil {
		return fmt.Errorf("listen for CometBFT: %w", err)
	}
	ctx, end := context.WithCancel(r.lasting)
	b.end, b.ended = end, make(chan error, 1)
	go func() { b.ended <- b.serve(ctx, l) }()
	r.parts.Go(func() error { b.sign(r.inner); return nil })
	r.parts.Go(func() error { b.watch(r.inner); return nil })
	r.parts.Go(func() error { b.hear(r.inner); return nil })
	n.log.Info("waiting for CometBFT", "application", b.sockets.Application, "start", "cometbft start --home "+string(n.opt.Home))
	return nil
}

// serve answers CometBFT until ctx ends. A listener that fails is a failure of the node.
func (b *beside) serve(ctx context.Context, l net.Listener) error {
	err := b.server.Serve(ctx, l)
	if err != nil {
		select {
		case b.n.failed <- err.Error():
		default:
		}
	}
	return err
}

// connected notes how many connections CometBFT has.
func (b *beside) connected(connections int) {
	if connections > 0 {
		if !b.attached.Swap(true) {
			b.n.log.Info("CometBFT connects")
		}
		return
	}
	b.attached.Store(false)
	b.mu.Lock()
	b.known = false
	b.mu.Unlock()
	select {
	case b.gone <- struct{}{}:
	default:
	}
	if !b.stopping.Load() {
		remote.Unstick(b.sockets.RPC)
		remote.Unstick(b.sockets.Signer)
		b.n.log.Warn("CometBFT went away; waiting for it")
	}
}

// stop implements orderer. CometBFT ends when the application goes.
func (b *beside) stop(log *slog.Logger) error {
	if b.end == nil || b.stopping.Swap(true) {
		return nil
	}
	close(b.ending)
	b.end()
	select {
	case err := <-b.ended:
		return err
	case <-time.After(stopLimit):
		log.Warn("a request of CometBFT does not end", "after", stopLimit)
		return nil
	}
}

// close implements orderer.
func (b *beside) close() {
	if b.rpc != nil {
		b.rpc.Close()
	}
}

// watch asks CometBFT where it stands and keeps it connected, until ctx ends.
func (b *beside) watch(ctx context.Context) {
	dials := map[string]*redial{}
	for {
		pause := redialEvery
		if b.look(ctx, dials) {
			pause = restEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-b.gone:
		case <-time.After(pause):
		}
	}
}

// look tells whether all is well: CometBFT takes part, and is connected with all peers.
func (b *beside) look(ctx context.Context, dials map[string]*redial) bool {
	status, err := b.rpc.Status(ctx)
	b.mu.Lock()
	before := b.known
	b.known = err == nil
	if b.known {
		b.status = status
	}
	b.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil && before:
		b.n.log.Warn("CometBFT's RPC does not answer; asking again", "error", err)
	case err == nil && !before:
		b.n.log.Info("CometBFT answers", "height", status.Newest, "peers", len(status.Peers))
	}
	if err != nil {
		return false
	}
	b.admits.learn(status.Peers)
	if b.n.silence.waits(b.n.keys.counts()) {
		b.askHeights(ctx, status.Peers)
	}
	return b.dial(ctx, status.Peers, dials) && !status.CatchingUp
}

// dial has CometBFT connect with the peers of the configuration, by the rule of peering. It tells
// whether all were connected.
func (b *beside) dial(ctx context.Context, connected []remote.Peer, dials map[string]*redial) bool {
	is := map[p2p.ID]bool{}
	for _, p := range connected {
		is[p2p.ID(p.ID)] = true
	}
	own, all := p2p.ID(b.n.keys.nodeID), true
	for _, peer := range b.n.opt.Config.Network.Peers {
		all = all && is[idOf(peer)]
		r := dials[peer]
		if r == nil {
			r = &redial{}
			dials[peer] = r
		}
		if !r.look(is[idOf(peer)], own, idOf(peer)) {
			continue
		}
		r.pause = besideDials
		if err := b.rpc.Dial(ctx, peer); err != nil && ctx.Err() == nil {
			b.n.log.Warn("CometBFT does not dial a peer; going on trying", "peer", peer, "error", err)
		}
	}
	return all
}

// hear passes on the votes of CometBFT's RPC until ctx ends. A vote that is missed costs a block's
// wait for its certificate.
func (b *beside) hear(ctx context.Context) {
	tick := time.NewTicker(redialEvery)
	defer tick.Stop()
	for {
		if b.answers() {
			if err := b.listen(ctx); ctx.Err() == nil {
				b.n.log.Debug("the votes of CometBFT's RPC end; listening again", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// listen passes on votes until they end. A subscription that CometBFT dropped without a word ends
// when blocks come without votes.
func (b *beside) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var heard atomic.Int64
	heard.Store(b.n.height.Load())
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		defer cancel()
		tick := time.NewTicker(redialEvery)
		defer tick.Stop()
		for b.n.height.Load()-heard.Load() < silentBlocks {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	err := b.rpc.Votes(ctx, func(v *types.Vote) {
		heard.Store(v.Height)
		b.n.silence.heard(v)
		if signed := effectVoteOf(v); signed != nil {
			b.n.app.Precommitted(signed)
		}
	})
	cancel()
	return err
}

// at returns CometBFT's last status answer; false: it did not answer.
func (b *beside) at() (remote.Status, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status, b.known
}

func (b *beside) answers() bool {
	_, known := b.at()
	return known
}

// Broadcast implements gateway.Broadcaster. CometBFT sends what its mempool takes in to the others.
func (b *beside) Broadcast(ctx context.Context, ordered []byte) error {
	if !b.answers() {
		return fmt.Errorf("%w: CometBFT does not answer", gateway.ErrFull)
	}
	b.n.app.Own(ordered)
	code, why, err := b.rpc.Offer(ctx, ordered)
	switch {
	case errors.Is(err, remote.ErrKnown):
		return gateway.ErrKnown
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: %w", gateway.ErrFull, err)
	case code != order.CodeOK:
		return &gateway.RejectedError{Code: code, Log: why}
	}
	return nil
}

// Txs implements app.Blocks.
func (b *beside) Txs(height int64) ([][]byte, error) {
	if txs, err := b.bodies.load(height); txs != nil || err != nil {
		return txs, err
	}
	return b.rpc.Txs(context.Background(), height)
}

// Reap implements app.Mempool.
func (b *beside) Reap(bytesMax int64) [][]byte {
	ctx, cancel := context.WithTimeout(context.Background(), reapLimit)
	defer cancel()
	waiting, err := b.rpc.Waiting(ctx, bytesMax)
	if err != nil {
		b.n.log.Debug("what waits in the mempool is not known", "error", err)
		return nil
	}
	return waiting
}

// aged implements orderer. A block counts as not aged when CometBFT does not return its time.
func (b *beside) aged(height, last int64) bool {
	if !b.answers() {
		return false
	}
	old, err := b.rpc.Time(context.Background(), height)
	if err != nil {
		return false
	}
	newest, err := b.rpc.Time(context.Background(), last)
	return err == nil && evidence.IsEvidenceExpired(last, newest, height, old, b.evidence)
}

// height implements orderer: the application has each block as soon as CometBFT.
func (b *beside) height() int64 {
	s, _ := b.n.app.Status()
	return s.Height
}

// oldest implements orderer.
func (b *beside) oldest() int64 {
	s, _ := b.at()
	return s.Oldest
}

// hold implements orderer.
func (b *beside) hold() { <-b.ending }

// catchingUp implements orderer. A CometBFT that does not answer takes no part either.
func (b *beside) catchingUp() bool {
	s, known := b.at()
	return !known || s.CatchingUp
}

// stops implements orderer.
func (b *beside) stops() bool { return b.stopping.Load() }

// peers implements orderer.
func (b *beside) peers() uint32 {
	s, known := b.at()
	if !known {
		return 0
	}
	return uint32(len(s.Peers))
}

// programs implements orderer: an unmodified CometBFT does not carry the versions that programs
// know.
func (b *beside) programs() map[string]uint32 { return map[string]uint32{} }

// environments implements orderer: an unmodified CometBFT does not carry them.
func (b *beside) environments(*node) map[string][]backend.EnvironmentDifference { return nil }

// laneCounts implements orderer.
func (b *beside) laneCounts() (lane.Counts, bool) { return lane.Counts{}, false }

// besideApp is the application as a CometBFT in another process sees it.
type besideApp struct {
	abci.Application
	b *beside
}

// The paths by which CometBFT asks whether a node may be connected.
const (
	filterID      = "/p2p/filter/id/"
	filterAddress = "/p2p/filter/addr/"
)

// Query answers, too, whether a node may be connected.
func (a besideApp) Query(ctx context.Context, request *abci.RequestQuery) (*abci.ResponseQuery, error) {
	if id, asks := strings.CutPrefix(request.Path, filterID); asks {
		if err := a.b.admits.admitsID(p2p.ID(id)); err != nil {
			return &abci.ResponseQuery{Code: 1, Log: err.Error()}, nil
		}
		return &abci.ResponseQuery{}, nil
	}
	if strings.HasPrefix(request.Path, filterAddress) { // its id decides
		return &abci.ResponseQuery{}, nil
	}
	return a.Application.Query(ctx, request)
}

// FinalizeBlock stores the block's transactions first, since the database may need them while
// CometBFT is away.
func (a besideApp) FinalizeBlock(ctx context.Context, request *abci.RequestFinalizeBlock) (*abci.ResponseFinalizeBlock, error) {
	from, _, _ := a.b.n.app.Voting()
	if err := a.b.bodies.keep(request.Height, request.Txs, from); err != nil {
		return nil, err
	}
	return a.Application.FinalizeBlock(ctx, request)
}

// ExtendVote gives no vote away before the disk holds it (E5): CometBFT's log is another process's.
func (a besideApp) ExtendVote(ctx context.Context, request *abci.RequestExtendVote) (*abci.ResponseExtendVote, error) {
	answer, err := a.Application.ExtendVote(ctx, request)
	if err != nil || len(answer.VoteExtension) == 0 {
		return answer, err
	}
	if err := a.b.votes.keep(answer.VoteExtension); err != nil {
		a.b.n.log.Error("no vote: it cannot be kept", "error", err)
		return &abci.ResponseExtendVote{}, nil
	}
	return answer, nil
}
