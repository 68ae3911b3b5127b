package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	cmttypes "github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/wire"
)

// PrepareProposal puts what this node can add about the pending ledger block first, then the mempool's first governance change, its changes of clients,
// then, if nothing stays pending (A3) and no change comes into force (A5), the mempool's bundles. Bundles in which nothing is live any more are proposed too: only a block takes them
// out of the mempool, and while that holds one, CometBFT makes blocks.
func (a *App) PrepareProposal(ctx context.Context, req *abci.RequestPrepareProposal) (*abci.ResponsePrepareProposal, error) {
	state, err := a.current()
	if err != nil {
		return nil, fmt.Errorf("prepare proposal %d: %w", req.Height, err)
	}
	space := req.MaxTxBytes
	out := &abci.ResponsePrepareProposal{}
	block := order.Block{Height: req.Height, TimeMicro: wire.TimeOf(req.Time)}
	if raw := a.certificate(state, req.LocalLastCommit, &space); raw != nil {
		tx, err := state.Registry().Open(raw)
		if err != nil {
			return nil, fmt.Errorf("prepare proposal %d: own certificate: %w", req.Height, err)
		}
		block.Txs = []order.Tx{tx}
		out.Txs = append(out.Txs, raw)
	}
	next, result, err := state.Apply(block)
	if err != nil {
		return nil, fmt.Errorf("prepare proposal %d: own certificate: %w", req.Height, err)
	}
	mempool := req.Txs
	if result.Certified != nil && !state.Settles() {
		mempool = a.gather(ctx, mempool, req.MaxTxBytes)
	}
	changes, clients, bundles := a.sort(state, mempool)
	bundles = a.inTurn(bundles)
	if len(changes) > 0 && sizeInBlock(changes[0]) <= space {
		space -= sizeInBlock(changes[0])
		out.Txs = append(out.Txs, changes[0])
	}
	for _, raw := range clients {
		if size := sizeInBlock(raw); size <= space {
			space -= size
			out.Txs = append(out.Txs, raw)
		}
	}
	if next.Pending() == nil && !state.Settles() {
		out.Txs = append(out.Txs, a.bundles(state, bundles, space)...)
	}
	return out, nil
}

// waitingBundle is one of the mempool.
type waitingBundle struct {
	raw          []byte
	organisation string
	transactions int
}

// inTurn leaves out the bundles of organisations whose turn it is not (turns).
func (a *App) inTurn(bundles []waitingBundle) []waitingBundle {
	organisations := make([]string, len(bundles))
	for i, b := range bundles {
		organisations[i] = b.organisation
	}
	waits := a.turns.wait(organisations, time.Now())
	if waits == nil {
		return bundles
	}
	return slices.DeleteFunc(bundles, func(b waitingBundle) bool { return waits[b.organisation] })
}

// Ran tells how long executing so many transactions took, and by how much those of organisations took longer than quick ones.
func (a *App) Ran(transactions int, took time.Duration, slow map[string]time.Duration) {
	a.turns.slow(slow, time.Now())
	for _, d := range slow {
		took -= d
	}
	a.pace.ran(transactions, took)
}

// transactionsMax is how many transactions a proposal of this node holds, of these bundles: as many as the largest has in any case.
func (a *App) transactionsMax(p order.Parameters, bundles []waitingBundle) int {
	most := a.pace.most(time.Duration(p.BlockTimeMaxMS)*time.Millisecond, p.BlockTransactionsMax)
	for _, b := range bundles {
		most = max(most, b.transactions)
	}
	return min(most, p.BlockTransactionsMax)
}

// sort tells the mempool's governance changes, changes of clients and bundles apart.
func (a *App) sort(state *order.State, mempool [][]byte) (changes, clients [][]byte, bundles []waitingBundle) {
	txs, errs := a.opened.all(state.Registry(), mempool)
	for i, raw := range mempool {
		tx, err := txs[i], errs[i]
		switch {
		case err != nil || tx.Bundle() == nil && !tx.IsGovernance() && !tx.IsClient():
			a.log.Info("a transaction of the mempool is left out", "error", err) // signed before a key was replaced, or by a gateway that does not verify
		case tx.IsGovernance():
			changes = append(changes, raw)
		case tx.IsClient():
			clients = append(clients, raw)
		default:
			bundles = append(bundles, waitingBundle{raw, tx.Organisation(), tx.Bundle().Len()})
		}
	}
	return changes, clients, bundles
}

