// Package accuse is the one place where a node says that somebody else did wrong. An Accusation
// contains nothing but its proof. Logs, metrics, the status and recovery take it from here. A
// failure of this node, its database or its machine is no proof against another organisation.
package accuse

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
)

// ErrFalse: what another organisation told cannot be so, whatever is the matter here. Its bytes
// alone show that, against a certified hash. It never stands beside an error of the database, the
// disk or the network.
var ErrFalse = errors.New("another organisation told what cannot be so")

// Accusation says which organisation did wrong, and by which proof. The zero value accuses nobody.
type Accusation struct {
	organisation, message, reason string
	level                         slog.Level
	args                          []any
}

// Organisation is the one that is accused; empty: nobody, or a node that stands for none.
func (a Accusation) Organisation() string { return a.organisation }

// Reason is a sentence for the status.
func (a Accusation) Reason() string { return a.reason }

// Message is the line of the log, Args what it names.
func (a Accusation) Message() string { return a.message }

func (a Accusation) Args() []any {
	if a.organisation == "" {
		return a.args
	}
	return append([]any{"organisation", a.organisation}, a.args...)
}

// Log writes the line.
func (a Accusation) Log(log *slog.Logger, more ...any) {
	if a.message != "" {
		log.Log(context.Background(), a.level, a.message, append(a.Args(), more...)...)
	}
}

// TwoVotes accuses an organisation of two votes on effects for one execution (E3). Its key has
// signed both. It is false when the votes are equal, or of two executions.
func TwoVotes[K comparable, V interface {
	comparable
	Key() K
}](organisation string, first, second V) (Accusation, bool) {
	if first == second || first.Key() != second.Key() || organisation == "" {
		return Accusation{}, false
	}
	return Accusation{
		organisation: organisation, message: "an organisation voted twice, differently", level: slog.LevelWarn,
		reason: fmt.Sprintf("organisation %q voted twice, differently", organisation),
	}, true
}

// OrderSignedTwice accuses the organisation of a validator by CometBFT's evidence in a decided
// order block, which more than two thirds of the votes have checked.
func OrderSignedTwice(organisation string, validator []byte, height int64) Accusation {
	return Accusation{
		organisation: organisation, message: "a validator signed the order twice, differently", level: slog.LevelWarn,
		reason: fmt.Sprintf("a validator of organisation %q signed the order twice", organisation),
		args:   []any{"validator", hex.EncodeToString(validator), "height", height},
	}
}

// FalseTold accuses an organisation of rows or a block that it told for recovery. It is false
// unless the proof is ErrFalse, with nothing but words around it.
func FalseTold(organisation string, block uint64, proof error) (Accusation, bool) {
	if !errors.Is(proof, ErrFalse) || !words(proof) || organisation == "" {
		return Accusation{}, false
	}
	return falseTold(organisation, block, proof), true
}

// RefutedBy accuses an organisation of a word that did not fit, after that of another organisation
// for the same block was taken here. It is false for an organisation that refutes itself.
func RefutedBy(organisation string, block uint64, helper string) (Accusation, bool) {
	if organisation == "" || helper == "" || organisation == helper {
		return Accusation{}, false
	}
	return falseTold(organisation, block, fmt.Errorf("its word was not as certified, and that of organisation %q was", helper)), true
}

func falseTold(organisation string, block uint64, proof error) Accusation {
	return Accusation{
		organisation: organisation, message: "another organisation told what is false", level: slog.LevelError,
		reason: fmt.Sprintf("organisation %q told false rows or blocks for recovery; the log says which", organisation),
		args:   []any{"block", block, "error", proof},
	}
}

// FalseSnapshot says of nodes that they offer a snapshot that the AppHash in the order refutes.
func FalseSnapshot(height uint64, proof error) Accusation {
	return Accusation{
		message: "a false snapshot is offered; its senders are asked no more", level: slog.LevelWarn, args: []any{"height", height, "error", proof},
	}
}

// FalseChunk says of a node that it sent a chunk that the manifest's hash refutes.
func FalseChunk(sender string, proof error) Accusation {
	return Accusation{
		message: "a false chunk of a snapshot; its sender is asked no more", level: slog.LevelWarn, args: []any{"sender", sender, "error", proof},
	}
}

// ChargeUsedUp says of a member that its nodes sent more that is refused than its charge allows.
// This node alone counts, over their connections.
func ChargeUsedUp(member string) Accusation {
	return Accusation{
		organisation: member, message: "another organisation's nodes sent too much that is refused or known already; nothing of it is looked at for a while", level: slog.LevelWarn,
	}
}

// ReadSlowly says of a member that its nodes send more of something than this node looks at. This
// node alone counts, over their connections.
func ReadSlowly(member, what string) Accusation {
	return Accusation{
		organisation: member, message: "another organisation's nodes send too many " + what + "; they are read slowly", level: slog.LevelWarn,
	}
}

// ServedSlowly says of a member that its nodes ask for more than this node tells at once. Nodes
// that fetch all blocks do so, too.
func ServedSlowly(member string) Accusation {
	return Accusation{
		organisation: member, message: "another organisation's nodes ask for many blocks or snapshots; they are read slowly", level: slog.LevelInfo,
	}
}

// OldKey says of a node that it asked with a signature that only a former key of an organisation
// fits.
func OldKey(organisation, asked string) Accusation {
	return Accusation{organisation: organisation, message: "asked " + asked + " with a signature that does not count", level: slog.LevelWarn}
}

// words tells that an error is made of texts alone. One of the database, a file or a connection has
// a type of its own.
func words(err error) bool {
	if err == nil {
		return true
	}
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if of := t.PkgPath(); of != "errors" && of != "fmt" {
		return false
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return words(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if !words(one) {
				return false
			}
		}
	}
	return true
}
