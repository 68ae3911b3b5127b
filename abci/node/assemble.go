package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/chainify-db/chainify/abci/app"
	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/mariadb"
	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/comet/signer"
	"github.com/chainify-db/chainify/abci/effects"
	"github.com/chainify-db/chainify/abci/engines"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/metrics"
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
	if err := errors.Join(n.keys.check(), n.assembleDatabase()); err != nil {
		return err
	}
	limits := n.opt.Config.GatewayLimits()
	limits.BundleTransactions = min(limits.BundleTransactions, n.founded.Parameters().BlockTransactionsMax)
	if n.opt.Beside {
		n.order = newBeside(n)
	} else {
		n.order = &ordering{ending: make(chan struct{})}
	}
	n.silence.attach(n.order)
	n.metrics = n.newMetrics()
	gatewayOptions := gateway.Options{
		ChainID: n.founded.ChainID(), Organisation: n.opt.Config.Organisation, Key: n.keys.Gateway, Limits: limits,
		ClientRole: n.clientRole, Suspended: n.suspended, Refused: n.refused, Shares: n.shares, BlockKeys: n.blockKeys, OrderingOnly: n.ordersOnly, Broadcaster: n.order, CatchingUp: n.order.catchingUp, Watch: n.metrics,
		Log: n.log.With("part", "gateway"),
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
		quiet := newCometLog(n.log.With("part", "signer"), slog.LevelError, new(atomic.Bool), func(string) {})
		if remote, err = signer.OpenRemote(address, n.founded.ChainID(), quiet); err != nil {
			return err
		}
	}
	if n.silence, err = newSilence(n); err != nil {
		return err
	}
	if n.keys, err = newKeys(n, remote); err != nil {
		return err
	}
	n.signer = n.keys
	if n.opt.Signer != nil {
		n.signer = n.opt.Signer(n.signer)
	}
	return nil
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
		SynchronousCommit: c.SynchronousCommit, Memory: memory{n.store},
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
		Oldest:    n.order.oldest,
		Keep:      n.opt.Config.Retention.OrderBlocks,
		Lane:      n.order.laneCounts,
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
		Backend: n.backend, Outcomes: n.gateway, Memory: memory{n.store}, Watch: n.metrics, Logger: n.log.With("part", "effects"),
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
		Keep: n.opt.Config.Retention.OrderBlocks, Snapshots: n.opt.Config.Retention.Snapshots, Oldest: n.order.oldest, Aged: n.order.aged,
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
		Retention: n.retention(), Joining: n.joining(), Snapshot: n.tellTrust, Knows: n.opt.Knows, Stop: n.stopForNewer, Hold: n.order.hold,
		VoteTimeout: time.Duration(n.opt.Config.Effects.VoteTimeout), Mempool: n.order, Gather: time.Duration(n.opt.Config.Consensus.Gather), Logger: n.log.With("part", "order"),
	})
	if err != nil {
		return err
	}
	if err := n.newerProtocol(); err != nil {
		return err
	}
	n.effects.Attach(n.app)
	if err := errors.Join(n.order.open(n), n.newerProtocol()); err != nil {
		return err
	}
	votes, err := n.order.voted(n)
	if err != nil {
		return err
	}
	lost, err := n.assembleLostVotes(votes)
	if err != nil {
		return err
	}
	n.effects.Voted(append(lost, votes.votes...))
	n.decided(n.order.height(), nil)
	return n.app.SetBlocks(n.order)
}

// assembleLostVotes returns votes of an earlier node that are known.
func (n *node) assembleLostVotes(own ownVoted) ([]wire.EffectVote, error) {
	n.lost = &lostVotes{
		memory: memory{n.store}, log: n.log.With("part", "effects"), tell: n.effects.VotesUnknown,
		ordered: func() effects.Unknown {
			if _, _, pending := n.app.Voting(); pending.Number > 0 {
				return effects.Unknown{Number: pending.Number, Round: pending.Round}
			}
			return effects.UpTo(n.app.LastOrdered())
		},
		onChain: func() []wire.EffectVote {
			if vote, voted := n.app.VotedOn(n.opt.Config.Organisation); voted {
				return []wire.EffectVote{vote}
			}
			return nil
		},
	}
	votes, err := n.lost.start()
	if err == nil {
		if n.backend != nil { // without a database the node votes on nothing
			n.lost.compare(own, n.keys.lastSigned())
		}
		n.silence.follow(n.keys.counts(), n.lost)
	}
	return votes, err
}
