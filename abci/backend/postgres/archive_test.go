package postgres

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/archive"
	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

func (a *attested) archiver(store archive.Store) *archive.Archiver {
	return archive.New(archive.Options{
		Source: a.b, Store: store, ChainID: "test", Organisation: "a",
		Authorities: func() (audit.Authorities, error) { return audit.Authorities{attestAuthority()}, nil },
		Key:         func() (crypto.Signer, error) { return attestKey("a"), nil },
	})
}

func (a *attested) exec(sql string) {
	a.t.Helper()
	if _, err := a.conn.Exec(a.t.Context(), sql); err != nil {
		a.t.Fatalf("%s: %v", sql, err)
	}
}

// archivedLedger is a ledger of some blocks whose archive is in a directory; the base of its
// checkpoints is at the last block.
func archivedLedger(t *testing.T) (*attested, archive.Directory) {
	t.Helper()
	a := newAttested(t)
	for i := range 6 {
		a.block(wire.Kind_KIND_SQL, fmt.Sprintf("UPDATE items SET name = 'v%d' WHERE id = 2", i), "SELECT 1/0")
	}
	store := archive.Directory(t.TempDir())
	m, err := a.archiver(store).Step(t.Context(), 0)
	if err != nil || m == nil || m.Last != a.n {
		t.Fatalf("%+v, %v", m, err)
	}
	return a, store
}

