package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// sound is what two organisations say after a run in which all went well.
func sound() ([]Answer, []Evidence) {
	answers := []Answer{
		{"acme", 1, 0, harness.Outcome{ID: []byte("a"), Block: 2, Index: 0, Succeeded: true}},
		{"bolt", 2, 0, harness.Outcome{ID: []byte("b"), Block: 2, Index: 1, SQLState: "23514"}},
		{"acme", 1, 0, harness.Outcome{ID: []byte("r")}}, // refused by the order
		{"bolt", 2, 1, harness.Outcome{SQLState: "40001"}},
		{"bolt", 2, 2, harness.Outcome{Succeeded: true}},
		{"bolt", 2, 3, harness.Outcome{ID: []byte("f"), Block: 2, Index: 5, SQLState: "40001"}}, // asked for later
	}
	var all []Evidence
	for _, name := range []string{"acme", "bolt"} {
		all = append(all, Evidence{
			Organisation: name, State: "serving", Hashes: map[int64]string{1: "11", 2: "22"},
			Entries: []Entry{
				{ID: "0", Block: 1, Succeeded: true}, // attach
				{ID: "a", Block: 2, Succeeded: true, Client: 1},
				{ID: "b", Block: 2, Index: 1, SQLState: "23514", Client: 2},
				{ID: "c", Block: 2, Index: 2, Succeeded: true, Client: 2}, // never answered
				{ID: "d", Block: 2, Index: 3, SQLState: "40001", Client: 2, Attempt: 1},
				{ID: "e", Block: 2, Index: 4, Succeeded: true, Client: 2, Attempt: 2},
				{ID: "f", Block: 2, Index: 5, SQLState: "40001", Client: 2, Attempt: 3},
				{ID: "g", Block: 2, Index: 6, Succeeded: true, Client: 2, Attempt: 4}, // nor this one
			},
			Counters: map[int]int64{1: 1, 2: 3}, Deposited: 5, Money: "105", Expected: "105", Rows: "same",
		})
	}
	return answers, all
}

func TestSoundEvidenceHasNoViolation(t *testing.T) {
	if v := Check(sound()); len(v) > 0 {
		t.Error(v)
	}
}

func TestEachViolationIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func([]Answer, *Evidence)
		kind  string
		text  string
	}{
		"answer lost": {func(_ []Answer, e *Evidence) {
			e.Entries = slices.DeleteFunc(e.Entries, func(t Entry) bool { return t.ID == "b" })
		}, Lost, "not in the ledger"},
		"another outcome":   {func(a []Answer, _ *Evidence) { a[1].Succeeded = true }, Lost, "was answered"},
		"another block":     {func(a []Answer, _ *Evidence) { a[0].Block = 1 }, Lost, "was answered"},
		"refused but there": {func(a []Answer, _ *Evidence) { a[2].ID = []byte("c") }, Lost, "was answered"},
		"twice in the ledger": {func(_ []Answer, e *Evidence) {
			e.Entries = append(e.Entries, e.Entries[2])
		}, Duplicated, "in the ledger twice"},
		"COMMIT lost": {func(a []Answer, _ *Evidence) { a[4].Attempt = 9 }, Lost, "succeeded in no ledger"},
		"COMMIT that conflicted, answered as success": {func(a []Answer, _ *Evidence) { a[3].Succeeded = true }, Lost, "succeeded in no ledger"},
		"COMMIT answered as failure":                  {func(a []Answer, _ *Evidence) { a[4].Succeeded = false }, Lost, "answered by bolt as failed"},
		"COMMIT lost in one ledger": {func(_ []Answer, e *Evidence) {
			e.Entries = slices.DeleteFunc(e.Entries, func(t Entry) bool { return t.ID == "e" })
		}, Lost, "not in the ledger"},
		"COMMIT asked for, with another outcome": {func(a []Answer, _ *Evidence) { a[5].Succeeded = true }, Lost, "was answered"},
		"COMMIT as two transactions": {func(_ []Answer, e *Evidence) {
			e.Entries = append(e.Entries, Entry{ID: "h", Block: 2, Index: 7, Succeeded: true, Client: 2, Attempt: 4})
			e.Hashes[3] = "33" // the longest ledger is asked
		}, Duplicated, "attempt 4 of client 2 succeeded as"},
		"COMMIT made again": {func(_ []Answer, e *Evidence) {
			e.Entries = append(e.Entries, Entry{ID: "h", Block: 2, Index: 7, Succeeded: true, Client: 2, Attempt: repeated})
			e.Hashes[3] = "33" // the longest ledger is asked
		}, Duplicated, "repeats an attempt of client 2"},
		"executed twice":        {func(_ []Answer, e *Evidence) { e.Counters[1]++ }, Duplicated, "2 executions"},
		"not executed":          {func(_ []Answer, e *Evidence) { e.Counters[2]-- }, Lost, "2 executions"},
		"failed but executed":   {func(_ []Answer, e *Evidence) { e.Counters[2]++ }, Duplicated, "4 executions"},
		"another hash":          {func(_ []Answer, e *Evidence) { e.Hashes[1] = "12" }, Diverged, "block 1 is"},
		"a block more":          {func(_ []Answer, e *Evidence) { e.Hashes[3] = "33" }, Stuck, "acme is at block 2, bolt at 3"},
		"all lost the answer's": {func(a []Answer, _ *Evidence) { a[0].ID, a[0].Block = []byte("z"), 9 }, Lost, "not in the ledger"},
		"a block missing":       {func(_ []Answer, e *Evidence) { delete(e.Hashes, 1) }, Lost, "no block 1"},
		"other rows":            {func(_ []Answer, e *Evidence) { e.Rows = "other" }, Diverged, "rows of"},
		"money from nowhere":    {func(_ []Answer, e *Evidence) { e.Money = "106" }, Diverged, "106"},
		"a finding":             {func(_ []Answer, e *Evidence) { e.Findings = []string{"verify finds it"} }, Diverged, "finds it"},
		"excluded":              {func(_ []Answer, e *Evidence) { e.State = "excluded" }, Stuck, "excluded"},
		"deviation still there": {func(_ []Answer, e *Evidence) { e.Open = 1 }, Stuck, "not cured"},
	} {
		answers, all := sound()
		c.spoil(answers, &all[1])
		v := Check(answers, all)
		if !slices.ContainsFunc(v, func(v Violation) bool { return v.Kind == c.kind && strings.Contains(v.Text, c.text) }) {
			t.Errorf("%s: %v, want %s with %q", name, v, c.kind, c.text)
		}
	}
}

