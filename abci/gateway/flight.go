package gateway

import "math"

// flight counts the transactions on their way: in a bundle, and in no block yet. Where a block
// accepts a bounded number of a client or of the organisation (spec/effect-consensus.md, "Shares of
// a block"), no more than that are on their way. So no bundle is cut, and what has to wait waits
// here, where roles take turns, and not behind one role's flood in the mempool. Clients with keys
// of their own are not counted one by one: one that is cut sends the same transactions again.
type flight struct {
	all   int
	roles map[string]int // of clients without a key
}

func (f *flight) enter(e *entry) {
	f.all++
	if e.flies = true; !e.keyed {
		f.roles[e.role]++
	}
}

func (f *flight) leave(e *entry) {
	if !e.flies {
		return
	}
	e.flies = false
	f.all--
	if e.keyed {
		return
	}
	if f.roles[e.role]--; f.roles[e.role] == 0 {
		delete(f.roles, e.role)
	}
}

// room is how many transactions may follow: in all, and of a role's clients without a key.
func (f *flight) room(clientMax, organisationMax int) (all int, ofRole func(role string) int) {
	all = math.MaxInt
	if organisationMax > 0 {
		all = max(organisationMax-f.all, 0)
	}
	if clientMax <= 0 {
		return all, nil
	}
	return all, func(role string) int { return clientMax - f.roles[role] }
}
