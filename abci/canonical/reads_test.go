package canonical

import (
	"testing"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

func TestValuesAreOrderedByKind(t *testing.T) {
	numbers := []string{"-Infinity", "-100", "-20.5", "-20.25", "-3", "-0.01", "0", "0.001", "0.01", "0.1", "0.11", "0.9", "1", "9.99", "10", "10.5", "99", "100", "Infinity", "NaN"}
	for i, a := range numbers {
		for j, b := range numbers {
			order, ok := (&Value{Tag: Numeric, Text: a}).Compare(&Value{Tag: Numeric, Text: b})
			if want := map[bool]int{true: -1}[i < j] + map[bool]int{true: 1}[i > j]; !ok || order != want {
				t.Errorf("%s and %s: %d %t", a, b, order, ok)
			}
		}
	}
	for _, pair := range [][2]Value{
		{{Tag: Boolean}, {Tag: Boolean, Number: 1}},
		{{Tag: Integer, Number: -1}, {Tag: Integer}},
		{{Tag: Timestamp, Number: 7}, {Tag: Timestamp, Number: 1 << 60}},
		{{Tag: Text, Text: "B"}, {Tag: Text, Text: "a"}},
		{{Tag: Text, Text: "a"}, {Tag: Text, Text: "a "}},
		{{Tag: Bytea, Text: "\x01\xff"}, {Tag: Bytea, Text: "\x02"}},
	} {
		less, ok := pair[0].Compare(&pair[1])
		more, _ := pair[1].Compare(&pair[0])
		if !ok || less != -1 || more != 1 {
			t.Errorf("%+v: %d %d", pair, less, more)
		}
	}
	if _, ok := (&Value{Tag: Float, Float: 1}).Compare(&Value{Tag: Float, Float: 1}); ok {
		t.Error("floats have no order here")
	}
}

func TestARowLiesInAReadWithinAllBounds(t *testing.T) {
	number := func(n int64) []byte {
		raw, err := (&Value{Tag: Integer, Number: n}).Append(nil)
		must.Do(t, err)
		return raw
	}
	row, err := AppendRow(nil, []Column{{1, Value{Tag: Integer, Number: 5}}, {2, Value{Tag: Text, Text: "x"}}})
	must.Do(t, err)
	bound := func(ordinal uint16, lower, upper wire.End) wire.Bound {
		return wire.Bound{Ordinal: ordinal, Lower: lower, Upper: upper}
	}
	in, out, none := func(n int64) wire.End { return wire.End{Kind: 2, Value: number(n)} }, func(n int64) wire.End { return wire.End{Kind: 1, Value: number(n)} }, wire.End{}
	for _, c := range []struct {
		bounds []wire.Bound
		want   bool
	}{
		{nil, true},
		{[]wire.Bound{bound(1, in(5), in(5))}, true},
		{[]wire.Bound{bound(1, out(5), none)}, false},
		{[]wire.Bound{bound(1, none, out(5))}, false},
		{[]wire.Bound{bound(1, out(4), out(6))}, true},
		{[]wire.Bound{bound(1, in(6), none)}, false},
		{[]wire.Bound{bound(1, none, in(4))}, false},
		{[]wire.Bound{bound(2, in(6), in(7))}, true},                         // of another kind
		{[]wire.Bound{bound(3, none, in(4))}, false},                         // NULL
		{[]wire.Bound{bound(1, in(5), in(5)), bound(3, none, in(4))}, false}, // all bounds
	} {
		if got := Covers(&wire.Read{Bounds: c.bounds}, row); got != c.want {
			t.Errorf("%+v: %t", c.bounds, got)
		}
	}
	if !Covers(&wire.Read{Bounds: []wire.Bound{bound(1, in(9), none)}}, []byte{1}) {
		t.Error("a row that cannot be read lies in all")
	}
	if !MayCover(&wire.Read{Bounds: []wire.Bound{bound(1, in(9), none)}}, func(uint16) Known { return Known{Unknown: true} }) {
		t.Error("an unknown column lies in every bound")
	}
}
