package explorer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	pageBlocks       = 50
	pageTransactions = 100
	pageDeviations   = 20
	deviationRowsMax = 20
	changesMax       = 100 // of a transaction, and of a row
	tablesMax        = 200
	organisationsMax = 200
	votesMax         = 1_000 // of a certificate
	stripBlocks      = 40    // whose votes the network page shows
	rowBytesMax      = 64 << 10
	statementShown   = 160 // bytes, in a list
)

type block struct {
	Number       int64
	Time         time.Time
	Since        *float64 // seconds since the block before
	Transactions int
	Failed       int
	Changes      int
	Votes        int
	Consent      *int
}

const blockColumns = `s.block, s.block_time, extract(epoch FROM s.since_previous)::float8, s.transactions, s.failed, s.changes, s.votes, s.consent`

// newestBlocks are at most limit blocks up to one, the newest first; upTo 0: up to the last.
func newestBlocks(ctx context.Context, tx pgx.Tx, upTo int64, limit int) ([]block, error) {
	return list[block](ctx, tx, `SELECT `+blockColumns+` FROM chainify.stat_blocks s WHERE s.block <= $1 ORDER BY s.block DESC LIMIT $2`, orLast(upTo), limit)
}

// orLast is a place in a list, or for 0 one after all others: a condition that an index serves
// whatever the plan.
func orLast(place int64) int64 {
	if place == 0 {
		return math.MaxInt64
	}
	return place
}

type organisation struct {
	Name         string
	OrderingOnly bool
	Since        int64
	Certified    int
	Voted        int
	LastVote     *int64
}

type castVote struct {
	Block        int64
	Organisation string
}

type table struct {
	Name          string
	AttachedAt    int64
	Rows          *int64
	ScrubbedBlock *int64
	ScrubbedAt    *time.Time
}

// header is what the block's hash covers, as far as it is shown, and who voted.
type header struct {
	Number       int64
	OrderHeight  int64
	Hash         []byte
	PreviousHash []byte
	StateRoot    []byte
	Certified    bool
}

type vote struct {
	Organisation *string
	Validator    *string
	OrderHeight  *string
	Signature    *string
}

type transaction struct {
	Block        int64
	Index        int
	ID           []byte
	Organisation *string // NULL: what is kept is no transaction
	Role         *string
	Kind         *string
	SQL          *string
	Parameters   json.RawMessage
	Succeeded    bool
	Rows         int64
	SQLState     *string
	Error        *string
	Time         *time.Time
	ClientKey    []byte
}

// IsEffects reports whether the transaction carries a write set in place of statements.
func (t transaction) IsEffects() bool { return t.Kind != nil && *t.Kind == "effects" }

const transactionColumns = `t.block, t.index, t.id, t.organisation, t.role, t.kind, t.sql, t.parameters, t.outcome, t.rows, t.sqlstate, left(t.error, 4000), t.block_time, t.client_key`

// transactionsOf are some of a block's, from an index on, with the beginnings of their statements.
func transactionsOf(ctx context.Context, tx pgx.Tx, number, from int64) ([]transaction, error) {
	columns := strings.Replace(transactionColumns, "t.sql, t.parameters", fmt.Sprintf("left(t.sql, %d), NULL", statementShown+1), 1)
	return list[transaction](ctx, tx, `SELECT `+columns+` FROM chainify.transactions t WHERE t.block = $1 AND t.index >= $2 ORDER BY t.index LIMIT $3`, number, from, pageTransactions)
}

// bounded is JSON made of a row, or NULL when that is too large for a page.
func bounded(row, json string) string {
	return fmt.Sprintf(`CASE WHEN octet_length(%s::text) <= %d THEN %s END`, row, rowBytesMax, json)
}

func headerOf(ctx context.Context, tx pgx.Tx, number int64) (header, error) {
	found, err := list[header](ctx, tx, `SELECT number, order_height, hash, previous_hash, state_root, certified FROM chainify.ledger WHERE number = $1`, number)
	return one(found, err)
}

func transactionOf(ctx context.Context, tx pgx.Tx, id []byte) (transaction, error) {
	found, err := list[transaction](ctx, tx, `SELECT `+transactionColumns+` FROM chainify.transactions t WHERE t.id = $1 ORDER BY t.block LIMIT 1`, id)
	return one(found, err)
}

// one is the only element, or errNone.
func one[T any](found []T, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	if len(found) == 0 {
		return none, errNone
	}
	return found[0], nil
}

var errNone = errors.New("no such row")

// ledgerTable is a table that is or was on the ledger, as the history knows it.
type ledgerTable struct {
	Name    string
	History string // quoted; digits when it is gone
	Key     []string
	Current bool
	Names   []string // of the columns in the history, the ledger's own left out
	Quoted  []string
	BuiltIn []bool // types of PostgreSQL itself
}

