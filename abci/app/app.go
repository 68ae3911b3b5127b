// Package app is the ABCI 2.0 application: it keeps the order-level state for CometBFT and carries
// effect votes. It never touches a database; the Effects interface hides the execution of blocks.
//
// Invariant A1: its answers to CometBFT are a function of the ordered blocks alone, ExtendVote
// excepted.
// Invariant A2: effects travel as vote extensions and effect certificates only.
// Invariant A3: at most one ledger block is pending; meanwhile ordering continues without bundles.
//
// Rules: spec/effect-consensus.md.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/propose"
	"github.com/chainify-db/chainify/abci/wire"
)

// The functions of the order level for the command line and the node.
type (
	Genesis             = order.Genesis
	GenesisOrganisation = order.GenesisOrganisation
	Parameters          = order.Parameters
)

// Blocks reads the transactions of a decided order block, from CometBFT's block store.
type Blocks interface {
	Txs(height int64) ([][]byte, error)
}

// Options configures an App.
type Options struct {
	Store   *Store
	Effects Effects
	// Organisation is the node's own: its own precommits are not reported as seen.
	Organisation string
	// VoteTimeout bounds how long a precommit waits for execution (effects.vote_timeout); 0 means 1
	// s.
	VoteTimeout time.Duration
	// HoldBack slows the precommits of a ledger block pending for long, the more the longer
	// (heldBack); 0 means 200 ms.
	HoldBack time.Duration
	// Mempool and Gather let a proposer wait for the clients that were just answered (gather); nil
	// or 0: it does not.
	Mempool Mempool
	Gather  time.Duration
	// Retention says which order blocks stay; all do when its Keep is 0.
	Retention Retention
	// Joining is how the state comes from a snapshot; nil: it comes from blocks alone.
	Joining *Joining
	// Snapshot is told of each snapshot that is kept, by its order block; nil: nobody asks.
	Snapshot func(height int64, block wire.Hash)
	// Knows is the newest version of the protocol that the program knows; 0: wire.ProtocolVersion.
	// Tests have one program be an older one.
	Knows wire.Protocol
	// Stop is told, once, that the next order block is made by a newer version. Hold then keeps
	// CometBFT waiting until the node stops. nil: nobody is told, and nothing waits.
	Stop   func(error)
	Hold   func()
	Logger *slog.Logger
}

const (
	voteTimeout = time.Second
	holdBack    = 200 * time.Millisecond
	// holdBackAge is how many order blocks a ledger block is pending before precommits are held
	// back.
	holdBackAge = 20
	// holdBackGrowth is the number of order blocks after which they are held back by HoldBack
	// longer, up to holdBackMax.
	holdBackGrowth = 100
	holdBackMax    = 2 * time.Second // less than after what a gateway thinks that nothing is ordered
	appVersion     = 1
)

// App implements CometBFT's abci.Application. Its methods may be called from any goroutine;
// CometBFT calls those of the consensus connection one at a time. Effects is never called with a
// lock held.
type App struct {
	abci.BaseApplication
	opt    Options
	log    *slog.Logger
	opened *openCache

	mu           sync.RWMutex
	state        *order.State // after the last Commit; nil before InitChain
	founding     bool         // until the first Commit
	changed      bool         // the last Commit changed the registry
	staged       *preview     // finalized, not committed
	previews     map[wire.Hash]*preview
	body         *order.Body           // of the pending ledger block, nil when not read since the start
	blocks       Blocks                // nil until SetBlocks
	history      *wire.RegistryHistory // of the registries stored, when last asked
	ever         *keysEver             // when last asked
	joined       joinedRecord
	arriving     *arriving // of the snapshot connection alone
	watch        watch
	ordered      []OrderEvidence // bounded; orderedCount goes on
	orderedCount uint64
	slow         propose.Slow
	lent         lent
	pace         propose.Pace

	admitted, expected atomic.Int64 // transactions that came into the mempool, and how many a proposer waits for (gather)
	returned           propose.Return
	patience           propose.Patience // of the consensus connection alone, as what follows
	ownHeight          int64            // of this node's last proposal, while it has no prevotes; 0: they are there
	ownMade            time.Time
	lagged             int64 // height of the last proposal that left bundles out for its old time
}