func TestOrganisationThatIsBehindIsOnlyStuck(t *testing.T) {
	answers, all := sound()
	delete(all[1].Hashes, 2)
	all[1].Entries, all[1].Counters, all[1].Rows = all[1].Entries[:1], map[int]int64{1: 0, 2: 0}, "earlier"
	if v := Check(answers, all); len(v) != 1 || v[0].Kind != Stuck {
		t.Error(v)
	}
}

func TestManyViolationsAreBounded(t *testing.T) {
	var v violations
	for range 10 * violationsMax {
		v.add(Lost, "one more")
	}
	if len(v) != violationsMax {
		t.Errorf("%d violations", len(v))
	}
}

func TestWhoeverHasWorkersHasToUseThem(t *testing.T) {
	m := Manifest{Organisations: 4, Workers: 2}
	for _, c := range []struct {
		blocks  uint64
		inParts map[string]int
		want    int
	}{
		{partsFrom, map[string]int{"acme": 1, "cargo": 1}, 0},
		{partsFrom, map[string]int{"acme": 1, "bolt": 1}, 1},
		{partsFrom, nil, 2},
		{partsFrom - 1, nil, 0}, // by chance
	} {
		if v := checkParts(m, c.blocks, c.inParts); len(v) != c.want {
			t.Errorf("%d blocks, in parts %v: %v, want %d violations", c.blocks, c.inParts, v, c.want)
		}
	}
}

func TestEachKindOfOutcomeHasToBeSeen(t *testing.T) {
	ends := func(n int, attempt int64, o harness.Outcome) []Answer {
		return slices.Repeat([]Answer{{"acme", 1, attempt, o}}, n)
	}
	fine, lost := harness.Outcome{Succeeded: true}, harness.Outcome{SQLState: "40001"}
	mix := []transaction{{ends: succeeded}, {ends: "failed 42501"}}
	for _, c := range []struct {
		answers []Answer
		want    int
	}{
		{ends(kindsFrom, 0, fine), 1},
		{ends(kindsFrom-1, 0, fine), 0},
		{slices.Concat(ends(kindsFrom-1, 0, fine), ends(effectsFrom-1, 1, fine)), 0},
		{ends(effectsFrom, 1, fine), 1},
		{ends(effectsFrom, 1, lost), 1},
		{slices.Concat(ends(effectsFrom, 1, fine), ends(1, 2, lost)), 0},
	} {
		if v := checkKinds(mix, c.answers); len(v) != c.want {
			t.Errorf("%v: %v, want %d violations", outcomes(c.answers), v, c.want)
		}
	}
}

func TestWriteSetsNameTheirAttempt(t *testing.T) {
	integer := func(n int64) canonical.Value { return canonical.Value{Tag: canonical.Integer, Number: n} }
	key, err := canonical.AppendRow(nil, []canonical.Column{{Ordinal: 1, Value: integer(12)}})
	must.Do(t, err)
	set := wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{"public.checking", counters}}
	for i := range set.Tables {
		attempt, number := integer(int64(700+i)), integer(3)
		change := wire.RowChange{Table: uint16(i), Op: 'U', Row: key}
		for ordinal, v := range map[uint16]*canonical.Value{2: &number, attemptOrdinal: &attempt} {
			value, err := v.Append(nil)
			must.Do(t, err)
			change.Cells = append(change.Cells, wire.Cell{Ordinal: ordinal, Value: value})
		}
		slices.SortFunc(change.Cells, func(a, b wire.Cell) int { return int(a.Ordinal) - int(b.Ordinal) })
		set.Changes = append(set.Changes, change)
	}
	if client, attempt, err := authorOfEffects(set.Encode()); client != 12 || attempt != 701 || err != nil {
		t.Errorf("client %d, attempt %d, %v", client, attempt, err)
	}
	for i := range set.Changes {
		set.Changes[i].Cells = set.Changes[i].Cells[:1]
	}
	if client, attempt, err := authorOfEffects(set.Encode()); client != 12 || attempt != repeated || err != nil {
		t.Errorf("client %d, attempt %d, %v", client, attempt, err)
	}
	if column := strings.Split(countersSQL[strings.Index(countersSQL, "counters (")+10:], ", ")[attemptOrdinal-1]; !strings.HasPrefix(column, "attempt ") {
		t.Errorf("column %d is %s", attemptOrdinal, column)
	}
}

func TestStatementsNameWhoseCounterTheyAddTo(t *testing.T) {
	for _, mix := range [][]transaction{postgresMix, enginesMix} {
		for _, kind := range mix {
			if sql := fmt.Sprintf(kind.sql, 12); clientOf(sql) != 12 {
				t.Errorf("%s: client %d", sql, clientOf(sql))
			}
		}
	}
	if client := clientOf("ATTACH TABLE public.counters ENCODING 2"); client != 0 {
		t.Errorf("client %d", client)
	}
}
