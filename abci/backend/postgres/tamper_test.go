package postgres

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

var (
	updateMatrix = flag.Bool("matrix", false, "rewrite docs/tamper-matrix.md")
	wholeMatrix  = flag.Bool("whole", false, "try all cases of the tamper matrix, not a quarter of them")
)

// tamperTime bounds one case.
const tamperTime = 10 * time.Minute

// TestTamperMatrix changes everything there is to change in one organisation's database behind the
// ledger, one thing after the other. It sees whether a block that touches it, the scrubber and
// verification find it, how each names it and what puts it right. Its results are in
// docs/tamper-matrix.md. A run tries a quarter of the cases, others each time; -whole tries all.
func TestTamperMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("dozens of databases take most of a minute")
	}
	path := filepath.Join("..", "..", "..", "docs", "tamper-matrix.md")
	page, err := os.ReadFile(path)
	must.Do(t, err)
	const begin, end = "<!-- made by TestTamperMatrix -->\n", "\n<!-- end -->\n"
	head, rest, ok := strings.Cut(string(page), begin)
	kept, tail, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s does not say where the table is", path)
	}
	m, random := newMatrix(t), seeded.Random(t)
	kept = m.onThisMajor(t, kept)
	known := strings.Split("\n"+kept, "\n")
	var lines []string
	area := ""
	for _, c := range tamperCases {
		if c.area != area {
			area = c.area
			lines = append(lines, "", "## "+strings.ToUpper(area[:1])+area[1:], "", "| changed | touch | scrubber | verification | put right by |", "|---|---|---|---|---|")
		}
		at := len(lines)
		if tried := *updateMatrix || *wholeMatrix || random.IntN(4) == 0; !tried && at < len(known) && strings.HasPrefix(known[at], "| "+c.what+" | ") {
			lines = append(lines, known[at])
			continue
		}
		t.Run(strings.ReplaceAll(c.what, " ", "_"), func(t *testing.T) { lines = append(lines, m.line(t, c)) })
	}
	table := strings.TrimPrefix(strings.Join(lines, "\n"), "\n")
	switch {
	case *updateMatrix:
		must.Do(t, os.WriteFile(path, []byte(head+begin+table+end+tail), 0o644))
	case kept != table:
		t.Errorf("%s is not what was seen (go test ./backend/postgres -run TamperMatrix -matrix rewrites it); seen:\n%s", path, table)
	}
}

// matrix is a database with a ledger to be tampered with.
type matrix struct {
	dsn   string
	at    backend.Position
	touch *wire.OrderedBlock
	want  wire.Hash
}

const tamperSetup = setup + `;
CREATE TABLE public.kinds (kind text PRIMARY KEY);
INSERT INTO public.kinds VALUES ('a'), ('b');
ALTER TABLE public.items ADD kind text NOT NULL DEFAULT 'a' REFERENCES public.kinds, ADD amount numeric NOT NULL DEFAULT 1, ADD body text,
    ADD CONSTRAINT amount_is_small CHECK (amount < 1000000);
ALTER TABLE public.items ALTER body SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX items_name ON public.items (name);
CREATE INDEX items_kind ON public.items (kind);
CREATE INDEX items_amount ON public.items USING hash (amount);
CREATE INDEX items_body ON public.items USING gin (to_tsvector('simple', body)) WITH (fastupdate = off);
CREATE POLICY mine ON public.items USING (amount > 0);
INSERT INTO public.items SELECT i, 'n' || i, CASE WHEN i % 100 > 1 THEN 'b' ELSE 'a' END, i, CASE WHEN i <= 60 THEN repeat(i || ' ', 2000) END FROM generate_series(2, 1000) i;
ANALYZE;
GRANT ALL ON public.kinds TO effects_ops;
CREATE SCHEMA dep;
ALTER SCHEMA dep OWNER TO effects_ops`

