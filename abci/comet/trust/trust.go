// Package trust verifies the order blocks by which a node joins: CometBFT's light client, from a
// block that the operator named.
package trust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	dbm "github.com/cometbft/cometbft-db"
	"github.com/cometbft/cometbft/light"
	"github.com/cometbft/cometbft/light/provider"
	lightdb "github.com/cometbft/cometbft/light/store/db"
	"github.com/cometbft/cometbft/p2p"
	cmtstate "github.com/cometbft/cometbft/proto/tendermint/state"
	"github.com/cometbft/cometbft/state"
	"github.com/cometbft/cometbft/types"
	"github.com/cometbft/cometbft/version"

	"github.com/chainify-db/chainify/abci/comet/peers"
)

const (
	headerLimit = 5 * time.Second // for a peer to answer
	// verifyLimit is how long one node may take for a header. There may be a thousand headers
	// between the trusted one and this. retryLimit is how long the node asks all of them again. It
	// gives up then, since a snapshot's height may be a lie.
	verifyLimit = 2 * time.Minute
	retryLimit  = 10 * time.Second
	retryPause  = time.Second
)

// Options is what a provider works with.
type Options struct {
	ChainID string
	Params  *types.ConsensusParams // of the genesis: no order block changes them
	Trust   light.TrustOptions
	Headers *peers.Headers
	Voice   func(id p2p.ID) string           // of a connected node
	Tried   func(height uint64, proven bool) // of a snapshot: peers.SnapshotDoor
	Ends    func() bool                      // the node stops
	Log     *slog.Logger
}

// ErrEnds says that the node stops before it has joined.
var ErrEnds = errors.New("the node stops")

// Provider is a statesync.StateProvider: CometBFT's light client, from the order block that the
// operator named, with the connected nodes as its providers. Each of them is the others' witness.
type Provider struct {
	opt Options

	mu     sync.Mutex // guards client
	client *light.Client
}

// New makes a provider.
func New(opt Options) *Provider { return &Provider{opt: opt} }

// AppHash implements statesync.StateProvider.
func (t *Provider) AppHash(_ context.Context, height uint64) ([]byte, error) {
	header, err := t.verified(int64(height) + 1)
	if err == nil {
		_, err = t.verified(int64(height) + 2)
	}
	if errors.Is(err, ErrEnds) {
		return nil, err
	}
	if t.opt.Tried(height, err == nil); err != nil {
		t.opt.Log.Warn("the order block behind a snapshot is not verified", "height", height, "error", err)
		return nil, err
	}
	return header.AppHash, nil
}

// Commit implements statesync.StateProvider.
func (t *Provider) Commit(_ context.Context, height uint64) (*types.Commit, error) {
	header, err := t.verified(int64(height))
	if err != nil {
		return nil, err
	}
	return header.Commit, nil
}

// State implements statesync.StateProvider.
func (t *Provider) State(_ context.Context, height uint64) (state.State, error) {
	var of [3]*types.LightBlock
	for i := range of {
		header, err := t.verified(int64(height) + int64(i))
		if err == nil {
			header, err = t.withPriorities(header)
		}
		if err != nil {
			t.opt.Log.Warn("the order blocks around a snapshot are not verified", "height", height, "error", err)
			return state.State{}, err
		}
		of[i] = header
	}
	last, current, next := of[0], of[1], of[2]
	if !bytes.Equal(current.ConsensusHash, t.opt.Params.Hash()) {
		return state.State{}, fmt.Errorf("order block %d has other consensus parameters than the genesis", current.Height)
	}
	return state.State{
		ChainID: t.opt.ChainID, InitialHeight: 1, Version: cmtstate.Version{Consensus: current.Version, Software: version.TMCoreSemVer},
		LastBlockHeight: last.Height, LastBlockTime: last.Time, LastBlockID: last.Commit.BlockID,
		AppHash: current.AppHash, LastResultsHash: current.LastResultsHash,
		LastValidators: last.ValidatorSet, Validators: current.ValidatorSet, NextValidators: next.ValidatorSet,
		LastHeightValidatorsChanged: next.Height, ConsensusParams: *t.opt.Params, LastHeightConsensusParamsChanged: current.Height,
	}, nil
}

// verified returns the header of a height. It tries each connected node as the light client's
// primary, until one gives a header that follows from the trusted one.
func (t *Provider) verified(height int64) (*types.LightBlock, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := errors.New("no node is connected")
	for began := time.Now(); !t.opt.Ends(); time.Sleep(retryPause) {
		ids := t.opt.Headers.Peers()
		for i := range ids {
			var header *types.LightBlock
			if header, err = t.verify(append(ids[i:len(ids):len(ids)], ids[:i]...), height); err == nil {
				return header, nil
			}
			t.client = nil
		}
		if time.Since(began) > retryLimit { // %v: CometBFT ends for good on some of these errors
			return nil, fmt.Errorf("no connected node proves order block %d: %v", height, err)
		}
	}
	return nil, ErrEnds
}

