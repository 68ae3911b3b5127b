package wire

import "iter"

// HeardMax bounds the votes of one organisation that are kept, of each kind (HeardVotes).
const HeardMax = 8

// HeardVotes are the votes on effects that were heard of organisations, the first one of each on an
// execution (E3). They are about ordered blocks, or about blocks that may be ordered next. Each
// kind has room of its own, so that no vote on an invented block has one on an ordered block
// forgotten. The zero value holds none.
//
// Of the first kind the oldest makes room, but never a vote on the pending execution. Of the second
// kind the first ones stay, and further ones find no room. Such an organisation has no First on the
// first execution of that block: the vote without room may have been its first. V is a vote, with
// what else is known of it.
type HeardVotes[V interface{ Key() Key }] struct {
	pending Key // the last execution ordered
	of      map[string]*heardOf[V]
}

// heardOf are those of one organisation.
type heardOf[V interface{ Key() Key }] struct {
	ordered, next FirstVotes[heardVote[V]]
	// beyond is the number of the next block on which a vote found no room, unheard that of the
	// last ordered one.
	beyond, unheard uint64
}

type heardVote[V interface{ Key() Key }] struct {
	vote  V
	first bool // no other one can have come before
}

// Key names the execution.
func (h heardVote[V]) Key() Key { return h.vote.Key() }

// Take keeps an organisation's first vote on an execution, and returns the one before it otherwise.
// tip is the number of the last block ordered. Votes of more than OrganisationsMax organisations
// are not kept.
func (h *HeardVotes[V]) Take(organisation string, vote V, tip uint64) (before *V) {
	one := h.of[organisation]
	if one == nil {
		if len(h.of) >= OrganisationsMax {
			return nil
		}
		if h.of == nil {
			h.of = map[string]*heardOf[V]{}
		}
		one = &heardOf[V]{}
		h.of[organisation] = one
	}
	return one.take(vote, h.pending, tip)
}

func (h *heardOf[V]) take(vote V, pending Key, tip uint64) *V {
	k := vote.Key()
	before := h.on(k)
	switch {
	case before != nil:
		return &before.vote
	case k.Number > tip && len(h.next) >= HeardMax:
		h.beyond = max(h.beyond, k.Number)
	case k.Number > tip:
		h.next = append(h.next, heardVote[V]{vote, true})
	default:
		first := k.Round > 0 || k.Number != h.beyond && k.Number != h.unheard
		h.keep(heardVote[V]{vote, first}, pending)
	}
	return nil
}

// keep keeps a vote on an ordered block.
func (h *heardOf[V]) keep(vote heardVote[V], pending Key) {
	h.ordered.Take(vote, HeardMax, func(v heardVote[V]) bool { return v.Key() == pending })
}

// on is the vote on an execution; nil: there is none.
func (h *heardOf[V]) on(k Key) *heardVote[V] {
	if v := h.ordered.Of(k); v != nil {
		return v
	}
	return h.next.Of(k)
}

// First are the votes on an execution that are their organisations' first, in no order.
func (h *HeardVotes[V]) First(k Key) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for organisation, one := range h.of {
			if v := one.on(k); v != nil && v.first && !yield(organisation, v.vote) {
				return
			}
		}
	}
}

// Decided has an execution pending: a block was ordered, or its next round began. Votes on other
// blocks of its number, or of one before, are on blocks that nobody ordered.
func (h *HeardVotes[V]) Decided(k Key) {
	h.pending = k
	for _, one := range h.of {
		if v := one.next.Of(k); v != nil {
			one.keep(*v, k)
		}
		if one.beyond == k.Number {
			one.unheard = k.Number
		}
		one.next.Forget(func(v heardVote[V]) bool { return v.Key().Number <= k.Number })
	}
}

// Forget drops the votes on blocks up to a number.
func (h *HeardVotes[V]) Forget(number uint64) {
	over := func(v heardVote[V]) bool { return v.Key().Number <= number }
	for organisation, one := range h.of {
		one.ordered.Forget(over)
		one.next.Forget(over)
		if one.beyond <= number {
			one.beyond = 0
		}
		if one.unheard <= number {
			one.unheard = 0
		}
		if len(one.ordered)+len(one.next) == 0 && max(one.beyond, one.unheard) == 0 {
			delete(h.of, organisation)
		}
	}
}

// Kept is how many votes of an organisation are kept on ordered blocks and on next ones.
func (h *HeardVotes[V]) Kept(organisation string) (ordered, next int) {
	if one := h.of[organisation]; one != nil {
		return len(one.ordered), len(one.next)
	}
	return 0, 0
}

// Organisations is of how many organisations votes are kept.
func (h *HeardVotes[V]) Organisations() int { return len(h.of) }