// onThisMajor is the table with what another major than 15 shows otherwise. Since 18 NOT NULL is a
// constraint, and SET NOT NULL does nothing while there is one. A block that meets the page passed
// over ends with an error there.
func (m *matrix) onThisMajor(t *testing.T, table string) string {
	t.Helper()
	const notNull, page = "| pg_attribute.attnotnull | as agreed | schema | schema | ", "| inner page of the primary key leads past a page | "
	var is18 bool
	if query(t, m.dsn, "SELECT current_setting('server_version_num')::int >= 180000", &is18); !is18 {
		return table
	}
	return strings.NewReplacer(notNull+"definitions |", notNull+"operator |", page+"as agreed |", page+"cannot be executed |").Replace(table)
}

func newMatrix(t *testing.T) *matrix {
	m := &matrix{dsn: database(t, tamperSetup)}
	b := open(t, m.dsn)
	at := connected(t, b)
	hash := at.Hash
	for i, statements := range [][]string{
		{"ATTACH TABLE public.items, public.kinds"},
		{"CREATE FUNCTION dep.fee(n numeric) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN n + 1; END $$; CREATE DOMAIN dep.small AS int CHECK (VALUE < 10)"},
		{"UPDATE items SET amount = amount + 1 WHERE id <= 10"},
		{"UPDATE items SET kind = 'a' WHERE id IN (9, 14)"},
		{"INSERT INTO items VALUES (2001, 'n2001', 'b', 60, 'x')", "DELETE FROM items WHERE id = 50"},
	} {
		kind := wire.Kind_KIND_SQL
		if i < 2 {
			kind = wire.Kind_KIND_DEPLOY
		}
		x, err := b.Execute(t.Context(), orderedBlock(uint64(i)+1, kind, statements...), hash)
		if err == nil {
			err = b.Commit(t.Context())
		}
		if err != nil || !x.Results[0].Succeeded {
			t.Fatalf("block %d: %v, %+v", i+1, err, x.Results)
		}
		hash = x.Hash
		if kind == wire.Kind_KIND_SQL {
			run(t, m.dsn, "SELECT chainify_node.checkpoint()")
		}
	}
	run(t, m.dsn, "SELECT chainify_node.fold_history()") // the history up to block 3 is no longer needed for repair
	var err error
	if m.at, err = b.Position(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil { // with it goes the maintenance worker
		t.Fatal(err)
	}
	// It looks rows up by each of the indexes, changes them, and fails where a constraint has to
	// hold.
	m.touch = orderedBlock(m.at.Number+1, wire.Kind_KIND_SQL,
		"UPDATE items SET amount = dep.fee(amount) * 2, name = name || left(body, 3) WHERE id = 7",
		"UPDATE items SET amount = amount + 1 WHERE name = 'n8'",
		"UPDATE items SET amount = amount + 5 WHERE kind = 'a' AND id < 200",
		"UPDATE items SET name = name || '!' WHERE amount = 31",
		"INSERT INTO items VALUES (9, 'new', 'a', 3, 'y')", "INSERT INTO items VALUES (4000, 'n12', 'a', 3, 'y')",
		"INSERT INTO items VALUES (4001, 'n4001', 'none', 3, 'y')", "INSERT INTO items VALUES (4002, 'n4002', 'b', 2000000, 'y')",
		"INSERT INTO items (id, name) VALUES (4003, 'n4003')", "UPDATE items SET name = 'dated ' || date '2026-02-03' WHERE id = 13")
	m.inTransaction(t, nil, func(ctx context.Context, tx pgx.Tx) {
		if m.want, err = m.execute(ctx, tx, nil); err != nil {
			t.Fatal(err)
		}
	})
	return m
}

// inTransaction damages the database, calls f and undoes all. Settings of roles and databases are
// for sessions to come, so they are committed and taken back.
func (m *matrix) inTransaction(t *testing.T, c *tamperCase, f func(context.Context, pgx.Tx)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), tamperTime)
	defer cancel()
	if c != nil && c.undo != "" {
		run(t, m.dsn, c.damage)
		defer run(t, m.dsn, c.undo)
	}
	conn, err := pgx.Connect(ctx, m.dsn)
	must.Do(t, err)
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.Begin(ctx)
	must.Do(t, err)
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // closed next
	if c != nil && c.undo == "" {
		const behind = "SET LOCAL chainify.guard = off; SET LOCAL session_replication_role = replica; SET LOCAL allow_system_table_mods = on;"
		const after = "; SET LOCAL chainify.guard = on; SET LOCAL session_replication_role = origin; SET LOCAL allow_system_table_mods = off"
		if _, err := tx.Exec(ctx, behind+c.damage+after); err != nil {
			t.Fatalf("%s: %v", c.damage, err)
		}
	}
	f(ctx, tx)
}

