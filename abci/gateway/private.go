package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/chainify-db/chainify/abci/private"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	// stateNotDelivered is the SQLSTATE of a transaction whose private values too few members hold
	// (spec/private.md).
	stateNotDelivered = "CH013"
	stateNotMember    = "42501"
)

// deliveriesMax bounds submissions whose private values are under way. One role alone may have
// half of them.
const deliveriesMax = 256

// Private brings private values to those that have to hold them before the order.
type Private interface {
	// Deliver has the values of a transaction held by enough members when it returns nil. Errors
	// are those of package private.
	Deliver(ctx context.Context, id wire.TxID, validUntil uint64, effects []byte, values []*wire.SealedValue) error
}

// deliver has the private values of transactions held by those that have to, one after the other.
// Errors are *Error. Nothing is ordered of a submission of which one cannot be.
func (g *Gateway) deliver(ctx context.Context, role string, made []*entry, statements []*wire.Statement) error {
	taken := false
	for i, s := range statements {
		if len(s.GetSealed()) == 0 || g.wasSubmitted(made[i].id) {
			continue
		}
		if g.opt.Private == nil {
			return notHere(private.ErrNoDatabase)
		}
		if !taken {
			if !g.deliveries.Take(role, 1) {
				return deliveriesFull()
			}
			taken = true
			defer g.deliveries.Give(role, 1)
		}
		if err := g.opt.Private.Deliver(ctx, made[i].id, made[i].validUntil, s.GetEffects(), s.GetSealed()); err != nil {
			return ofSeveral("statements", i, len(statements), undelivered(err))
		}
	}
	return nil
}

// wasSubmitted reports whether a transaction was submitted before: its values are delivered.
func (g *Gateway) wasSubmitted(id wire.TxID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.submitted(id)
}

func deliveriesFull() *Error {
	return &Error{
		SQLState: StateFull, Message: "too many transactions wait for the delivery of private values",
		Detail: fmt.Sprintf("At most %d submissions may, and of one role as many as are free beside it.", deliveriesMax), Hint: "Submit again later.",
	}
}

func undelivered(err error) *Error {
	var few *private.UndeliveredError
	switch {
	case errors.As(err, &few):
		return &Error{stateNotDelivered, few.Error(), "", "Nothing was submitted. Submit again when a node of one more member of the circle is connected."}
	case errors.Is(err, private.ErrNoMember):
		return &Error{SQLState: stateNotMember, Message: err.Error(), Hint: "Values of a column can be sealed by members of its circle alone."}
	case errors.Is(err, private.ErrNoDatabase), errors.Is(err, private.ErrNoChannel):
		return notHere(err)
	case errors.Is(err, private.ErrNotKnown), errors.Is(err, context.Canceled):
		return &Error{SQLState: StateCannotOrder, Message: err.Error(), Hint: "Submit again later."}
	case errors.Is(err, private.ErrFull):
		return &Error{SQLState: StateFull, Message: err.Error(), Hint: "Submit again later."}
	case errors.Is(err, private.ErrDisk):
		return &Error{SQLState: StateCannotOrder, Message: err.Error(), Hint: "The node's log says why."}
	}
	return malformed("sealed: %v", err)
}

func notHere(err error) *Error { return &Error{SQLState: StateUnsupported, Message: err.Error()} }
