package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/explorer"
)

const blockColumns = `s.block, s.block_time, extract(epoch FROM s.since_previous)::float8, s.transactions, s.failed, s.changes, s.votes, s.consent`

// Blocks implements [explorer.Moment].
func (m moment) Blocks(ctx context.Context, upTo int64, limit int) ([]explorer.Block, error) {
	return list[explorer.Block](ctx, m.tx, `SELECT `+blockColumns+` FROM chainify.stat_blocks s WHERE s.block <= $1 ORDER BY s.block DESC LIMIT $2`, orLast(upTo), limit)
}

// orLast is a place in a list, or for 0 one after all others: a condition that an index serves
// whatever the plan.
func orLast(place int64) int64 {
	if place == 0 {
		return math.MaxInt64
	}
	return place
}

type number struct{ Number int64 }

// LastAfter implements [explorer.Moment].
func (m moment) LastAfter(ctx context.Context, after int64, limit int) (int64, error) {
	later, err := list[number](ctx, m.tx, `SELECT s.block FROM chainify.stat_blocks s WHERE s.block > $1 ORDER BY s.block LIMIT $2`, after, limit)
	if err != nil || len(later) == 0 {
		return 0, err
	}
	return later[len(later)-1].Number, nil
}

// Header implements [explorer.Moment].
func (m moment) Header(ctx context.Context, number int64) (explorer.Header, error) {
	found, err := list[explorer.Header](ctx, m.tx, `SELECT number, order_height, hash, previous_hash, state_root, certified FROM chainify.ledger WHERE number = $1`, number)
	return one(found, err)
}

// BlockWithHash implements [explorer.Moment].
func (m moment) BlockWithHash(ctx context.Context, hash []byte) (int64, error) {
	found, err := list[number](ctx, m.tx, `SELECT number FROM chainify.ledger WHERE hash = $1 LIMIT 1`, hash)
	at, err := one(found, err)
	return at.Number, err
}

// Votes implements [explorer.Moment].
func (m moment) Votes(ctx context.Context, number int64, limit int) ([]explorer.CertificateVote, error) {
	return list[explorer.CertificateVote](ctx, m.tx, `SELECT organisation, validator, order_height, signature FROM chainify.votes WHERE block = $1 LIMIT $2`, number, limit)
}

// CastVotes implements [explorer.Moment].
func (m moment) CastVotes(ctx context.Context, from int64, limit int) ([]explorer.CastVote, error) {
	return list[explorer.CastVote](ctx, m.tx, `SELECT block, organisation FROM chainify.votes WHERE block >= $1 AND organisation IS NOT NULL LIMIT $2`, from, limit)
}

// Organisations implements [explorer.Moment].
func (m moment) Organisations(ctx context.Context, limit int) ([]explorer.Organisation, error) {
	return list[explorer.Organisation](ctx, m.tx,
		`SELECT name, ordering_only, since_block, certified, votes, last_vote FROM chainify.stat_organisations ORDER BY ordering_only, name LIMIT $1`, limit)
}

// Tables implements [explorer.Moment].
func (m moment) Tables(ctx context.Context, limit int) ([]explorer.Table, error) {
	return list[explorer.Table](ctx, m.tx, `SELECT name, attached_at, rows, scrubbed_block, scrubbed_at FROM chainify.tables ORDER BY name LIMIT $1`, limit)
}

// Procedures implements [explorer.Moment].
func (m moment) Procedures(ctx context.Context, limit int) ([]explorer.Procedure, error) {
	return list[explorer.Procedure](ctx, m.tx, `SELECT p.name, p.signature, p.attached_at, array_agg(w.engine ORDER BY w.engine), array_agg(w.digest ORDER BY w.engine)
		FROM chainify.procedures p, LATERAL (VALUES ('MariaDB', p.mariadb), ('PostgreSQL', p.postgresql)) w (engine, digest) WHERE w.digest IS NOT NULL
		GROUP BY p.name, p.signature, p.attached_at ORDER BY p.name LIMIT $1`, limit)
}

var transactionColumns = fmt.Sprintf(`t.block, t.index, t.id, t.organisation, t.role, t.kind, t.sql, t.parameters, t.outcome, t.rows, t.sqlstate,
	left(t.error, %d), t.block_time, t.client_key`, explorer.ErrorShown)

