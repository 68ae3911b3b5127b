// Package node assembles one organisation's process: CometBFT, the ordered application, the effect
// consensus, the database, the gateway and its doors. It decides nothing. It starts things in
// order, owns their goroutines, and ends them in order.
package node

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	dbm "github.com/cometbft/cometbft-db"
	abci "github.com/cometbft/cometbft/abci/types"
	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/app"
	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/postgres"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/effects"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/metrics"
	"github.com/chainify-db/chainify/abci/peers"
	"github.com/chainify-db/chainify/abci/wire"
)

// Options say which node to run.
type Options struct {
	Home    config.Home
	Config  config.Config
	Version string
	Log     *slog.Logger
	// Backend replaces PostgreSQL; nil: as the configuration says.
	Backend backend.Backend
	// Ready is called once when the node takes requests.
	Ready func()
	// Application is put between CometBFT and the node's own application; nil: nothing is. For tests of organisations that lie.
	Application func(abci.Application) abci.Application
	// Rejoin lets an excluded organisation try again, once for each value. nil: never.
	Rejoin <-chan os.Signal
}

const (
	settleLimit = 3 * time.Second // for the open block, at the end
	lookEvery   = 2 * time.Second // whether the scrubber of an idle database found something
	settlePoll  = 20 * time.Millisecond
	stopLimit   = 10 * time.Second // for CometBFT
	// agreementLimit bounds how long a client waits for other organisations' agreement, and how long this one decides.
	agreementLimit = 5 * time.Second
	agreementLooks = 3
	agreementPause = 100 * time.Millisecond
)

// ErrConsensusFailed says that CometBFT halted this node's consensus: its state contradicts itself or the genesis.
var ErrConsensusFailed = errors.New("CometBFT stopped this node's consensus")

// node holds the parts between start and end.
type node struct {
	opt     Options
	log     *slog.Logger
	founded *order.Registry // at the start, or by the genesis: chain and parameters do not change
	doc     genesisDoc
	keys    *keys
	backend backend.Backend // nil: ordering only
	store   dbm.DB
	gateway *gateway.Gateway
	effects *effects.Shell
	peers   *peers.Reactor    // nil: ordering only
	asking  *peers.Agreements // nil: ordering only, or a database that knows of no policies
	conduct *peers.Conduct
	app     *app.App
	order   *ordering
	metrics *metrics.Metrics
	// height is that of the last block decided.
	height atomic.Int64
	failed chan string // CometBFT's consensus ended by itself
}

// Run runs a node until ctx ends or a part fails. A nil error means that it ended because ctx did, with everything
// closed. A database that is down is no failure: the node orders and waits for it.
func Run(ctx context.Context, opt Options) (err error) {
	n := &node{opt: opt, log: opt.Log, conduct: peers.NewConduct(opt.Log.With("part", "peers")), failed: make(chan string, 1)}
	defer func() { err = errors.Join(err, n.close()) }()
	if err := n.assemble(); err != nil {
		return err
	}
	doors, err := n.openDoors()
	if err != nil {
		return err
	}
	return n.run(ctx, doors)
}

// assemble makes the parts, from the database outwards; nothing runs yet but CometBFT's handshake with the application.
func (n *node) assemble() error {
	if err := n.loadGenesis(); err != nil {
		return err
	}
	if err := n.openStore(); err != nil {
		return err
	}
	var err error
	if n.keys, err = newKeys(n.opt.Home, n.opt.Config.Organisation, n.registry, n.log); err != nil {
		return err
	}
	if err := errors.Join(n.keys.check(), n.assembleDatabase()); err != nil {
		return err
	}
	limits := n.opt.Config.GatewayLimits()
	limits.BundleTransactions = min(limits.BundleTransactions, n.founded.Parameters().BlockTransactionsMax)
	n.order = &ordering{}
	n.metrics = n.newMetrics()
	gatewayOptions := gateway.Options{
		ChainID: n.founded.ChainID(), Organisation: n.opt.Config.Organisation, Key: n.keys.Gateway, Limits: limits,
		ClientRole: n.clientRole, Suspended: n.suspended, OrderingOnly: n.ordersOnly, Broadcaster: n.order, CatchingUp: n.order.catchingUp, Watch: n.metrics,
		Log: n.log.With("part", "gateway"),
	}
	if n.backend != nil {
		gatewayOptions.Outcomes = n.backend
	}
	if gatewayOptions.Agreements, err = n.assembleAgreements(); err != nil {
		return err
	}
	if n.gateway, err = gateway.New(gatewayOptions); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if err := n.assembleEffects(); err != nil {
		return err
	}
	return n.assembleOrder()
}

