package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
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
	if err != nil {
		t.Fatal(err)
	}
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
	if n := testing.AllocsPerRun(1, func() { _, err = DecodeWriteSet(raw) }); n > 20 {
		t.Errorf("%g allocations for 4,294,967,295 changes that are not there", n)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "effects.changes: 4294967295 do not fit into ") {
		t.Error(err)
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