// Transactions implements [explorer.Moment].
func (m moment) Transactions(ctx context.Context, number, from int64, limit, statement int) ([]explorer.Transaction, error) {
	columns := strings.Replace(transactionColumns, "t.sql, t.parameters", fmt.Sprintf("left(t.sql, %d), NULL", statement+1), 1)
	return list[explorer.Transaction](ctx, m.tx, `SELECT `+columns+` FROM chainify.transactions t WHERE t.block = $1 AND t.index >= $2 ORDER BY t.index LIMIT $3`, number, from, limit)
}

// Transaction implements [explorer.Moment].
func (m moment) Transaction(ctx context.Context, id []byte) (explorer.Transaction, error) {
	found, err := list[explorer.Transaction](ctx, m.tx, `SELECT `+transactionColumns+` FROM chainify.transactions t WHERE t.id = $1 ORDER BY t.block LIMIT 1`, id)
	return one(found, err)
}

// bounded is JSON made of a row, or NULL when that is too large for a page.
func bounded(row, json string) string {
	return fmt.Sprintf(`CASE WHEN octet_length(%s::text) <= %d THEN %s END`, row, explorer.RowBytesMax, json)
}

// version is a version of a table, as its history knows it.
type version struct {
	Name    string
	History string // quoted; digits when it is gone
	Key     []string
	Current bool
	Names   []string // of the columns in the history, the ledger's own left out
	Quoted  []string
	BuiltIn []bool // types of PostgreSQL itself
}

// row is a row of the history h as JSON. to_jsonb looks for a cast of a user's type, which would
// run with the reader's rights; format prints.
func (t *version) row() string {
	var members []string
	for i, name := range t.Names {
		shown := `to_jsonb(h.` + t.Quoted[i] + `)`
		if !t.BuiltIn[i] {
			shown = fmt.Sprintf(`CASE WHEN num_nulls(h.%s) = 0 THEN to_jsonb(format('%%s', h.%[1]s)) END`, t.Quoted[i])
		}
		members = append(members, `(`+literal(name)+`, `+shown+`)`)
	}
	return `(SELECT jsonb_object_agg(n, x) FROM (VALUES ` + strings.Join(members, ", ") + `) j (n, x))`
}

// literal is a string constant of SQL, whatever standard_conforming_strings says.
func literal(text string) string {
	return `E'` + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + `'`
}

// LedgerTables implements [explorer.Moment].
func (m moment) LedgerTables(ctx context.Context, limit int) ([]explorer.LedgerTable, error) {
	found, err := list[version](ctx, m.tx, `
		SELECT h.name, h.history::text, h.key, h.until_block IS NULL, a.names, a.quoted, a.built_in
		FROM chainify.histories h, LATERAL (
			SELECT array_agg(attname::text ORDER BY attnum) AS names, array_agg(quote_ident(attname) ORDER BY attnum) AS quoted,
			       array_agg(atttypid < 16384::oid ORDER BY attnum) AS built_in
			FROM pg_attribute WHERE attrelid = h.history AND attnum > 0 AND NOT attisdropped
			AND attname <> ALL ('{_block,_tx,_serial,_op,_hash}')) a
		WHERE h.history::oid IN (SELECT oid FROM pg_class) ORDER BY h.name, h.since_block DESC, h.since_tx DESC LIMIT $1`, limit)
	out := make([]explorer.LedgerTable, len(found))
	for i := range found {
		out[i] = explorer.LedgerTable{Name: found[i].Name, Key: found[i].Key, Current: found[i].Current, Handle: &found[i]}
	}
	return out, err
}

// Changes implements [explorer.Moment].
func (m moment) Changes(ctx context.Context, tables []explorer.LedgerTable, number int64, index, limit int) ([]explorer.Change, error) {
	var parts []string
	seen := map[string]bool{}
	for i := range tables {
		t, known := tables[i].Handle.(*version)
		if !known || seen[t.History] {
			continue
		}
		seen[t.History] = true
		parts = append(parts, fmt.Sprintf(`SELECT %d, h._serial, h._op::text, %s FROM %s h
			WHERE h._block = $1 AND h._tx = $2`, i, bounded("h", t.row()), t.History))
	}
	if len(parts) == 0 {
		return nil, nil
	}
	return list[explorer.Change](ctx, m.tx, strings.Join(parts, " UNION ALL ")+` ORDER BY 2 LIMIT $3`, number, index, limit)
}

