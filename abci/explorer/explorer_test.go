package explorer_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/chainify-db/chainify/abci/explorer"
	"github.com/chainify-db/chainify/abci/must"
)

// addresses are all pages of the world, those with something to show first.
func (w *world) addresses() []string {
	return []string{
		"/", "/blocks", "/blocks/1", "/blocks/2", "/blocks/3", "/transactions/" + w.id(1, 0), "/transactions/" + w.id(2, 0), "/transactions/" + w.id(2, 1),
		"/transactions/" + w.id(2, 2), "/transactions/" + w.id(3, 1), "/transactions/" + w.id(3, 2), "/rows", "/rows?table=public.entry",
		"/rows?table=public.checking&key=1", "/rows?table=public.entry&key=2026-02-03&key=2", "/rows?table=public.entry&key=2026-02-03&key=1",
		"/rows?table=public.checking&key=7", "/deviations", "/evidence", "/analytics", "/nothing", "/search?q=nothing",
	}
}

// The network page lists procedures with the digest of each engine's words, and no longer those
// that were taken off.
func TestTheNetworkPageListsProcedures(t *testing.T) {
	w, digest := sharedWorld(t)
	_, text := w.get("/")
	at := 0 // in this order
	for _, want := range []string{"Tables on the ledger", "public.stock", "Procedures on the ledger", "public.take", "(bigint, bigint)", "/blocks/2", "MariaDB", otherDigest, "PostgreSQL", digest} {
		found := strings.Index(text[at:], want)
		if found < 0 {
			t.Fatalf("it does not say %s after %s", want, text[:at])
		}
		at += found
	}
	w.deploy("DETACH PROCEDURE public.take")
	answer := httptest.NewRecorder()
	w.as("explorer_reader").Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/", nil))
	if text := answer.Body.String(); strings.Contains(text, "Procedures on the ledger") || !strings.Contains(text, "public.stock") {
		t.Errorf("after DETACH it says %s", text)
	}
}

func TestPagesSayWhatTheLedgerSays(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		path string
		code int
		says []string
	}{
		{"/", 200, []string{"No deviation found", "acme", "bolt", "notary", "only orders", "public.checking", "agreed to 3 of the last 3 blocks", "has no vote in the certificates of 3", "83 ms"}},
		{"/blocks", 200, []string{`href="/blocks/3"`, "2026-02-02 02:40:00.249", "3 votes"}},
		{"/blocks/2", 200, []string{"Block 2", "1 failed", "UPDATE checking SET balance", "3 organisations", "3 had to", "23514", w.id(2, 1)[:12]}},
		{"/transactions/" + w.id(2, 0), 200, []string{"committed", "updated", "public.checking", "400.00", "Download receipt", "/rows?key=1&amp;table=public.checking"}},
		{"/transactions/" + w.id(2, 1), 200, []string{"failed", "checking_balance_check", "23514", "changes nothing"}},
		{"/transactions/" + w.id(2, 2), 200, []string{"inserted", "2026-02-03", "12.50", "first"}},
		{"/transactions/" + w.id(3, 1), 200, []string{"deleted", "2026-02-03", "first"}},
		{"/transactions/" + w.id(1, 0), 200, []string{"Definitions changed", "ATTACH TABLE"}},
		{"/rows", 200, []string{"/rows?table=public.checking", "/rows?table=public.entry"}},
		{"/rows?table=public.entry", 200, []string{`name="key"`, "day", "place"}},
		{"/rows?table=public.checking&key=1", 200, []string{"<del><span class=\"value\">400.00</span></del>", "<ins><span class=\"value\">401.00</span></ins>", "was there when its table was put on the ledger", "acme"}},
		{"/rows?table=public.entry&key=2026-02-03&key=1", 200, []string{"deleted", "inserted", "12.50"}},
		{"/rows?table=public.checking&key=7", 200, []string{"has no row with this key"}},
		{"/rows?table=public.checking&key=x", 400, []string{"Invalid input syntax"}},
		{"/rows?table=public.entry&key=1", 400, []string{"(day, place)"}},
		{"/rows?table=public.nothing", 404, []string{"No table public.nothing"}},
		{"/deviations", 200, []string{"put right", "by the scrubber", "repair", "public.checking", "1000500.00", "500.00"}},
		{"/analytics", 200, []string{"No table is mirrored", "chainify.mirror"}},
		{"/blocks/99", 404, []string{"no block 99"}},
		{"/blocks/x", 404, []string{"positive integer"}},
		{"/blocks?to=-1", 404, []string{"no place in a list"}},
		{"/transactions/" + strings.Repeat("0", 64), 404, []string{"no transaction"}},
		{"/transactions/xyz", 404, []string{"64 hexadecimal digits"}},
		{"/receipts?table=public.nothing&key=1", 404, []string{"no such table"}},
		{"/nothing", 404, []string{"no such page"}},
		{"/static/0/style.css", 404, []string{"no such file"}},
	} {
		answer, text := w.get(c.path)
		if answer.StatusCode != c.code {
			t.Errorf("%s: %s, want %d\n%s", c.path, answer.Status, c.code, text)
		}
		for _, want := range c.says {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", c.path, want, text)
			}
		}
	}
}

