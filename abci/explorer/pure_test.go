package explorer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
)

func TestCompareShowsWhatDiffers(t *testing.T) {
	say := func(cells []cell) string {
		var out []string
		for _, c := range cells {
			show := func(v value) string {
				switch {
				case v.None:
					return "-"
				case v.Null:
					return "null"
				case v.Cut > 0:
					return fmt.Sprintf("%d bytes and %d", len(v.Text), v.Cut)
				}
				return v.Text
			}
			mark := ""
			if c.Changed {
				mark = "!"
			}
			out = append(out, fmt.Sprintf("%s%s %s>%s", mark, c.Column, show(c.Before), show(c.After)))
		}
		return strings.Join(out, "; ")
	}
	long := `{"a":"` + strings.Repeat("x", shownMax-1) + `é!"}`
	for _, c := range []struct {
		key           []string
		before, after string
		want          string
	}{
		{[]string{"z"}, `{"a":1,"z":"k","b":null}`, `{"a":1.0,"z":"k","b":null}`, "z k>k; !a 1>1.0; b null>null"},
		{nil, `null`, `{"a":"<b>"}`, "!a -><b>"},
		{nil, `{"a":true,"_dropped_1_x":null}`, `{"a":true,"_dropped_1_x":null}`, "a true>true"},
		{nil, `{"_dropped_1_x":3}`, `{"_dropped_1_x":null}`, "!_dropped_1_x 3>null"},
		{nil, `{"a":[1,{"b":2}]}`, ``, `!a [1,{"b":2}]>-`},
		{nil, long, long, fmt.Sprintf("a %d bytes and 3>%d bytes and 3", shownMax-1, shownMax-1)},
		{nil, `7`, `"text"`, ""},
	} {
		want := c.want
		if got := say(compare(c.key, json.RawMessage(c.before), json.RawMessage(c.after))); got != want {
			t.Errorf("%s, %s: %s, want %s", c.before, c.after, got, want)
		}
	}
}

func TestKeyOfIsWhatHistoryTakes(t *testing.T) {
	for row, want := range map[string]string{
		`{"a":1,"b":"x/y"}`: `["1" "x/y"]`, `{"a":12345678901234567890.10,"b":true}`: `["12345678901234567890.10" "true"]`,
		`{"a":1}`: "", `{"a":null,"b":1}`: "", `{"a":[1],"b":1}`: "", `7`: "",
	} {
		key, ok := keyOf([]string{"a", "b"}, json.RawMessage(row))
		if got := fmt.Sprintf("%q", key); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, %v, want %s", row, got, ok, want)
		}
	}
	if _, ok := keyOf(nil, json.RawMessage(`{}`)); ok {
		t.Error("a row without a key has one")
	}
}

func TestOneHighBarDoesNotFlattenTheOthers(t *testing.T) {
	points := []point{{1, 1_000_000, 0, ""}}
	for i := range 40 {
		points = append(points, point{int64(i + 2), 10, 5, ""})
	}
	c := draw(points)
	if !c.Bars[0].Cut || c.Bars[0].Height != chartHeight || c.Bars[1].Cut || c.Bars[1].Height < chartHeight/2 || c.Bars[1].FootHeight*2 != c.Bars[1].Height {
		t.Errorf("bars %+v, %+v", c.Bars[0], c.Bars[1])
	}
	for _, b := range c.Bars {
		if b.X < 0 || b.X+b.Width > chartWidth || b.Y < 0 || b.Height < 0 || b.Y+b.Height != chartHeight {
			t.Errorf("outside of the chart: %+v", b)
		}
	}
	for _, none := range [][]point{nil, {{1, 0, 0, ""}}} {
		for _, b := range draw(none).Bars {
			if b.Height != 0 {
				t.Errorf("%v: %+v", none, b)
			}
		}
	}
}

