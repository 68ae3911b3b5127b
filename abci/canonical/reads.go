package canonical

import (
	"cmp"
	"strings"

	"github.com/chainify-db/chainify/abci/wire"
)

// Compare tells how two values compare, like crates/codec/src/order.rs; false: they are of
// different kinds, or of a kind without an order here. Texts compare by their bytes.
func (v *Value) Compare(o *Value) (int, bool) {
	if v.Tag != o.Tag {
		return 0, false
	}
	switch v.Tag {
	case Boolean, Integer, Date, Time, Timestamp, TimestampTZ:
		return cmp.Compare(v.Number, o.Number), true
	case Numeric:
		return compareDecimals(v.Text, o.Text), true
	case Text, Bytea, UUID:
		return cmp.Compare(v.Text, o.Text), true
	}
	return 0, false
}

// compareDecimals takes canonical decimals; NaN comes after all others.
func compareDecimals(a, b string) int {
	rank := func(text string) int {
		switch text {
		case "-Infinity":
			return 0
		case "Infinity":
			return 2
		case "NaN":
			return 3
		}
		return 1
	}
	if order := cmp.Compare(rank(a), rank(b)); order != 0 || rank(a) != 1 {
		return order
	}
	a, negative := strings.CutPrefix(a, "-")
	b, other := strings.CutPrefix(b, "-")
	switch {
	case negative && other:
		return compareMagnitudes(b, a)
	case negative:
		return -1
	case other:
		return 1
	}
	return compareMagnitudes(a, b)
}

// compareMagnitudes: without leading zeros the longer integer is the greater one. Digits after the
// point compare like words, because no zero ends them.
func compareMagnitudes(a, b string) int {
	a, aFraction, _ := strings.Cut(a, ".")
	b, bFraction, _ := strings.Cut(b, ".")
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b), cmp.Compare(aFraction, bFraction))
}

// Known is the knowledge about a column: its value, NULL (nil), or none.
type Known struct {
	Value   *Value
	Unknown bool
}

// MayCover tells whether a row may lie in a read (spec/transactions.md, "Reads"). column tells what
// is known of the column with an ordinal.
func MayCover(read *wire.Read, column func(ordinal uint16) Known) bool {
	for i := range read.Bounds {
		bound := &read.Bounds[i]
		known := column(bound.Ordinal)
		switch {
		case known.Unknown:
		case known.Value == nil, !allows(&bound.Lower, known.Value, -1), !allows(&bound.Upper, known.Value, 1):
			return false
		}
	}
	return true
}

// Covers tells whether an encoded row lies in a read. A row that cannot be read lies in all.
func Covers(read *wire.Read, row []byte) bool {
	if len(read.Bounds) == 0 {
		return true
	}
	columns, err := DecodeRow(row)
	if err != nil {
		return true
	}
	return MayCover(read, func(ordinal uint16) Known { return KnownOf(columns, ordinal) })
}

// KnownOf is a column of a whole row.
func KnownOf(columns []Column, ordinal uint16) Known {
	for i := range columns {
		if columns[i].Ordinal == ordinal {
			return Known{Value: &columns[i].Value}
		}
	}
	return Known{}
}

// allows tells whether a value does not lie beyond an end, which is where it compares as beyond. A
// value of another kind does not.
func allows(end *wire.End, v *Value, beyond int) bool {
	if end.Kind == 0 {
		return true
	}
	at, err := DecodeValue(end.Value)
	if err != nil {
		return true
	}
	order, ordered := v.Compare(&at)
	switch {
	case !ordered:
		return true
	case order == 0:
		return end.Kind == 2
	}
	return order != beyond
}
