package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/wire"
)

var _ Source = (*App)(nil)

// FinalizeBlock applies a decided block. No database result enters the answer (A1): a deviating
// database must not take its node out of consensus. It also works without ProcessProposal before
// it, as when CometBFT replays.
func (a *App) FinalizeBlock(_ context.Context, req *abci.RequestFinalizeBlock) (*abci.ResponseFinalizeBlock, error) {
	p, err := a.preview(req.Height, req.Time, req.Hash, req.Txs)
	if err != nil {
		return nil, fmt.Errorf("apply decided block %d: %w", req.Height, err)
	}
	a.watchOrder(req.Height, req.Misbehavior)
	a.mu.Lock()
	a.staged = p
	registry := a.state.Registry()
	a.mu.Unlock()
	a.opened.decided(registry, req.Txs, p.result.Spent)
	if p.snapshot == nil {
		p.snapshot = p.next.Seal()
	}
	hash := p.next.AppHash()
	out := &abci.ResponseFinalizeBlock{AppHash: hash[:], TxResults: make([]*abci.ExecTxResult, len(p.result.Codes))}
	for i, code := range p.result.Codes {
		out.TxResults[i] = &abci.ExecTxResult{Code: code}
	}
	for _, v := range p.result.Validators {
		out.ValidatorUpdates = append(out.ValidatorUpdates, abci.Ed25519ValidatorUpdate(v.Key, v.Power))
	}
	return out, nil
}

// Commit stores the state after the decided block and tells effects, without waiting for the
// database. CometBFT's block store holds the block already (E2).
func (a *App) Commit(context.Context, *abci.RequestCommit) (*abci.ResponseCommit, error) {
	a.mu.Lock()
	staged, before := a.staged, a.state
	if staged == nil {
		a.mu.Unlock()
		return nil, errors.New("commit: no block is finalized")
	}
	if err := a.opt.Store.Commit(before, staged.next, staged.result, a.founding, staged.snapshot, a.opt.Retention.Snapshots, a.lent.held); err != nil {
		a.mu.Unlock()
		return nil, fmt.Errorf("commit block %d: %w", staged.next.Height(), err)
	}
	staged.next.Settle()
	a.opened.committed()
	a.changed = staged.next.Registry() != before.Registry()
	a.state, a.founding, a.staged = staged.next, false, nil
	if staged.result.Ordered != nil || staged.next.Pending() == nil {
		a.body = staged.result.Ordered
	}
	clear(a.previews)
	a.watchChain(staged.next, staged.result.Voted)
	if staged.result.Certified != nil {
		a.slow.Certified(time.Now())
	}
	if staged.result.Ordered != nil {
		a.slow.Ordered(staged.next.LastOrdered(), staged.next.Pending().Submitting())
	}
	told := a.blocks != nil
	a.mu.Unlock()
	if err := a.newer(staged.next); err != nil && a.opt.Stop != nil {
		a.opt.Stop(err)
	}
	a.snapshotKept(staged)
	if !told { // blocks are given again at start, from the store that they are in
		return &abci.ResponseCommit{}, nil
	}
	below, err := a.retain(staged.next.Height())
	if err != nil {
		return nil, err
	}
	return &abci.ResponseCommit{RetainHeight: below}, a.tell(staged)
}

// tell hands a committed block's decision to effects.
func (a *App) tell(p *preview) error {
	d := Decision{Height: p.next.Height(), TimeMicro: p.micro, Certificate: p.result.Certified, Refused: p.result.Refused}
	if p.result.Ordered != nil || p.result.Advanced {
		block, err := a.pendingBlock(p)
		if err != nil && !errors.Is(err, wire.ErrPruned) { // from before the snapshot that this node joined by: its database has it
			return fmt.Errorf("tell what block %d decided: %w", p.next.Height(), err)
		}
		d.Ordered = block
	}
	if client := p.result.Suspended; client != "" {
		a.log.Warn("a client's transactions did not end; it is suspended", "client", client, "block", p.next.Pending().Number, "suspended", p.next.SuspendedClients())
	}
	a.opt.Effects.Decided(d)
	return nil
}

