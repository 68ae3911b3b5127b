package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	dbm "github.com/cometbft/cometbft-db"
	abci "github.com/cometbft/cometbft/abci/types"
	"github.com/cometbft/cometbft/blocksync"
	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/consensus"
	"github.com/cometbft/cometbft/evidence"
	"github.com/cometbft/cometbft/mempool"
	cometnode "github.com/cometbft/cometbft/node"
	"github.com/cometbft/cometbft/p2p"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/proxy"
	"github.com/cometbft/cometbft/state"
	"github.com/cometbft/cometbft/statesync"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet/lane"
	"github.com/chainify-db/chainify/abci/comet/peers"
	cometsettings "github.com/chainify-db/chainify/abci/comet/settings"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/metrics"
	"github.com/chainify-db/chainify/abci/wire"
)

// ordering is CometBFT in this process: the mempool for the gateway, the block store for the
// application.
type ordering struct {
	comet    *cometnode.Node
	lane     *lane.Lane // nil: off
	bundles  *peers.Bundles
	vouches  *peers.Vouches
	headers  *peers.Headers
	versions *peers.Versions
	states   state.Store // CometBFT's, to read
	// consensus is CometBFT's, for own votes that come late.
	consensus *consensus.State
	// admits says who may be connected, peering keeps CometBFT, once started, connected.
	admits  *admission
	peering *peering
	own     func(ordered []byte) // tells the application of what the gateway hands to the mempool
	owners  owners               // of what waits in the mempool
	running bool
	// evidence is the age up to which CometBFT takes evidence.
	evidence types.EvidenceParams
	heard    chan struct{} // closed when no more votes are heard
	// stopping silences CometBFT's log.
	stopping atomic.Bool
	ending   chan struct{} // closed when the node stops
}

// open implements orderer: CometBFT replays what the application misses, hence the application
// must be ready.
func (o *ordering) open(n *node) error {
	settings, err := cometsettings.Inside(n.opt.Config, n.opt.Home)
	if err != nil {
		return err
	}
	nodeKey, err := n.opt.Home.NodeKey()
	if err != nil {
		return err
	}
	settings.Moniker = n.keys.Vouch() // what a node shows before it is a peer
	level, err := config.LogLevel(n.opt.Config.Log.CometLevel)
	if err != nil {
		return err
	}
	bridge := newCometLog(n.log.With("part", "cometbft"), level, &o.stopping, func(why string) {
		select {
		case n.failed <- why:
		default:
		}
	})
	settings.Instrumentation.Prometheus = settings.Instrumentation.Prometheus && metrics.TakeCometBFT()
	reactors := o.reactors(n)
	o.own, n.conduct.Behind, n.conduct.Member = n.app.Own, o.behind, o.admits.memberOf
	application := abci.Application(n.app)
	if n.opt.Application != nil {
		application = n.opt.Application(application)
	}
	application = showing{application, n.silence}
	signer := n.signer
	if n.opt.Config.Consensus.ExpressLane {
		o.lane = lane.New(n.opt.Lane)
		application, signer = o.lane.Application(application), o.lane.Signer(signer)
		if n.connectedWithAll() {
			settings.Consensus.PeerGossipSleepDuration = max(settings.Consensus.PeerGossipSleepDuration, lane.GossipSleep)
		}
	}
	o.comet, err = cometnode.NewNode(settings, signer, nodeKey, proxy.NewConnSyncLocalClientCreator(application),
		func() (*types.GenesisDoc, error) { return n.doc.doc, nil },
		o.openStore, cometMetrics(settings.Instrumentation), bridge,
		cometnode.CustomReactors(reactors), o.mempoolDoor(n), o.joinBy(n, settings))
	if err != nil {
		return fmt.Errorf("CometBFT: %w", err)
	}
	o.evidence = n.doc.doc.ConsensusParams.Evidence
	if o.lane != nil {
		if err := o.lane.Attach(o.comet); err != nil {
			return fmt.Errorf("%w; consensus.express_lane = false does without", err)
		}
	}
	if err := o.overhear(n); err != nil {
		return err
	}
	o.bound(n)
	network, ok := any(o.comet.Switch()).(*p2p.Switch)
	if !ok { // one without a filter would let everybody in
		return fmt.Errorf("CometBFT: a network of type %T, whose peers cannot be filtered", o.comet.Switch())
	}
	p2p.SwitchPeerFilters(o.admits.filter)(network)
	o.peering = &peering{
		own: o.comet.NodeInfo().ID(), net: network, list: n.opt.Config.Network.Peers, barred: n.conduct.Barred, log: n.log.With("part", "peers"),
	}
	return nil
}

