package comet

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
	"github.com/chainify-db/chainify/abci/comet/admission"
	"github.com/chainify-db/chainify/abci/comet/dial"
	"github.com/chainify-db/chainify/abci/comet/keyring"
	"github.com/chainify-db/chainify/abci/comet/lane"
	"github.com/chainify-db/chainify/abci/comet/remote"
	cometsettings "github.com/chainify-db/chainify/abci/comet/settings"
	"github.com/chainify-db/chainify/abci/comet/votelog"
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

// Beside implements Order by an unmodified CometBFT in a process of its own, which calls the
// application over a socket (docs/operator/server.md).
//
// CometBFT may stop and come back meanwhile. When it connects, it asks for the application's height
// and sends the missing blocks. The node itself keeps the transactions of the pending ledger block
// and its own votes, which it needs while CometBFT is away.
type Beside struct {
	opt      Options
	sockets  config.Sockets
	rpc      *remote.Client
	server   *remote.Server
	bodies   bodies
	votes    *votelog.Store
	admits   *admission.Door
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

// NewBeside makes an order to be opened.
func NewBeside() *Beside { return &Beside{ending: make(chan struct{}), gone: make(chan struct{}, 1)} }

// Open implements Order.
func (b *Beside) Open(opt Options) (err error) {
	b.opt, b.bodies, b.votes = opt, bodies{db: opt.Store}, votelog.NewStore(opt.Store)
	if b.sockets, err = opt.Config.Sockets(opt.Home); err != nil {
		return err
	}
	if err := Configure(opt.Config, opt.Home, opt.Keys, opt.Log); err != nil {
		return err
	}
	b.evidence, opt.Conduct.Behind = opt.Genesis.ConsensusParams.Evidence, b.CatchingUp
	b.admits = opt.admission(b.CatchingUp, b.Stops)
	if b.rpc, err = remote.NewClient(b.sockets.RPC); err != nil {
		return err
	}
	b.server = remote.NewServer(besideApp{opt.application(), b}, opt.Log.With("part", "cometbft"))
	b.server.Connected = b.connected
	if err := b.bodies.open(); err != nil {
		return err
	}
	return b.adoptPending()
}

// Configure writes CometBFT's configuration beside the node's.
func Configure(c config.Config, home config.Home, keys *keyring.Keyring, log *slog.Logger) error {
	changed, err := cometsettings.WriteBeside(c, home, keys.Vouch())
	if err == nil && changed {
		log.Info("CometBFT's configuration is new; it takes effect when CometBFT starts next", "file", home.CometFile())
	}
	return err
}

// adoptPending takes the pending block's transactions from CometBFT's store when they are not here:
// until now CometBFT was in this process.
func (b *Beside) adoptPending() error {
	height, _, pending := b.opt.App.Voting()
	if pending.Number == 0 || b.bodies.has(height) {
		return nil
	}
	db, err := openStore(&comet.DBContext{ID: "blockstore", Config: comet.DefaultConfig().SetRoot(string(b.opt.Home))})
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

// Voted implements Order. It returns the votes that this process stored, and those in CometBFT's
// log from a time when CometBFT ran in this process.
func (b *Beside) Voted() (votelog.Own, error) {
	kept, err := b.votes.Open()
	if err != nil {
		return votelog.Own{}, err
	}
	from, next, pending := b.opt.App.Voting()
	logged, err := votelog.Read(filepath.Join(b.opt.Home.Data(), "cs.wal", "wal"), from, next, pending)
	logged.Votes = append(kept, logged.Votes...)
	if len(kept) > 0 {
		logged.Reach = math.MaxInt64
	}
	return logged, err
}

// Start implements Order.
func (b *Beside) Start(parts Parts) error {
	remote.Unstick(b.sockets.RPC)
	remote.Unstick(b.sockets.Signer)
	l, err := remote.Listen(b.sockets.Application)
	if err != nil {
		return fmt.Errorf("listen for CometBFT: %w", err)
	}
	ctx, end := context.WithCancel(parts.Lasting)
	b.end, b.ended = end, make(chan error, 1)
	go func() { b.ended <- b.serve(ctx, l) }()
	parts.Run(b.sign)
	parts.Run(b.watch)
	parts.Run(b.hear)
	b.opt.Log.Info("waiting for CometBFT", "application", b.sockets.Application, "start", "cometbft start --home "+string(b.opt.Home))
	return nil
}

// serve answers CometBFT until ctx ends. A listener that fails is a failure of the node.
func (b *Beside) serve(ctx context.Context, l net.Listener) error {
	err := b.server.Serve(ctx, l)
	if err != nil {
		b.opt.Failed(err.Error())
	}
	return err
}

// connected notes how many connections CometBFT has.
func (b *Beside) connected(connections int) {
	if connections > 0 {
		if !b.attached.Swap(true) {
			b.opt.Log.Info("CometBFT connects")
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
		b.opt.Log.Warn("CometBFT went away; waiting for it")
	}
}

// Stop implements Order. CometBFT ends when the application goes.
func (b *Beside) Stop() error {
	if b.end == nil || b.stopping.Swap(true) {
		return nil
	}
	close(b.ending)
	b.end()
	select {
	case err := <-b.ended:
		return err
	case <-time.After(stopLimit):
		b.opt.Log.Warn("a request of CometBFT does not end", "after", stopLimit)
		return nil
	}
}

// Close implements Order.
func (b *Beside) Close() {
	if b.rpc != nil {
		b.rpc.Close()
	}
}

// watch asks CometBFT where it stands and keeps it connected, until ctx ends.
func (b *Beside) watch(ctx context.Context) {
	dials := map[string]*dial.Redial{}
	for {
		pause := dial.Every
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
func (b *Beside) look(ctx context.Context, dials map[string]*dial.Redial) bool {
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
		b.opt.Log.Warn("CometBFT's RPC does not answer; asking again", "error", err)
	case err == nil && !before:
		b.opt.Log.Info("CometBFT answers", "height", status.Newest, "peers", len(status.Peers))
	}
	if err != nil {
		return false
	}
	b.admits.Learn(status.Peers)
	if b.opt.Guards.Waits(b.opt.Keys.Counting()) {
		b.askHeights(ctx, status.Peers)
	}
	return b.dial(ctx, status.Peers, dials) && !status.CatchingUp
}

// dial has CometBFT connect with the peers of the configuration, by the rule of peering. It tells
// whether all were connected.
func (b *Beside) dial(ctx context.Context, connected []remote.Peer, dials map[string]*dial.Redial) bool {
	is := map[p2p.ID]bool{}
	for _, p := range connected {
		is[p2p.ID(p.ID)] = true
	}
	own, all := p2p.ID(b.opt.Keys.NodeID()), true
	for _, peer := range b.opt.Config.Network.Peers {
		all = all && is[dial.ID(peer)]
		r := dials[peer]
		if r == nil {
			r = &dial.Redial{}
			dials[peer] = r
		}
		if !r.Look(is[dial.ID(peer)], own, dial.ID(peer)) {
			continue
		}
		r.Rest(besideDials)
		if err := b.rpc.Dial(ctx, peer); err != nil && ctx.Err() == nil {
			b.opt.Log.Warn("CometBFT does not dial a peer; going on trying", "peer", peer, "error", err)
		}
	}
	return all
}

// hear passes on the votes of CometBFT's RPC until ctx ends. A vote that is missed costs a block's
// wait for its certificate.
func (b *Beside) hear(ctx context.Context) {
	tick := time.NewTicker(dial.Every)
	defer tick.Stop()
	for {
		if b.answers() {
			if err := b.listen(ctx); ctx.Err() == nil {
				b.opt.Log.Debug("the votes of CometBFT's RPC end; listening again", "error", err)
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
func (b *Beside) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var heard atomic.Int64
	heard.Store(b.opt.Decided())
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		defer cancel()
		tick := time.NewTicker(dial.Every)
		defer tick.Stop()
		for b.opt.Decided()-heard.Load() < silentBlocks {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	err := b.rpc.Votes(ctx, func(v *types.Vote) {
		heard.Store(v.Height)
		b.opt.precommitted(v)
	})
	cancel()
	return err
}

// at returns CometBFT's last status answer; false: it did not answer.
func (b *Beside) at() (remote.Status, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status, b.known
}

func (b *Beside) answers() bool {
	_, known := b.at()
	return known
}

// Broadcast implements gateway.Broadcaster. CometBFT sends what its mempool takes in to the others.
func (b *Beside) Broadcast(ctx context.Context, ordered []byte) error {
	if !b.answers() {
		return fmt.Errorf("%w: CometBFT does not answer", gateway.ErrFull)
	}
	b.opt.App.Own(ordered)
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
func (b *Beside) Txs(height int64) ([][]byte, error) {
	if txs, err := b.bodies.load(height); txs != nil || err != nil {
		return txs, err
	}
	return b.rpc.Txs(context.Background(), height)
}

// Reap implements app.Mempool.
func (b *Beside) Reap(bytesMax int64) [][]byte {
	ctx, cancel := context.WithTimeout(context.Background(), reapLimit)
	defer cancel()
	waiting, err := b.rpc.Waiting(ctx, bytesMax)
	if err != nil {
		b.opt.Log.Debug("what waits in the mempool is not known", "error", err)
		return nil
	}
	return waiting
}

// Aged implements Order. A block counts as not aged when CometBFT does not return its time.
func (b *Beside) Aged(height, last int64) bool {
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

// Height implements Order: the application has each block as soon as CometBFT.
func (b *Beside) Height() int64 {
	s, _ := b.opt.App.Status()
	return s.Height
}

// Oldest implements Order.
func (b *Beside) Oldest() int64 {
	s, _ := b.at()
	return s.Oldest
}

// Hold implements Order.
func (b *Beside) Hold() { <-b.ending }

// CatchingUp implements Order. A CometBFT that does not answer takes no part either.
func (b *Beside) CatchingUp() bool {
	s, known := b.at()
	return !known || s.CatchingUp
}

// Stops implements Order.
func (b *Beside) Stops() bool { return b.stopping.Load() }

// Peers implements Order.
func (b *Beside) Peers() uint32 {
	s, known := b.at()
	if !known {
		return 0
	}
	return uint32(len(s.Peers))
}

// Programs implements Order: an unmodified CometBFT does not carry the versions that programs
// know.
func (b *Beside) Programs() map[string]uint32 { return map[string]uint32{} }

// Environments implements Order: an unmodified CometBFT does not carry them.
func (b *Beside) Environments() map[string][]backend.EnvironmentDifference { return nil }

// LaneCounts implements Order.
func (b *Beside) LaneCounts() (lane.Counts, bool) { return lane.Counts{}, false }

// besideApp is the application as a CometBFT in another process sees it.
type besideApp struct {
	abci.Application
	b *Beside
}

// The paths by which CometBFT asks whether a node may be connected.
const (
	filterID      = "/p2p/filter/id/"
	filterAddress = "/p2p/filter/addr/"
)

// Query answers, too, whether a node may be connected.
func (a besideApp) Query(ctx context.Context, request *abci.RequestQuery) (*abci.ResponseQuery, error) {
	if id, asks := strings.CutPrefix(request.Path, filterID); asks {
		if err := a.b.admits.AdmitsID(p2p.ID(id)); err != nil {
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
	from, _, _ := a.b.opt.App.Voting()
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
	if err := a.b.votes.Keep(answer.VoteExtension); err != nil {
		a.b.opt.Log.Error("no vote: it cannot be kept", "error", err)
		return &abci.ResponseExtendVote{}, nil
	}
	return answer, nil
}
