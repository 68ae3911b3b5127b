package comet

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/cometbft/cometbft/proxy"
	"github.com/cometbft/cometbft/state"
	"github.com/cometbft/cometbft/statesync"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet/admission"
	"github.com/chainify-db/chainify/abci/comet/dial"
	"github.com/chainify-db/chainify/abci/comet/lane"
	"github.com/chainify-db/chainify/abci/comet/peers"
	cometsettings "github.com/chainify-db/chainify/abci/comet/settings"
	"github.com/chainify-db/chainify/abci/comet/votelog"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
)

// Inside is CometBFT in this process: the mempool for the gateway, the block store for the
// application.
type Inside struct {
	opt      Options
	comet    *cometnode.Node
	lane     *lane.Lane // nil: off
	bundles  *peers.Bundles
	vouches  *peers.Vouches
	headers  *peers.Headers
	versions *peers.Versions
	states   state.Store // CometBFT's, to read
	// consensus is CometBFT's, for own votes that come late.
	consensus *consensus.State
	// admits says who may be connected, dialling keeps CometBFT, once started, connected.
	admits   *admission.Door
	dialling *dial.Keeper
	shares   shares // of what waits in the mempool
	running  bool
	// evidence is the age up to which CometBFT takes evidence.
	evidence types.EvidenceParams
	heard    chan struct{} // closed when no more votes are heard
	// stopping silences CometBFT's log.
	stopping atomic.Bool
	ending   chan struct{} // closed when the node stops
}

// NewInside makes an order to be opened.
func NewInside() *Inside { return &Inside{ending: make(chan struct{})} }

// Open implements Order: CometBFT replays what the application misses, hence the application must
// be ready.
func (o *Inside) Open(opt Options) error {
	o.opt = opt
	settings, err := cometsettings.Inside(opt.Config, opt.Home)
	if err != nil {
		return err
	}
	nodeKey, err := opt.Home.NodeKey()
	if err != nil {
		return err
	}
	settings.Moniker = opt.Keys.Vouch() // what a node shows before it is a peer
	level, err := config.LogLevel(opt.Config.Log.CometLevel)
	if err != nil {
		return err
	}
	settings.Instrumentation.Prometheus = settings.Instrumentation.Prometheus && opt.TakeMetrics()
	reactors := o.reactors()
	opt.Conduct.Behind, opt.Conduct.Member = o.behind, o.admits.MemberOf
	application, signer := opt.application(), opt.Signer
	if opt.Config.Consensus.ExpressLane {
		o.lane = lane.New(opt.Lane)
		application, signer = o.lane.Application(application), o.lane.Signer(signer)
		if o.connectedWithAll() {
			settings.Consensus.PeerGossipSleepDuration = max(settings.Consensus.PeerGossipSleepDuration, lane.GossipSleep)
		}
	}
	o.comet, err = cometnode.NewNode(settings, signer, nodeKey, proxy.NewConnSyncLocalClientCreator(application),
		func() (*types.GenesisDoc, error) { return opt.Genesis, nil },
		o.openStore, cometMetrics(settings.Instrumentation), newLog(opt.Log.With("part", "cometbft"), level, &o.stopping, opt.Failed),
		cometnode.CustomReactors(reactors), o.mempoolDoor(), o.joinBy(settings))
	if err != nil {
		return fmt.Errorf("CometBFT: %w", err)
	}
	o.evidence = opt.Genesis.ConsensusParams.Evidence
	if o.lane != nil {
		if err := o.lane.Attach(o.comet); err != nil {
			return fmt.Errorf("%w; consensus.express_lane = false does without", err)
		}
	}
	if err := o.overhear(); err != nil {
		return err
	}
	o.bound()
	return o.guardNetwork()
}

// guardNetwork puts the door before CometBFT's network.
func (o *Inside) guardNetwork() error {
	network, ok := any(o.comet.Switch()).(*p2p.Switch)
	if !ok { // one without a filter would let everybody in
		return fmt.Errorf("CometBFT: a network of type %T, whose peers cannot be filtered", o.comet.Switch())
	}
	p2p.SwitchPeerFilters(o.admits.Filter)(network)
	o.dialling = &dial.Keeper{
		Own: o.comet.NodeInfo().ID(), Net: network, Peers: o.opt.Config.Network.Peers, Barred: o.opt.Conduct.Barred, Log: o.opt.Log.With("part", "peers"),
	}
	return nil
}

