package app

import (
	"slices"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/wire"
)

// Evidence is two different effect votes of one organisation for the same execution (E3), each with
// its validator's signature: a reader with the consensus keys can check it (spec/evidence.md). It
// shows that the organisation contradicts itself, a fault or worse, and is never a vote.
type Evidence struct {
	Organisation  string
	Key           wire.Key
	First, Second *wire.ExtendedVote
	accusation    accuse.Accusation // of one that is new
}

// Bounds of the stored evidence. One organisation leaves room for the others.
const (
	evidencePerOrganisation = 8 // one piece for each of so many executions, the first ones
	evidenceMax             = 256
)

// heard is the vote that this node saw first of an organisation on an execution; its signature
// holds.
type heard struct {
	vote      wire.EffectVote
	signed    *wire.ExtendedVote
	convicted bool // another one was seen
}

// Key names the execution.
func (h heard) Key() wire.Key { return h.vote.Key() }

// watch compares the votes that this node sees on executions of now, live and on the chain. It is
// local and enters no answer to CometBFT.
type watch struct {
	heard wire.HeardVotes[heard]
	found []Evidence // bounded; count goes on
	count uint64
}

// see takes a vote whose signature holds and returns evidence that is new.
func (w *watch) see(organisation string, vote wire.EffectVote, signed *wire.ExtendedVote, tip uint64) *Evidence {
	first := w.heard.Take(organisation, heard{vote: vote, signed: signed}, tip)
	if first == nil || first.convicted {
		return nil
	}
	accusation, proven := accuse.TwoVotes(organisation, first.vote, vote)
	if !proven {
		return nil
	}
	first.convicted = true
	e := Evidence{accusation.Organisation(), vote.Key(), first.signed, signed, accusation}
	if slices.ContainsFunc(w.found, func(f Evidence) bool { return f.Organisation == organisation && f.Key == e.Key }) {
		return nil // before a restart
	}
	w.count++
	return &e
}

// keeps tells whether there is room for another piece against an organisation.
func (w *watch) keeps(organisation string) bool {
	pieces := 0
	for _, e := range w.found {
		if e.Organisation == organisation {
			pieces++
		}
	}
	return pieces < evidencePerOrganisation && len(w.found) < evidenceMax
}

// decided follows the order: votes on blocks before the pending one are over.
func (w *watch) decided(state *order.State) {
	over := state.LastOrdered()
	if p := state.Pending(); p != nil {
		w.heard.Decided(p.Key())
		over = p.Number - 1
	}
	w.heard.Forget(over)
}

// watchChain compares votes on the chain with those that were heard: an organisation may tell
// others otherwise than us. State is that after them. Called with mu held.
func (a *App) watchChain(state *order.State, votes []order.Vote) {
	for _, v := range votes {
		if vote, err := wire.DecodeEffectVote(v.Extension); err == nil {
			a.watchVote(v.Organisation, vote, &wire.ExtendedVote{
				ValidatorAddress: v.Validator, Height: v.Height, Round: v.Round, Extension: v.Extension, Signature: v.Signature,
			}, state.LastOrdered())
		}
	}
	a.watch.decided(state)
}

// watchVote takes a vote whose signature holds. Called with mu held.
func (a *App) watchVote(organisation string, vote wire.EffectVote, signed *wire.ExtendedVote, tip uint64) {
	e := a.watch.see(organisation, vote, signed, tip)
	if e == nil {
		return
	}
	kept := a.watch.keeps(organisation)
	if kept {
		if err := a.opt.Store.keepEvidence(len(a.watch.found), e); err != nil {
			a.log.Error("evidence is not kept over a restart", "organisation", organisation, "error", err)
		}
		a.watch.found = append(a.watch.found, *e)
	}
	e.accusation.Log(a.log, "block", e.Key.Number, "round", e.Key.Round, "kept", kept)
}

// Evidence returns the conflicting votes that this node keeps, the oldest first.
func (a *App) Evidence() []Evidence {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.Clone(a.watch.found)
}

// EvidenceCount returns how many conflicting votes on effects were kept or seen since the start.
func (a *App) EvidenceCount() uint64 {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.watch.count
}