// certificate encodes the effect certificate for the next order block, nil when there is none to make.
func (a *App) certificate(state *order.State, commit abci.ExtendedCommitInfo, space *int64) []byte {
	var votes []*wire.ExtendedVote
	for _, v := range commit.Votes {
		if v.BlockIdFlag != cmtproto.BlockIDFlagCommit || len(v.VoteExtension) == 0 {
			continue
		}
		votes = append(votes, &wire.ExtendedVote{
			ValidatorAddress: v.Validator.Address, Height: state.Height(), Round: commit.Round,
			Extension: v.VoteExtension, Signature: v.ExtensionSignature,
		})
	}
	a.watchCommit(state, votes)
	c := state.Certificate(votes, a.opt.Effects.Hash)
	for c != nil {
		raw := wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Certificate{Certificate: c}})
		if size := sizeInBlock(raw); size <= *space {
			*space -= size
			return raw
		}
		// A hash fits a vote that may go with it, so it waits for a later block too.
		c.LedgerBlockHash = nil
		if len(c.Votes) == 0 {
			return nil
		}
		if c.Votes = c.Votes[:len(c.Votes)/2]; len(c.Votes) == 0 {
			return nil
		}
	}
	return nil
}

// bundles takes from the mempool what fits the space and the block's bound of transactions, in its order.
func (a *App) bundles(state *order.State, mempool []waitingBundle, space int64) [][]byte {
	var out [][]byte
	left := a.transactionsMax(state.Registry().Parameters(), mempool)
	for _, b := range mempool {
		size := sizeInBlock(b.raw)
		if size > space || b.transactions > left {
			break // the next ones are later: taking them now would starve this one
		}
		space -= size
		left -= b.transactions
		out = append(out, b.raw)
	}
	return out
}

func sizeInBlock(raw []byte) int64 { return cmttypes.ComputeProtoSizeForTxs([]cmttypes.Tx{raw}) }

// ProcessProposal accepts exactly the blocks that Apply takes, then starts to execute speculatively (A1, A3).
func (a *App) ProcessProposal(_ context.Context, req *abci.RequestProcessProposal) (*abci.ResponseProcessProposal, error) {
	p, err := a.preview(req.Height, req.Time, req.Hash, req.Txs)
	if err != nil {
		a.log.Warn("proposal refused", "height", req.Height, "proposer", fmt.Sprintf("%X", req.ProposerAddress), "reason", err)
		return &abci.ResponseProcessProposal{Status: abci.ResponseProcessProposal_REJECT}, nil
	}
	a.propose(p)
	return &abci.ResponseProcessProposal{Status: abci.ResponseProcessProposal_ACCEPT}, nil
}

// propose tells effects, once, what a proposal would order and certify.
func (a *App) propose(p *preview) {
	if p.proposed {
		return
	}
	p.proposed = true
	var block *wire.OrderedBlock
	if p.result.Ordered != nil {
		block = p.next.Pending().Block(p.result.Ordered)
	}
	if block != nil || p.result.Certified != nil {
		a.opt.Effects.Proposed(block, p.result.Certified)
	}
}