// verify goes on with the client, or begins with one that asks the first of these nodes.
func (t *Provider) verify(ids []p2p.ID, height int64) (*types.LightBlock, error) {
	ctx, cancel := context.WithTimeout(context.Background(), verifyLimit)
	defer cancel()
	if t.client == nil {
		var all []provider.Provider
		for _, id := range ids {
			all = append(all, headersOf{t, id})
		}
		witnesses := all[1:]
		if len(witnesses) == 0 { // no node can contradict it; its headers are verified nevertheless
			witnesses = all
		}
		var err error
		if t.client, err = light.NewClient(ctx, t.opt.ChainID, t.opt.Trust, all[0], witnesses, lightdb.New(dbm.NewMemDB(), "")); err != nil {
			return nil, err
		}
	}
	return t.client.VerifyLightBlockAtHeight(ctx, height, time.Now())
}

// withPriorities returns a verified header with the validators' proposer priorities, which no hash
// covers. It takes the priorities that most of the connected organisations report. All nodes are
// asked at once, so that silent ones cost no time.
func (t *Provider) withPriorities(header *types.LightBlock) (*types.LightBlock, error) {
	ctx, cancel := context.WithTimeout(context.Background(), verifyLimit)
	defer cancel()
	ids := t.opt.Headers.Peers()
	told := make([]prioritiesTold, len(ids))
	var asking sync.WaitGroup
	for i, id := range ids {
		asking.Go(func() {
			block, err := headersOf{t, id}.ask(ctx, header.Height)
			if told[i].voice = t.opt.Voice(id); err == nil && bytes.Equal(block.Hash(), header.Hash()) {
				told[i].set = block.ValidatorSet
			}
			told[i].none = errors.Is(err, provider.ErrLightBlockNotFound)
		})
	}
	asking.Wait()
	set := mostTell(told)
	if set == nil {
		return nil, fmt.Errorf("the connected organisations do not agree about the proposer priorities of order block %d", header.Height)
	}
	out := *header
	out.ValidatorSet = set
	return &out, nil
}

// prioritiesTold is a node's answer about the proposer priorities.
type prioritiesTold struct {
	voice string
	none  bool                // the node does not have the order block
	set   *types.ValidatorSet // nil: it tells nothing, or another order block
}

// mostTell returns the proposer priorities that more than half of the answering organisations
// report; nil: there are none, or half of the organisations that have the block are silent. An
// organisation whose nodes contradict each other counts as silent.
func mostTell(told []prioritiesTold) *types.ValidatorSet {
	const contradicts = ""
	all, said, sets := map[string]bool{}, map[string]string{}, map[string]*types.ValidatorSet{}
	for _, t := range told {
		if all[t.voice] = all[t.voice] || !t.none; t.set == nil {
			continue
		}
		priorities := string(t.set.ProposerPriorityHash())
		if before, twice := said[t.voice]; twice && before != priorities {
			priorities = contradicts
		}
		said[t.voice], sets[priorities] = priorities, t.set
	}
	maps.DeleteFunc(all, func(_ string, has bool) bool { return !has })
	votes := map[string]int{}
	for _, priorities := range said {
		votes[priorities]++
	}
	delete(votes, contradicts)
	for priorities, n := range votes {
		if 2*n > len(said) && 2*len(said) > len(all) {
			return sets[priorities]
		}
	}
	return nil
}

// headersOf is a provider.Provider: one connected node.
type headersOf struct {
	*Provider
	id p2p.ID
}

// ChainID implements provider.Provider.
func (h headersOf) ChainID() string { return h.opt.ChainID }

// String names the node.
func (h headersOf) String() string { return string(h.id) }

// LightBlock implements provider.Provider. It leaves the proposer priorities out (withPriorities):
// nodes that differ about these must not keep the client from verifying the rest.
func (h headersOf) LightBlock(ctx context.Context, height int64) (*types.LightBlock, error) {
	told, err := h.ask(ctx, height)
	if err != nil {
		return nil, err
	}
	for _, v := range told.ValidatorSet.Validators {
		v.ProposerPriority = 0
	}
	return told, nil
}

func (h headersOf) ask(ctx context.Context, height int64) (*types.LightBlock, error) {
	ctx, cancel := context.WithTimeout(ctx, headerLimit)
	defer cancel()
	told, err := h.opt.Headers.Ask(ctx, h.id, height)
	if err != nil {
		return nil, err
	}
	err = told.ValidateBasic(h.opt.ChainID)
	switch {
	case err == nil && height != 0 && told.Height != height:
		err = fmt.Errorf("it is of height %d", told.Height)
	case err == nil && told.Height == h.opt.Trust.Height && !bytes.Equal(told.Hash(), h.opt.Trust.Hash):
		err = fmt.Errorf("its hash is %X, the trusted one is %X", told.Hash(), h.opt.Trust.Hash)
	}
	if err != nil {
		h.opt.Log.Warn("an order block that a node tells is not taken", "node", h.id, "height", height, "error", err)
		return nil, provider.ErrBadLightBlock{Reason: err}
	}
	return told, nil
}

// ReportEvidence implements provider.Provider. The log has what there is to know.
func (h headersOf) ReportEvidence(_ context.Context, e types.Evidence) error {
	h.opt.Log.Warn("evidence of an attack on the headers of the order", "evidence", e.String())
	return nil
}
