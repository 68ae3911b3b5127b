package mariadb

import (
	"context"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/explorer"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// shown is a ledger in a MariaDB with the explorer's pages of it.
type shown struct {
	*organisation
	b       *Backend
	blocks  []*wire.OrderedBlock // from 1
	hash    wire.Hash
	handler http.Handler
}

const script = `<script>alert(1)</script>`

// newShown makes three blocks, certificates of the first two, and a deviation that was put right.
func newShown(t *testing.T) *shown {
	t.Helper()
	s := &shown{organisation: fresh(t, items), blocks: []*wire.OrderedBlock{nil}}
	s.b = s.open(t)
	connected(t, s.b)
	s.commit(t, itemsBlock(1))
	s.commit(t, block(2, wire.Kind_KIND_SQL, "INSERT INTO items (id, name) VALUES (2, '"+script+"')", "UPDATE items SET name = name || '!' WHERE id = 1"))
	s.commit(t, block(3, wire.Kind_KIND_SQL, "INSERT INTO items (id, name) VALUES (1, 'again')", "DELETE FROM items WHERE id = 2", "UPDATE items SET name = name || '?' WHERE id = 1"))
	s.unguarded(t, "UPDATE %D.items SET name = 'tampered' WHERE id = 1")
	must.Do(t, s.b.Scrub(t.Context()))
	if found, err := s.b.Repair(t.Context(), backend.Rows, 3, s.hash, 3, s.hash); err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	s.handler = pagesAs(t, s.dsn)
	return s
}

func pagesAs(t *testing.T, dsn string) http.Handler {
	t.Helper()
	ledger, err := OpenPages(dsn)
	must.Do(t, err)
	e := explorer.New(explorer.Options{Ledger: ledger, Log: slog.New(slog.DiscardHandler), Status: func(context.Context) *wire.StatusResponse {
		return &wire.StatusResponse{Organisation: "acme", ChainId: "test", State: "serving", Organisations: 2, Consent: 2, Peers: 1}
	}})
	t.Cleanup(e.Close)
	return e.Handler()
}

// commit executes a block. Two organisations certify it when it is one of the first two.
func (s *shown) commit(t *testing.T, b *wire.OrderedBlock) {
	t.Helper()
	x, err := s.b.Execute(t.Context(), b, s.hash)
	if err == nil {
		err = s.b.Commit(t.Context())
	}
	if err == nil && b.Number < 3 {
		votes := []wire.CertifiedVote{{Organisation: "acme", Height: 3, Signature: make([]byte, 64)}, {Organisation: "bolt", Height: 3, Signature: make([]byte, 64)}}
		err = s.b.StoreCertificate(t.Context(), wire.Certificate{Number: b.Number, Hash: x.Hash, Votes: votes})
	}
	must.Do(t, err)
	s.hash, s.blocks = x.Hash, append(s.blocks, b)
}

func (s *shown) id(block, index int) string { return hex.EncodeToString(s.blocks[block].IDs[index][:]) }

func get(handler http.Handler, path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
	return answer
}

// The network page lists procedures, with the digests of those engines that have agreed words.
func TestPagesListProcedures(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	o.make(t, "CREATE PROCEDURE %.fine(n BIGINT) SQL SECURITY INVOKER INSERT INTO items (id) VALUES (n)")
	c.commit(c.attachProcedure(o, "fine", "(bigint)"))
	text := get(pagesAs(t, o.dsn), "/").Body.String()
	for _, want := range []string{"public.fine", "(bigint)", "MariaDB", o.digestOfProcedure(t, "fine")} {
		if !strings.Contains(text, want) {
			t.Errorf("the network page lacks %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, "PostgreSQL") {
		t.Error("it tells of an engine without agreed words")
	}
	c.commit(proposal{kind: wire.Kind_KIND_DEPLOY, sql: "DETACH PROCEDURE public.fine"})
	if text := get(pagesAs(t, o.dsn), "/").Body.String(); strings.Contains(text, "public.fine") || !strings.Contains(text, "public.items") {
		t.Errorf("after DETACH it says %s", text)
	}
}

// The explorer's pages show what a MariaDB has, and say what it does not have.
func TestPagesShowAMariaDB(t *testing.T) {
	s := newShown(t)
	for _, c := range []struct {
		path        string
		code        int
		says, lacks []string
	}{
		{
			"/", 200,
			[]string{"No deviation found", "acme", "bolt", "keeps no list of members", "public.items", "agreed to 2 of the last 3 blocks, 1 not certified yet"},
			[]string{"not put right", "cannot read"},
		},
		{"/blocks", 200, []string{`href="/blocks/3"`, `href="/blocks/1"`, "2 votes", "1970-01-01 00:00:03.000", "1.0 s"}, nil},
		{"/blocks?to=1", 200, []string{`href="/blocks?to=3"`}, nil},
		{"/blocks/2", 200, []string{"Block 2", "bolt", "2 organisations", "UPDATE items SET name", s.id(2, 1)[:12], `href="/blocks/3"`}, []string{"had to"}},
		{"/blocks/3", 200, []string{"1 failed", "23505", "Not certified here yet"}, nil},
		{"/transactions/" + s.id(1, 0), 200, []string{"Definitions changed", "ATTACH TABLE public.items", "makes no receipts"}, []string{"Download receipt"}},
		{"/transactions/" + s.id(2, 0), 200, []string{"committed", "inserted", "public.items", "&lt;script&gt;", operators}, nil},
		{"/transactions/" + s.id(2, 1), 200, []string{"updated", "first!", "/rows?key=1&amp;table=public.items"}, nil},
		{"/transactions/" + s.id(3, 0), 200, []string{"failed", "23505", "changes nothing"}, nil},
		{"/rows", 200, []string{"/rows?table=public.items"}, nil},
		{"/rows?table=items&key=1", 200, []string{"<del><span class=\"value\">first!</span></del>", "<ins><span class=\"value\">first!?</span></ins>", "was there when its table"}, []string{"tampered", "Receipt of"}},
		{"/rows?table=items&key=2", 200, []string{"deleted", "inserted"}, nil},
		{"/rows?table=items&key=9", 200, []string{"has no row with this key"}, nil},
		{"/rows?table=items&key=x", 400, []string{"type bigint"}, nil},
		{"/rows?table=items&key=1&key=2", 400, []string{"other columns"}, nil},
		{"/rows?table=nothing", 404, []string{"No table nothing"}, nil},
		{"/deviations", 200, []string{"put right", "by the scrubber", "public.items", "tampered", "first!?"}, nil},
		{"/analytics?sql=SELECT+1", 200, []string{"has no analytics worker"}, []string{"<form class=\"ask\""}},
		{"/receipts/" + s.id(2, 0), 404, []string{"makes no receipts"}, nil},
		{"/blocks/9", 404, []string{"no block 9"}, nil},
		{"/transactions/" + strings.Repeat("0", 64), 404, []string{"no transaction"}, nil},
	} {
		answer := get(s.handler, c.path)
		text := answer.Body.String()
		if answer.Code != c.code {
			t.Errorf("%s: %d, want %d\n%s", c.path, answer.Code, c.code, text)
		}
		for _, want := range c.says {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", c.path, want, text)
			}
		}
		for _, not := range append(c.lacks, "<script>alert") {
			if strings.Contains(text, not) {
				t.Errorf("%s says %q", c.path, not)
			}
		}
	}
	for q, want := range map[string]string{
		"3": "/blocks/3", hex.EncodeToString(s.hash[:]): "/blocks/3", s.id(2, 1): "/transactions/" + s.id(2, 1), "items/2": "/rows?key=2&table=public.items",
	} {
		if answer := get(s.handler, "/search?q="+q); answer.Code != http.StatusSeeOther || answer.Header().Get("Location") != want {
			t.Errorf("%s: %d to %q, want %q", q, answer.Code, answer.Header().Get("Location"), want)
		}
	}
}

// Pages go on where somebody changed what the ledger keeps, and say what cannot be read.
func TestPagesShowWhatWasTamperedWithInAMariaDB(t *testing.T) {
	s := newShown(t)
	s.run(t, names{s.name}.in("UPDATE %L.`transaction` SET raw = x'00' WHERE block = 2 AND place = 0; UPDATE %L.certificate SET votes = '[7' WHERE number = 1;"+
		" UPDATE %L.certificate SET hash = repeat('x', 32) WHERE number = 2; UPDATE %L.block SET header = x'00' WHERE number = 3; UPDATE %L.history SET row_bytes = x'0102' WHERE block = 2;"+
		" UPDATE %L.deviation SET cured_by = NULL; UPDATE %L.ledger_table SET schema_text = 'column'"))
	for path, says := range map[string]string{
		"/": "1 deviation of the database is not put right", "/blocks": `href="/blocks/3"`, "/blocks/1": "0 organisations signed", "/blocks/2": "Not certified here yet",
		"/blocks/3": "LedgerBlockHash", "/transactions/" + s.id(2, 0): "not readable", "/transactions/" + s.id(2, 1): "too large for this page", "/deviations": "open",
		"/rows?table=items&key=1": "other columns",
	} {
		if text := get(s.handler, path).Body.String(); !strings.Contains(text, says) {
			t.Errorf("%s does not say %q:\n%s", path, says, text)
		}
	}
}

// Pages read with the reader's rights, whoever the user is: no writes, no rows, no requests of
// clients. A user without the role sees what to do.
func TestPagesReadAMariaDBAsReader(t *testing.T) {
	s := newShown(t)
	p, err := OpenPages(s.dsn)
	must.Do(t, err)
	t.Cleanup(p.Close)
	const denied, readOnly, tooLong = 1142, 1792, 1969
	for statement, want := range map[string]uint16{
		"SELECT * FROM %D.items": denied, "SELECT * FROM %L.request": denied, "UPDATE %L.block SET number = 9": denied,
		"CREATE TABLE %D.more (id INT)": readOnly, "SELECT SLEEP(20)": tooLong,
	} {
		if _, err := p.pool.ExecContext(t.Context(), p.name.in(statement)); errorNumber(err) != want {
			t.Errorf("%s gives %v, want error %d", statement, err, want)
		}
	}
	if found := ExaminePages(t.Context(), s.dsn); found.Level != backend.Good {
		t.Errorf("%+v", found)
	}
	s.run(t, "CREATE USER "+s.name+"_stranger@localhost")
	t.Cleanup(func() { s.run(t, "DROP USER "+s.name+"_stranger@localhost") })
	stranger := strings.Replace(s.dsn, s.name+"@", s.name+"_stranger@", 1)
	if text := get(pagesAs(t, stranger), "/blocks").Body.String(); !strings.Contains(text, s.name+"_reader") || strings.Contains(text, "items") {
		t.Errorf("a stranger sees %s", text)
	}
	if found := ExaminePages(t.Context(), stranger); found.Level != backend.Bad || !strings.Contains(found.Mend, s.name+"_reader") {
		t.Errorf("%+v", found)
	}
}