// ExtendVote asks effects for this organisation's vote on what is pending after the proposal, and waits for it at
// most effects.vote_timeout. The vote may be empty, and no failure of a database is an error here (A2). It also
// holds the precommit back while a ledger block has been pending for long.
func (a *App) ExtendVote(ctx context.Context, req *abci.RequestExtendVote) (*abci.ResponseExtendVote, error) {
	p, err := a.preview(req.Height, req.Time, req.Hash, req.Txs)
	if err != nil {
		return nil, fmt.Errorf("extend vote for block %d: %w", req.Height, err)
	}
	a.propose(p) // CometBFT may lock a block that this node was not asked to process
	pending := p.next.Pending()
	if p.result.Ordered != nil {
		a.expect(len(p.result.Ordered.IDs))
	}
	// In a round that this very proposal begins nothing is executed before it is decided.
	if pending == nil || p.result.Advanced {
		return &abci.ResponseExtendVote{}, nil
	}
	var hold <-chan time.Time
	if held := heldBack(a.opt.HoldBack, p.next.Age()); held > 0 {
		timer := time.NewTimer(held)
		defer timer.Stop()
		hold = timer.C
	}
	block, err := a.pendingBlock(p)
	if err != nil {
		a.log.Error("no vote: the pending block cannot be read", "block", pending.Number, "error", err)
		return &abci.ResponseExtendVote{}, nil
	}
	waiting, cancel := context.WithTimeout(ctx, a.opt.VoteTimeout)
	defer cancel()
	vote := a.opt.Effects.Vote(waiting, block)
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	return &abci.ResponseExtendVote{VoteExtension: a.checkedVote(block, vote)}, nil
}

// heldBack is how long to hold back a precommit while the ledger block has been pending for age order blocks: an organisation
// that is away for hours should not cost the others a block five times a second, which nobody needs and all keep.
func heldBack(step time.Duration, age uint64) time.Duration {
	if age <= holdBackAge {
		return 0
	}
	return min(step*time.Duration(1+min(age, 1<<20)/holdBackGrowth), max(step, holdBackMax))
}

// checkedVote lets pass only a vote that other nodes accept: CometBFT stops a node whose own extension is refused.
func (a *App) checkedVote(block *wire.OrderedBlock, raw []byte) []byte {
	if len(raw) == 0 {
		return nil
	}
	vote, err := wire.DecodeEffectVote(raw)
	if err == nil && vote.Key() != block.Key() {
		err = fmt.Errorf("vote is for block %d round %d order %x, want %d %d %x",
			vote.Number, vote.Round, vote.OrderHash, block.Number, block.Round, block.OrderHash)
	}
	if err != nil {
		a.log.Error("own effect vote dropped", "block", block.Number, "error", err)
		return nil
	}
	return raw
}

// pendingBlock returns what is pending after a proposal, with its transactions.
func (a *App) pendingBlock(p *preview) (*wire.OrderedBlock, error) {
	if p.result.Ordered != nil {
		return p.next.Pending().Block(p.result.Ordered), nil
	}
	body, err := a.pendingBody()
	if err != nil {
		return nil, err
	}
	return p.next.Pending().Block(body), nil
}

// VerifyVoteExtension accepts whatever is well formed, also a hash that differs from ours: refusing it would refuse
// the precommit, and ordering must not depend on effects (A1).
func (a *App) VerifyVoteExtension(_ context.Context, req *abci.RequestVerifyVoteExtension) (*abci.ResponseVerifyVoteExtension, error) {
	accept := &abci.ResponseVerifyVoteExtension{Status: abci.ResponseVerifyVoteExtension_ACCEPT}
	if len(req.VoteExtension) == 0 {
		return accept, nil
	}
	state, err := a.current()
	if err != nil {
		return nil, fmt.Errorf("verify vote extension at height %d: %w", req.Height, err)
	}
	vote, err := wire.DecodeEffectVote(req.VoteExtension)
	organisation, known := state.Registry().OrganisationOf(req.ValidatorAddress)
	if err != nil || !known {
		a.log.Warn("vote extension refused", "validator", fmt.Sprintf("%X", req.ValidatorAddress), "known", known, "error", err)
		return &abci.ResponseVerifyVoteExtension{Status: abci.ResponseVerifyVoteExtension_REJECT}, nil
	}
	// Of an organisation that only orders no vote counts; its precommit orders like any other.
	if _, orderingOnly := state.Registry().Knows(organisation); !orderingOnly && organisation != a.opt.Organisation {
		a.watchLive(organisation, vote)
		a.opt.Effects.Seen(organisation, vote)
	}
	return accept, nil
}