// Without a worker the page says so, and what a query would be refused for.
func TestTheAnalyticsPageAsks(t *testing.T) {
	w := newWorld(t)
	run(t, w.dsn, `SELECT chainify.mirror('public.checking')`)
	for path, says := range map[string][]string{
		"/analytics":                          {"public.checking", "no worker", `placeholder="SELECT count(*) FROM public.checking"`},
		"/analytics?sql=SELECT+1+FROM+nobody": {"Relation", "nobody"},
		"/analytics?sql=SELECT+reverse(note)+FROM+public.checking":   {"Not available in analytics"},
		"/analytics?sql=SELECT+count(*)+FROM+public.checking":        {"No analytics worker is configured"},
		"/analytics?sql=DELETE+FROM+public.checking":                 {"Only SELECT is available"},
		"/analytics?sql=SELECT+count(*)+FROM+chainify_ledger.block":  {"Permission denied for schema chainify_ledger"},
		"/analytics?block=99&sql=SELECT+custid+FROM+public.checking": {"Block 99 is not in this database"},
	} {
		answer, text := w.get(path)
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, answer.Status)
		}
		for _, want := range says {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", path, want, text)
			}
		}
	}
	if answer, _ := w.get("/analytics?block=x"); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a block that is none: %s", answer.Status)
	}
}

func TestSearchFinds(t *testing.T) {
	w := newWorld(t)
	_, block := w.get("/blocks/2")
	hash := regexp.MustCompile(`LedgerBlockHash</dt><dd><code>([0-9a-f]{64})`).FindStringSubmatch(block)[1]
	for q, want := range map[string]string{
		"2": "/blocks/2", "%232": "/blocks/2", hash: "/blocks/2", "0x" + hash: "/blocks/2", w.id(2, 1): "/transactions/" + w.id(2, 1), "%5Cx" + w.id(2, 1): "/transactions/" + w.id(2, 1),
		"checking/1": "/rows?key=1&table=public.checking", "public.checking/1": "/rows?key=1&table=public.checking", "checking": "/rows?table=public.checking",
		"entry/2026-02-03/2": "/rows?key=2026-02-03&key=2&table=public.entry",
	} {
		if answer, _ := w.get("/search?q=" + q); answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != want {
			t.Errorf("%s: %s to %q, want %q", q, answer.Status, answer.Header.Get("Location"), want)
		}
	}
	for _, q := range []string{"", "99", "-1", "nothing", "nothing/1", strings.Repeat("a", 64)} {
		if answer, text := w.get("/search?q=" + q); answer.StatusCode != http.StatusNotFound || !strings.Contains(text, "table/key") {
			t.Errorf("%q: %s", q, answer.Status)
		}
	}
}

