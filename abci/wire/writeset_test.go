package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

func testInt(n int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{2, 0, 0, 0, 8}, uint64(n))
}

func testRow(n int64) []byte { return append([]byte{0, 1, 0, 1}, testInt(n)...) }

// testWriteSet has a change of each kind, a row seen and one that was not there, a read of a whole
// table and one within two bounds.
func testWriteSet() *WriteSet {
	return &WriteSet{
		Snapshot: 7, Isolation: Serializable, Tables: []string{"public.a", "public.b"},
		Changes: []RowChange{
			{Table: 1, Op: 'I', Row: testRow(5)},
			{Op: 'U', Before: Hash{1}, Row: testRow(1), Cells: []Cell{{2, testInt(3)}, {3, null}}},
			{Table: 1, Op: 'D', Before: Hash{2}, Row: testRow(6)},
		},
		Seen: []RowSeen{{Key: testRow(1), Present: true, Hash: Hash{1}}, {Table: 1, Key: testRow(9)}},
		Reads: []Read{{}, {Table: 1, Bounds: []Bound{
			{1, End{2, testInt(3)}, End{1, testInt(9)}}, {4, End{}, End{2, testInt(7)}},
		}}},
	}
}

func TestWriteSetRoundTrip(t *testing.T) {
	raw := testWriteSet().Encode()
	s, err := DecodeWriteSet(raw)
	must.Do(t, err)
	if got, want := fmt.Sprintf("%+v", s), fmt.Sprintf("%+v", testWriteSet()); got != want {
		t.Errorf("decoded as %s, want %s", got, want)
	}
	for n := range raw {
		if _, err := DecodeWriteSet(raw[:n]); err == nil {
			t.Errorf("%d bytes are accepted", n)
		}
	}
	if _, err := DecodeWriteSet(append(raw, 0)); err == nil || !strings.HasPrefix(err.Error(), "effects: 1 bytes too many") {
		t.Errorf("a byte too many: %v", err)
	}
}

// A write set is as long as the bound lets it be, and counts that promise more than there is cost
// nothing.
func TestWriteSetOfTheGreatestSize(t *testing.T) {
	s := testWriteSet()
	for len(s.Encode()) <= WriteSetBytesMax-30 {
		row := append([]byte{0, 1, 0, 1, 5}, appendPrefixed(nil, make([]byte, min(60_000, WriteSetBytesMax-len(s.Encode())-16)))...)
		s.Changes = append(s.Changes, RowChange{Op: 'I', Row: row})
	}
	if raw := s.Encode(); len(raw) != WriteSetBytesMax {
		t.Fatalf("%d bytes", len(raw))
	} else if _, err := DecodeWriteSet(raw); err != nil {
		t.Error(err)
	} else if _, err := DecodeWriteSet(append(raw, 0)); err == nil || !strings.HasPrefix(err.Error(), "effects: 524289 bytes, want at most 524288") {
		t.Errorf("a byte more: %v", err)
	}
	raw := testWriteSet().Encode()
	at := bytes.Index(raw, []byte("public.b")) + len("public.b")
	copy(raw[at:], []byte{0xff, 0xff, 0xff, 0xff})
	var err error
	if n := testing.AllocsPerRun(1000, func() { _, err = DecodeWriteSet(raw) }); n > 20 { // many runs, since the count has what the runtime does meanwhile
		t.Errorf("%g allocations for 4,294,967,295 changes that are not there", n)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "effects.changes: 4294967295 do not fit into ") {
		t.Error(err)
	}
}

// Both bounds are met and not exceeded.
func TestWriteSetOfTheMostTablesAndReads(t *testing.T) {
	for _, c := range []struct {
		tables, reads int
		want          string
	}{
		{WriteSetTablesMax, WriteSetReadsMax, ""},
		{WriteSetTablesMax + 1, WriteSetTablesMax + 1, "effects.tables: 1001, want 1 to 1000"},
		{1, WriteSetReadsMax + 1, "effects.reads: 1025, want at most 1024"},
	} {
		s := &WriteSet{Isolation: Serializable}
		for i := range c.tables {
			s.Tables = append(s.Tables, fmt.Sprintf("public.t%04d", i))
		}
		for i := range c.reads {
			read := Read{Table: uint16(min(i, c.tables-1))}
			if i >= c.tables {
				read.Bounds = []Bound{{1, End{2, testInt(int64(i))}, End{}}}
			}
			s.Reads = append(s.Reads, read)
		}
		_, err := DecodeWriteSet(s.Encode())
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%d tables, %d reads: %v, want %q", c.tables, c.reads, err, c.want)
		}
	}
}