// reactors makes those of our own, which serve other nodes beside CometBFT's, by name.
func (o *Inside) reactors() map[string]p2p.Reactor {
	o.bundles = peers.NewBundles(peers.BundlesOptions{Waiting: o.Reap, Height: func() int64 { return o.comet.BlockStore().Height() }})
	o.admits = o.opt.admission(o.CatchingUp, func() bool { return !o.comet.Switch().IsRunning() })
	o.vouches = peers.NewVouches(peers.VouchesOptions{Own: o.opt.Keys.Vouch, Heard: o.admits.Hear})
	headers := o.header
	if lies := o.opt.Header; lies != nil {
		headers = func(height int64) *types.LightBlock { return lies(o.header(height)) }
	}
	o.headers = peers.NewHeaders(peers.HeadersOptions{Load: headers, Conduct: o.opt.Conduct})
	o.versions = peers.NewVersions(o.opt.Knows)
	reactors := map[string]p2p.Reactor{
		peers.BundlesName: o.bundles, peers.VouchesName: o.vouches, peers.HeadersName: o.headers, peers.VersionsName: o.versions,
		peers.EnvironmentsName: o.opt.Environments,
	}
	if o.opt.State != nil {
		reactors[peers.Name] = o.opt.State
	}
	if o.opt.Agreements != nil {
		reactors[peers.AgreementName] = o.opt.Agreements
	}
	if o.opt.Private != nil {
		o.opt.Private.OrganisationOf = o.admits.OrganisationOf
		reactors[peers.PrivateName] = o.opt.Private
	}
	return reactors
}

// Reactor is the one of a name in CometBFT's network; nil: there is none.
func (o *Inside) Reactor(name string) p2p.Reactor {
	found, _ := o.comet.Switch().Reactor(name)
	return found
}

// connectedWithAll tells whether the configuration names a peer for each other validator: then
// none depends on others' gossip of what this node hears.
func (o *Inside) connectedWithAll() bool {
	return len(o.opt.Config.Network.Peers) >= o.opt.Founded.Validators()-1
}

// mempoolDoor puts a door before CometBFT's mempool.
func (o *Inside) mempoolDoor() cometnode.Option {
	return func(comet *cometnode.Node) {
		inner, ok := comet.MempoolReactor().(*mempool.Reactor)
		if !ok {
			return // of another kind than package settings sets
		}
		door := peers.NewMempoolDoor(inner, peers.MempoolOptions{
			Conduct: o.opt.Conduct, NeverRight: o.opt.App.NeverRight,
			Take: o.Offer,
		})
		cometnode.CustomReactors(map[string]p2p.Reactor{peers.MempoolName: door})(comet)
	}
}