// LastOrdered returns the number of the last ledger block that this node has committed (Source).
func (a *App) LastOrdered() uint64 {
	if state, err := a.current(); err == nil {
		return state.LastOrdered()
	}
	return 0
}

// LastCertified returns the number of the last certified ledger block that this node has committed
// (Source).
func (a *App) LastCertified() uint64 {
	state, err := a.current()
	if err != nil {
		return 0
	}
	number, _ := state.LastCertified()
	return number
}

// Voting says what organisations vote on now. Precommits from height from on may be about it.
// Height next is the one that CometBFT decides next. Precommits of all these heights may be about
// pending, where its number is not 0.
func (a *App) Voting() (from, next int64, pending wire.Key) {
	state, err := a.current()
	switch {
	case err != nil:
		return 0, 0, pending
	case state.Pending() != nil:
		return state.Pending().Height, state.Height() + 1, state.Pending().Key()
	}
	return state.Height() + 1, state.Height() + 1, pending
}

// VotedOn returns an organisation's vote on the chain for the pending block; false: it has none.
func (a *App) VotedOn(organisation string) (wire.EffectVote, bool) {
	state, err := a.current()
	if err != nil || state.Pending() == nil {
		return wire.EffectVote{}, false
	}
	return state.Pending().VoteOf(organisation)
}

// Registry returns who takes part in the next order block; nil before the chain is initialised.
func (a *App) Registry() *order.Registry {
	state, err := a.current()
	if err != nil {
		return nil
	}
	return state.Registry()
}

// Clients returns who signs proposals of its own; none before the chain is initialised.
func (a *App) Clients() *order.Clients {
	state, err := a.current()
	if err != nil {
		return &order.Clients{}
	}
	return state.Clients()
}

// Suspended is until when nothing of a client is ordered; zero before the chain is initialised, and
// when it never was suspended.
func (a *App) Suspended(client *wire.Client) time.Time {
	state, err := a.current()
	if err != nil {
		return time.Time{}
	}
	return state.Suspended(client)
}

// RegistryHistory returns who took part in all ledger blocks so far. Callers must not change it.
func (a *App) RegistryHistory() (*wire.RegistryHistory, error) {
	state, err := a.current()
	if err != nil {
		return nil, err
	}
	a.mu.RLock()
	known := a.history
	a.mu.RUnlock()
	if known != nil && known.Changes == state.Registry().Record().Changes {
		return known, nil
	}
	kept, err := a.opt.Store.registries()
	if err != nil {
		return nil, err
	}
	if len(kept) == 0 { // before the first Commit
		kept = append(kept, state.Registry().Record())
	}
	history := order.History(kept)
	a.mu.Lock()
	a.history = history
	a.mu.Unlock()
	return history, nil
}

// Certificate returns the certificate of ledger block n (Source).
func (a *App) Certificate(n uint64) (*wire.Certificate, error) { return a.opt.Store.Certificate(n) }

// Ordered returns ledger block n in its last round, its transactions read from CometBFT's block
// store (Source).
func (a *App) Ordered(n uint64) (*wire.OrderedBlock, error) {
	record, err := a.opt.Store.ledgerBlock(n)
	if err != nil {
		return nil, err
	}
	body, err := a.readBody(record)
	if err != nil {
		return nil, fmt.Errorf("read ledger block %d: %w", n, err)
	}
	b := &wire.OrderedBlock{
		Number: n, Height: record.Height, TimeMicro: record.TimeMicro, OrderHash: record.OrderHash,
		Organisations: record.Organisations, Consent: record.Consent, Round: record.Round, Protocol: record.Protocol,
		Quarantined: record.Quarantined, QuarantineAll: record.QuarantineAll, Suspects: record.Suspects,
		IDs: body.IDs, Transactions: body.Transactions,
	}
	if state, err := a.current(); err == nil {
		if p := state.Pending(); p != nil && p.Key() == b.Key() {
			b.Budget, b.Submitters = p.Budget(), p.Block(body).Submitters
		}
	}
	return b, nil
}