// openStore opens the node's store, and finds in it who takes part by now.
func (n *node) openStore() (err error) {
	if n.store, err = openOwnStore(n.opt.Home.Data()); err != nil {
		return fmt.Errorf("open the node's store (does another node run on this home?): %w", err)
	}
	stored, err := app.NewStore(n.store).Registry()
	if stored != nil {
		n.founded = stored
	}
	return err
}

// registry is who takes part in the next order block.
func (n *node) registry() *order.Registry {
	if n.app != nil {
		if r := n.app.Registry(); r != nil {
			return r
		}
	}
	return n.founded
}

// ordersOnly tells that the organisation is one without a database.
func (n *node) ordersOnly() bool {
	_, orderingOnly := n.registry().Knows(n.opt.Config.Organisation)
	return orderingOnly
}

// assembleDatabase opens the organisation's database, where it has one.
func (n *node) assembleDatabase() error {
	known, orderingOnly := n.founded.Knows(n.opt.Config.Organisation)
	n.backend = n.opt.Backend
	if orderingOnly && (n.backend != nil || n.opt.Config.Database.DSN != "") {
		return fmt.Errorf("organisation %q only orders by the registry: database.dsn must be empty", n.opt.Config.Organisation)
	}
	if !known {
		n.log.Warn("the organisation is not in the registry: until it is, this node follows the others and takes no transactions",
			"organisation", n.opt.Config.Organisation)
	}
	if n.backend != nil {
		return nil
	}
	return n.openDatabase(orderingOnly)
}

// assembleAgreements makes what asks other organisations to agree, and answers them; nil without a database that can tell.
func (n *node) assembleAgreements() (*gateway.Agreements, error) {
	database, ok := n.backend.(backend.Rehearser)
	if !ok {
		return nil, nil
	}
	nodeKey, err := n.opt.Home.NodeKey()
	if err != nil {
		return nil, err
	}
	n.asking, err = peers.NewAgreements(peers.AgreementOptions{
		ChainID: n.founded.ChainID(), Organisation: n.opt.Config.Organisation, Key: n.keys.Gateway, NodeID: string(nodeKey.ID()),
		GatewayKey: n.gatewayKeyOf, Ever: n.everKey, Conduct: n.conduct, Limit: agreementLimit, Log: n.log.With("part", "agreement"),
		Decide: func(ctx context.Context, tx []byte) (string, error) { return decide(ctx, database, tx) },
	})
	return &gateway.Agreements{Database: database, Others: n.asking, Limit: agreementLimit}, err
}

// decide says why this organisation does not agree to a transaction. Its database may be a block behind the one that the client saw, so
// that a no is looked at again.
func decide(ctx context.Context, database backend.Rehearser, tx []byte) (refusal string, err error) {
	for range agreementLooks {
		found, err := database.Rehearse(ctx, [][]byte{tx})
		switch {
		case err != nil:
			return "", err
		case found[0].SQLState != "":
			refusal = "the transaction fails there: " + found[0].Message
		case found[0].Refusal != "":
			refusal = found[0].Refusal
		default:
			return "", nil
		}
		select {
		case <-ctx.Done():
			return refusal, nil
		case <-time.After(agreementPause):
		}
	}
	return refusal, nil
}