// row is one of the history h as JSON. to_jsonb looks for a cast of a user's type, which would run
// with the reader's rights; format prints.
func (t ledgerTable) row() string {
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

// ledgerTables are all tables, the newest version of each first.
func ledgerTables(ctx context.Context, tx pgx.Tx) ([]ledgerTable, error) {
	return list[ledgerTable](ctx, tx, `
		SELECT h.name, h.history::text, h.key, h.until_block IS NULL, a.names, a.quoted, a.built_in
		FROM chainify.histories h, LATERAL (
			SELECT array_agg(attname::text ORDER BY attnum) AS names, array_agg(quote_ident(attname) ORDER BY attnum) AS quoted,
			       array_agg(atttypid < 16384::oid ORDER BY attnum) AS built_in
			FROM pg_attribute WHERE attrelid = h.history AND attnum > 0 AND NOT attisdropped
			AND attname <> ALL ('{_block,_tx,_serial,_op,_hash}')) a
		WHERE h.history::oid IN (SELECT oid FROM pg_class) ORDER BY h.name, h.since_block DESC, h.since_tx DESC LIMIT $1`, tablesMax)
}

// change is what a transaction did to one row.
type change struct {
	Table     int // place in the list of tables
	Serial    int
	Operation string
	Row       json.RawMessage
}

// changesOf are what a transaction changed, at most changesMax and one more.
func changesOf(ctx context.Context, tx pgx.Tx, tables []ledgerTable, number int64, index int) ([]change, error) {
	var parts []string
	seen := map[string]bool{}
	for i, t := range tables {
		if seen[t.History] {
			continue
		}
		seen[t.History] = true
		parts = append(parts, fmt.Sprintf(`SELECT %d, h._serial, h._op::text, %s FROM %s h
			WHERE h._block = $1 AND h._tx = $2`, i, bounded("h", t.row()), t.History))
	}
	if len(parts) == 0 {
		return nil, nil
	}
	return list[change](ctx, tx, strings.Join(parts, " UNION ALL ")+` ORDER BY 2 LIMIT $3`, number, index, changesMax+1)
}

// rowChange is one change of a row with a key.
type rowChange struct {
	Block        int64
	Index        int
	Operation    string
	Row          json.RawMessage
	Time         *time.Time
	Transaction  []byte
	Organisation *string
	Role         *string
}

// historyOf is the newest of a row's changes, the newest first, at most changesMax and one more.
func historyOf(ctx context.Context, tx pgx.Tx, name string, key []string) ([]rowChange, error) {
	return list[rowChange](ctx, tx, `
		SELECT h.block, h.tx, h.op, `+bounded(`h."row"`, `h."row"`)+`, h.block_time, h.transaction, h.organisation, h.role
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
		     LATERAL (SELECT * FROM chainify.history(c.oid, VARIADIC $2::text[]) WITH ORDINALITY ORDER BY ordinality DESC LIMIT $3) h
		WHERE n.nspname || '.' || c.relname = $1 AND c.relkind IN ('r', 'p') ORDER BY h.ordinality DESC`, name, key, changesMax+1)
}

type deviation struct {
	ID      int64
	Block   int64
	Since   *int64
	FoundBy string
	Rows    int64
	CuredBy *string
	Started time.Time
	Took    *float64 // seconds
}

// deviationsBefore are the newest with a smaller id; before 0: the newest.
func deviationsBefore(ctx context.Context, tx pgx.Tx, before int64, limit int) ([]deviation, error) {
	return list[deviation](ctx, tx, `
		SELECT DISTINCT id, block, since_block, found_by, rows_total, cured_by, started_at, extract(epoch FROM took)::float8
		FROM chainify.deviations WHERE id < $1 ORDER BY id DESC LIMIT $2`, orLast(before), limit)
}

type deviatingRow struct {
	Deviation int64
	Table     string
	Key       json.RawMessage
	Expected  json.RawMessage
	Found     json.RawMessage
}

// deviatingRows are the first rows of each of these deviations.
func deviatingRows(ctx context.Context, tx pgx.Tx, ids []int64) ([]deviatingRow, error) {
	return list[deviatingRow](ctx, tx, `
		SELECT d.id, d.tbl, `+bounded("d.key", "d.key")+`, `+bounded("d.expected", "d.expected")+`, `+bounded("d.found", "d.found")+` FROM (
			SELECT id, tbl, key, expected, found, row_number() OVER (PARTITION BY id ORDER BY tbl, key) AS place
			FROM chainify.deviations WHERE id = ANY ($1) AND tbl IS NOT NULL) d
		WHERE d.place <= $2 ORDER BY d.id DESC, d.place`, ids, deviationRowsMax)
}
