// Package private decides who may hold private values, who must, and which values of a transaction
// fit it (circles.go, pure). It keeps values on the disk while they are on their way (store.go).
// It carries them between clients, other members and the database (keeper.go). spec/private.md has
// the messages, and ARCHITECTURE.md the invariants K1 to K5.
//
// No value and no salt gets into a log, an error or a metric (K2).
package private

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// Circles says which organisations may hold the values of which columns.
type Circles struct {
	members map[string][]string           // of a circle, ascending
	columns map[cell]backend.SealedColumn // sealed ones
}

type cell struct{ table, column string }

// NewCircles makes it of what the database tells.
func NewCircles(told backend.Circles) *Circles {
	c := &Circles{members: map[string][]string{}, columns: map[cell]backend.SealedColumn{}}
	for _, m := range told.Members {
		c.members[m.Circle] = append(c.members[m.Circle], m.Organisation)
	}
	for _, members := range c.members {
		slices.Sort(members)
	}
	for _, column := range told.Columns {
		c.columns[cell{column.Table, column.Column}] = column
	}
	return c
}

// Holders are the organisations that may hold values of a column: the members of its circle. A
// column that is not sealed has none.
func (c *Circles) Holders(table, column string) []string {
	return c.members[c.columns[cell{table, column}].Circle]
}

// May reports whether an organisation may hold values of a column (K1).
func (c *Circles) May(organisation, table, column string) bool {
	return slices.Contains(c.Holders(table, column), organisation)
}

// Holds reports whether an organisation may hold values of any column.
func (c *Circles) Holds(organisation string) bool {
	for _, column := range c.columns {
		if slices.Contains(c.members[column.Circle], organisation) {
			return true
		}
	}
	return false
}

// ErrNoMember is the error of a value for a circle that the organisation is not in.
var ErrNoMember = errors.New("the organisation is not in the circle of the column")

// errNotSealed is the error of a value for a column that is not sealed, or of another type.
var errNotSealed = errors.New("the column is not sealed so")

// Fits says why values are none that an organisation may hold, or nil. Each column is sealed for a
// circle with this organisation. The type is the column's, and the commitment is that of the value
// (K4). Cost: one SHA-256 of each value.
func (c *Circles) Fits(chainID, organisation string, values []*wire.SealedValue) error {
	for _, v := range values {
		sealed, known := c.columns[cell{v.Table, v.Column}]
		switch {
		case !known:
			return fmt.Errorf("%w: %q of table %q", errNotSealed, v.Column, v.Table)
		case !c.May(organisation, v.Table, v.Column):
			return fmt.Errorf("%w: %q of table %q is sealed for circle %q, and organisation %q is not in it", ErrNoMember, v.Column, v.Table, sealed.Circle, organisation)
		case v.Type != sealed.Type:
			return fmt.Errorf("%w: the value for %q of table %q has type %q, want %q", errNotSealed, v.Column, v.Table, v.Type, sealed.Type)
		case !committed(chainID, v):
			return fmt.Errorf("a value for column %q of table %q is not that of its commitment", v.Column, v.Table)
		}
	}
	return nil
}

func committed(chainID string, v *wire.SealedValue) bool {
	is := canonical.Commitment(chainID, v.Table, v.Column, v.Type, v.Salt, v.Value)
	return bytes.Equal(is[:], v.Commitment)
}

// Written says why a write set does not have the commitments of values, or nil. It cannot tell
// apart two columns of a table: the database that opens a value compares its column. Cost: one
// pass.
func Written(effects []byte, values []*wire.SealedValue) error {
	set, err := wire.DecodeWriteSet(effects)
	if err != nil {
		return err
	}
	type written struct {
		table      string
		commitment wire.Hash
	}
	wanted := make(map[written]bool, len(values))
	for _, v := range values {
		wanted[written{v.Table, wire.Hash(v.Commitment)}] = true
	}
	set.WithCommitments(func(table string, commitment wire.Hash) bool {
		delete(wanted, written{table, commitment})
		return len(wanted) > 0
	})
	for w := range wanted {
		return fmt.Errorf("the write set does not have a commitment of table %q whose value is there", w.table)
	}
	return nil
}

// Deliveries are the values of a transaction that each other organisation gets: those of its
// circles alone (K1). Only organisations that take part get some.
func (c *Circles) Deliveries(own string, values []*wire.SealedValue, takesPart func(organisation string) bool) map[string][]*wire.SealedValue {
	to := map[string][]*wire.SealedValue{}
	for _, v := range values {
		for _, organisation := range c.Holders(v.Table, v.Column) {
			if organisation != own && takesPart(organisation) {
				to[organisation] = append(to[organisation], v)
			}
		}
	}
	return to
}

// Lacking are the circles of which no other member holds the values that it was sent, each with
// those that were sent them (K3). A circle without another member that takes part lacks none.
func (c *Circles) Lacking(values []*wire.SealedValue, to map[string][]*wire.SealedValue, holds func(organisation string) bool) map[string][]string {
	lacking := map[string][]string{}
	for _, v := range values {
		circle := c.columns[cell{v.Table, v.Column}].Circle
		if _, seen := lacking[circle]; seen {
			continue
		}
		var sent []string
		for _, organisation := range c.members[circle] {
			if to[organisation] != nil {
				sent = append(sent, organisation)
			}
		}
		lacking[circle] = sent
		if slices.ContainsFunc(sent, holds) {
			lacking[circle] = nil
		}
	}
	for circle, sent := range lacking {
		if len(sent) == 0 {
			delete(lacking, circle)
		}
	}
	return lacking
}

// From divides what is missing between the organisations that may have it: each name stands under
// every other member of its circle.
func (c *Circles) From(own string, names []*wire.SealedName) map[string][]*wire.SealedName {
	from := map[string][]*wire.SealedName{}
	for _, name := range names {
		for _, organisation := range c.Holders(name.Table, name.Column) {
			if organisation != own {
				from[organisation] = append(from[organisation], name)
			}
		}
	}
	return from
}

// ForgetAt reports whether the values of a transaction may be forgotten at a height: no block can
// hold it any more, and the database has all blocks that were ordered. So it is in none of them, or
// the database has been told its values.
func ForgetAt(validUntil, height uint64, databaseIsCurrent bool) bool {
	return height > validUntil && databaseIsCurrent
}

// silent names those that did not confirm, for an error.
func silent(lacking map[string][]string, replies map[string]string, limit string) string {
	var said []string
	for _, sent := range lacking {
		for _, organisation := range sent {
			line := fmt.Sprintf("%s did not answer within %s", organisation, limit)
			if refusal := replies[organisation]; refusal != "" {
				line = fmt.Sprintf("%s refused them: %s", organisation, strings.ToValidUTF8(refusal, "\ufffd"))
			}
			if !slices.Contains(said, line) {
				said = append(said, line)
			}
		}
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}