// try does something that may fail without ending the transaction.
func try(ctx context.Context, tx pgx.Tx, keep bool, f func(pgx.Tx) error) error {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if err = f(inner); err == nil && keep {
		return inner.Commit(ctx)
	}
	if back := inner.Rollback(ctx); back != nil {
		return back
	}
	return err
}

// execute runs the block that touches what is tampered with, and undoes it.
func (m *matrix) execute(ctx context.Context, tx pgx.Tx, certified []byte) (hash wire.Hash, err error) {
	err = try(ctx, tx, false, func(tx pgx.Tx) error {
		var got []byte
		err := tx.QueryRow(ctx, "SELECT hash FROM chainify_node.execute_block($1, $2, $3, $4, $5, certified_hash => $6)",
			int64(m.touch.Number), m.touch.Height, m.touch.TimeMicro, m.at.Hash[:], m.touch.Transactions, certified).Scan(&got)
		copy(hash[:], got)
		return err
	})
	return hash, err
}

func (m *matrix) line(t *testing.T, c tamperCase) string {
	var touched, byTouch, scrubbed, byScrub, verified string
	m.inTransaction(t, &c, func(ctx context.Context, tx pgx.Tx) { touched, byTouch = m.touched(ctx, tx) })
	m.inTransaction(t, &c, func(ctx context.Context, tx pgx.Tx) { verified = m.verified(ctx, tx) })
	m.inTransaction(t, &c, func(ctx context.Context, tx pgx.Tx) { scrubbed, byScrub = m.scrubbed(ctx, t, tx) })
	by := byTouch
	switch {
	case by == "":
		by = byScrub
	case byScrub != "" && byScrub != by:
		by = "touch: " + by + "; scrubber: " + byScrub
	}
	switch {
	case by == "" && verified == "nothing":
		by = "–"
	case by == "":
		by = "operator"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |", c.what, touched, scrubbed, verified, by)
}

// steps that one database takes by itself.
var ownSteps = []backend.Step{backend.Definitions, backend.Reindex, backend.Rows, backend.Replay, backend.Rebase}

// touched climbs the ladder as package effects does.
func (m *matrix) touched(ctx context.Context, tx pgx.Tx) (found, by string) {
	got, err := m.execute(ctx, tx, nil)
	if err == nil && got == m.want {
		return "as agreed", ""
	}
	found = "deviates"
	if err != nil {
		found = "cannot be executed"
	}
	if got, err = m.execute(ctx, tx, m.want[:]); err == nil && got == m.want {
		return found, "retry"
	}
	var helped []string
	for range 2 { // what one step changed may let another one help
		for _, step := range ownSteps {
			rows, err := m.repair(ctx, tx, step, m.touch.Number, got)
			if err != nil || rows == 0 {
				continue
			}
			helped = append(helped, step.String())
			if got, err = m.execute(ctx, tx, nil); err == nil && got == m.want {
				return found, strings.Join(helped, ", ")
			}
		}
	}
	return found, "operator"
}

func (m *matrix) repair(ctx context.Context, tx pgx.Tx, step backend.Step, deviating uint64, found wire.Hash) (rows int, err error) {
	err = try(ctx, tx, true, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT count(*) FROM chainify_node.repair($1, $2, $3, $4, $5)",
			int64(m.at.Number), m.at.Hash[:], int64(deviating), found[:], step.String()).Scan(&rows)
	})
	return rows, err
}

