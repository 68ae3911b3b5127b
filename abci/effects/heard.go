package effects

import "github.com/chainify-db/chainify/abci/wire"

// heard are the first live votes of another organisation (E3): on executions of blocks that are
// ordered, and on blocks that may be ordered next. Each kind has room of its own, so that no vote
// on an invented block has one on an ordered block forgotten.
//
// Of the first kind, the oldest makes room. The order passes on votes on the pending execution
// alone, so older executions are over. Of the second kind, the first ones stay, and further ones
// find no room. An organisation with such a vote is not counted live on the first execution of that
// block: the vote may have been its first.
type heard struct {
	ordered, next wire.FirstVotes[wire.EffectVote]
	// beyond is the number of the next block on which a vote found no room, unheard that of the
	// last ordered one.
	beyond, unheard uint64
}

// take keeps the first vote on an execution, and returns the one before it otherwise; tip is the
// number of the last block ordered.
func (h *heard) take(v wire.EffectVote, tip uint64) (before *wire.EffectVote) {
	if before = h.of(v.Key()); before != nil {
		return before
	}
	switch {
	case v.Number > tip && len(h.next) >= votesPerOrgMax:
		h.beyond = max(h.beyond, v.Number)
	case v.Number > tip:
		h.next = append(h.next, v)
	case v.Round > 0 || v.Number != h.beyond && v.Number != h.unheard:
		h.ordered.Take(v, votesPerOrgMax, nil)
	}
	return nil
}

// of is the vote on an execution; nil: there is none.
func (h *heard) of(k wire.Key) *wire.EffectVote {
	if v := h.ordered.Of(k); v != nil {
		return v
	}
	return h.next.Of(k)
}

// decided moves the vote on an execution to those on ordered blocks. Votes on other blocks of its
// number, or of one before, are on blocks that nobody ordered.
func (h *heard) decided(k wire.Key) {
	if v := h.next.Of(k); v != nil {
		h.ordered.Take(*v, votesPerOrgMax, nil)
	}
	if h.beyond == k.Number {
		h.unheard = k.Number
	}
	h.next.Forget(func(v wire.EffectVote) bool { return v.Number <= k.Number })
}

// forget drops the votes on blocks up to a number.
func (h *heard) forget(number uint64) {
	over := func(v wire.EffectVote) bool { return v.Number <= number }
	h.ordered.Forget(over)
	h.next.Forget(over)
	if h.beyond <= number {
		h.beyond = 0
	}
	if h.unheard <= number {
		h.unheard = 0
	}
}

func (h *heard) empty() bool {
	return len(h.ordered)+len(h.next) == 0 && max(h.beyond, h.unheard) == 0
}