// reactors makes those of our own, which serve other nodes beside CometBFT's, by name.
func (o *ordering) reactors(n *node) map[string]p2p.Reactor {
	o.bundles = peers.NewBundles(peers.BundlesOptions{Waiting: o.Reap, Height: func() int64 { return o.comet.BlockStore().Height() }})
	o.admits = newAdmission(n, o.catchingUp, func() bool { return !o.comet.Switch().IsRunning() })
	o.vouches = peers.NewVouches(peers.VouchesOptions{Own: n.keys.Vouch, Heard: o.admits.hear})
	headers := o.header
	if lies := n.opt.Header; lies != nil {
		headers = func(height int64) *types.LightBlock { return lies(o.header(height)) }
	}
	o.headers = peers.NewHeaders(peers.HeadersOptions{Load: headers, Conduct: n.conduct})
	o.versions = peers.NewVersions(n.knows())
	reactors := map[string]p2p.Reactor{
		peers.BundlesName: o.bundles, peers.VouchesName: o.vouches, peers.HeadersName: o.headers, peers.VersionsName: o.versions,
		peers.EnvironmentsName: n.environments,
	}
	if n.peers != nil {
		reactors[peers.Name] = n.peers
	}
	if n.asking != nil {
		reactors[peers.AgreementName] = n.asking
	}
	return reactors
}

// connectedWithAll tells whether the configuration names a peer for each other validator: then
// none depends on others' gossip of what this node hears.
func (n *node) connectedWithAll() bool {
	return len(n.opt.Config.Network.Peers) >= n.founded.Validators()-1
}

// mempoolDoor puts a door before CometBFT's mempool.
func (o *ordering) mempoolDoor(n *node) cometnode.Option {
	return func(comet *cometnode.Node) {
		inner, ok := comet.MempoolReactor().(*mempool.Reactor)
		if !ok {
			return // of another kind than package settings sets
		}
		door := peers.NewMempoolDoor(inner, peers.MempoolOptions{
			Conduct: n.conduct, NeverRight: n.app.NeverRight,
			Take: func(tx types.Tx, info mempool.TxInfo) (*abci.ResponseCheckTx, error) {
				return o.offer(comet.Mempool(), tx, info)
			},
		})
		cometnode.CustomReactors(map[string]p2p.Reactor{peers.MempoolName: door})(comet)
	}
}

// offer hands a transaction to the mempool, when its organisation's share has room, and returns
// what the application said; nil: nothing yet.
func (o *ordering) offer(pool mempool.Mempool, tx types.Tx, info mempool.TxInfo) (*abci.ResponseCheckTx, error) {
	if !o.owners.hasRoom(pool, tx, cometsettings.MempoolTxsMax, cometsettings.MempoolBytesMax) {
		return nil, peers.ErrShareFull
	}
	answer := make(chan *abci.ResponseCheckTx, 1)
	if err := pool.CheckTx(tx, func(r *abci.ResponseCheckTx) { answer <- r }, info); err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		if r.Code == order.CodeOK {
			o.owners.added(tx)
		}
		return r, nil
	default:
		return nil, nil
	}
}

// cometMetrics provides CometBFT's own metrics, of its network the peers alone: what it counts of
// each message, under a dozen names and labels, took 4 % of a node's processor time.
func cometMetrics(settings *comet.InstrumentationConfig) cometnode.MetricsProvider {
	all := cometnode.DefaultMetricsProvider(settings)
	return func(chainID string) (*consensus.Metrics, *p2p.Metrics, *mempool.Metrics, *state.Metrics, *proxy.Metrics, *blocksync.Metrics, *statesync.Metrics) {
		consensus, network, mempool, state, proxy, blocksync, statesync := all(chainID)
		quiet := p2p.NopMetrics()
		quiet.Peers = network.Peers
		return consensus, quiet, mempool, state, proxy, blocksync, statesync
	}
}

