package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/chainify-db/chainify/abci/app"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/mariadb"
	"github.com/chainify-db/chainify/abci/comet"
	"github.com/chainify-db/chainify/abci/comet/keyring"
	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/comet/signer"
	"github.com/chainify-db/chainify/abci/comet/votelog"
	"github.com/chainify-db/chainify/abci/effects"
	"github.com/chainify-db/chainify/abci/engines"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/metrics"
	"github.com/chainify-db/chainify/abci/nodestore"
	"github.com/chainify-db/chainify/abci/takeover"
	"github.com/chainify-db/chainify/abci/wire"
)

// promotedAfter is the longest pause between two attempts to reach a database of several servers: a
// standby may have been promoted meanwhile.
const promotedAfter = 2 * time.Second

// openHome reads the genesis, opens the store and the keys.
func (n *node) openHome() error {
	if err := n.loadGenesis(); err != nil {
		return err
	}
	if err := n.openStore(); err != nil {
		return err
	}
	return n.openKeys()
}

// assemble makes the parts, from the database outwards; nothing runs yet but CometBFT's handshake
// with the application.
func (n *node) assemble() error {
	if err := n.openHome(); err != nil {
		return err
	}
	if err := errors.Join(n.keys.Check(), n.assemblePrivate(), n.assembleDatabase(), n.attachPrivate()); err != nil {
		return err
	}
	limits := n.opt.Config.GatewayLimits()
	limits.BundleTransactions = min(limits.BundleTransactions, n.founded.Parameters().BlockTransactionsMax)
	n.order = comet.Order(comet.NewInside())
	if n.opt.Beside {
		n.order = comet.NewBeside()
	}
	n.guards.Attach(n.order)
	n.metrics = n.newMetrics()
	gatewayOptions := gateway.Options{
		ChainID: n.founded.ChainID(), Organisation: n.opt.Config.Organisation, Key: n.keys.Gateway, Limits: limits,
		ClientRole: n.clientRole, Suspended: n.suspended, Refused: n.refused, Shares: n.shares, BlockKeys: n.blockKeys, OrderingOnly: n.ordersOnly, Broadcaster: n.order, CatchingUp: n.order.CatchingUp, Watch: n.metrics,
		Private: n.private, Log: n.log.With("part", "gateway"),
	}
	if n.backend != nil {
		gatewayOptions.Outcomes = n.backend
	}
	var err error
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

// openKeys opens the home's keys, and waits for the signer where another process has one.
func (n *node) openKeys() (err error) {
	var remote *signer.Key
	if address := n.opt.Config.Consensus.SignerListen; address != "" {
		if remote, err = signer.OpenRemote(address, n.founded.ChainID(), comet.NewLog(n.log.With("part", "signer"), slog.LevelError)); err != nil {
			return err
		}
	}
	if n.guards, err = keyring.NewGuards(n.opt.Home, n.founded.ChainID(), n.registry, n.log.With("part", "signing")); err != nil {
		return err
	}
	n.keys, err = keyring.Open(keyring.Options{
		Home: n.opt.Home, Config: n.opt.Config, Standby: n.standby, Registry: n.registry, Guards: n.guards,
		Newer: n.newerProtocol, Next: n.next, Remote: remote, Log: n.log,
	})
	if err != nil {
		return err
	}
	n.signer = n.keys
	if n.opt.Signer != nil {
		n.signer = n.opt.Signer(n.signer)
	}
	return nil
}

func (n *node) loadGenesis() (err error) {
	n.genesis, n.genesisState, n.founded, err = n.opt.Home.Founded()
	return err
}

// openStore opens the node's store, and finds in it who takes part by now.
func (n *node) openStore() (err error) {
	if n.store, err = nodestore.Open(n.opt.Home.Data()); err != nil {
		return fmt.Errorf("open the node's store (does another node run on this home?): %w", err)
	}
	stored, err := app.NewStore(n.store).Registry()
	if stored != nil {
		n.founded = stored
	}
	return err
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

func (n *node) openDatabase(orderingOnly bool) error {
	c := n.opt.Config.Database
	if n.standby {
		n.log.Info("a standby: it keeps the order, and neither votes nor uses the database before chainify take-over")
		return nil
	}
	if c.DSN == "" {
		if !orderingOnly {
			n.log.Warn("no database is configured: this node only orders, and unless another node of the organisation votes on effects, the organisation counts as one that is away")
		}
		return nil
	}
	b, err := engines.Open(engines.Options{
		DSN: c.DSN, ChainID: n.founded.ChainID(), Organisation: n.opt.Config.Organisation, StuckAfter: time.Duration(c.StuckAfter),
		SynchronousCommit: c.SynchronousCommit, Memory: nodestore.Memory{DB: n.store}, OnTheWay: n.private,
		Registry:    n.registryHistory, // connected after the application is made
		Environment: n.environments.Tell,
		Scrubbing:   mariadb.Scrubbing{Every: time.Duration(c.ScrubInterval), RowsPerSecond: c.ScrubRate},
		Checkpoints: mariadb.Checkpoints{Interval: uint64(c.CheckpointInterval), Kept: uint64(c.CheckpointsKept)},
	})
	if err != nil {
		return err
	}
	n.backend = b
	return nil
}

// newMetrics makes the metrics, which ask the parts only when they are served.
func (n *node) newMetrics() *metrics.Metrics {
	standing := metrics.Standing{
		Status: n.status, Queue: func() gateway.Stats { return n.gateway.Stats() }, Evidence: func() uint64 {
			_, ordered := n.app.OrderEvidence()
			return n.app.EvidenceCount() + ordered
		},
		Suspended: func() int { s, _ := n.app.Status(); return len(s.Suspended) },
		Offences:  n.conduct.Offences,
		Oldest:    n.order.Oldest,
		Keep:      n.opt.Config.Retention.OrderBlocks,
		Lane:      n.order.LaneCounts,
	}
	standing.Database, _ = n.backend.(backend.Inspector)
	return metrics.New(n.founded.Organisations(), standing)
}

// assembleAgreements makes what asks other organisations to agree, and answers them; nil without a
// database that can tell.
func (n *node) assembleAgreements() (*gateway.Agreements, error) {
	database, ok := n.backend.(backend.Rehearser)
	if !ok || n.opt.Beside { // nothing carries the question to the others
		return nil, nil
	}
	nodeKey, err := n.opt.Home.NodeKey()
	if err != nil {
		return nil, err
	}
	n.asking, err = peers.NewAgreements(peers.AgreementOptions{
		ChainID: n.founded.ChainID(), Organisation: n.opt.Config.Organisation, Key: n.keys.Gateway, NodeID: string(nodeKey.ID()),
		GatewayKey: n.gatewayKeyOf, Ever: n.everKey, Conduct: n.conduct, Limit: agreementLimit, Log: n.log.With("part", "agreement"),
		Decide: func(ctx context.Context, tx []byte, at func() int64) (string, error) {
			committed := func() uint64 { return n.effects.Status().LastCommitted }
			return decide(ctx, database, asker{at, n.height.Load, n.app.LastOrdered, committed}, tx)
		},
	})
	if err != nil {
		return nil, err
	}
	return &gateway.Agreements{Database: database, Others: n.asking, Limit: agreementLimit, Ordered: n.asking.Ordered}, nil
}

// plans runs the organisation's due planned transactions; nil without a database that tells of
// them.
func (n *node) plans() *gateway.Plans {
	database, ok := n.backend.(backend.Planner)
	if !ok {
		return nil
	}
	return &gateway.Plans{Database: database, Submit: n.gateway.Submit, Now: time.Now, Log: n.log.With("part", "plans")}
}

// desk submits transactions for clients of the database; nil where these reach the node themselves.
func (n *node) desk() *gateway.Desk {
	database, ok := n.backend.(backend.Desk)
	if !ok {
		return nil
	}
	return &gateway.Desk{Database: database, Gateway: n.gateway, Now: time.Now, Log: n.log.With("part", "desk")}
}

// assembleEffects makes the effect consensus and, with a database, its way to the other
// organisations' databases.
func (n *node) assembleEffects() error {
	c := n.opt.Config
	steps, err := c.RecoverySteps()
	if err == nil {
		steps, err = engines.Offered(c.Database.DSN, steps)
	}
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
		Backend: n.backend, Outcomes: outcomes{n.gateway, n.private}, Memory: nodestore.Memory{DB: n.store}, Watch: n.metrics, Logger: n.log.With("part", "effects"),
		Ran: func(transactions int, took time.Duration, slow map[string]time.Duration) {
			n.app.Ran(transactions, took, slow)
		},
	}
	if engines.HasStandbys(c.Database.DSN) {
		options.Config.BackoffMaxMS = promotedAfter.Milliseconds()
	}
	if n.backend != nil && !n.opt.Beside {
		nodeKey, err := n.opt.Home.NodeKey()
		if err != nil {
			return err
		}
		n.peers, err = peers.New(peers.Options{
			ChainID: n.founded.ChainID(), Organisation: c.Organisation, Key: n.tellingKey, NodeID: string(nodeKey.ID()),
			GatewayKey: n.toldKeyOf, Ever: n.everKey, Conduct: n.conduct, Backend: n.backend, BytesPerSecond: c.Recovery.TellRate, SessionLimit: time.Duration(c.Recovery.TellLimit), Log: n.log.With("part", "peers"),
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

// retention is which order blocks this node keeps.
func (n *node) retention() app.Retention {
	r := app.Retention{
		Keep: n.opt.Config.Retention.OrderBlocks, Snapshots: n.opt.Config.Retention.Snapshots, Oldest: n.order.Oldest, Aged: n.order.Aged,
	}
	if n.backend != nil {
		r.Executed = func() uint64 {
			if n.opt.Config.Retention.Archive == "" {
				return n.effects.Status().LastCommitted
			}
			return min(n.effects.Status().LastCommitted, n.archived.Load())
		}
	}
	return r
}

// assembleOrder shakes hands with CometBFT, and gives the application the block store.
func (n *node) assembleOrder() error {
	err := n.prepareJoin()
	if err != nil {
		return err
	}
	n.app, err = app.New(app.Options{
		Store: app.NewStore(n.store), Effects: tee{Shell: n.effects, node: n}, Organisation: n.opt.Config.Organisation,
		Retention: n.retention(), Joining: n.joining(), Snapshot: n.tellTrust, Knows: n.opt.Knows, Stop: n.stopForNewer, Hold: n.order.Hold,
		VoteTimeout: time.Duration(n.opt.Config.Effects.VoteTimeout), Mempool: n.order, Gather: time.Duration(n.opt.Config.Consensus.Gather), Logger: n.log.With("part", "order"),
	})
	if err != nil {
		return err
	}
	if err := n.newerProtocol(); err != nil {
		return err
	}
	n.effects.Attach(n.app)
	if err := errors.Join(n.order.Open(n.orderOptions()), n.newerProtocol()); err != nil {
		return err
	}
	votes, err := n.order.Voted()
	if err != nil {
		return err
	}
	lost, err := n.assembleLostVotes(votes)
	if err != nil {
		return err
	}
	n.effects.Voted(append(lost, votes.Votes...))
	n.decided(n.order.Height(), nil)
	return n.app.SetBlocks(n.order)
}

// orderOptions is what CometBFT works with.
func (n *node) orderOptions() comet.Options {
	return comet.Options{
		Home: n.opt.Home, Config: n.opt.Config, Genesis: n.genesis, Founded: n.founded, Store: n.store, Log: n.log,
		App: n.app, Keys: n.keys, Guards: n.guards, Signer: n.signer,
		Registry: n.registry, Waiting: n.waitingRegistry, Decided: n.height.Load, Next: n.next,
		Conduct: n.conduct, Environments: n.environments, State: n.peers, Agreements: n.asking, Private: n.carrying, Knows: n.knows(),
		Join: n.join, Failed: n.fail, TakeMetrics: metrics.TakeCometBFT,
		Between: n.opt.Application, Header: n.opt.Header, Lane: n.opt.Lane,
	}
}

// fail has the node end, since CometBFT's consensus ended by itself.
func (n *node) fail(why string) {
	select {
	case n.failed <- why:
	default:
	}
}

// assembleLostVotes returns votes of an earlier node that are known.
func (n *node) assembleLostVotes(own votelog.Own) ([]wire.EffectVote, error) {
	lost := takeover.NewLostVotes(takeover.LostVotesOptions{
		Store: n.store, Log: n.log.With("part", "effects"), Tell: n.effects.VotesUnknown,
		Pending: func() effects.Unknown {
			if _, _, pending := n.app.Voting(); pending.Number > 0 {
				return effects.Unknown{Number: pending.Number, Round: pending.Round}
			}
			return effects.UpTo(n.app.LastOrdered())
		},
		OnChain: func() []wire.EffectVote {
			if vote, voted := n.app.VotedOn(n.opt.Config.Organisation); voted {
				return []wire.EffectVote{vote}
			}
			return nil
		},
	})
	votes, err := lost.Start()
	if err == nil {
		if n.backend != nil { // without a database the node votes on nothing
			lost.Compare(own, n.keys.LastSigned())
		}
		n.guards.Follow(n.keys.Counting(), lost)
	}
	return votes, err
}
