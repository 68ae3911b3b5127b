package portable

import (
	"bytes"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

func effectsOf(t *testing.T, s wire.WriteSet, rows ...[]canonical.Column) *wire.Proposal {
	t.Helper()
	s.Tables = []string{"public.t"}
	s.Isolation = max(s.Isolation, wire.ReadCommitted)
	for _, row := range rows {
		raw, err := canonical.AppendRow(nil, row)
		must.Do(t, err)
		s.Changes = append(s.Changes, wire.RowChange{Op: 'I', Row: raw})
	}
	return &wire.Proposal{Kind: wire.Kind_KIND_EFFECTS, Effects: s.Encode()}
}

func stateOf(err error) string {
	var r *Refusal
	if errors.As(err, &r) {
		return r.SQLState
	}
	return ""
}

func TestWriteSetsWithValuesOfOneEngineAreRefused(t *testing.T) {
	id := canonical.Column{Ordinal: 1, Value: canonical.Value{Tag: canonical.Integer, Number: 1}}
	tables := map[string]*canonical.Table{"public.t": table}
	for _, c := range []struct {
		name, want string
		column     canonical.Column
	}{
		{"a number", "", canonical.Column{Ordinal: 3, Value: canonical.Value{Tag: canonical.Numeric, Text: "1.5"}}},
		{"NaN", "22003", canonical.Column{Ordinal: 3, Value: canonical.Value{Tag: canonical.Numeric, Text: "NaN"}}},
		{"of another type", "22023", canonical.Column{Ordinal: 3, Value: canonical.Value{Tag: canonical.Float, Float: math.Inf(1)}}},
		{"a zero byte", "22021", canonical.Column{Ordinal: 2, Value: canonical.Value{Tag: canonical.Text, Text: "\x00"}}},
		{"a day before year 1", "22008", canonical.Column{Ordinal: 6, Value: canonical.Value{Tag: canonical.Date, Number: -1_000_000}}},
		{"no column", "22023", canonical.Column{Ordinal: 10, Value: canonical.Value{Tag: canonical.Integer}}},
	} {
		err := (Ledger{Tables: tables}).Judge(effectsOf(t, wire.WriteSet{}, []canonical.Column{id, c.column}))
		if got := stateOf(err); got != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	reads := effectsOf(t, wire.WriteSet{Isolation: wire.Serializable, Reads: []wire.Read{{}}}, []canonical.Column{id})
	if err := (Ledger{Tables: tables}).Judge(reads); err != nil {
		t.Errorf("reads: %v", err)
	}
	if got := stateOf((Ledger{Tables: nil}).Judge(effectsOf(t, wire.WriteSet{}, []canonical.Column{id}))); got != "42P01" {
		t.Errorf("unknown table: %q", got)
	}
	if got := stateOf((Ledger{Tables: tables}).Judge(&wire.Proposal{Kind: wire.Kind_KIND_PLAN})); got != "0A000" {
		t.Errorf("plan: %q", got)
	}
}

func TestOneSpellingAttachesTables(t *testing.T) {
	for text, want := range map[string][]string{
		"ATTACH TABLE public.a, public.b_2 ENCODING 2": {"public.a", "public.b_2"},
		"DETACH TABLE public.a":                        {"public.a"},
		"ATTACH TABLE public.a":                        nil,
		"DETACH TABLE public.a ENCODING 2":             nil,
		"ATTACH TABLE public.a,public.b ENCODING 2":    nil,
		"ATTACH TABLE public.A ENCODING 2":             nil,
		"ATTACH TABLE public.pg_class ENCODING 2":      nil,
		"ATTACH TABLE s.a ENCODING 2":                  nil,
		"ATTACH TABLE public.a ENCODING 2;":            nil,
		"ATTACH TABLE public.a ENCODING 2\n":           nil,
		"attach table public.a encoding 2":             nil,
		"CREATE TABLE a (id integer PRIMARY KEY)":      nil,
	} {
		d, err := ParseDeploy(text)
		if (err == nil) != (want != nil) || err == nil && !slices.Equal(d.Tables, want) {
			t.Errorf("%q: %+v, %v", text, d, err)
		}
	}
}

// The extension reads the same texts (crates/sqltext).
func TestOneSpellingAttachesProcedures(t *testing.T) {
	raw, err := os.ReadFile("../../spec/vectors/procedures.txt")
	must.Do(t, err)
	count := 0
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		text := strings.NewReplacer("HASH", strings.Repeat("0a", 32), `\n`, "\n").Replace(line[2:])
		if d, err := ParseDeploy(text); (err == nil) != (line[0] == '+') || err == nil && (d.Procedure == nil || d.Tables != nil) {
			t.Errorf("%q: %+v, %v", text, d, err)
		}
		count++
	}
	if count < 20 {
		t.Errorf("%d texts", count)
	}
	d, err := ParseDeploy("ATTACH PROCEDURE public.pay (bigint, numeric) ENCODING 2 POSTGRESQL " + strings.Repeat("0a", 32))
	if err != nil || !d.Attach || d.Procedure.Name != "public.pay" || d.Procedure.Signature() != "(bigint, numeric)" || d.Procedure.Digest("mariadb") != nil ||
		*d.Procedure.Digest("postgresql") != wire.Hash(bytes.Repeat([]byte{10}, 32)) {
		t.Errorf("%+v, %v", d, err)
	}
}

// A block is judged where the ledger is one of several engines, or becomes one.
func TestBlocksThatAreJudged(t *testing.T) {
	of := func(kind wire.Kind, sql string) *wire.Proposal { return &wire.Proposal{Kind: kind, Sql: sql} }
	plain := []*wire.Proposal{of(wire.Kind_KIND_SQL, "SELECT 1")}
	attaching := append(plain, of(wire.Kind_KIND_DEPLOY, "ATTACH TABLE public.t ENCODING 2"))
	for _, c := range []struct {
		name         string
		proposals    []*wire.Proposal
		shared, open bool
		want         bool
	}{
		{"own ledger", attaching, false, false, false},
		{"open ledger", plain, false, true, false},
		{"becomes shared", attaching, false, true, true},
		{"shared", plain, true, false, true},
		{"a procedure alone", append(plain, of(wire.Kind_KIND_DEPLOY, "DETACH PROCEDURE public.pay")), false, true, false},
	} {
		refusals := Ledger{}.Judged(c.proposals, c.shared, c.open, Texts{})
		if (refusals != nil) != c.want || c.want && refusals[0] == nil || len(refusals) == 2 && refusals[1] != nil {
			t.Errorf("%s: %v", c.name, refusals)
		}
	}
}