// History implements [explorer.Moment].
func (m moment) History(ctx context.Context, table explorer.LedgerTable, key []string, limit int) ([]explorer.RowChange, error) {
	return list[explorer.RowChange](ctx, m.tx, `
		SELECT h.block, h.tx, h.op, `+bounded(`h."row"`, `h."row"`)+`, h.block_time, h.transaction, h.organisation, h.role
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
		     LATERAL (SELECT * FROM chainify.history(c.oid, VARIADIC $2::text[]) WITH ORDINALITY ORDER BY ordinality DESC LIMIT $3) h
		WHERE n.nspname || '.' || c.relname = $1 AND c.relkind IN ('r', 'p') ORDER BY h.ordinality DESC`, table.Name, key, limit)
}

// OpenDeviations implements [explorer.Moment].
func (m moment) OpenDeviations(ctx context.Context) (n int, err error) {
	err = m.tx.QueryRow(ctx, `SELECT count(DISTINCT id)::integer FROM chainify.deviations WHERE cured_by IS NULL`).Scan(&n)
	return n, err
}

// Deviations implements [explorer.Moment].
func (m moment) Deviations(ctx context.Context, before int64, limit int) ([]explorer.Deviation, error) {
	return list[explorer.Deviation](ctx, m.tx, `
		SELECT DISTINCT id, block, since_block, found_by, rows_total, cured_by, started_at, extract(epoch FROM took)::float8
		FROM chainify.deviations WHERE id < $1 ORDER BY id DESC LIMIT $2`, orLast(before), limit)
}

// DeviatingRows implements [explorer.Moment].
func (m moment) DeviatingRows(ctx context.Context, ids []int64, each int) ([]explorer.DeviatingRow, error) {
	return list[explorer.DeviatingRow](ctx, m.tx, `
		SELECT d.id, d.tbl, `+bounded("d.key", "d.key")+`, `+bounded("d.expected", "d.expected")+`, `+bounded("d.found", "d.found")+` FROM (
			SELECT id, tbl, key, expected, found, row_number() OVER (PARTITION BY id ORDER BY tbl, key) AS place
			FROM chainify.deviations WHERE id = ANY ($1) AND tbl IS NOT NULL) d
		WHERE d.place <= $2 ORDER BY d.id DESC, d.place`, ids, each)
}

// ReceiptOfTransaction implements [explorer.Moment].
func (m moment) ReceiptOfTransaction(ctx context.Context, id []byte) (string, error) {
	return m.receipt(ctx, `SELECT chainify.receipt($1::bytea)::text`, id)
}

// ReceiptOfRow implements [explorer.Moment].
func (m moment) ReceiptOfRow(ctx context.Context, table string, key []string) (string, error) {
	return m.receipt(ctx, `SELECT chainify.receipt(c.oid, VARIADIC $2::text[])::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname || '.' || c.relname = $1 AND c.relkind IN ('r', 'p')`, table, key)
}

func (m moment) receipt(ctx context.Context, sql string, arguments ...any) (text string, err error) {
	err = m.tx.QueryRow(ctx, sql, arguments...).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		err = explorer.ErrNone
	}
	return text, err
}

// Mirrors implements [explorer.Moment].
func (m moment) Mirrors(ctx context.Context, limit int) ([]explorer.Mirror, error) {
	return list[explorer.Mirror](ctx, m.tx, `
		SELECT m."table", m.rows, m.bytes, m.chunks_shared::float8 / nullif(m.chunks, 0), m.block, m.lag, m.digest_checked, m.state, m.error
		FROM chainify.mirrors m ORDER BY m."table" COLLATE "C" LIMIT $1`, limit)
}

// Snapshots implements [explorer.Moment].
func (m moment) Snapshots(ctx context.Context, limit int) ([]explorer.Snapshot, error) {
	return list[explorer.Snapshot](ctx, m.tx, `
		SELECT s.name, s.block, s.pinned, s.readers FROM chainify.snapshots s ORDER BY s.block DESC, s.name COLLATE "C" LIMIT $1`, limit)
}

// Ask implements [explorer.Moment]. The text is translated, with chainify_reader's rights.
func (m moment) Ask(ctx context.Context, block int64, query string, limit int) (columns []string, rows []json.RawMessage, err error) {
	if err := m.tx.QueryRow(ctx, `SELECT t.names FROM chainify.translate_query($1) t`, query).Scan(&columns); err != nil {
		return nil, nil, err
	}
	found, err := list[struct{ Row json.RawMessage }](ctx, m.tx, `SELECT q.o FROM chainify.query_at_json(nullif($1, 0), $2) q (o) LIMIT $3`, block, query, limit)
	for _, f := range found {
		rows = append(rows, f.Row)
	}
	return columns, rows, err
}