// Values of the database are text on every page, never markup.
func TestWhatTheDatabaseHoldsIsText(t *testing.T) {
	w := newWorld(t)
	shown := 0
	for _, path := range append(w.addresses(), "/live", "/search?q="+"%3Cscript%3Edocument.title%3D", "/rows?table=public.checking&key=%3Cscript%3E", "/rows?table=%3Cscript%3E") {
		_, text := w.get(path)
		if strings.Contains(text, "&lt;script&gt;") {
			shown++
		}
		for n := range parse(t, text).Descendants() {
			switch {
			case n.DataAtom == atom.Script && (n.FirstChild != nil || !strings.HasPrefix(attribute(n, "src"), "/static/")):
				t.Errorf("%s has a script that is not ours: %v", path, n.FirstChild)
			case n.DataAtom == atom.Style:
				t.Errorf("%s has a style that the policy forbids", path)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
					t.Errorf("%s: %s has %s=%q, which the policy forbids", path, n.Data, a.Key, a.Val)
				}
				if (a.Key == "href" || a.Key == "src" || a.Key == "action") && !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#") {
					t.Errorf("%s: %s leads to %q, outside", path, n.Data, a.Val)
				}
			}
		}
	}
	if shown < 8 {
		t.Errorf("%d pages show the evil text, want at least 8: this test looks at the wrong ones", shown)
	}
}

// A user of a keyboard or a screen reader finds the way: one main heading, landmarks, captions,
// labels, names.
func TestPagesAreReadAloud(t *testing.T) {
	w := newWorld(t)
	w.votes = []explorer.Vote{{Block: 3, Organisation: "delta", Verdict: "differs"}}
	for _, path := range w.addresses() {
		_, text := w.get(path)
		doc := parse(t, text)
		count := map[atom.Atom]int{}
		ids, labelled := map[string]bool{}, map[string]bool{}
		level := 0
		for n := range doc.Descendants() {
			count[n.DataAtom]++
			if id := attribute(n, "id"); id != "" {
				if ids[id] {
					t.Errorf("%s: id %q is there twice", path, id)
				}
				ids[id] = true
			}
			switch n.DataAtom {
			case atom.Label:
				labelled[attribute(n, "for")] = true
			case atom.H1, atom.H2, atom.H3:
				if now := int(n.Data[1] - '0'); now > level+1 {
					t.Errorf("%s: heading %s after level %d", path, n.Data, level)
				} else {
					level = now
				}
			case atom.Table:
				if first(n, atom.Caption) == nil || first(n, atom.Th) == nil {
					t.Errorf("%s: a table without caption or headings", path)
				}
			case atom.Th:
				if attribute(n, "scope") == "" {
					t.Errorf("%s: a heading of a table without scope", path)
				}
			case atom.Svg:
				if attribute(n, "aria-hidden") != "true" && attribute(n, "aria-label") == "" {
					t.Errorf("%s: a drawing without a name", path)
				}
			case atom.A, atom.Button:
				if strings.TrimSpace(textOf(n)) == "" {
					t.Errorf("%s: %s leads to %q and has no text", path, n.Data, attribute(n, "href"))
				}
			}
		}
		for n := range doc.Descendants() {
			if n.DataAtom == atom.Input && attribute(n, "type") != "hidden" && !labelled[attribute(n, "id")] {
				t.Errorf("%s: input %q without label", path, attribute(n, "id"))
			}
			if by := attribute(n, "aria-labelledby"); by != "" && !ids[by] {
				t.Errorf("%s: named by %q, which is not there", path, by)
			}
		}
		if count[atom.H1] != 1 || count[atom.Main] != 1 || count[atom.Header] != 1 || count[atom.Footer] != 1 || count[atom.Nav] < 1 || !ids["main"] ||
			!strings.Contains(text, `<a class="skip" href="#main">`) || !strings.Contains(text, `<html lang="en">`) || !strings.Contains(text, "<title>") {
			t.Errorf("%s lacks a landmark, its heading or the link that skips the menu: %v", path, count)
		}
	}
}

func TestTheNetworkPageSaysWhoDeviates(t *testing.T) {
	w := newWorld(t)
	w.votes = []explorer.Vote{{Block: 3, Organisation: "delta", Verdict: "differs"}, {Block: 2, Organisation: "delta", Verdict: "agrees"}}
	answer, text := w.get("/live")
	if !strings.Contains(text, "Delta reported other effects of block 3 than were agreed, and has not agreed to a block since.") {
		t.Errorf("it says:\n%s", text)
	}
	if !strings.Contains(text, "delta agreed to 1 of the last 3 blocks, reported other effects for 1, has no vote in the certificates of 1") {
		t.Errorf("the strip says:\n%s", text)
	}
	same := func(r *http.Request) { r.Header.Set("If-None-Match", answer.Header.Get("ETag")) }
	if again, text := w.get("/live", same); again.StatusCode != http.StatusNotModified || text != "" {
		t.Errorf("unchanged: %s, %q", again.Status, text)
	}
}