// verifiedBy gives each finding once: what it is, and the index, object or row that it names.
const verifiedBy = `SELECT coalesce(string_agg(DISTINCT v, '; ' ORDER BY v), 'nothing') FROM (
	SELECT concat_ws(' ', v.what, v.key->>'index', v.key->>'object', v.key->>'id') FROM chainify_ledger.ledger_table l, chainify.verify_table(l.relation) v
	WHERE l.detached_at IS NULL AND l.name LIKE 'public.%' AND v.what <> 'state'
	UNION ALL SELECT concat_ws(' ', w.what, split_part(w.detail, ':', 1)) FROM chainify.verify_ledger() w WHERE w.what LIKE 'definition%' OR w.what = 'index'
	UNION ALL SELECT concat_ws(' ', w.what, 'of block', w.block) FROM chainify.verify_ledger() w
	WHERE NOT (w.what LIKE 'definition%' OR w.what = 'index' OR w.what LIKE 'certificate missing')) f (v)`

const scrubbedBy = `SELECT coalesce(string_agg(DISTINCT v, '; ' ORDER BY v), 'nothing') FROM (
	SELECT coalesce('index ' || (d.key->>'index'), d.key->>'object', 'row ' || (d.key->>'id'),
		CASE WHEN jsonb_typeof(d.expected) = 'string' AND d.expected #>> '{}' ~ 'enabled' THEN 'trigger' WHEN d.found #>> '{}' ~ '^the running states' THEN 'state root'
		     WHEN jsonb_typeof(d.expected) = 'string' THEN 'schema' WHEN d.found ? 'state' AND d.expected ? 'block' THEN 'checkpoint' WHEN d.tbl = 'chainify_history' THEN 'history' END)
	FROM chainify.deviations d WHERE d.cured_by IS NULL
	UNION ALL SELECT 'block ' || f.number FROM chainify_ledger.false_block f) f (v) WHERE v IS NOT NULL`

func (m *matrix) verified(ctx context.Context, tx pgx.Tx) (found string) {
	err := try(ctx, tx, false, func(tx pgx.Tx) error { return tx.QueryRow(ctx, verifiedBy).Scan(&found) })
	return said(found, err)
}

func said(found string, err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return "fails: " + refused.Code
	}
	if err != nil {
		return err.Error()
	}
	return few(found)
}

// few names the first of many findings.
func few(found string) string {
	const named = 3
	if list := strings.Split(found, "; "); len(list) > named+1 {
		return fmt.Sprintf("%s; … (%d)", strings.Join(list[:named], "; "), len(list))
	}
	return found
}

func (m *matrix) scrubbed(ctx context.Context, t *testing.T, tx pgx.Tx) (found, by string) {
	before := m.verified(ctx, tx)
	scrub := func() string {
		var found string
		err := try(ctx, tx, true, func(tx pgx.Tx) error {
			for _, sql := range []string{
				"UPDATE chainify_ledger.deviation SET cured_by = 'seen' WHERE cured_by IS NULL",
				"SELECT chainify_node.scrub(relation) FROM chainify_ledger.ledger_table WHERE detached_at IS NULL AND name LIKE 'public.%'",
				"UPDATE chainify_ledger.audited SET block = 0, at = NULL",
				"SELECT chainify_node.audit()",
			} {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
			}
			return tx.QueryRow(ctx, scrubbedBy).Scan(&found)
		})
		return said(found, err)
	}
	found = scrub()
	if found == "nothing" {
		return found, ""
	}
	var helped []string
	for _, step := range ownSteps {
		rows, err := m.repair(ctx, tx, step, m.at.Number, wire.Hash{})
		if err != nil || rows == 0 {
			continue
		}
		helped = append(helped, step.String())
		if scrub() == "nothing" {
			if left := m.verified(ctx, tx); left != "nothing" {
				t.Logf("left after %s: %s (before: %s)", step, left, before)
			}
			return found, strings.Join(helped, ", ")
		}
	}
	if strings.Contains(m.verified(ctx, tx), "unreadable") { // no row can be put where one stays
		return found, "operator"
	}
	if strings.Contains(found, "block ") || slices.ContainsFunc([]string{"row", "history", "checkpoint", "state root"}, func(w string) bool { return strings.Contains(found, w) }) {
		return found, "another organisation"
	}
	return found, "operator"
}