// preview is the effect of an order block on the committed state, computed once for
// ProcessProposal, ExtendVote and FinalizeBlock.
type preview struct {
	next     *order.State
	result   *order.Result
	proposed bool // effects knows of it; of the consensus connection alone
	hash     wire.Hash
	micro    int64           // the time of the order block, as order.Block has it
	snapshot *order.Snapshot // from FinalizeBlock on, at the heights that have one
}

// previewsMax bounds the proposals of one height that are remembered.
const previewsMax = 16

// New opens the application on its store.
func New(opt Options) (*App, error) {
	if opt.Store == nil || opt.Effects == nil || opt.Logger == nil {
		return nil, errors.New("app: store, effects and logger are required")
	}
	if opt.VoteTimeout == 0 {
		opt.VoteTimeout = voteTimeout
	}
	if opt.HoldBack == 0 {
		opt.HoldBack = holdBack
	}
	if opt.Knows == 0 {
		opt.Knows = wire.ProtocolVersion
	}
	state, err := opt.Store.Load()
	if err != nil {
		return nil, fmt.Errorf("open the order's store: %w", err)
	}
	kept, err := opt.Store.evidence()
	if err != nil {
		return nil, fmt.Errorf("open the order's store: %w", err)
	}
	a := &App{
		opt: opt, log: opt.Logger, state: state, opened: newOpenCache(), previews: map[wire.Hash]*preview{},
		watch: watch{found: kept, count: uint64(len(kept))},
	}
	if a.ordered, err = opt.Store.orderEvidence(); err != nil {
		return nil, fmt.Errorf("open the order's store: %w", err)
	}
	a.orderedCount = uint64(len(a.ordered))
	if a.joined, err = opt.Store.joined(); err != nil {
		return nil, fmt.Errorf("open the order's store: %w", err)
	}
	if state != nil && state.Pending() != nil {
		a.watchChain(state, state.Pending().Votes)
	}
	return a, nil
}

// SetBlocks gives the application CometBFT's block store. Before, while CometBFT replays blocks at
// start, effects is told nothing; now it is told what is pending, and finds the rest in the
// application, its wire.Source.
func (a *App) SetBlocks(blocks Blocks) error {
	a.mu.Lock()
	a.blocks = blocks
	state := a.state
	a.mu.Unlock()
	if state == nil || state.Pending() == nil {
		return nil
	}
	block, err := a.Ordered(state.Pending().Number)
	if errors.Is(err, wire.ErrPruned) { // before the snapshot that this node joined by: its database has it
		return nil
	}
	if err != nil {
		return err
	}
	a.opt.Effects.Decided(Decision{Height: state.Height(), Ordered: block})
	return nil
}

// Info tells CometBFT where the state stands, so that it gives again what is missing.
func (a *App) Info(context.Context, *abci.RequestInfo) (*abci.ResponseInfo, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	info := &abci.ResponseInfo{Data: "chainify", AppVersion: appVersion}
	if a.state != nil && !a.founding {
		hash := a.state.AppHash()
		info.LastBlockHeight, info.LastBlockAppHash = a.state.Height(), hash[:]
	}
	return info, nil
}