// assembleEffects makes the effect consensus and, with a database, its way to the other organisations' databases.
func (n *node) assembleEffects() error {
	c := n.opt.Config
	steps, err := c.RecoverySteps()
	if err != nil {
		return err
	}
	options := effects.Options{
		Config: effects.Config{
			Organisation: c.Organisation,
			OpenMaxMS:    time.Duration(c.Effects.OpenMax).Milliseconds(), LookMS: lookEvery.Milliseconds(),
			Steps: steps, FullBlocksMax: uint64(max(c.Recovery.FullBlocksMax, 0)), FullNoticeMS: time.Duration(c.Recovery.FullNotice).Milliseconds(),
			RepairsMax: c.Recovery.RepairsMax, HelpAttempts: c.Recovery.HelpAttempts,
		},
		Backend: n.backend, Outcomes: n.gateway, Memory: memory{n.store}, Watch: n.metrics, Logger: n.log.With("part", "effects"),
		Ran: func(transactions int, took time.Duration, slow map[string]time.Duration) {
			n.app.Ran(transactions, took, slow)
		},
	}
	if n.backend != nil {
		nodeKey, err := n.opt.Home.NodeKey()
		if err != nil {
			return err
		}
		n.peers, err = peers.New(peers.Options{
			ChainID: n.founded.ChainID(), Organisation: c.Organisation, Key: n.keys.Gateway, NodeID: string(nodeKey.ID()),
			GatewayKey: n.gatewayKeyOf, Ever: n.everKey, Conduct: n.conduct, Backend: n.backend, BytesPerSecond: c.Recovery.TellRate, SessionLimit: time.Duration(c.Recovery.TellLimit), Log: n.log.With("part", "peers"),
		})
		if err != nil {
			return err
		}
		options.Others = n.peers
	}
	if n.effects, err = effects.New(options); err != nil {
		return fmt.Errorf("effects: %w", err)
	}
	return nil
}

// assembleOrder shakes hands with CometBFT, and gives the application the block store.
func (n *node) assembleOrder() error {
	var err error
	n.app, err = app.New(app.Options{
		Store: app.NewStore(n.store), Effects: tee{Shell: n.effects, node: n}, Organisation: n.opt.Config.Organisation,
		VoteTimeout: time.Duration(n.opt.Config.Effects.VoteTimeout), Mempool: n.order, Gather: time.Duration(n.opt.Config.Consensus.Gather), Logger: n.log.With("part", "order"),
	})
	if err != nil {
		return err
	}
	n.effects.Attach(n.app)
	if err := n.order.open(n); err != nil {
		return err
	}
	from, next, pending := n.app.Voting()
	votes, err := voted(n.order.comet.Config().Consensus.WalFile(), from, next, pending)
	if err != nil {
		return err
	}
	n.effects.Voted(votes)
	n.decided(n.order.comet.BlockStore().Height(), nil)
	return n.app.SetBlocks(n.order)
}

func (n *node) loadGenesis() error {
	doc, state, err := n.opt.Home.LoadGenesis()
	if err != nil {
		return err
	}
	validators := make([]order.Validator, len(doc.Validators))
	for i, v := range doc.Validators {
		validators[i] = order.Validator{Key: v.PubKey.Bytes(), Power: v.Power}
	}
	if n.founded, err = order.NewRegistry(doc.ChainID, state, validators); err != nil {
		return fmt.Errorf("%s: %w", n.opt.Home.Genesis(), err)
	}
	n.doc = genesisDoc{doc: doc, state: state}
	return nil
}

func (n *node) openDatabase(orderingOnly bool) error {
	c := n.opt.Config.Database
	if c.DSN == "" {
		if !orderingOnly {
			n.log.Warn("no database is configured: this node only orders, and unless another node of the organisation votes on effects, the organisation counts as one that is away")
		}
		return nil
	}
	b, err := postgres.New(postgres.Config{
		DSN: c.DSN, ChainID: n.founded.ChainID(), Organisation: n.opt.Config.Organisation, StuckAfter: time.Duration(c.StuckAfter),
		SynchronousCommit: c.SynchronousCommit,
		Registry:          func() (*wire.RegistryHistory, error) { return n.app.RegistryHistory() }, // connected after the application is made
	})
	if err != nil {
		return err
	}
	n.backend = b
	return nil
}

// decided passes a decided block on to the gateway, before effects can answer for it.
func (n *node) decided(height int64, ids []wire.TxID) {
	n.height.Store(height)
	n.gateway.Decided(height, ids)
}

// tee shows the gateway what was decided before effects acts on it, and the metrics what is decided and voted.
type tee struct {
	*effects.Shell
	node *node
}

// Decided implements app.Effects.
func (t tee) Decided(d wire.Decision) {
	var ids []wire.TxID
	if d.Ordered != nil {
		ids = d.Ordered.IDs
	}
	t.node.decided(d.Height, ids)
	t.node.metrics.Decided(d)
	t.Shell.Decided(d)
}

// Seen implements app.Effects.
func (t tee) Seen(organisation string, vote wire.EffectVote) {
	t.node.metrics.Voted(organisation, vote)
	t.Shell.Seen(organisation, vote)
}