func (a *App) readBody(record *ledgerRecord) (*order.Body, error) {
	a.mu.RLock()
	blocks, joined := a.blocks, a.joined
	a.mu.RUnlock()
	if blocks == nil {
		return nil, errors.New("the block store is not open yet")
	}
	if record.Height <= joined.Height {
		return nil, fmt.Errorf("order block %d: %w", record.Height, wire.ErrPruned)
	}
	raw, err := blocks.Txs(record.Height)
	if err != nil {
		return nil, fmt.Errorf("order block %d: %w", record.Height, err)
	}
	txs, err := order.OpenDecided(raw)
	if err != nil {
		return nil, fmt.Errorf("order block %d: %w", record.Height, err)
	}
	return order.Extract(txs, record.Skipped, record.TxCount)
}

// pendingBody returns the transactions of the committed state's pending block, read again after a
// restart.
func (a *App) pendingBody() (*order.Body, error) {
	a.mu.RLock()
	body, state := a.body, a.state
	a.mu.RUnlock()
	if body != nil {
		return body, nil
	}
	record, err := a.opt.Store.ledgerBlock(state.LastOrdered())
	if err != nil {
		return nil, err
	}
	if body, err = a.readBody(record); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state.LastOrdered() == state.LastOrdered() {
		a.body = body
	}
	return body, nil
}

// Status is the order level at a glance, also the answer to the query "/status".
type Status struct {
	Height        int64            `json:"height"`
	LastOrdered   uint64           `json:"last_ordered"`
	LastCertified uint64           `json:"last_certified"`
	CertifiedHash wire.Hash        `json:"certified_hash"`
	Consent       int              `json:"consent"` // of ledger blocks ordered next
	Governance    order.Governance `json:"governance"`
	Organisations []string         `json:"organisations"`
	Pending       *PendingStatus   `json:"pending"`
	Evidence      uint64           `json:"evidence"` // conflicting votes seen since the start
	Suspended     []string         `json:"suspended"`
	Protocol      uint32           `json:"protocol"` // version in force
	Upgrade       *Upgrade         `json:"upgrade"`  // that waits; null: none
}

// Upgrade is a version of the protocol that an accepted change brings.
type Upgrade struct {
	Version uint32 `json:"version"`
	Height  int64  `json:"height"` // not in force before
}

// PendingStatus shows what the pending ledger block waits for.
type PendingStatus struct {
	Number        uint64   `json:"number"`
	Round         uint32   `json:"round"`
	Age           uint64   `json:"age"`
	Voted         []string `json:"voted"`
	Revealed      int      `json:"revealed"`
	Quarantined   []uint32 `json:"quarantined"`
	QuarantineAll bool     `json:"quarantine_all"`
}

// Status returns the order level at a glance; ok is false before the chain is initialised.
func (a *App) Status() (s Status, ok bool) {
	state, err := a.current()
	if err != nil {
		return Status{}, false
	}
	s = Status{
		Height: state.Height(), LastOrdered: state.LastOrdered(), Consent: state.Registry().Consent(), Governance: state.Governance(),
		Organisations: state.Registry().Organisations(), Evidence: a.EvidenceCount(),
		Suspended: state.SuspendedClients(), Protocol: state.Registry().Protocol().Version(),
	}
	if version, height := state.Upgrade(); version != 0 {
		s.Upgrade = &Upgrade{version, height}
	}
	s.LastCertified, s.CertifiedHash = state.LastCertified()
	if p := state.Pending(); p != nil {
		s.Pending = &PendingStatus{
			Number: p.Number, Round: p.Round, Age: state.Age(), Revealed: len(p.Revealed),
			Quarantined: p.Quarantined, QuarantineAll: p.QuarantineAll,
		}
		for _, v := range p.Votes {
			s.Pending.Voted = append(s.Pending.Voted, v.Organisation)
		}
	}
	return s, true
}

// Query answers "/status" with JSON; any other path has code 1.
func (a *App) Query(_ context.Context, req *abci.RequestQuery) (*abci.ResponseQuery, error) {
	status, ok := a.Status()
	if req.Path != "/status" || !ok {
		return &abci.ResponseQuery{Code: 1, Codespace: codespace, Log: fmt.Sprintf("no answer to %q; ask /status of an initialised chain", req.Path)}, nil
	}
	value, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	return &abci.ResponseQuery{Value: value, Height: status.Height}, nil
}
