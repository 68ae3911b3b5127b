package canonical

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// Each target states what holds for every input: no panic, and what is accepted has one spelling
// only.

func FuzzDecodeRow(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		row, err := AppendRow(nil, randomRow(random))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(row)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		columns, err := DecodeRow(raw)
		if err != nil {
			return
		}
		if again, err := AppendRow(nil, columns); err != nil || !bytes.Equal(again, raw) {
			t.Errorf("%x is accepted and encodes as %x, %v", raw, again, err)
		}
	})
}

// Canonical JSON is JSON that says the same, and is its own canonical form.
func FuzzCanonicalJSON(f *testing.F) {
	for _, text := range []string{
		`{"b":[1.50,-0,2e2],"a":{"":null}}`, `"\u00e9\ud83d\ude00\n"`, ` [ true , false ] `, `{"a":1,"a":2}`, `1e-3`, "\"\x7f\"",
		`"\ud800"`, `01`, `{"\ufb33":1,"😀":2}`, strings.Repeat("[", 1000) + strings.Repeat("]", 1000), strings.Repeat("[", 1001),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		canonical, err := appendJSON(nil, text)
		if err != nil {
			return
		}
		again, err := appendJSON(nil, string(canonical))
		if err != nil || !bytes.Equal(again, canonical) {
			t.Errorf("%q becomes %q, then %q, %v", text, canonical, again, err)
		}
		if !json.Valid([]byte(text)) || !json.Valid(canonical) {
			t.Errorf("%q or %q is no JSON", text, canonical)
		}
	})
}

func FuzzDecodeTravelling(f *testing.F) {
	text := "1.50"
	travelling := Travelling{Change: Change{Table: "public.t", Tx: 3, Op: 'U', Hash: wire.Hash{1}}, Cells: []*string{&text, nil}}
	f.Add(travelling.Append(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if change, err := DecodeTravelling(raw); err == nil && !bytes.Equal(change.Append(nil), raw) {
			t.Errorf("%x is accepted and encodes as %x", raw, change.Append(nil))
		}
		if cells, err := DecodeCells(raw); err == nil && !bytes.Equal(AppendCells(nil, cells), raw) {
			t.Errorf("%x is accepted as cells and encodes as %x", raw, AppendCells(nil, cells))
		}
	})
}

// An encoded row decodes to the same. Every prefix of it and every longer one is refused.
func TestRandomRowsComeBack(t *testing.T) {
	random := seeded.Random(t)
	for range 2_000 {
		columns := randomRow(random)
		raw, err := AppendRow(nil, columns)
		if err != nil {
			t.Fatalf("%+v: %v", columns, err)
		}
		back, err := DecodeRow(raw)
		if err != nil {
			t.Fatalf("%x: %v", raw, err)
		}
		if len(columns) > 0 && !reflect.DeepEqual(back, columns) {
			t.Fatalf("%+v comes back as %+v", columns, back)
		}
		for n := range raw {
			if _, err := DecodeRow(raw[:n]); err == nil {
				t.Fatalf("%d bytes of %x are accepted", n, raw)
			}
		}
		if _, err := DecodeRow(append(raw, 0)); err == nil {
			t.Fatalf("%x and a byte are accepted", raw)
		}
	}
}

func randomRow(random *rand.Rand) []Column {
	var columns []Column
	ordinal := uint16(0)
	for range random.IntN(5) {
		ordinal += uint16(1 + random.IntN(3))
		columns = append(columns, Column{ordinal, randomValue(random, 0)})
	}
	return columns
}

// randomValue is a value in its canonical form.
func randomValue(random *rand.Rand, depth int) Value {
	tags := []Tag{Boolean, Integer, Numeric, Float, Text, Bytea, Date, Time, UUID, JSON, Interval, Range, Composite, Array, Other}
	v := Value{Tag: tags[random.IntN(len(tags))]}
	if depth > 2 {
		v.Tag = Integer
	}
	texts := []string{"", "a", "é😀", "x y", "\x00"}
	switch v.Tag {
	case Boolean:
		v.Number = int64(random.IntN(2))
	case Integer, Date:
		v.Number = int64(random.Uint64())
	case Time:
		v.Number = random.Int64N(dayMicros + 1)
	case Numeric:
		v.Text = []string{"0", "-1.5", "100000000000000000000", "0.0001", "NaN"}[random.IntN(5)]
	case Float:
		v.Float = random.NormFloat64()
	case Text, Bytea:
		v.Text = texts[random.IntN(len(texts))]
	case UUID:
		v.Text = string(bytes.Repeat([]byte{byte(random.Uint32())}, uuidBytes))
	case JSON:
		v.Text = []string{`{"a":[1,2.5],"b":null}`, `"x"`, `[]`, `-0.5`}[random.IntN(4)]
	case Interval:
		v.Months, v.Days, v.Number = int32(random.Uint32()), int32(random.Uint32()), int64(random.Uint64())
	case Range:
		v.Multirange = random.IntN(2) == 0
		if random.IntN(3) > 0 {
			v.Ranges = []Ends{{Lower: &End{Value{Tag: Date, Number: 5}, true}}}
		}
	case Composite:
		v.Attributes = 9
		v.Fields = []Column{{1 + uint16(random.IntN(9)), randomValue(random, depth+1)}}
	case Array:
		element := randomValue(random, depth+1)
		v.Element = element.Tag
		v.Dimensions = []Dimension{{2, int32(random.IntN(3))}}
		v.Elements = []*Value{&element, nil}
	case Other:
		v.TypeName, v.Text = "t", texts[random.IntN(len(texts))]
	}
	return v
}

// A range sum is that of spec/formats.md: word by word, whatever the order.
func TestRangesOfKeys(t *testing.T) {
	for bits := range uint32(25) {
		if got := KeyRange([]byte("abc"), bits); got != 0xba7816bf>>(32-bits)&(1<<bits-1) {
			t.Errorf("%d bits: %x", bits, got)
		}
	}
	var ab, ba RangeSum
	a, b := wire.Hash{7: 255, 31: 1}, wire.Hash{7: 2}
	ab.Add(a)
	ab.Add(b)
	ba.Add(b)
	ba.Add(a)
	if want := (wire.Hash{6: 1, 7: 1, 31: 1}); ab != ba || ab.Digest() != want || ab.Rows != 2 {
		t.Errorf("%x of %d rows", ab.Digest(), ab.Rows)
	}
}

// A schema text has one spelling, which describes a table that engines share.
func FuzzParseSchemaText(f *testing.F) {
	f.Add("column 1 id bigint not null\nprimary key (id)")
	f.Add("column 1 id integer not null\ncolumn 3 name varchar(20) default 050000000161\nforeign key (name) references public.u (n)\nprimary key (id)\nunique (name, id)")
	f.Add("check (((a < id) and (a is null)) or (id = 02000000080000000000000001))\ncolumn 1 id bigint not null\ncolumn 2 a integer\nprimary key (id)")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := ParseSchemaText("public.t", text)
		if err != nil {
			return
		}
		if again, err := SchemaText(table); err != nil || again != text {
			t.Errorf("%q is accepted and written as %q, %v", text, again, err)
		}
		for i := range table.Columns {
			if _, err := TypeTag(table.Columns[i].Type); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