// Vote implements app.Effects.
func (t tee) Vote(ctx context.Context, block *wire.OrderedBlock) []byte {
	raw := t.Shell.Vote(ctx, block)
	if vote, err := wire.DecodeEffectVote(raw); err == nil {
		t.node.metrics.Voted(t.node.opt.Config.Organisation, vote)
	}
	return raw
}

// run starts everything and waits. Order of the end: refuse new transactions; let the open block finish; close the
// doors; stop CometBFT, which may still wait for a vote of effects; then effects, which rolls back what is open.
func (n *node) run(ctx context.Context, d *doors) error {
	lasting, endLasting := context.WithCancel(context.WithoutCancel(ctx))
	defer endLasting()
	lastingGroup, lasting := errgroup.WithContext(lasting)
	lastingGroup.Go(func() error { return n.effects.Run(lasting) })

	inner, endInner := context.WithCancel(lasting)
	defer endInner()
	group, inner := errgroup.WithContext(inner)
	group.Go(func() error { return d.socket.Serve(inner) })
	if d.http != nil {
		group.Go(func() error { return d.api.Serve(inner, d.http) })
	}
	if d.metrics != nil {
		group.Go(func() error { return n.metrics.Serve(inner, d.metrics, n.log.With("part", "metrics")) })
	}
	if d.explorer != nil {
		group.Go(func() error { return d.explorer.serve(inner) })
	}
	group.Go(func() error { return n.gateway.Run(inner) })
	group.Go(func() error {
		select {
		case <-inner.Done():
			return nil
		case why := <-n.failed:
			return fmt.Errorf("%w: %s", ErrConsensusFailed, why)
		}
	})
	group.Go(func() error { n.rejoinWhenTold(inner); return nil })
	anchored, err := n.anchor()
	if err == nil {
		err = n.order.start(n.app.Precommitted)
	}
	if err == nil {
		group.Go(func() error { n.order.admits.watch(inner, n.order.comet.Switch(), n.order.vouches.Tell); return nil })
		group.Go(func() error { n.order.peering(n).run(inner); return nil })
		if anchored != nil {
			group.Go(func() error { anchored.Run(inner); return nil })
		}
		n.log.Info("node runs", "organisation", n.opt.Config.Organisation, "chain", n.founded.ChainID(),
			"socket", n.opt.Home.Path(n.opt.Config.Clients.Socket), "http", n.opt.Config.HTTP.Listen, "explorer", n.opt.Config.Explorer.Listen, "height", n.height.Load())
		if n.opt.Ready != nil {
			n.opt.Ready()
		}
		select {
		case <-ctx.Done():
			n.log.Info("node stops")
			n.gateway.Close()
			n.settle(inner)
		case <-inner.Done():
			n.log.Error("a part of the node failed; the node stops")
		}
	}
	endInner()
	err = errors.Join(err, clean(group.Wait()), n.order.stop(n.log))
	endLasting()
	return errors.Join(err, clean(lastingGroup.Wait()))
}

// newMetrics makes the metrics, which ask the parts only when they are served.
func (n *node) newMetrics() *metrics.Metrics {
	standing := metrics.Standing{
		Status: n.status, Queue: func() gateway.Stats { return n.gateway.Stats() }, Evidence: func() uint64 { return n.app.EvidenceCount() },
		Suspended: func() int { s, _ := n.app.Status(); return len(s.Suspended) },
		Offences:  n.conduct.Offences,
	}
	standing.Database, _ = n.backend.(backend.Inspector)
	return metrics.New(n.founded.Organisations(), standing)
}

// rejoin passes a client's word on to effects; false when the organisation is not excluded.
func (n *node) rejoin() bool {
	if n.effects.Status().State != "excluded" {
		return false
	}
	n.effects.Rejoin()
	return true
}

// giveUp passes an operator's word on to effects.
func (n *node) giveUp(block uint64, index uint32, id []byte) (uint64, uint32, bool) {
	return n.effects.GiveUp(block, index, id)
}

// rejoinWhenTold passes the operator's word on to effects.
func (n *node) rejoinWhenTold(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.opt.Rejoin:
			n.effects.Rejoin()
		}
	}
}