// InitChain checks the genesis. An error stops the node before it takes part.
func (a *App) InitChain(_ context.Context, req *abci.RequestInitChain) (*abci.ResponseInitChain, error) {
	if p := req.ConsensusParams; p == nil || p.Abci == nil || p.Abci.VoteExtensionsEnableHeight != max(req.InitialHeight, 1) {
		return nil, fmt.Errorf("genesis: vote_extensions_enable_height must be %d, effects are voted on from the first block", max(req.InitialHeight, 1))
	}
	genesis, err := order.ParseGenesis(req.AppStateBytes)
	if err != nil {
		return nil, fmt.Errorf("genesis: %w", err)
	}
	var validators []order.Validator
	for _, v := range req.Validators {
		validators = append(validators, order.Validator{Key: v.PubKey.GetEd25519(), Power: v.Power})
	}
	registry, err := order.NewRegistry(req.ChainId, genesis, validators)
	if err != nil {
		return nil, fmt.Errorf("genesis: %w", err)
	}
	founding := registry.Genesis(req.InitialHeight)
	if err := a.newer(founding); err != nil {
		return nil, fmt.Errorf("genesis: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state, a.founding = founding, true
	hash := a.state.AppHash()
	return &abci.ResponseInitChain{AppHash: hash[:]}, nil
}

// CheckTx admits to the mempool what a block could accept now. Codes: order.CodeOK and those after
// it. After each block CometBFT asks it again about all that is in the mempool. It then opens all
// again, once, if that block changed the registry: no block takes a transaction signed with a key
// that counts no more. Else it refuses what was found wrong meanwhile: the cache may verify
// clients' signatures only later, many together (openCache). Nothing is verified of clients before
// a block could accept something of the bundle.
func (a *App) CheckTx(_ context.Context, req *abci.RequestCheckTx) (*abci.ResponseCheckTx, error) {
	a.mu.RLock()
	state, changed := a.state, a.changed
	a.mu.RUnlock()
	if req.Type == abci.CheckTxType_Recheck && !changed {
		return checked(a.opened.refuses(req.Tx)), nil
	}
	if state == nil {
		return nil, errors.New("check transaction: the chain is not initialised")
	}
	tx, err := a.opened.admit(state.Registry(), req.Tx, a.live)
	if err != nil {
		return checked(err), nil
	}
	if tx.Bundle() == nil && !tx.IsGovernance() && !tx.IsClient() {
		return &abci.ResponseCheckTx{Code: order.CodeNotABundle, Log: "an effect certificate comes from a proposer only", Codespace: codespace}, nil
	}
	if err := a.mayHold(tx); err != nil {
		return checked(err), nil
	}
	if !a.live(tx) { // again: the replay window moves at Commit, and opening took long
		return checked(errNothingLive), nil
	}
	if bundle := tx.Bundle(); bundle != nil && req.Type == abci.CheckTxType_New {
		a.returned.Admitted(a.admitted.Add(int64(bundle.Len())), time.Now())
	}
	return &abci.ResponseCheckTx{}, nil
}

const codespace = "chainify"

var errNothingLive = &order.Refusal{Code: order.CodeNothingLive, Err: errors.New("every transaction of the bundle is expired or replayed, or the change is stale")}

// live reports whether the next order block could accept something of a transaction.
func (a *App) live(tx order.Tx) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.state.Live(tx)
}

// mayHold says why no block may hold a transaction; nil: one may.
func (a *App) mayHold(tx order.Tx) error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.state.MayHold(tx)
}

func checked(err error) *abci.ResponseCheckTx {
	if err == nil {
		return &abci.ResponseCheckTx{}
	}
	return &abci.ResponseCheckTx{Code: order.CodeOf(err), Log: err.Error(), Codespace: codespace}
}

// Own tells of a bundle that this node's gateway hands to the mempool: it has verified its clients'
// signatures.
func (a *App) Own(ordered []byte) {
	if state, err := a.current(); err == nil {
		a.opened.own(state.Registry(), ordered)
	}
}

// current returns the committed state.
func (a *App) current() (*order.State, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.state == nil {
		return nil, errors.New("the chain is not initialised")
	}
	return a.state, nil
}

// preview returns what an order block does to the committed state. It is a function of the block
// (A1).
func (a *App) preview(height int64, at time.Time, hash []byte, txs [][]byte) (*preview, error) {
	if len(hash) != len(wire.Hash{}) {
		return nil, fmt.Errorf("order block hash of %d bytes, want %d", len(hash), len(wire.Hash{}))
	}
	a.mu.RLock()
	known, state := a.previews[wire.Hash(hash)], a.state
	a.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	if state == nil {
		return nil, errors.New("the chain is not initialised")
	}
	if err := a.refuse(state); err != nil {
		return nil, err
	}
	opened, errs := a.opened.all(state.Registry(), txs, false)
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("transaction %d: %w", i, err)
		}
	}
	block := order.Block{Height: height, TimeMicro: wire.TimeOf(at), Hash: wire.Hash(hash), Txs: opened}
	next, result, err := state.Apply(block)
	if err != nil {
		return nil, err
	}
	p := &preview{next: next, result: result, hash: block.Hash, micro: block.TimeMicro}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.previews) >= previewsMax {
		clear(a.previews)
	}
	a.previews[wire.Hash(hash)] = p
	return p, nil
}
