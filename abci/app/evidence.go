package app

import (
	"slices"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/wire"
)

// Evidence is two different effect votes of one organisation for the same execution (invariant E3). It shows that
// the organisation's nodes contradict themselves: a fault or worse, never a vote.
type Evidence struct {
	Organisation string
	First        wire.EffectVote // the one that counts, or was seen first
	Second       wire.EffectVote
	// SecondSigned has the second vote's signature where a commit carried it, else nil: CometBFT checked it then.
	SecondSigned *wire.ExtendedVote
}

const evidenceMax = 1000

// watch compares the votes of the pending ledger block that this node sees. It is local and enters no answer to
// CometBFT.
type watch struct {
	key   wire.Key
	first map[string]wire.EffectVote // by organisation, for key
	found []Evidence                 // bounded; count goes on
	count uint64
}

// decided forgets the votes of an execution that is over.
func (w *watch) decided(pending *order.Pending) {
	if pending == nil {
		w.key, w.first = wire.Key{}, nil
		return
	}
	w.start(pending.Key())
	for i := range pending.Votes {
		name := pending.Votes[i].Organisation
		if vote, voted := pending.VoteOf(name); voted {
			w.first[name] = vote
		}
	}
}

func (w *watch) start(key wire.Key) {
	if w.key != key || w.first == nil {
		w.key, w.first = key, map[string]wire.EffectVote{}
	}
}

// conflicts reports whether the organisation voted otherwise before.
func (w *watch) conflicts(organisation string, vote wire.EffectVote) bool {
	first, voted := w.first[organisation]
	return voted && vote.Key() == w.key && first != vote
}

func (w *watch) see(organisation string, vote wire.EffectVote, signed *wire.ExtendedVote) {
	if vote.Key() != w.key || w.first == nil {
		return
	}
	first, voted := w.first[organisation]
	if !voted {
		w.first[organisation] = vote
		return
	}
	known := func(e Evidence) bool { return e.Organisation == organisation && e.Second == vote }
	if first == vote || slices.ContainsFunc(w.found, known) {
		return
	}
	w.count++
	if len(w.found) < evidenceMax {
		w.found = append(w.found, Evidence{organisation, first, vote, signed})
	}
}

// watchLive notes a vote of a precommit that CometBFT has checked. While nothing committed is pending, the first
// live vote tells what is.
func (a *App) watchLive(organisation string, vote wire.EffectVote) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state.Pending() == nil && vote.Number == a.state.LastOrdered()+1 {
		a.watch.start(vote.Key())
	}
	before := a.watch.count
	a.watch.see(organisation, vote, nil)
	a.reportEvidence(before)
}

// watchCommit notes the votes of the last commit, which reach proposers unchecked.
func (a *App) watchCommit(state *order.State, votes []*wire.ExtendedVote) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.watch.count
	for _, signed := range votes {
		organisation, known := state.Registry().OrganisationOf(signed.ValidatorAddress)
		vote, err := wire.DecodeEffectVote(signed.Extension)
		if _, orderingOnly := state.Registry().Knows(organisation); orderingOnly {
			continue
		}
		if !known || err != nil || !a.watch.conflicts(organisation, vote) {
			continue
		}
		if _, err := state.Registry().CheckExtension(signed); err == nil {
			a.watch.see(organisation, vote, signed)
		}
	}
	a.reportEvidence(before)
}

func (a *App) reportEvidence(before uint64) {
	if a.watch.count > before {
		last := a.watch.found[len(a.watch.found)-1]
		if a.watch.count <= evidenceMax {
			if err := a.opt.Store.keepEvidence(len(a.watch.found)-1, &last); err != nil {
				a.log.Error("evidence is not kept", "organisation", last.Organisation, "error", err)
			}
		}
		a.log.Warn("an organisation voted twice, differently", "organisation", last.Organisation,
			"block", last.First.Number, "round", last.First.Round, "count", a.watch.count)
	}
}

// Evidence returns the conflicting votes that this node has seen since it was set up, at most the first thousand.
func (a *App) Evidence() []Evidence {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.Clone(a.watch.found)
}

// EvidenceCount returns how many conflicting votes were kept or seen since the start.
func (a *App) EvidenceCount() uint64 {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.watch.count
}