// Effects are there exactly in their kind, and nothing else is.
func TestProposalsOfEffects(t *testing.T) {
	effects := func(change func(*Proposal)) *Proposal {
		p := testProposal()
		p.Kind, p.Sql, p.Parameters, p.Effects = Kind_KIND_EFFECTS, "", nil, testWriteSet().Encode()
		change(p)
		return p
	}
	if _, err := DecodeProposal(Encode(effects(func(*Proposal) {}))); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Proposal){
		"proposal.effects: empty":             func(p *Proposal) { p.Effects = nil },
		"proposal.effects.reads[1].bounds[1]": func(p *Proposal) { p.Effects = p.Effects[:len(p.Effects)-1] },
		"proposal.sql: not empty":             func(p *Proposal) { p.Sql = "SELECT 1" },
		"proposal.parameters: 1 of them":      func(p *Proposal) { p.Parameters = []*Parameter{{}} },
		"proposal.effects: not empty":         func(p *Proposal) { p.Kind = Kind_KIND_SQL },
		"proposal.effects: not empty ":        func(p *Proposal) { p.Kind, p.Sql = Kind_KIND_DEPLOY, "x" },
		"proposal.kind: 4 ":                   func(p *Proposal) { p.Kind = Kind_KIND_GOVERNANCE },
	} {
		_, err := DecodeProposal(Encode(effects(change)))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
		statement := effects(change)
		submit := &SubmitRequest{Role: "clerk", Statements: []*Statement{{Kind: statement.Kind, Sql: statement.Sql, Parameters: statement.Parameters, Effects: statement.Effects}}}
		_, err = DecodeNodeRequest(Encode(&NodeRequest{Request: 1, Body: &NodeRequest_Submit{Submit: submit}}))
		if err == nil || !strings.HasPrefix(err.Error(), "submit.statements[0]"+strings.TrimPrefix(want, "proposal")) {
			t.Errorf("on the socket: error %v, want %s", err, want)
		}
	}
}

// writeSetVector is a write set as write_sets.json holds it. Rows and values are those of rows.json
// and values.json.
type writeSetVector struct {
	Snapshot  uint64 `json:",string"`
	Isolation Isolation
	Tables    []string
	Changes   []struct {
		Table          uint16
		Op             string
		Before         Hash
		Row, PK, Cells []struct {
			Ordinal uint16
			Value   json.RawMessage
		}
	}
	Seen []struct {
		Table   uint16
		PK      json.RawMessage
		RowHash *Hash `json:"row_hash"`
	}
	Reads []struct {
		Table  uint16
		Bounds []struct {
			Ordinal      uint16
			Lower, Upper map[string]json.RawMessage // nil, or "open" or "closed" with a value
		}
	}
}

// same compares everything but the encodings of values.
func (v *writeSetVector) same(s *WriteSet) bool {
	if v.Snapshot != s.Snapshot || v.Isolation != s.Isolation || !slices.Equal(v.Tables, s.Tables) ||
		len(v.Changes) != len(s.Changes) || len(v.Seen) != len(s.Seen) || len(v.Reads) != len(s.Reads) {
		return false
	}
	for i, c := range v.Changes {
		got := s.Changes[i]
		columns := binary.BigEndian.Uint16(got.Row)
		if c.Table != got.Table || c.Op != string(got.Op) || c.Before != got.Before || int(columns) != len(c.Row)+len(c.PK) || len(c.Cells) != len(got.Cells) {
			return false
		}
		for j, cell := range c.Cells {
			if cell.Ordinal != got.Cells[j].Ordinal || (string(cell.Value) == "null") != bytes.Equal(got.Cells[j].Value, null) {
				return false
			}
		}
	}
	for i, seen := range v.Seen {
		got := s.Seen[i]
		if seen.Table != got.Table || (seen.RowHash != nil) != got.Present || got.Present && *seen.RowHash != got.Hash {
			return false
		}
	}
	kind := func(end map[string]json.RawMessage) byte {
		switch {
		case end["open"] != nil:
			return 1
		case end["closed"] != nil:
			return 2
		}
		return 0
	}
	for i, read := range v.Reads {
		got := s.Reads[i]
		if read.Table != got.Table || len(read.Bounds) != len(got.Bounds) {
			return false
		}
		for j, b := range read.Bounds {
			if g := got.Bounds[j]; b.Ordinal != g.Ordinal || kind(b.Lower) != g.Lower.Kind || kind(b.Upper) != g.Upper.Kind {
				return false
			}
		}
	}
	return true
}

func TestVectorsOfWriteSets(t *testing.T) {
	type wrong struct {
		Name, Field string
		Encoded     hexBytes
	}
	var v struct {
		Cases []struct {
			Name     string
			WriteSet writeSetVector `json:"write_set"`
			Encoded  hexBytes
		}
		Refused, Failing []wrong
	}
	readVectors(t, "write_sets", &v)
	if len(v.Cases) < 5 || len(v.Refused) < 50 || len(v.Failing) < 5 {
		t.Fatalf("%d cases, %d refused, %d failing", len(v.Cases), len(v.Refused), len(v.Failing))
	}
	for _, c := range v.Cases {
		s, err := DecodeWriteSet(c.Encoded)
		if err != nil || !bytes.Equal(s.Encode(), c.Encoded) || !c.WriteSet.same(s) {
			t.Errorf("%s: decoded as %+v, %v", c.Name, s, err)
		}
	}
	for _, c := range v.Refused {
		if _, err := DecodeWriteSet(c.Encoded); err == nil || !strings.HasPrefix(err.Error(), c.Field+": ") {
			t.Errorf("%s: error %v, want one of %s", c.Name, err, c.Field)
		}
	}
	for _, c := range v.Failing { // in the database: the order takes them
		if s, err := DecodeWriteSet(c.Encoded); err != nil || !bytes.Equal(s.Encode(), c.Encoded) {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}