// start implements orderer.
func (o *ordering) start(n *node, r *running) error {
	if err := o.listen(func(v *types.Vote) {
		n.silence.heard(v)
		if signed := effectVoteOf(v); signed != nil {
			n.app.Precommitted(signed)
		}
	}); err != nil {
		return err
	}
	r.parts.Go(func() error {
		o.admits.watch(r.inner, o.comet.Switch(), func() {
			o.vouches.Tell()
			o.signLate(n)
		})
		return nil
	})
	r.parts.Go(func() error { o.peering.run(r.inner); return nil })
	return nil
}

// listen starts CometBFT. Each vote that it has checked and added goes to voted, also those that it
// reads again from its log.
func (o *ordering) listen(voted func(*types.Vote)) error {
	bus := o.comet.EventBus()
	// Unbuffered: no vote is dropped, and CometBFT waits for voted, which must be quick. A buffer
	// would end the subscription when it is full.
	votes, err := bus.SubscribeUnbuffered(context.Background(), "chainify", types.EventQueryVote)
	if err != nil {
		return fmt.Errorf("listen to votes: %w", err)
	}
	o.heard = make(chan struct{})
	go func() {
		defer close(o.heard)
		hear(votes, func(v *types.Vote) {
			if o.lane != nil {
				o.lane.Voted(v)
			}
			voted(v)
		})
	}()
	if err := o.comet.Start(); err != nil {
		err = errors.Join(fmt.Errorf("start CometBFT: %w", err), bus.Stop())
		<-o.heard
		return err
	}
	o.running = true
	return nil
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

// hear passes votes on until CometBFT's events end. It must not end before: CometBFT would wait for
// it.
func hear(votes types.Subscription, voted func(*types.Vote)) {
	for {
		select {
		case m := <-votes.Out():
			if e, ok := m.Data().(types.EventDataVote); ok {
				voted(e.Vote)
			}
		case <-votes.Canceled():
			return
		}
	}
}

// behind tells that others are ahead of this node: it may not know yet which keys count.
func (o *ordering) behind() bool {
	return o.catchingUp() || peers.Ahead(o.comet.Switch().Peers().Copy(), o.comet.BlockStore().Height())
}

// stop ends CometBFT, bounded: its switch waits for peers' goroutines, and connections being made
// end late.
func (o *ordering) stop(log *slog.Logger) error {
	if !o.running {
		return nil
	}
	o.running = false
	o.stopping.Store(true)
	close(o.ending)
	stopped := make(chan error, 1)
	go func() {
		err := o.comet.Stop()
		o.comet.Wait()
		<-o.heard
		o.peering.dials.Wait()
		o.bundles.Join()
		if o.lane != nil {
			o.lane.Close()
		}
		stopped <- err
	}()
	select {
	case err := <-stopped:
		if err != nil {
			return fmt.Errorf("stop CometBFT: %w", err)
		}
		return nil
	case <-time.After(stopLimit):
		log.Warn("CometBFT does not stop; its stores stay as the last block left them", "after", stopLimit)
		return nil
	}
}

// close releases the stores of a CometBFT that was made and never started; a started one closes
// them itself.
func (o *ordering) close() {
	if o.comet == nil || o.comet.IsRunning() {
		return
	}
	// Closing twice is harmless: both stores then say that they are closed.
	_ = o.comet.BlockStore().Close()
}

// Broadcast implements gateway.Broadcaster: what the own mempool takes in goes to the others'.
func (o *ordering) Broadcast(ctx context.Context, ordered []byte) error {
	if !o.comet.IsRunning() {
		return fmt.Errorf("%w: the order has not started", gateway.ErrFull)
	}
	if !o.owners.hasRoom(o.comet.Mempool(), ordered, cometsettings.MempoolTxsMax, cometsettings.MempoolBytesMax) {
		return fmt.Errorf("%w: %w", gateway.ErrFull, peers.ErrShareFull)
	}
	o.own(ordered)
	answer := make(chan *abci.ResponseCheckTx, 1)
	err := o.comet.Mempool().CheckTx(ordered, func(r *abci.ResponseCheckTx) { answer <- r }, mempool.TxInfo{})
	switch {
	case errors.Is(err, mempool.ErrTxInCache):
		o.bundles.Send(ordered) // it was offered before, and is in no block
		return gateway.ErrKnown
	case err != nil:
		return fmt.Errorf("%w: %v", gateway.ErrFull, err)
	}
	select {
	case r := <-answer:
		switch r.Code {
		case order.CodeOK:
			o.owners.added(ordered)
			o.bundles.Send(ordered)
			return nil
		default:
			return &gateway.RejectedError{Code: r.Code, Log: r.Log}
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Txs implements app.Blocks.
func (o *ordering) Txs(height int64) ([][]byte, error) {
	block := o.comet.BlockStore().LoadBlock(height)
	if block == nil {
		return nil, fmt.Errorf("block store has no block %d", height)
	}
	return block.Txs.ToSliceOfBytes(), nil
}

// aged tells that an order block is too old for evidence against a validator, by the age of the
// consensus parameters in the genesis, in blocks and in time.
func (o *ordering) aged(height, last int64) bool {
	store := o.comet.BlockStore()
	old, newest := store.LoadBlockMeta(height), store.LoadBlockMeta(last)
	if old == nil || newest == nil {
		return false
	}
	return evidence.IsEvidenceExpired(last, newest.Header.Time, height, old.Header.Time, o.evidence)
}

// openStore is a config.DBProvider, which keeps the state store to read from.
func (o *ordering) openStore(c *comet.DBContext) (dbm.DB, error) {
	db, err := openStore(c)
	if err == nil && c.ID == "state" {
		o.states = state.NewStore(db, state.StoreOptions{})
	}
	return db, err
}

// header is what another node needs to verify the order block of a height, 0 for the newest; nil:
// it is not here.
func (o *ordering) header(height int64) *types.LightBlock {
	blocks := o.comet.BlockStore()
	newest := blocks.Height()
	if height == 0 {
		height = newest
	}
	meta, commit := blocks.LoadBlockMeta(height), blocks.LoadBlockCommit(height)
	if height == newest {
		commit = blocks.LoadSeenCommit(height)
	}
	if meta == nil || commit == nil {
		return nil
	}
	validators, err := o.states.LoadValidators(height)
	if err != nil {
		return nil
	}
	return &types.LightBlock{SignedHeader: &types.SignedHeader{Header: &meta.Header, Commit: commit}, ValidatorSet: validators}
}

// Reap implements app.Mempool.
func (o *ordering) Reap(bytesMax int64) [][]byte {
	return o.comet.Mempool().ReapMaxBytesMaxGas(bytesMax, -1).ToSliceOfBytes()
}

// catchingUp tells that the node does not vote yet: it fetches blocks that others decided.
func (o *ordering) catchingUp() bool {
	return o.comet == nil || o.comet.ConsensusReactor().WaitSync()
}

// height implements orderer.
func (o *ordering) height() int64 { return o.comet.BlockStore().Height() }

// oldest implements orderer.
func (o *ordering) oldest() int64 { return o.comet.BlockStore().Base() }

// stops implements orderer.
func (o *ordering) stops() bool { return o.stopping.Load() }

// voted implements orderer, from CometBFT's log.
func (o *ordering) voted(n *node) (ownVoted, error) {
	from, next, pending := n.app.Voting()
	return voted(o.comet.Config().Consensus.WalFile(), from, next, pending)
}

// laneCounts implements orderer.
func (o *ordering) laneCounts() (lane.Counts, bool) {
	if o.lane == nil {
		return lane.Counts{}, false
	}
	return o.lane.Counts(), true
}

// programs implements orderer.
func (o *ordering) programs() map[string]uint32 {
	oldest := map[string]uint32{}
	for _, peer := range o.comet.Switch().Peers().Copy() {
		if of := o.admits.organisationOf(peer); of != "" {
			version := o.versions.Of(peer.ID())
			if known, heard := oldest[of]; !heard || version < known {
				oldest[of] = version
			}
		}
	}
	return oldest
}

// environments implements orderer.
func (o *ordering) environments(n *node) map[string][]backend.EnvironmentDifference {
	found := map[string][]backend.EnvironmentDifference{}
	for _, peer := range o.comet.Switch().Peers().Copy() {
		if of := o.admits.organisationOf(peer); of != "" && of != n.opt.Config.Organisation && found[of] == nil {
			found[of] = n.environments.Differences(peer.ID())
		}
	}
	return found
}

func (o *ordering) peers() uint32 {
	return uint32(o.comet.Switch().Peers().Size()) // NumPeers counts only those that may be turned away
}

// genesisDoc is the genesis file, read.
type genesisDoc struct {
	doc   *types.GenesisDoc
	state *order.Genesis
}
