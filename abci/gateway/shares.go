package gateway

import "github.com/chainify-db/chainify/abci/fair"

// room refuses what would exceed the limits, of all or of the role. Cost: the same however much
// waits.
func (g *Gateway) room(role string, count, bytes int) error {
	l := g.opt.Limits
	if n := len(g.entries); n+count > l.PendingMax {
		return queueFull(n, l.PendingMax, "transactions")
	}
	if g.unorderedBytes+bytes > l.PendingBytesMax {
		return queueFull(g.unorderedBytes, l.PendingBytesMax, "bytes")
	}
	return g.shares.room(role, count, bytes, share{len(g.entries), g.unorderedBytes}, l)
}

// share is one role's part of the amounts that Limits bounds.
type share struct {
	pending        int // transactions accepted and without outcome
	unorderedBytes int // bytes of those in no block yet
}

// shares count each role's part, from when a transaction is accepted until it has its outcome: that
// it left the queue for a bundle gives nothing back. A role without pending transactions has no
// entry (G3), so that the sum over the roles is what the gateway counts.
type shares map[string]share

func (s shares) accepted(e *entry) { s.change(e.role, 1, e.size) }

func (s shares) leftUnordered(e *entry) { s.change(e.role, 0, -e.size) }

func (s shares) settled(e *entry) { s.change(e.role, -1, 0) }

func (s shares) change(role string, pending, bytes int) {
	had := s[role]
	had.pending += pending
	had.unorderedBytes += bytes
	if had.pending == 0 {
		delete(s, role)
	} else {
		s[role] = had
	}
}

// room refuses what would give a role more than is free beside it, so that a flood of one role, or
// of several, leaves room for the others. A user that has nothing of it yet may have what is free:
// it could never be submitted otherwise.
func (s shares) room(role string, count, bytes int, used share, l Limits) error {
	had := s[role]
	if !fair.Fits(l.PendingMax, used.pending, had.pending, count) {
		return shareFull(role, had.pending, l.PendingMax-used.pending, "transactions")
	}
	if !fair.Fits(l.PendingBytesMax, used.unorderedBytes, had.unorderedBytes, bytes) {
		return shareFull(role, had.unorderedBytes, l.PendingBytesMax-used.unorderedBytes, "bytes")
	}
	return nil
}