// Offer hands a transaction to the mempool, when its organisation's share has room, and returns
// what the application said; nil: nothing yet.
func (o *Inside) Offer(tx types.Tx, info mempool.TxInfo) (*abci.ResponseCheckTx, error) {
	pool := o.comet.Mempool()
	if !o.shares.hasRoom(pool, tx, cometsettings.MempoolTxsMax, cometsettings.MempoolBytesMax) {
		return nil, peers.ErrShareFull
	}
	answer := make(chan *abci.ResponseCheckTx, 1)
	if err := pool.CheckTx(tx, func(r *abci.ResponseCheckTx) { answer <- r }, info); err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		if r.Code == order.CodeOK {
			o.shares.added(tx)
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

// Start implements Order.
func (o *Inside) Start(parts Parts) error {
	if err := o.listen(o.opt.precommitted); err != nil {
		return err
	}
	parts.Run(func(ctx context.Context) {
		o.admits.Watch(ctx, o.comet.Switch(), func() {
			o.vouches.Tell()
			o.signLate()
		})
	})
	parts.Run(o.dialling.Run)
	return nil
}

// listen starts CometBFT. Each vote that it has checked and added goes to voted, also those that it
// reads again from its log.
func (o *Inside) listen(voted func(*types.Vote)) error {
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
func (o *Inside) behind() bool {
	return o.CatchingUp() || peers.Ahead(o.comet.Switch().Peers().Copy(), o.comet.BlockStore().Height())
}

// Stop ends CometBFT, bounded: its switch waits for peers' goroutines, and connections being made
// end late.
func (o *Inside) Stop() error {
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
		o.dialling.Wait()
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
		o.opt.Log.Warn("CometBFT does not stop; its stores stay as the last block left them", "after", stopLimit)
		return nil
	}
}

// Close releases the stores of a CometBFT that was made and never started; a started one closes
// them itself.
func (o *Inside) Close() {
	if o.comet == nil || o.comet.IsRunning() {
		return
	}
	// Closing twice is harmless: both stores then say that they are closed.
	_ = o.comet.BlockStore().Close()
}

// Broadcast implements gateway.Broadcaster: what the own mempool takes in goes to the others'.
func (o *Inside) Broadcast(ctx context.Context, ordered []byte) error {
	if !o.comet.IsRunning() {
		return fmt.Errorf("%w: the order has not started", gateway.ErrFull)
	}
	if !o.shares.hasRoom(o.comet.Mempool(), ordered, cometsettings.MempoolTxsMax, cometsettings.MempoolBytesMax) {
		return fmt.Errorf("%w: %w", gateway.ErrFull, peers.ErrShareFull)
	}
	o.opt.App.Own(ordered)
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
			o.shares.added(ordered)
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
func (o *Inside) Txs(height int64) ([][]byte, error) {
	block := o.comet.BlockStore().LoadBlock(height)
	if block == nil {
		return nil, fmt.Errorf("block store has no block %d", height)
	}
	return block.Txs.ToSliceOfBytes(), nil
}

// Aged tells that an order block is too old for evidence against a validator, by the age of the
// consensus parameters in the genesis, in blocks and in time.
func (o *Inside) Aged(height, last int64) bool {
	store := o.comet.BlockStore()
	old, newest := store.LoadBlockMeta(height), store.LoadBlockMeta(last)
	if old == nil || newest == nil {
		return false
	}
	return evidence.IsEvidenceExpired(last, newest.Header.Time, height, old.Header.Time, o.evidence)
}

// openStore is a config.DBProvider, which keeps the state store to read from.
func (o *Inside) openStore(c *comet.DBContext) (dbm.DB, error) {
	db, err := openStore(c)
	if err == nil && c.ID == "state" {
		o.states = state.NewStore(db, state.StoreOptions{})
	}
	return db, err
}

// header is what another node needs to verify the order block of a height, 0 for the newest; nil:
// it is not here.
func (o *Inside) header(height int64) *types.LightBlock {
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
func (o *Inside) Reap(bytesMax int64) [][]byte {
	return o.comet.Mempool().ReapMaxBytesMaxGas(bytesMax, -1).ToSliceOfBytes()
}

// CatchingUp tells that the node does not vote yet: it fetches blocks that others decided.
func (o *Inside) CatchingUp() bool {
	return o.comet == nil || o.comet.ConsensusReactor().WaitSync()
}

// Height implements Order.
func (o *Inside) Height() int64 { return o.comet.BlockStore().Height() }

// Oldest implements Order.
func (o *Inside) Oldest() int64 { return o.comet.BlockStore().Base() }

// Stops implements Order.
func (o *Inside) Stops() bool { return o.stopping.Load() }

// Voted implements Order, from CometBFT's log.
func (o *Inside) Voted() (votelog.Own, error) {
	from, next, pending := o.opt.App.Voting()
	return votelog.Read(o.comet.Config().Consensus.WalFile(), from, next, pending)
}

// LaneCounts implements Order.
func (o *Inside) LaneCounts() (lane.Counts, bool) {
	if o.lane == nil {
		return lane.Counts{}, false
	}
	return o.lane.Counts(), true
}

// Programs implements Order.
func (o *Inside) Programs() map[string]uint32 {
	oldest := map[string]uint32{}
	for _, peer := range o.comet.Switch().Peers().Copy() {
		if of := o.admits.OrganisationOf(peer); of != "" {
			version := o.versions.Of(peer.ID())
			if known, heard := oldest[of]; !heard || version < known {
				oldest[of] = version
			}
		}
	}
	return oldest
}

// Environments implements Order.
func (o *Inside) Environments() map[string][]backend.EnvironmentDifference {
	found := map[string][]backend.EnvironmentDifference{}
	for _, peer := range o.comet.Switch().Peers().Copy() {
		if of := o.admits.OrganisationOf(peer); of != "" && of != o.opt.Config.Organisation && found[of] == nil {
			found[of] = o.opt.Environments.Differences(peer.ID())
		}
	}
	return found
}

// Peers implements Order.
func (o *Inside) Peers() uint32 {
	return uint32(o.comet.Switch().Peers().Size()) // NumPeers counts only those that may be turned away
}

// Hold keeps CometBFT from a block that this program cannot judge, until the node stops. CometBFT
// would end the process if it could not apply a block that it fetched, so there it is held for
// good; the block is applied at the next start.
func (o *Inside) Hold() {
	<-o.ending
	if o.CatchingUp() {
		select {}
	}
}