// clean drops the error of a part that ended because it was told to.
func clean(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// settle waits, bounded, until the database has committed what is ordered, so that waiting clients get their answer.
func (n *node) settle(ctx context.Context) {
	if n.backend == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for {
		s := n.effects.Status()
		if s.LastCommitted >= n.app.LastOrdered() || (s.State != "serving" && s.State != "executing") {
			return
		}
		select {
		case <-ctx.Done():
			n.log.Warn("a block is still open at the end and is rolled back; it is executed again at the next start",
				"ordered", n.app.LastOrdered(), "committed", s.LastCommitted)
			return
		case <-tick.C:
		}
	}
}

// close closes what assemble opened, however far it came.
func (n *node) close() error {
	var errs []error
	if n.order != nil {
		n.order.close()
	}
	if n.backend != nil {
		errs = append(errs, n.backend.Close())
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}

// gatewayKeyOf is the gateway key of an organisation that has a database now.
func (n *node) gatewayKeyOf(organisation string) (ed25519.PublicKey, bool) {
	return n.registry().GatewayKey(organisation)
}

// everKey reports whether a gateway key fits that an organisation has, had, or will have.
func (n *node) everKey(organisation string, fits func(ed25519.PublicKey) bool) bool {
	return n.app == nil || n.app.Ever(organisation, fits)
}

// status is the node's answer to StatusRequest.
func (n *node) status(context.Context) *wire.StatusResponse {
	s, registry := n.effects.Status(), n.registry()
	known, orderingOnly := registry.Knows(n.opt.Config.Organisation)
	out := &wire.StatusResponse{
		Organisation: n.opt.Config.Organisation, ChainId: n.founded.ChainID(), Version: n.opt.Version,
		Height: n.height.Load(), LastOrdered: n.app.LastOrdered(), LastCertified: n.app.LastCertified(),
		LastCommitted: s.LastCommitted, State: s.State, Reason: s.Reason, Peers: n.order.peers(),
		Organisations: uint32(len(registry.Organisations())), Consent: uint32(registry.Consent()),
		Outside: !known || !orderingOnly && n.keys.Gateway() == nil,
	}
	if order, ok := n.app.Status(); ok {
		out.Changes, out.ChangeWaits = order.Governance.Changes, order.Governance.Waiting != nil
	}
	if n.order.catchingUp() {
		out.State = "catching_up"
	}
	return out
}

// clientRole is the role that a key of one of the organisation's clients is registered for.
func (n *node) clientRole(key []byte) (string, bool) {
	return n.app.Clients().RoleOf(n.opt.Config.Organisation, key)
}

// suspended is until when nothing of a client of the organisation is ordered.
func (n *node) suspended(role string, key []byte) time.Time {
	return n.app.Suspended(&wire.Client{Organisation: n.opt.Config.Organisation, Role: role, Key: key})
}

// clients is the node's answer to ClientsRequest.
func (n *node) clients() *wire.ClientsResponse {
	list, changes := n.app.Clients().Of(n.opt.Config.Organisation)
	out := &wire.ClientsResponse{Changes: changes}
	for _, c := range list {
		out.Clients = append(out.Clients, &wire.ClientsResponse_Client{Key: c.Key, Role: c.Role})
	}
	return out
}

// evidence is the node's answer to EvidenceRequest.
func (n *node) evidence() *wire.EvidenceResponse {
	out := &wire.EvidenceResponse{ChainId: n.founded.ChainID(), Count: n.app.EvidenceCount()}
	for _, e := range n.app.Evidence() {
		out.Evidence = append(out.Evidence, &wire.Evidence{
			Organisation: e.Organisation, Block: e.Key.Number, EffectRound: e.Key.Round, First: e.First, Second: e.Second,
		})
	}
	return out
}

// registryResponse is the node's answer to RegistryRequest.
func (n *node) registryResponse() (*wire.RegistryResponse, error) {
	registry := n.registry()
	record := registry.Record()
	out := &wire.RegistryResponse{
		ChainId: record.ChainID, Changes: record.Changes, Consent: uint32(registry.Consent()), DefaultConsent: record.Consent == 0,
		Approvals: uint32(registry.Approvals()), DefaultApprovals: record.Approvals == 0, Organisations: registry.Members(),
		BlockTimes: registry.BlockTimes(),
	}
	status, ok := n.app.Status()
	if !ok || status.Governance.Waiting == nil {
		return out, nil
	}
	var err error
	out.Waiting, err = wire.DecodeGovernanceChange(status.Governance.Waiting)
	return out, err
}