// Somebody changed what the ledger keeps: pages show what is there, say what cannot be read, and go
// on.
func TestPagesShowWhatWasTamperedWith(t *testing.T) {
	w := newWorld(t)
	w.execute("UPDATE checking SET note = repeat('x', 200000) WHERE custid = 9")
	run(t, w.dsn, `SET chainify.guard = off; UPDATE chainify_ledger.transaction SET body = '\x00' WHERE block = 2 AND index = 0;
		UPDATE chainify_ledger.certificate SET votes = '[7, {"organisation": 7}]' WHERE number = 1; UPDATE chainify_ledger.certificate SET hash = '\x00' WHERE number = 3;
		DELETE FROM chainify_ledger.block WHERE number = 2; DROP TABLE chainify_history.entry CASCADE;
		UPDATE public.checking SET balance = 1000500 WHERE custid = 42; SELECT chainify_node.scrub('public.checking')`)
	for path, says := range map[string][]string{
		"/":                              {"1 deviation of the database is not put right", "bolt"},
		"/blocks":                        {`href="/blocks/3"`, `href="/blocks/1"`},
		"/blocks/1":                      {"2 organisations signed"},
		"/blocks/3":                      {"Not certified here yet"},
		"/transactions/" + w.id(2, 0):    {"not readable", "is no transaction"},
		"/transactions/" + w.id(2, 2):    {"committed"},
		"/transactions/" + w.id(4, 0):    {"too large for this page"},
		"/rows?table=checking&key=9":     {"too large for this page"},
		"/rows?table=checking&key=1":     {"401.00"},
		"/deviations":                    {"open", "1000500.00"},
		"/rows?table=public.entry&key=1": {"No table public.entry"},
	} {
		answer, text := w.get(path)
		for _, want := range says {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s, does not say %q:\n%s", path, answer.Status, want, text)
			}
		}
	}
}

func TestReceiptsAreFiles(t *testing.T) {
	w := newWorld(t)
	for path, name := range map[string]string{"/receipts/" + w.id(2, 0): "receipt-transaction-" + w.id(2, 0)[:12] + ".json", "/receipts?table=public.checking&key=1": "receipt-row.json"} {
		answer, text := w.get(path)
		if got := answer.Header.Get("Content-Disposition"); got != `attachment; filename="`+name+`"` {
			t.Errorf("%s: %s, %q", path, answer.Status, got)
		}
		var receipt map[string]any
		if err := json.Unmarshal([]byte(text), &receipt); err != nil || receipt["chain"] == nil && receipt["chain_id"] == nil {
			t.Errorf("%s: %v: %.200s", path, err, text)
		}
	}
}

func TestWhoMayAsk(t *testing.T) {
	w := newWorld(t)
	as := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
	for host, want := range map[string]int{"localhost:1": 200, "127.0.0.1": 200, "[::1]:80": 200, "ledger.example": 200, "ledger.example:443": 200, "evil.example": 403, "": 200} {
		if answer, _ := w.get("/blocks", as(host)); answer.StatusCode != want {
			t.Errorf("host %q: %s, want %d", host, answer.Status, want)
		}
	}
	if answer, _ := w.get("/blocks", func(r *http.Request) { r.Method = http.MethodPost }); answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", answer.Status)
	}
	if answer, _ := w.get("/blocks?to=" + strings.Repeat("1", 3000)); answer.StatusCode != http.StatusRequestURITooLong {
		t.Errorf("a long query: %s", answer.Status)
	}
	answer, _ := w.get("/")
	for header, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"} {
		if got := answer.Header.Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	if policy := answer.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
}

func parse(t *testing.T, text string) *html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(text))
	must.Do(t, err)
	return doc
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func first(n *html.Node, of atom.Atom) *html.Node {
	for d := range n.Descendants() {
		if d.DataAtom == of {
			return d
		}
	}
	return nil
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}
