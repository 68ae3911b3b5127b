package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// SQLSTATEs the gateway answers with; the table of spec/node-socket.md says when.
const (
	StateCannotOrder = "57P03" // the node runs but cannot order now
	StateFull        = "53400" // a configured limit is reached; retry
	StateTooMany     = "53300" // too many connections, or requests over HTTP, at once
	StateBound       = "54000" // a bound of spec/formats.md is exceeded
	StateMalformed   = "22023" // the message names the field
	StateUnsupported = "0A000" // the reserved kind of transactions; an organisation that only orders
	StateExpired     = "40001" // never ordered before its expiry: it has no effects and may be submitted again
	StateStale       = "40001" // a row that the transaction saw has changed: it was not ordered
	StateRefused     = "55000" // the order refused the bundle
	// StateNotRegistered: a client's signature is wrong, its key not registered for the role, or it
	// did not show who it is.
	StateNotRegistered = "28000"
)

// Error is a refusal as a client sees it, in PostgreSQL's manner: Message in lower case without a
// period, Detail and Hint as sentences.
type Error struct {
	SQLState string
	Message  string
	Detail   string
	Hint     string
}

func (e *Error) Error() string { return e.Message + " (SQLSTATE " + e.SQLState + ")" }

// asError gives every failure a SQLSTATE; one that has none is a defect and says so.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{SQLState: "XX000", Message: err.Error()}
}

func malformed(format string, a ...any) *Error {
	return &Error{SQLState: StateMalformed, Message: fmt.Sprintf(format, a...)}
}

func beyondBound(what string, have, limit int) *Error {
	return &Error{
		SQLState: StateBound,
		Message:  fmt.Sprintf("%s exceeds the limit", what),
		Detail:   fmt.Sprintf("It is %d, at most %d is allowed.", have, limit),
	}
}

func queueFull(pending, limit int, unit string) *Error {
	return &Error{
		SQLState: StateFull,
		Message:  "the node's queue is full",
		Detail:   fmt.Sprintf("%d of %d %s wait for their outcome.", pending, limit, unit),
		Hint:     "Submit again later.",
	}
}

// shareFull says that the others may still submit.
func shareFull(role string, pending, free int, unit string) *Error {
	return &Error{
		SQLState: StateFull,
		Message:  "the role's share of the node's queue is full",
		Detail:   fmt.Sprintf("%d %s of role \"%s\" wait for their outcome; one role may have as many as are free beside it, which are %d.", pending, unit, role, free),
		Hint:     "Submit again later.",
	}
}

// suspended says what every organisation's node says of the client.
func suspended(until time.Time) *Error {
	return &Error{
		SQLState: StateFull,
		Message:  "the client is suspended until " + until.UTC().Format("2006-01-02 15:04:05 UTC"),
		Detail:   "Transactions of it, or of several clients of its organisation, did not end in the time of a block; chainify.transactions shows them with SQLSTATE CH001.",
		Hint:     "Submit again then, what takes long in smaller parts: a transaction that does not end suspends the client for twice as long.",
	}
}

// waitsFull says that the others may still wait.
func waitsFull(most int) *Error {
	return &Error{
		SQLState: StateFull, Message: "too many waits at this node",
		Detail: fmt.Sprintf("At most %d ids are waited for, and by one client as many as are free beside it.", most), Hint: "Wait again later.",
	}
}

func ordersOnly(organisation string) *Error {
	return &Error{
		SQLState: StateUnsupported,
		Message:  "organisation \"" + organisation + "\" only orders and submits no transactions",
		Detail:   "It has no database, so no role of it could be checked and no outcome known.",
		Hint:     "Submit at an organisation with a database.",
	}
}

func noMember(organisation string) *Error {
	return &Error{
		SQLState: StateRefused,
		Message:  "organisation \"" + organisation + "\" takes no part in the consortium, or not with a gateway key of this node",
		Hint:     "\"chainify org list\" shows who takes part.",
	}
}

func catchingUp() *Error {
	return &Error{
		SQLState: StateCannotOrder,
		Message:  "the node cannot order transactions now",
		Detail:   "It is still catching up with the other organisations.",
		Hint:     "Retry later; \"chainify status\" shows the progress.",
	}
}

func stalled(since time.Duration) *Error {
	return &Error{
		SQLState: StateCannotOrder,
		Message:  "the node cannot order transactions now",
		Detail: fmt.Sprintf("Transactions wait, but no block was decided for %s: "+
			"more than two thirds of the validators must be connected.", since.Round(100*time.Millisecond)),
		Hint: "Check the connections to the other organisations with \"chainify status\", then retry.",
	}
}

func stopping() *Error {
	return &Error{SQLState: StateCannotOrder, Message: "the node is stopping", Hint: "Retry when it runs again."}
}

// expired is the outcome of a transaction that no block can hold any more.
func expired(id wire.TxID, validUntil uint64) wire.TxResult {
	return wire.TxResult{
		ID: id, SQLState: StateExpired,
		Message: fmt.Sprintf("the transaction was not ordered up to height %d, when it expired; it has no effects", validUntil),
	}
}