func TestVotesTellWhoDeviates(t *testing.T) {
	blocks := []Block{{Number: 4}, {Number: 3, Votes: 1}, {Number: 2, Votes: 1}, {Number: 1, Votes: 1}} // 4 is not certified yet
	organisations := []Organisation{{Name: "acme"}, {Name: "bolt"}, {Name: "new", Since: 3}, {Name: "watch", OrderingOnly: true}}
	cast := []CastVote{{1, "acme"}, {2, "acme"}, {3, "acme"}, {1, "bolt"}}
	for _, c := range []struct {
		seen  []Vote
		bolt  string
		wrong int
	}{
		{nil, "agrees silent silent open", 0},
		{[]Vote{{2, "bolt", "agrees"}, {3, "bolt", "agrees"}}, "agrees agrees agrees open", 0},
		{[]Vote{{2, "bolt", "differs"}, {3, "bolt", "agrees"}}, "agrees differs agrees open", 0}, // put right
		{[]Vote{{2, "bolt", "differs"}}, "agrees differs silent open", 1},
		{[]Vote{{3, "bolt", "stuck"}, {1, "bolt", "differs"}}, "agrees silent stuck open", 1}, // a certificate says more than what was seen
	} {
		members := members(organisations, blocks, cast, c.seen, "acme")
		var got []string
		for _, m := range members[1].Strip {
			got = append(got, m.Verdict)
		}
		if strings.Join(got, " ") != c.bolt || len(whoDiffers(members)) != c.wrong {
			t.Errorf("%v: %v, %v; want %s, %d", c.seen, got, whoDiffers(members), c.bolt, c.wrong)
		}
		if !members[0].Own || members[1].Own || len(members[2].Strip) != 2 || len(members[3].Strip) != 0 {
			t.Errorf("members %+v", members)
		}
	}
}

func TestTablesAreFoundByWhatPeopleWrite(t *testing.T) {
	tables := []LedgerTable{
		{Name: "audit.entry", Current: true, Key: []string{"a"}},
		{Name: "public.entry", Current: true, Key: []string{"b"}},
		{Name: "public.entry", Key: []string{"old"}},
		{Name: "sales.orders", Current: true},
		{Name: "public.gone", Key: []string{"g"}},
	}
	for name, want := range map[string]int{"entry": 1, "public.entry": 1, "audit.entry": 0, "orders": 3, "gone": 4, "": -1, "ntry": -1} {
		got, known := tableNamed(tables, name)
		if known != (want >= 0) || known && (got.Name != tables[want].Name || !slices.Equal(got.Key, tables[want].Key)) {
			t.Errorf("%q: %+v, %v", name, got, known)
		}
	}
}

func TestNumbersAndTimesAreWrittenForPeople(t *testing.T) {
	for v, want := range map[any]string{0: "0", 999: "999", 1000: "1,000", int64(-1234567): "-1,234,567", uint64(10): "10"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
	for s, want := range map[float64]string{0.0004: "0.4 ms", 0.083: "83 ms", 1.25: "1.2 s", 90: "2 min", 7200: "2.0 h", 864000: "10 days"} {
		if got := took(s); got != want {
			t.Errorf("%v s is written %s, want %s", s, got, want)
		}
	}
}

func TestRequestsAtOnceAreBounded(t *testing.T) {
	e := &Explorer{slots: make(chan struct{}, 2)}
	within, leave := make(chan struct{}), make(chan struct{})
	handler := e.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { within <- struct{}{}; <-leave }))
	ask := func() int {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/", nil))
		return answer.Code
	}
	answers := make(chan int)
	for range cap(e.slots) {
		go func() { answers <- ask() }()
		<-within
	}
	if code := ask(); code != http.StatusServiceUnavailable {
		t.Errorf("one more is answered %d", code)
	}
	close(leave)
	for range cap(e.slots) {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("one within the bound is answered %d", code)
		}
	}
}