func (a *attested) verified(store archive.Store) archive.Verdict {
	a.t.Helper()
	v, err := archive.Verify(a.t.Context(), store, "test", audit.Authorities{attestAuthority()}, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return v
}

// fold brings the base of the checkpoints to the last block.
func (a *attested) fold() {
	a.t.Helper()
	a.exec(`SELECT chainify_node.checkpoint(); DELETE FROM chainify_ledger.checkpoint WHERE block < (SELECT max(block) FROM chainify_ledger.checkpoint)`)
	for a.text("SELECT coalesce(block, 0)::text FROM chainify_node.fold_history()") != "0" {
	}
}

// All that PostgreSQL keeps of a ledger is in its archive, which holds by itself.
func TestALedgerIsArchived(t *testing.T) {
	a, store := archivedLedger(t)
	v := a.verified(store)
	changes := a.text("SELECT sum(effects_count)::text FROM chainify.ledger")
	if len(v.Findings) > 0 || len(v.Unproven) > 0 || v.Last != a.n || fmt.Sprint(v.Changes) != changes || v.Transactions != uint64(len(a.ids)) {
		t.Errorf("%+v, want %s changes", v, changes)
	}
	var cells []string
	err := archive.Fetch(t.Context(), store, "test", audit.Authorities{attestAuthority()}, archive.Slice{Kind: archive.Changes, From: 2, To: 2, Table: "public.pairs"}, func(r *archive.Row) error {
		cells = append(cells, string(r.Cells))
		return nil
	})
	if want := `{"a":"p","b":1.5} {"a":"q","b":2,"note":"two"}`; err != nil || strings.Join(cells, " ") != want {
		t.Errorf("%s, %v; want %s", cells, err, want)
	}
	if got := a.text("SELECT place || ' ' || block FROM chainify_node.archived()"); got != fmt.Sprint(store, " ", a.n) {
		t.Error(got)
	}
}

// misnaming is a database that gives two columns each other's names.
type misnaming struct{ archive.Source }

type misnamed struct{ archive.Reading }

func (m misnaming) ReadArchive(ctx context.Context) (archive.Reading, error) {
	r, err := m.Source.ReadArchive(ctx)
	return misnamed{r}, err
}

func (m misnamed) Names(ctx context.Context, each func(*archive.Column) error) (*archive.Definitions, error) {
	return m.Reading.Names(ctx, func(c *archive.Column) error {
		if swapped := map[string]string{"a": "b", "b": "a"}[c.Name]; c.Table == "public.pairs" && swapped != "" {
			c.Name = swapped
		}
		return each(c)
	})
}

// The definitions that the blocks cover prove names of columns: those of a renamed column in the
// ranges after, and no others.
func TestNamesOfColumnsAreThoseOfTheDefinitions(t *testing.T) {
	a, store := archivedLedger(t)
	again := a.archiver(archive.Directory(t.TempDir()))
	_, err := archive.New(archive.Options{
		Source: misnaming{a.b}, Store: archive.Directory(t.TempDir()), ChainID: "test", Organisation: "a",
		Authorities: func() (audit.Authorities, error) { return audit.Authorities{attestAuthority()}, nil },
		Key:         func() (crypto.Signer, error) { return attestKey("a"), nil },
	}).Step(t.Context(), 0)
	if !errors.Is(err, archive.ErrFalse) || !strings.Contains(err.Error(), `of public.pairs is "`) {
		t.Errorf("names that are swapped: %v", err)
	}
	if _, err := again.Step(t.Context(), 0); err != nil {
		t.Errorf("as they are: %v", err)
	}
	step := func(want int, statements ...string) {
		t.Helper()
		for _, sql := range statements {
			kind := wire.Kind_KIND_SQL
			if strings.HasPrefix(sql, "ALTER") || strings.HasPrefix(sql, "CREATE") {
				kind = wire.Kind_KIND_DEPLOY
			}
			a.block(kind, sql)
		}
		if m, err := a.archiver(store).Step(t.Context(), 0); err != nil || m == nil || m.Definitions == nil {
			t.Fatalf("%+v, %v", m, err)
		}
		if v := a.verified(store); len(v.Findings) > 0 || len(v.Unproven) != want {
			t.Errorf("after %q: %+v, want %d ranges with names that nothing proves", statements, v, want)
		}
	}
	a.exec("GRANT CREATE, USAGE ON SCHEMA public TO effects_ops")
	step(0, "CREATE TABLE public.notes (id int PRIMARY KEY, note text)", "INSERT INTO notes VALUES (1, 'one')")
	step(1, "UPDATE notes SET note = 'two'", "ALTER TABLE public.notes RENAME COLUMN note TO \"a \"\"note\"\"\"")
	step(1, "UPDATE notes SET \"a \"\"note\"\"\" = 'three'")
	a.block(wire.Kind_KIND_SQL, "UPDATE items SET name = 'last' WHERE id = 2")
	a.exec("SET chainify.guard = off; ALTER TABLE public.notes RENAME COLUMN id TO other")
	if _, err := a.archiver(store).Step(t.Context(), 0); !errors.Is(err, archive.ErrFalse) {
		t.Errorf("a definition that was changed behind the ledger: %v", err)
	}
}

// Archived rows go, but for those of the newest blocks, and the rest of the ledger verifies. The
// database says that the others are in the archive, whose receipts hold.
func TestWhatIsArchivedGoes(t *testing.T) {
	a, store := archivedLedger(t)
	if block, _, err := a.b.DropArchived(t.Context(), 2, 1000); err != nil || block > 1 {
		t.Fatalf("dropped up to %d before the checkpoints allow it, %v", block, err)
	}
	a.fold()
	last, batches := uint64(0), 0
	for deadline := time.Now().Add(30 * time.Second); last < a.n-2 && time.Now().Before(deadline); {
		block, rows, err := a.b.DropArchived(t.Context(), 2, 4)
		must.Do(t, err)
		if block == 0 {
			continue // maintenance is at work
		}
		if rows == 0 || block <= last {
			t.Errorf("%d rows up to block %d", rows, block)
		}
		last, batches = block, batches+1
	}
	if block, rows, err := a.b.DropArchived(t.Context(), 2, 4); block != 0 || err != nil {
		t.Errorf("dropped block %d of the newest: %d rows, %v", block, rows, err)
	}
	if last != a.n-2 || batches < 3 {
		t.Errorf("dropped up to %d in %d batches, the last block is %d", last, batches, a.n)
	}
	kept := a.text(`SELECT (SELECT min(block) FROM chainify_ledger.transaction) || ' ' || (SELECT min(number) FROM chainify_ledger.certificate) || ' '
		|| (SELECT min(_block) FROM chainify_history.items) || ' ' || (SELECT count(*) FROM chainify.ledger WHERE NOT certified)`)
	if want := fmt.Sprintf("%d %d %d 0", last+1, last+1, last+1); kept != want {
		t.Errorf("kept from %s on, want %s", kept, want)
	}
	if findings := a.text("SELECT coalesce(string_agg(v::text, '; '), '') FROM chainify.verify_ledger() v"); findings != "" {
		t.Error(findings)
	}
	for sql, want := range map[string]string{
		"SELECT chainify.digest(3)::text":                                                       "block 3 is in the archive",
		fmt.Sprintf("SELECT chainify.receipt('\\x%x')::text", a.ids[1]):                         "no transaction with this id",
		"SELECT count(*)::text FROM chainify.as_of(NULL::items, 2)":                             "block 3 is in the archive",
		fmt.Sprintf("SELECT count(*)::text FROM chainify.as_of(NULL::items, %d)", last):         "are not known",
		"SELECT chainify_node.block_parts(3, hash)::text FROM chainify.ledger WHERE number = 3": "block 3 is in the archive",
	} {
		var out string
		if err := a.conn.QueryRow(t.Context(), sql).Scan(&out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v", sql, out, err)
		}
	}
	if got := a.text("SELECT count(*)::text FROM chainify.as_of(NULL::items, $1)", a.n); got != "2" {
		t.Errorf("%s rows", got)
	}
	authority := attestAuthority()
	for _, id := range a.ids {
		r, err := archive.Receipt(t.Context(), store, "test", audit.Authorities{authority}, archive.Wanted{ID: id})
		must.Do(t, err)
		text, err := json.Marshal(r)
		must.Do(t, err)
		again, err := audit.Parse(text)
		if err != nil || len(again.Check(authority)) > 0 {
			t.Errorf("%s: %v", text, err)
		}
	}
	a.goesOn(store)
}

// Indexes by block do not lead to the pages of dropped rows any more. Otherwise they would lead
// every query there, once those pages have rows of new blocks.
func TestIndexesByBlockForgetWhatWasDropped(t *testing.T) {
	a, store := archivedLedger(t)
	first := a.n + 1
	a.block(wire.Kind_KIND_SQL, "INSERT INTO items SELECT n, 'item' FROM generate_series(10, 4000) n")
	for range 3 {
		a.block(wire.Kind_KIND_SQL, "UPDATE items SET name = name || '!'")
	}
	must.Do(t, a.archiver(store).Run(t.Context(), 0, func(*archive.Manifest) {}))
	a.exec(`CREATE FUNCTION pages_read(block bigint) RETURNS int LANGUAGE plpgsql SET enable_seqscan = off AS $$
		DECLARE plan json;
		BEGIN
			EXECUTE format('EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT FROM chainify_history.items WHERE _block = %s', block) INTO plan;
			RETURN (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int;
		END $$`)
	eventually(t, a.dsn, fmt.Sprintf("SELECT pages_read(%d) > 40", first))
	a.fold()
	eventually(t, a.dsn, fmt.Sprintf("SELECT dropped >= %d FROM chainify_node.archived(), chainify_node.drop_archived(1, 100000)", first))
	eventually(t, a.dsn, fmt.Sprintf("SELECT pages_read(%d) <= 24 -- of the range that is not full, and of the index", first))
}

// goesOn: the ledger takes blocks, repairs its tables and is archived on.
func (a *attested) goesOn(store archive.Store) {
	a.t.Helper()
	a.block(wire.Kind_KIND_SQL, "INSERT INTO items VALUES (9, 'nine')")
	a.exec("SET chainify.guard = off; UPDATE items SET name = 'false' WHERE id = 2; SET chainify.guard = on")
	if found := a.text(`SELECT count(*)::text FROM chainify_node.repair((SELECT number FROM chainify_node.position()), (SELECT hash FROM chainify_node.position()),
			(SELECT number FROM chainify_node.position()), NULL, 'rows')`); found != "1" {
		a.t.Errorf("%s rows were put right", found)
	}
	for range 20 {
		if a.text("SELECT coalesce(block, 0)::text FROM chainify_node.audit()") == "0" {
			break
		}
	}
	if got := a.text("SELECT count(*)::text FROM chainify_ledger.false_block"); got != "0" {
		a.t.Errorf("%s false blocks", got)
	}
	if m, err := a.archiver(store).Step(a.t.Context(), 0); err != nil || m == nil || m.First != a.n {
		a.t.Fatalf("%+v, %v", m, err)
	}
	if v := a.verified(store); len(v.Findings) > 0 || v.Ranges != 2 {
		a.t.Errorf("%+v", v)
	}
}
