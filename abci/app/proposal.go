package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/fair"
	"github.com/chainify-db/chainify/abci/wire"
)

// PrepareProposal puts what this node can add about the pending ledger block first. Then come the
// mempool's first governance change and its changes of clients. The mempool's bundles follow, if
// nothing stays pending (A3) and no change comes into force (A5). It also proposes bundles in which
// nothing is live any more: only a block takes them out of the mempool, and while that holds one,
// CometBFT makes blocks.
func (a *App) PrepareProposal(ctx context.Context, req *abci.RequestPrepareProposal) (*abci.ResponsePrepareProposal, error) {
	state, err := a.current()
	if err != nil {
		return nil, fmt.Errorf("prepare proposal %d: %w", req.Height, err)
	}
	if err := a.refuse(state); err != nil {
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
	changes, clients, bundles := a.sort(state, a.among(mempool, req.MaxTxBytes))
	if bundles = a.notHeldBack(bundles); a.lags(state, bundles, block) {
		bundles = nil
	}
	if len(changes) > 0 && sizeInBlock(changes[0]) <= space {
		space -= sizeInBlock(changes[0])
		out.Txs = append(out.Txs, changes[0])
	}
	changed, used := pick(clients, min(space, max(req.MaxTxBytes/clientsPart, sizeInBlock(make([]byte, clientBytesMax)))), clientsMax, nil)
	out.Txs = append(out.Txs, changed...)
	if space -= used; next.Pending() == nil && !state.Settles() {
		taken, _ := pick(bundles, space, a.transactionsMax(state.Registry().Parameters(), bundles), state.Registry().Shares())
		out.Txs = append(out.Txs, taken...)
	}
	a.prepared(req.Height)
	return out, nil
}

// Changes of clients take at most a part of a proposal's bytes, and so many, so that they never
// take the place of bundles for long.
const (
	clientsPart    = 8
	clientsMax     = 100
	clientBytesMax = 1 << 10 // one at least
)

// waiting is a bundle or a change of clients of the mempool.
type waiting struct {
	raw          []byte
	organisation string
	transactions int
	bundle       *order.Bundle // opened; nil: a change of clients, or not opened yet
}

// notHeldBack leaves out the bundles of organisations that wait (propose.Slow).
func (a *App) notHeldBack(bundles []waiting) []waiting {
	organisations := make([]string, len(bundles))
	for i, b := range bundles {
		organisations[i] = b.organisation
	}
	waits := a.slow.Waits(organisations, time.Now())
	if waits == nil {
		return bundles
	}
	return slices.DeleteFunc(bundles, func(b waiting) bool { return waits[b.organisation] })
}

// Ran tells how long executing so many transactions took, and by how much those of organisations
// took longer than quick ones.
func (a *App) Ran(transactions int, took time.Duration, slow map[string]time.Duration) {
	a.slow.Took(slow, time.Now())
	for _, d := range slow {
		took -= d
	}
	a.pace.Ran(transactions, took)
}

// transactionsMax is how many transactions a proposal of this node holds, of these bundles: as many
// as the largest has in any case.
func (a *App) transactionsMax(p order.Parameters, bundles []waiting) int {
	most := a.pace.Most(time.Duration(p.BlockTimeMaxMS)*time.Millisecond, p.BlockTransactionsMax)
	for _, b := range bundles {
		most = max(most, b.transactions)
	}
	return min(most, p.BlockTransactionsMax)
}

// sort tells the mempool's governance changes, changes of clients and bundles apart.
func (a *App) sort(state *order.State, mempool [][]byte) (changes [][]byte, clients, bundles []waiting) {
	txs, errs := a.opened.all(state.Registry(), mempool, true)
	for i, raw := range mempool {
		tx, err := txs[i], errs[i]
		switch {
		case err != nil || tx.Bundle() == nil && !tx.IsGovernance() && !tx.IsClient():
			a.log.Info("a transaction of the mempool is left out", "error", err) // signed before a key was replaced, or by a gateway that does not verify
		case tx.IsGovernance():
			if state.MayHold(tx) == nil {
				changes = append(changes, raw)
			}
		case tx.IsClient():
			clients = append(clients, waiting{raw, tx.Organisation(), 1, nil})
		default:
			bundles = append(bundles, waiting{raw, tx.Organisation(), tx.Bundle().Len(), tx.Bundle()})
		}
	}
	return changes, clients, bundles
}

// among returns what a proposal is made of, of as many bytes as fit into it. CometBFT gives the
// first of the mempool: where there is more, those of one organisation may be before all others',
// and every organisation's first ones are taken instead.
func (a *App) among(first [][]byte, space int64) [][]byte {
	left := space
	for _, raw := range first {
		left -= sizeInBlock(raw)
	}
	if a.opt.Mempool == nil || left > wire.BundleBytesMax+(4<<10) { // all that waits is among them: the next one would have fitted
		return first
	}
	all := a.opt.Mempool.Reap(-1)
	if len(all) <= len(first) {
		return first
	}
	var list []waiting
	for _, raw := range all {
		list = append(list, waiting{raw, wire.PeekOwner(raw), 0, nil}) // which it says it is of: opened are those taken
	}
	taken, _ := pick(list, space, 0, nil)
	return taken
}

// pick takes of what waits as much as fits the space and transactionsMax, fairly. Those of one
// organisation it takes in their order. Of several organisations it always takes from that of which
// it has taken least so far, be it bytes or transactions. An organisation of which one does not fit
// gets nothing more: taking its next ones now would starve that one. Bundles keep to shares, where
// there are any.
func pick(list []waiting, space int64, transactionsMax int, shares *order.Shares) (taken [][]byte, used int64) {
	var lines [][]waiting
	of := map[string]int{}
	for _, w := range list {
		i, known := of[w.organisation]
		if !known {
			i = len(lines)
			of[w.organisation], lines = i, append(lines, nil)
		}
		lines[i] = append(lines[i], w)
	}
	left := transactionsMax
	part := func(w waiting) int { // of all that there is, in millionths
		return int(max(1_000_000*sizeInBlock(w.raw)/max(space, 1), 1_000_000*int64(w.transactions)/int64(max(transactionsMax, 1))))
	}
	fair.Round(lines, part, func(w waiting) bool {
		size := sizeInBlock(w.raw)
		if used+size > space || w.transactions > left || w.bundle != nil && shares.Take(w.bundle) != nil {
			return false
		}
		used, left = used+size, left-w.transactions
		taken = append(taken, w.raw)
		return true
	})
	return taken, used
}

// precommitted is the flag of a validator that precommitted the block (BlockIDFlagCommit of
// CometBFT).
const precommitted = 2

// certificate encodes the effect certificate for the next order block, nil when there is none to
// make.
func (a *App) certificate(state *order.State, commit abci.ExtendedCommitInfo, space *int64) []byte {
	var votes []*wire.ExtendedVote
	for _, v := range commit.Votes {
		if v.BlockIdFlag != precommitted || len(v.VoteExtension) == 0 {
			continue
		}
		votes = append(votes, &wire.ExtendedVote{
			ValidatorAddress: v.Validator.Address, Height: state.Height(), Round: commit.Round,
			Extension: v.VoteExtension, Signature: v.ExtensionSignature,
		})
	}
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

// sizeInBlock is how many bytes a transaction takes in an order block: one of CometBFT's repeated
// field of bytes.
func sizeInBlock(raw []byte) int64 {
	return int64(protowire.SizeTag(1) + protowire.SizeBytes(len(raw)))
}

// ProcessProposal accepts exactly the blocks that Apply takes, then starts to execute speculatively
// (A1, A3).
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

// ExtendVote asks effects for this organisation's vote on what is pending after the proposal, and
// waits for it at most effects.vote_timeout. The vote may be empty, and no failure of a database is
// an error here (A2). It also holds the precommit back while a ledger block has been pending for
// long.
func (a *App) ExtendVote(ctx context.Context, req *abci.RequestExtendVote) (*abci.ResponseExtendVote, error) {
	a.prevoted(req.Height)
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

// heldBack is how long to hold back a precommit while the ledger block has been pending for age
// order blocks. An organisation that is away for hours should not cost the others a block five
// times a second, which nobody needs and all keep.
func heldBack(step time.Duration, age uint64) time.Duration {
	if age <= holdBackAge {
		return 0
	}
	return min(step*time.Duration(1+min(age, 1<<20)/holdBackGrowth), max(step, holdBackMax))
}

// checkedVote lets pass only a vote that other nodes accept: CometBFT stops a node whose own
// extension is refused.
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

// VerifyVoteExtension accepts every extension that is well formed and comes under a known address,
// also a hash that differs from ours. Refusing it would refuse the precommit, and ordering must not
// depend on effects (A1). It counts nothing: CometBFT has not checked yet whose vote it is
// (Precommitted).
func (a *App) VerifyVoteExtension(_ context.Context, req *abci.RequestVerifyVoteExtension) (*abci.ResponseVerifyVoteExtension, error) {
	answer := &abci.ResponseVerifyVoteExtension{Status: abci.ResponseVerifyVoteExtension_ACCEPT}
	if len(req.VoteExtension) == 0 {
		return answer, nil
	}
	state, err := a.current()
	if err != nil {
		return nil, fmt.Errorf("verify vote extension at height %d: %w", req.Height, err)
	}
	_, known := state.Registry().OrganisationOf(req.ValidatorAddress)
	vote, err := wire.DecodeEffectVote(req.VoteExtension)
	if err == nil && vote.Protocol != state.Registry().Protocol() {
		err = fmt.Errorf("version %d of the protocol, version %d is in force", vote.Protocol.Version(), state.Registry().Protocol().Version())
	}
	if err != nil || !known {
		a.log.Debug("vote extension refused", "validator", fmt.Sprintf("%X", req.ValidatorAddress), "known", known, "error", err)
		answer.Status = abci.ResponseVerifyVoteExtension_REJECT
	}
	return answer, nil
}