// A transaction that executed a plan succeeds, and says why the planned statements did not.
func TestAPlanThatFailedSaysWhy(t *testing.T) {
	kind, sql, who, state, reason := "plan", "SELECT chainify.execute_planned('x')", "acme", "23505", "duplicate key"
	plan := Transaction{Block: 7, ID: make([]byte, 32), Organisation: &who, Role: &who, Kind: &kind, SQL: &sql, Succeeded: true, SQLState: &state, Error: &reason}
	var out strings.Builder
	must.Do(t, pages["transaction"].ExecuteTemplate(&out, "page", page{Body: transactionBody{Receipts: true, Transaction: plan}}))
	for _, want := range []string{">Planned transaction</h2>", "The planned statements failed: duplicate key", "SQLSTATE 23505"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// A transaction with a write set has no statement to show, and says so.
func TestWriteSetsAreShownInPlaceOfStatements(t *testing.T) {
	kind, sql, who, state := "effects", "", "acme", "40001"
	effects := Transaction{Block: 7, ID: make([]byte, 32), Organisation: &who, Role: &who, Kind: &kind, SQL: &sql, Succeeded: true, Rows: 3}
	failed := effects
	failed.Succeeded, failed.SQLState = false, &state
	other, text := effects, "UPDATE t SET n = 1"
	statements := "sql"
	other.Kind, other.SQL = &statements, &text
	changes := []changedRow{{Table: "public.<a>", Operation: "I"}, {Table: "public.b", Operation: "U"}, {Table: "public.<a>", Operation: "D"}}
	for name, c := range map[string]struct {
		page        string
		body        any
		says, lacks []string
	}{
		"certified": {
			"transaction",
			transactionBody{Receipts: true, Transaction: effects, Certified: true, Changes: changes},
			[]string{">Write set</h2>", "in public.&lt;a&gt;, public.b; its receipt has them all.", "Rows changed", "inserted", "deleted"},
			[]string{"<pre", ">Statement</h2>", "is no transaction"},
		},
		"failed":     {"transaction", transactionBody{Receipts: true, Transaction: failed}, []string{"made there.</p>", "40001", "changes nothing"}, []string{"<pre", "its receipt has them all"}},
		"statements": {"transaction", transactionBody{Receipts: true, Transaction: other, Changes: changes}, []string{">Statement</h2>", text}, []string{"Write set", "session ran"}},
		"in a block": {"block", blockBody{Transactions: []Transaction{effects, other}}, []string{`<span class="quiet">write set</span></td>`, "<code>" + text + "</code>"}, []string{"<code></code></td>"}},
	} {
		var out strings.Builder
		if err := pages[c.page].ExecuteTemplate(&out, "page", page{Body: c.body}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range c.says {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: the page lacks %q", name, want)
			}
		}
		for _, not := range c.lacks {
			if strings.Contains(out.String(), not) {
				t.Errorf("%s: the page has %q", name, not)
			}
		}
	}
}

// The words of a worker, without one.
func TestTheAnalyticsPageShowsMirrorsAnswersAndSnapshots(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	share, name, fault := 0.25, "<month>", "memory.mirrors is too small"
	mirrors := []Mirror{
		{Table: "public.<item>", Rows: number(12345), Bytes: number(3 << 19), Shared: &share, Block: number(7), Lag: number(2), Checked: number(7), State: "serving"},
		{Table: "public.kind", State: "failed", Error: &fault},
	}
	snapshots := []Snapshot{{Name: &name, Block: 5, Pinned: true, Readers: number(3)}, {Block: 7}}
	asked := analyticsBody{Offered: true, Mirrors: mirrors, SQL: "SELECT <n>", Asked: true, Answered: 7, Columns: []string{"<n>", "none"}}
	asked.Rows = [][]value{{{Text: "<4711>"}, {Null: true}}}
	earlier, refused := asked, asked
	earlier.Block, earlier.Answered, earlier.More = 5, 5, true
	refused.Refused = "upper is refused"
	for what, c := range map[string]struct {
		body        analyticsBody
		says, lacks []string
	}{
		"mirrors": {
			analyticsBody{Offered: true, Mirrors: mirrors, Snapshots: snapshots},
			[]string{
				"public.&lt;item&gt;", `<span class="pill good">serving</span>`, "12,345", `<a href="/blocks/7">7</a>`, "2 blocks", "1.5 MiB", "25 %",
				`<span class="pill bad">failed</span> memory.mirrors is too small`, `<a href="/blocks/5">5</a></td><td>&lt;month&gt;</td><td class="num">3</td>`,
			},
			[]string{">Answer</h2>", "None: the worker"},
		},
		"an answer":        {asked, []string{"At block 7, the last one", `<th scope="col">&lt;n&gt;</th>`, "&lt;4711&gt;", "NULL", "None: the worker"}, []string{"There are more rows"}},
		"more, at a block": {earlier, []string{"<caption>At block 5</caption>", "There are more rows."}, []string{"the last one"}},
		"a refusal":        {refused, []string{"upper is refused", "SELECT &lt;n&gt;</textarea>"}, []string{"At block 7"}},
		"nothing mirrored": {analyticsBody{Offered: true}, []string{"No table is mirrored."}, []string{"<form class=\"ask\""}},
		"another engine":   {analyticsBody{}, []string{"has no analytics worker"}, []string{"<form class=\"ask\""}},
	} {
		var out strings.Builder
		if err := pages["analytics"].ExecuteTemplate(&out, "page", page{Body: c.body}); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for _, want := range c.says {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: the page lacks %q", what, want)
			}
		}
		for _, not := range c.lacks {
			if strings.Contains(out.String(), not) {
				t.Errorf("%s: the page has %q", what, not)
			}
		}
	}
}

func TestASilentOrganisationIsMissed(t *testing.T) {
	var blocks []Block
	var cast []CastVote
	for n := int64(silentBlocks + 1); n > 0; n-- {
		blocks = append(blocks, Block{Number: n, Votes: 3})
		cast = append(cast, CastVote{n, "acme"})
	}
	organisations := []Organisation{{Name: "acme"}, {Name: "bolt"}, {Name: "slow"}, {Name: "watch", OrderingOnly: true}}
	seen := []Vote{{2, "slow", "agrees"}}
	got := whoIsSilent(members(organisations, blocks, cast, seen, "acme"))
	if len(got) != 1 || got[0] != "bolt has not voted for the last 21 blocks" {
		t.Errorf("%q", got)
	}
}

// Where nothing is wrong the page says how old that knowledge is.
func TestTheVerdictSaysWhenTablesWereChecked(t *testing.T) {
	now := time.Date(2026, 2, 2, 12, 0, 0, 0, time.UTC)
	read := func(before ...time.Duration) (tables []Table) {
		for _, d := range before {
			at := now.Add(-d)
			tables = append(tables, Table{ScrubbedAt: &at})
		}
		return tables
	}
	for want, b := range map[string]networkBody{
		"The database is away.":                                                         {Wrong: []string{"the database is away", "and more"}, Last: &Block{}, Tables: read(0)},
		"No deviation found. There is no block yet.":                                    {},
		"No deviation found. No table is on the ledger.":                                {Last: &Block{}},
		"No deviation found; 2 tables were not checked yet.":                            {Last: &Block{}, Tables: append(read(time.Hour), Table{}, Table{})},
		"No deviation found; the oldest table was checked less than a minute ago.":      {Last: &Block{}, Tables: read(0, -time.Second)},
		"No deviation found; the oldest table was checked 4 min ago.":                   {Last: &Block{}, Tables: read(time.Minute, 299*time.Second, 0)},
		"No deviation found; the oldest table was checked 47 h ago.":                    {Last: &Block{}, Tables: read(47 * time.Hour)},
		"No deviation found; the oldest table was checked 3 days ago.":                  {Last: &Block{}, Tables: read(73 * time.Hour)},
		"No deviation found; the oldest of the first 200 tables was checked 1 min ago.": {Last: &Block{}, Tables: read(slices.Repeat([]time.Duration{time.Minute}, tablesMax)...)},
	} {
		b.At = now
		if got := b.Verdict(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
