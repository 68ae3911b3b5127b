package canonical

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// hexBytes is a byte string as the vectors write it.
type hexBytes []byte

func (b *hexBytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.DecodeString(string(text))
	return err
}

// readVectors reads spec/vectors/name.json, refusing members that the test does not know.
func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "spec", "vectors", name+".json"))
	must.Do(t, err)
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s.json: %v", name, err)
	}
}

// valueVector is a value as the vectors write it: one member, named by its type.
type valueVector struct{ Value }

func (v *valueVector) UnmarshalJSON(raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || len(members) != 1 {
		return fmt.Errorf("%s: %v", raw, err)
	}
	for kind, member := range members {
		if err := v.read(kind, member); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

var (
	textTags   = map[string]Tag{"numeric": Numeric, "text": Text, "json": JSON, "enum": Enum, "net": Net}
	numberTags = map[string]Tag{
		"integer": Integer, "date": Date, "time": Time, "timestamp": Timestamp, "timestamptz": TimestampTZ,
	}
	byteTags = map[string]Tag{"bytea": Bytea, "uuid": UUID}
)

func (v *valueVector) read(kind string, raw json.RawMessage) (err error) {
	text := ""
	_ = json.Unmarshal(raw, &text)
	if v.Tag = textTags[kind]; v.Tag != 0 {
		v.Text = text
		return nil
	}
	if v.Tag = numberTags[kind]; v.Tag != 0 {
		v.Number, err = strconv.ParseInt(text, 10, 64)
		return err
	}
	if v.Tag = byteTags[kind]; v.Tag != 0 {
		b, err := hex.DecodeString(text)
		v.Text = string(b)
		return err
	}
	switch kind {
	case "char":
		v.Value = Value{Tag: Text, Text: strings.TrimRight(text, " ")}
	case "boolean":
		v.Value = Value{Tag: Boolean}
		if string(raw) == "true" {
			v.Number = 1
		}
	case "float":
		bits, err := strconv.ParseUint(text, 16, 64)
		v.Value = Value{Tag: Float, Float: math.Float64frombits(bits)}
		return err
	case "interval":
		var i struct {
			Months, Days int32
			Micros       int64 `json:",string"`
		}
		err = json.Unmarshal(raw, &i)
		v.Value = Value{Tag: Interval, Months: i.Months, Days: i.Days, Number: i.Micros}
	case "array":
		err = v.readArray(raw)
	case "composite":
		var c struct {
			Attributes uint16
			Fields     []columnVector
		}
		err = json.Unmarshal(raw, &c)
		v.Value = Value{Tag: Composite, Attributes: c.Attributes, Fields: columnsOf(c.Fields)}
	case "range":
		v.Value = Value{Tag: Range}
		if text != "empty" {
			v.Ranges = make([]Ends, 1)
			err = readEnds(raw, &v.Ranges[0])
		}
	case "multirange":
		var list []json.RawMessage
		err = json.Unmarshal(raw, &list)
		v.Value = Value{Tag: Range, Multirange: true, Ranges: make([]Ends, len(list))}
		for i := range list {
			err = errors.Join(err, readEnds(list[i], &v.Ranges[i]))
		}
	case "other":
		var o struct{ Name, Text string }
		err = json.Unmarshal(raw, &o)
		v.Value = Value{Tag: Other, TypeName: o.Name, Text: o.Text}
	default:
		err = errors.New("unknown kind")
	}
	return err
}

func (v *valueVector) readArray(raw json.RawMessage) error {
	var a struct {
		Dimensions []struct {
			Size uint32
			From int32
		}
		ElementTag Tag `json:"element_tag"`
		Elements   []*valueVector
	}
	err := json.Unmarshal(raw, &a)
	v.Value = Value{Tag: Array, Element: a.ElementTag}
	for _, d := range a.Dimensions {
		v.Dimensions = append(v.Dimensions, Dimension{d.Size, d.From})
	}
	for _, e := range a.Elements {
		if e == nil {
			v.Elements = append(v.Elements, nil)
		} else {
			v.Elements = append(v.Elements, &e.Value)
		}
	}
	return err
}

func readEnds(raw json.RawMessage, into *Ends) error {
	var e struct {
		Lower, Upper *struct {
			Inclusive bool
			Value     valueVector
		}
	}
	err := json.Unmarshal(raw, &e)
	if e.Lower != nil {
		into.Lower = &End{e.Lower.Value.Value, e.Lower.Inclusive}
	}
	if e.Upper != nil {
		into.Upper = &End{e.Upper.Value.Value, e.Upper.Inclusive}
	}
	return err
}

type columnVector struct {
	Ordinal uint16
	Value   *valueVector
}

func columnsOf(vectors []columnVector) []Column {
	columns := make([]Column, len(vectors))
	for i, v := range vectors {
		columns[i] = Column{v.Ordinal, v.Value.Value}
	}
	return columns
}

func TestVectorsOfValues(t *testing.T) {
	var v struct {
		Cases []struct {
			Name    string
			Value   valueVector
			Encoded hexBytes
		}
		Refused []struct {
			Name    string
			Encoded hexBytes
		}
	}
	readVectors(t, "values", &v)
	for _, c := range v.Cases {
		if got, err := c.Value.Append(nil); err != nil || !bytes.Equal(got, c.Encoded) {
			t.Errorf("%s: %x, %v, want %x", c.Name, got, err, []byte(c.Encoded))
		}
		back, err := DecodeValue(c.Encoded)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if again, err := back.Append(nil); err != nil || !bytes.Equal(again, c.Encoded) {
			t.Errorf("%s: decoded and encoded %x, %v", c.Name, again, err)
		}
	}
	for _, c := range v.Refused {
		if got, err := DecodeValue(c.Encoded); !errors.Is(err, ErrValue) {
			t.Errorf("%s: decodes to %+v, %v", c.Name, got, err)
		}
	}
}

func TestVectorsOfRows(t *testing.T) {
	var v struct {
		Cases []struct {
			Name, Table string
			Columns     []columnVector
			Row         hexBytes
			RowHash     wire.Hash `json:"row_hash"`
		}
	}
	readVectors(t, "rows", &v)
	for _, c := range v.Cases {
		got, err := AppendRow(nil, columnsOf(c.Columns))
		if err != nil || !bytes.Equal(got, c.Row) || wire.RowHash(c.Table, got) != c.RowHash {
			t.Errorf("%s: %x, %v", c.Name, got, err)
		}
		back, err := DecodeRow(c.Row)
		if again, err2 := AppendRow(nil, back); err != nil || err2 != nil || !bytes.Equal(again, c.Row) {
			t.Errorf("%s: decoded %+v, %v, %v", c.Name, back, err, err2)
		}
	}
}

func TestVectorsOfEffects(t *testing.T) {
	var v struct {
		Cases []struct {
			Name    string
			Changes []struct {
				Table   string
				PK      hexBytes
				Tx      uint32
				Op      string
				RowHash wire.Hash `json:"row_hash"`
			}
			Sorted []struct {
				Change, Serial uint32
				Leaf           wire.Hash
			}
			EffectsRoot        wire.Hash `json:"effects_root"`
			Outcomes           []bool
			TransactionEffects []wire.Hash `json:"transaction_effects"`
		}
		Deploys []struct {
			TxEffects     wire.Hash `json:"tx_effects"`
			StateRoot     wire.Hash `json:"state_root"`
			DeployEffects wire.Hash `json:"deploy_effects"`
		}
		Parts json.RawMessage // of package wire
	}
	readVectors(t, "leaves", &v)
	for _, c := range v.Cases {
		changes := make([]Change, len(c.Changes))
		for i, x := range c.Changes {
			changes[i] = Change{Table: x.Table, Key: x.PK, Tx: x.Tx, Op: x.Op[0], Hash: x.RowHash}
		}
		order := Sort(changes)
		for i, want := range c.Sorted {
			got := &changes[order[i]]
			if order[i] != want.Change || got.Serial != want.Serial || got.Leaf() != want.Leaf {
				t.Errorf("%s: place %d has change %d, serial %d, leaf %x", c.Name, i, order[i], got.Serial, got.Leaf())
			}
		}
		got := EffectsOf(changes, order, c.Outcomes)
		if len(order) != len(c.Sorted) || got.Root != c.EffectsRoot || fmt.Sprint(got.Transactions) != fmt.Sprint(c.TransactionEffects) {
			t.Errorf("%s: root %x, transactions %x", c.Name, got.Root, got.Transactions)
		}
	}
	for _, c := range v.Deploys {
		if got := DeployEffects(c.TxEffects, c.StateRoot); got != c.DeployEffects {
			t.Errorf("deploy effects %x, want %x", got, c.DeployEffects)
		}
	}
}

func TestVectorsOfStates(t *testing.T) {
	var v struct {
		Tables []struct {
			Name, Table string
			Rows        []hexBytes
			SchemaText  string    `json:"schema_text"`
			SchemaHash  wire.Hash `json:"schema_hash"`
			Lanes       hexBytes
			TableState  wire.Hash `json:"table_state"`
		}
		Definitions []struct {
			Name             string
			Objects          []Object
			DefinitionsState wire.Hash `json:"definitions_state"`
		}
		Procedures []struct {
			Name       string
			Procedures []struct {
				Name, Signature string
				Digests         []struct {
					Engine string
					Digest wire.Hash
				}
			}
			ProceduresState wire.Hash `json:"procedures_state"`
		}
		StateRoots []struct {
			Name   string
			Tables []struct {
				Table      string
				TableState wire.Hash `json:"table_state"`
			}
			StateRoot wire.Hash `json:"state_root"`
		} `json:"state_roots"`
	}
	readVectors(t, "lanes", &v)
	for _, c := range v.Tables {
		var s State
		hasher := NewLaneHasher(c.Table)
		for _, row := range c.Rows {
			hasher.Add(&s, row)
			hasher.Add(&s, append(row, 1))
		}
		for _, row := range c.Rows {
			hasher.Sub(&s, append(row, 1))
		}
		schema := SchemaHash(c.SchemaText)
		if schema != c.SchemaHash || !bytes.Equal(s.Lanes.Bytes(), c.Lanes) || TableState(c.Table, schema, &s) != c.TableState {
			t.Errorf("%s: lanes %x", c.Name, s.Lanes.Bytes())
		}
		if back, err := DecodeLanes(c.Lanes); err != nil || back != s.Lanes {
			t.Errorf("%s: decoded lanes differ, %v", c.Name, err)
		}
	}
	for _, c := range v.Definitions {
		if got := DefinitionsState(c.Objects); got != c.DefinitionsState {
			t.Errorf("%s: %x", c.Name, got)
		}
	}
	for _, c := range v.Procedures {
		var all []*Procedure
		for _, read := range c.Procedures {
			types, err := ParseSignature(read.Signature)
			must.Do(t, err)
			p := &Procedure{Name: read.Name, Types: types}
			for _, d := range read.Digests {
				p.Digests = append(p.Digests, Digest{d.Engine, d.Digest})
			}
			all = append(all, p)
		}
		if got := ProceduresState(all); got != c.ProceduresState {
			t.Errorf("%s: %x", c.Name, got)
		}
	}
	for _, c := range v.StateRoots {
		states := make([]Named, len(c.Tables))
		for i, table := range c.Tables {
			states[i] = Named{table.Table, table.TableState}
		}
		if got := StateRoot(states); got != c.StateRoot {
			t.Errorf("%s: %x", c.Name, got)
		}
	}
}

func TestVectorsOfWriteSets(t *testing.T) {
	type encoded struct {
		Name     string
		Field    string
		WriteSet json.RawMessage `json:"write_set"`
		Encoded  hexBytes
	}
	var v struct{ Cases, Failing, Refused []encoded }
	readVectors(t, "write_sets", &v)
	for _, c := range v.Cases {
		if err := checkEncoded(c.Encoded); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	for _, c := range v.Failing {
		if err := checkEncoded(c.Encoded); !errors.Is(err, ErrValue) {
			t.Errorf("%s: %v, want that a value is not canonical", c.Name, err)
		}
	}
}

func checkEncoded(raw []byte) error {
	s, err := wire.DecodeWriteSet(raw)
	if err != nil {
		return err
	}
	return CheckWriteSet(s)
}
