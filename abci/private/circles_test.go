package private

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// testCircles: acme and bolt hold prices, acme, bolt and cargo weights, acme alone notes.
func testCircles() backend.Circles {
	var told backend.Circles
	for circle, members := range map[string]string{"pricing": "acme bolt", "carrying": "acme bolt cargo", "own": "acme"} {
		for _, organisation := range strings.Fields(members) {
			told.Members = append(told.Members, backend.CircleMember{Circle: circle, Organisation: organisation})
		}
	}
	for column, circle := range map[string]string{"price": "pricing", "weight": "carrying", "note": "own"} {
		told.Columns = append(told.Columns, backend.SealedColumn{Table: "public.trades", Column: column, Circle: circle, Type: "text"})
	}
	return told
}

// sealed is a value with its commitment.
func sealed(column, text string) *wire.SealedValue {
	v := canonical.Value{Tag: canonical.Text, Text: text}
	value, _ := v.Append(nil) // a text has an encoding
	salt := bytes.Repeat([]byte{7}, 32)
	commitment := canonical.Commitment("test", "public.trades", column, "text", salt, value)
	return &wire.SealedValue{Commitment: commitment[:], Table: "public.trades", Column: column, Type: "text", Salt: salt, Value: value}
}

// writes is a write set that inserts a row with these commitments.
func writes(values ...*wire.SealedValue) []byte {
	columns := []canonical.Column{{Ordinal: 1, Value: canonical.Value{Tag: canonical.Integer, Number: 1}}}
	for i, v := range values {
		columns = append(columns, canonical.Column{Ordinal: uint16(i + 2), Value: canonical.Value{Tag: canonical.Bytea, Text: string(v.Commitment)}})
	}
	row, _ := canonical.AppendRow(nil, columns)
	set := &wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{"public.trades"}, Changes: []wire.RowChange{{Op: 'I', Row: row}}}
	return set.Encode()
}

// K1 and K4: who may hold which values, and which are none.
func TestValuesThatMayBeHeld(t *testing.T) {
	c := NewCircles(testCircles())
	changed := func(change func(*wire.SealedValue)) *wire.SealedValue {
		v := sealed("price", "12.50")
		change(v)
		return v
	}
	for name, test := range map[string]struct {
		organisation string
		value        *wire.SealedValue
		wrong        string
		is           error
	}{
		"a member":         {"bolt", sealed("price", "12.50"), "", nil},
		"no member":        {"cargo", sealed("price", "12.50"), "not in the circle", ErrNoMember},
		"another column":   {"bolt", changed(func(v *wire.SealedValue) { v.Column = "weight" }), "not that of its commitment", nil},
		"no such column":   {"bolt", changed(func(v *wire.SealedValue) { v.Column = "id" }), "not sealed", errNotSealed},
		"no such table":    {"bolt", changed(func(v *wire.SealedValue) { v.Table = "public.t" }), "not sealed", errNotSealed},
		"another type":     {"bolt", changed(func(v *wire.SealedValue) { v.Type = "bytea" }), "not sealed", errNotSealed},
		"another value":    {"bolt", changed(func(v *wire.SealedValue) { v.Value[len(v.Value)-1]++ }), "not that of its commitment", nil},
		"another salt":     {"bolt", changed(func(v *wire.SealedValue) { v.Salt[0]++ }), "not that of its commitment", nil},
		"another evidence": {"bolt", changed(func(v *wire.SealedValue) { v.Commitment[31]++ }), "not that of its commitment", nil},
	} {
		err := c.Fits("test", test.organisation, []*wire.SealedValue{sealed("price", "1"), test.value})
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %v, want %q", name, err, test.wrong)
		}
	}
	if err := c.Fits("other", "bolt", []*wire.SealedValue{sealed("price", "1")}); err == nil {
		t.Error("a value of another chain fits")
	}
}

func TestAWriteSetHasTheCommitments(t *testing.T) {
	price, weight := sealed("price", "12.50"), sealed("weight", "8 t")
	if err := Written(writes(price, weight), []*wire.SealedValue{weight, price}); err != nil {
		t.Error(err)
	}
	if err := Written(writes(price), []*wire.SealedValue{price, weight}); err == nil {
		t.Error("a value without its commitment is taken")
	}
	other := sealed("price", "12.50")
	other.Table = "public.t"
	if err := Written(writes(price), []*wire.SealedValue{other}); err == nil {
		t.Error("a commitment of another table is taken")
	}
}

// Each organisation gets values of its own circles, and is one of those that count for them.
func TestDeliveriesAndWhatTheyLack(t *testing.T) {
	c := NewCircles(testCircles())
	price, weight, note := sealed("price", "12.50"), sealed("weight", "8 t"), sealed("note", "x")
	all := []*wire.SealedValue{price, weight, note}
	everybody := func(string) bool { return true }
	to := c.Deliveries("acme", all, everybody)
	if want := map[string][]*wire.SealedValue{"bolt": {price, weight}, "cargo": {weight}}; !reflect.DeepEqual(to, want) {
		t.Errorf("delivered %v, want %v", to, want)
	}
	holds := func(organisations ...string) func(string) bool {
		return func(o string) bool { return strings.Contains(strings.Join(organisations, " "), o) }
	}
	for _, test := range []struct {
		holds func(string) bool
		want  map[string][]string
	}{
		{holds(), map[string][]string{"pricing": {"bolt"}, "carrying": {"bolt", "cargo"}}},
		{holds("cargo"), map[string][]string{"pricing": {"bolt"}}},
		{holds("bolt"), map[string][]string{}},
	} {
		if got := c.Lacking(all, to, test.holds); !reflect.DeepEqual(got, test.want) {
			t.Errorf("lacking %v, want %v", got, test.want)
		}
	}
	alone := c.Deliveries("acme", all, func(o string) bool { return o == "cargo" })
	if got := c.Lacking(all, alone, holds("cargo")); alone["bolt"] != nil || len(got) != 0 {
		t.Errorf("delivered %v, lacking %v, though bolt takes no part", alone, got)
	}
}

func TestValuesAreForgottenOnceNoBlockCanHaveThem(t *testing.T) {
	for _, test := range []struct {
		height  uint64
		current bool
		want    bool
	}{{10, true, false}, {11, false, false}, {11, true, true}} {
		if got := ForgetAt(10, test.height, test.current); got != test.want {
			t.Errorf("%v: %v", test, got)
		}
	}
}
