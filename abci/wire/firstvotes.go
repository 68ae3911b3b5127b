package wire

import "slices"

// FirstVotes are the first effect votes of one organisation, one for each execution, the oldest
// first. An organisation's first vote for an execution counts (E3), and it says nothing else later
// (E5). V is a vote, with what else is known of it.
type FirstVotes[V interface{ Key() Key }] []V

// Of is the vote on an execution; nil: there is none.
func (f FirstVotes[V]) Of(k Key) *V {
	for i := range f {
		if f[i].Key() == k {
			return &f[i]
		}
	}
	return nil
}

// Take keeps a vote that is the first on its execution, and returns the one before it otherwise. Of
// most votes, the oldest makes room that does not stay; stays is nil when none does.
func (f *FirstVotes[V]) Take(vote V, most int, stays func(V) bool) (before *V) {
	if before = f.Of(vote.Key()); before != nil {
		return before
	}
	if len(*f) >= most {
		oldest := slices.IndexFunc(*f, func(v V) bool { return stays == nil || !stays(v) })
		*f = slices.Delete(*f, max(oldest, 0), max(oldest, 0)+1)
	}
	*f = append(*f, vote)
	return nil
}

// Forget drops the votes on executions that are over.
func (f *FirstVotes[V]) Forget(over func(V) bool) { *f = slices.DeleteFunc(*f, over) }
