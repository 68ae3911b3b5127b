package mariadb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/explorer"
	"github.com/chainify-db/chainify/abci/wire"
)

// pagesMoment is a read-only transaction.
type pagesMoment struct {
	q    querier
	name names
}

// rows reads all rows of a query, which bounds their number.
func (m *pagesMoment) rows(ctx context.Context, f func(*sql.Rows) error, query string, arguments ...any) error {
	rows, err := m.q.QueryContext(ctx, m.name.in(query), arguments...)
	if err != nil {
		return err
	}
	return each(rows, func() error { return f(rows) })
}

// orLast is a place in a list, or for 0 one after all others.
func orLast(place int64) int64 {
	if place == 0 {
		return math.MaxInt64
	}
	return place
}

// certifiedBy joins a block b with the certificate c of its hash.
const certifiedBy = ` LEFT JOIN %L.certificate c ON c.number = b.number AND c.hash = b.hash `

// Blocks implements [explorer.Moment]. A header that cannot be read has the block's number alone.
func (m *pagesMoment) Blocks(ctx context.Context, upTo int64, limit int) ([]explorer.Block, error) {
	var out []explorer.Block
	err := m.rows(ctx, func(rows *sql.Rows) error {
		var b explorer.Block
		var raw, before []byte
		if err := rows.Scan(&b.Number, &raw, &before, &b.Votes); err != nil {
			return err
		}
		if h, err := wire.DecodeHeader(raw); err == nil {
			b.Time, b.Transactions, b.Changes = time.UnixMicro(h.BlockTime).UTC(), int(h.Outcomes.Len()), int(h.EffectsCount)
			for i := range h.Outcomes.Len() {
				if !h.Outcomes.Succeeded(i) {
					b.Failed++
				}
			}
			if p, err := wire.DecodeHeader(before); err == nil {
				since := float64(h.BlockTime-p.BlockTime) / 1e6
				b.Since = &since
			}
		}
		out = append(out, b)
		return nil
	}, `SELECT b.number, b.header, p.header, coalesce(json_length(c.votes), 0) FROM %L.block b LEFT JOIN %L.block p ON p.number = b.number - 1`+certifiedBy+
		`WHERE b.number <= ? ORDER BY b.number DESC LIMIT ?`, orLast(upTo), limit)
	return out, err
}

// LastAfter implements [explorer.Moment].
func (m *pagesMoment) LastAfter(ctx context.Context, number int64, limit int) (last int64, err error) {
	err = m.rows(ctx, func(rows *sql.Rows) error { return rows.Scan(&last) },
		`SELECT number FROM %L.block WHERE number > ? ORDER BY number LIMIT ?`, number, limit)
	return last, err
}

// Header implements [explorer.Moment].
func (m *pagesMoment) Header(ctx context.Context, number int64) (explorer.Header, error) {
	out := explorer.Header{Number: number}
	var raw []byte
	err := m.q.QueryRowContext(ctx, m.name.in(`SELECT b.header, b.hash, c.number IS NOT NULL FROM %L.block b`+certifiedBy+`WHERE b.number = ?`), number).
		Scan(&raw, &out.Hash, &out.Certified)
	if errors.Is(err, sql.ErrNoRows) {
		err = explorer.ErrNone
	}
	if h, bad := wire.DecodeHeader(raw); err == nil && bad == nil {
		out.OrderHeight, out.PreviousHash, out.StateRoot = int64(h.OrderHeight), h.Previous[:], h.StateRoot[:]
	}
	return out, err
}

// BlockWithHash implements [explorer.Moment]. Cost: a look at every block.
func (m *pagesMoment) BlockWithHash(ctx context.Context, hash []byte) (number int64, err error) {
	err = m.q.QueryRowContext(ctx, m.name.in(`SELECT number FROM %L.block WHERE hash = ? LIMIT 1`), hash).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		err = explorer.ErrNone
	}
	return number, err
}

// certificates calls f for each certificate of a query; votes that cannot be read are left out.
func (m *pagesMoment) certificates(ctx context.Context, f func(number int64, votes []wire.CertifiedVote), where string, arguments ...any) error {
	return m.rows(ctx, func(rows *sql.Rows) error {
		var number int64
		var text []byte
		if err := rows.Scan(&number, &text); err != nil {
			return err
		}
		if votes, err := wire.VotesFromJSON(text); err == nil {
			f(number, votes)
		}
		return nil
	}, `SELECT c.number, c.votes FROM %L.certificate c JOIN %L.block b ON b.number = c.number AND b.hash = c.hash WHERE `+where, arguments...)
}

// Votes implements [explorer.Moment].
func (m *pagesMoment) Votes(ctx context.Context, number int64, limit int) (out []explorer.CertificateVote, err error) {
	err = m.certificates(ctx, func(_ int64, votes []wire.CertifiedVote) {
		for _, v := range votes[:min(len(votes), limit)] {
			validator, signature, height := hex.EncodeToString(v.Validator), hex.EncodeToString(v.Signature), strconv.FormatInt(v.Height, 10)
			out = append(out, explorer.CertificateVote{Organisation: &v.Organisation, Validator: &validator, OrderHeight: &height, Signature: &signature})
		}
	}, `c.number = ?`, number)
	return out, err
}

// CastVotes implements [explorer.Moment].
func (m *pagesMoment) CastVotes(ctx context.Context, from int64, limit int) (out []explorer.CastVote, err error) {
	err = m.certificates(ctx, func(number int64, votes []wire.CertifiedVote) {
		for _, v := range votes[:min(len(votes), limit-len(out))] {
			out = append(out, explorer.CastVote{Block: number, Organisation: v.Organisation})
		}
	}, `c.number >= ? ORDER BY c.number LIMIT ?`, from, limit)
	return out, err
}

// Organisations implements [explorer.Moment]: those that signed one of the newest certificates.
func (m *pagesMoment) Organisations(ctx context.Context, limit int) ([]explorer.Organisation, error) {
	known, counted := map[string]*explorer.Organisation{}, 0
	err := m.certificates(ctx, func(number int64, votes []wire.CertifiedVote) {
		counted++
		for _, v := range votes {
			o := known[v.Organisation]
			if o == nil {
				o = &explorer.Organisation{Name: v.Organisation, LastVote: &number}
				known[v.Organisation] = o
			}
			o.Voted++
		}
	}, `TRUE ORDER BY c.number DESC LIMIT ?`, certificatesCounted)
	var out []explorer.Organisation
	for _, name := range slices.Sorted(maps.Keys(known))[:min(len(known), limit)] {
		known[name].Certified = counted
		out = append(out, *known[name])
	}
	return out, err
}

// Tables implements [explorer.Moment].
func (m *pagesMoment) Tables(ctx context.Context, limit int) (out []explorer.Table, err error) {
	err = m.rows(ctx, func(rows *sql.Rows) error {
		var t explorer.Table
		err := rows.Scan(&t.Name, &t.AttachedAt, &t.Rows, &t.ScrubbedAt)
		out = append(out, t)
		return err
	}, `SELECT t.name, t.attached_at, t.row_count, s.well_at FROM %L.ledger_table t LEFT JOIN %L.scrub s ON s.table_id = t.id
		WHERE t.detached_at IS NULL ORDER BY t.name LIMIT ?`, limit)
	return out, err
}

// Procedures implements [explorer.Moment].
func (m *pagesMoment) Procedures(ctx context.Context, limit int) (out []explorer.Procedure, err error) {
	err = m.rows(ctx, func(rows *sql.Rows) error {
		var p explorer.Procedure
		var words [2]sql.NullString
		err := rows.Scan(&p.Name, &p.Signature, &p.AttachedAt, &words[0], &words[1])
		for i, engine := range []string{"MariaDB", "PostgreSQL"} {
			if words[i].Valid {
				p.Engines, p.Digests = append(p.Engines, engine), append(p.Digests, words[i].String)
			}
		}
		out = append(out, p)
		return err
	}, `SELECT name, signature, attached_at, lower(hex(mariadb)), lower(hex(postgresql)) FROM %L.ledger_procedure WHERE detached_at IS NULL ORDER BY name LIMIT ?`, limit)
	return out, err
}

// kinds are those that PostgreSQL's view names otherwise than sql.
var kinds = map[wire.Kind]string{wire.Kind_KIND_DEPLOY: "deploy", wire.Kind_KIND_EFFECTS: "effects", wire.Kind_KIND_PLAN: "plan"}

const transactionColumns = `SELECT t.block, t.place, t.id, t.outcome, t.row_count, t.sql_state, t.error, t.raw, b.header
	FROM %L.transaction t LEFT JOIN %L.block b ON b.number = t.block `

// transactionOf reads a row of transactionColumns. Bytes that encode none have no organisation.
func transactionOf(rows *sql.Rows) (t explorer.Transaction, err error) {
	var state, message string
	var raw, header []byte
	if err := rows.Scan(&t.Block, &t.Index, &t.ID, &t.Succeeded, &t.Rows, &state, &message, &raw, &header); err != nil {
		return t, err
	}
	if state != "" {
		message = shortened(message, explorer.ErrorShown)
		t.SQLState, t.Error = &state, &message
	}
	t.Time = timeOf(header)
	x, err := wire.DecodeChainedTx(raw)
	if err != nil {
		return t, nil
	}
	kind := kinds[x.Proposal.Kind]
	if kind == "" {
		kind = "sql"
	}
	t.Organisation, t.Role, t.Kind, t.SQL, t.ClientKey = &x.Proposal.Client.Organisation, &x.Proposal.Client.Role, &kind, &x.Proposal.Sql, x.Proposal.Client.Key
	type parameter struct {
		Type  *string `json:"type"`
		Value *string `json:"value"`
	}
	parameters := make([]parameter, len(x.Proposal.Parameters))
	for i, p := range x.Proposal.Parameters {
		if p.Type != "" {
			parameters[i].Type = &p.Type
		}
		if !p.Null {
			parameters[i].Value = &p.Text
		}
	}
	t.Parameters, err = json.Marshal(parameters)
	return t, err
}

// timeOf is that of a block's header; nil: it is none.
func timeOf(header []byte) *time.Time {
	h, err := wire.DecodeHeader(header)
	if err != nil {
		return nil
	}
	at := time.UnixMicro(h.BlockTime).UTC()
	return &at
}

// shortened is the beginning of a text, whole characters of at most so many bytes.
func shortened(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// Transactions implements [explorer.Moment].
func (m *pagesMoment) Transactions(ctx context.Context, number, from int64, limit, statement int) (out []explorer.Transaction, err error) {
	err = m.rows(ctx, func(rows *sql.Rows) error {
		t, err := transactionOf(rows)
		if t.Parameters = nil; t.SQL != nil {
			text := strings.Clone(shortened(*t.SQL, statement+1)) // the whole is not kept for it
			t.SQL = &text
		}
		out = append(out, t)
		return err
	}, transactionColumns+`WHERE t.block = ? AND t.place >= ? ORDER BY t.place LIMIT ?`, number, from, limit)
	return out, err
}

// Transaction implements [explorer.Moment].
func (m *pagesMoment) Transaction(ctx context.Context, id []byte) (t explorer.Transaction, err error) {
	found := false
	err = m.rows(ctx, func(rows *sql.Rows) (err error) {
		found = true
		t, err = transactionOf(rows)
		return err
	}, transactionColumns+`WHERE t.id = ? ORDER BY t.block LIMIT 1`, id)
	if err == nil && !found {
		err = explorer.ErrNone
	}
	return t, err
}

// version is a version of a table on the ledger.
type version struct {
	id    int64
	table *canonical.Table // as it was attached; nil: its schema text is none
}

// LedgerTables implements [explorer.Moment].
func (m *pagesMoment) LedgerTables(ctx context.Context, limit int) (out []explorer.LedgerTable, err error) {
	err = m.rows(ctx, func(rows *sql.Rows) error {
		var t explorer.LedgerTable
		var v version
		var text string
		if err := rows.Scan(&v.id, &t.Name, &text, &t.Current); err != nil {
			return err
		}
		if described, err := canonical.ParseSchemaText(t.Name, text); err == nil {
			v.table, t.Key = described, described.PrimaryKey
		}
		t.Handle = v
		out = append(out, t)
		return nil
	}, `SELECT id, name, schema_text, detached_at IS NULL FROM %L.ledger_table ORDER BY name, attached_at DESC LIMIT ?`, limit)
	return out, err
}

// rowText is a column of the history; NULL: too large for a page.
var rowText = fmt.Sprintf(`if(length(h.row_bytes) <= %d, h.row_bytes, NULL)`, explorer.RowBytesMax)

// inWords is an encoded row as a JSON object of texts; nil: it is none, or its table is unknown.
// Ordinals of columns on a ledger of several engines count from 1 without gaps.
func inWords(t *canonical.Table, row []byte) json.RawMessage {
	columns, err := canonical.DecodeRow(row)
	if row == nil || t == nil || err != nil {
		return nil
	}
	words := map[string]*string{}
	for _, c := range t.Columns {
		words[c.Name] = nil
		if i := indexOf(columns, c.Ordinal); i >= 0 {
			text := canonical.FormatText(c.Type, &columns[i].Value)
			words[c.Name] = &text
		}
	}
	out, err := json.Marshal(words)
	if err != nil {
		return nil
	}
	return out
}

// Changes implements [explorer.Moment].
func (m *pagesMoment) Changes(ctx context.Context, tables []explorer.LedgerTable, number int64, index, limit int) (out []explorer.Change, err error) {
	places := map[int64]int{}
	for i := range tables {
		if v, known := tables[i].Handle.(version); known {
			places[v.id] = i
		}
	}
	err = m.rows(ctx, func(rows *sql.Rows) error {
		var c explorer.Change
		var id int64
		var row []byte
		if err := rows.Scan(&id, &c.Serial, &c.Operation, &row); err != nil {
			return err
		}
		place, known := places[id]
		if known {
			c.Table, c.Row = place, inWords(tables[place].Handle.(version).table, row)
			out = append(out, c)
		}
		return nil
	}, `SELECT h.table_id, h.serial, h.op, `+rowText+` FROM %L.history h WHERE h.block = ? AND h.tx = ? ORDER BY h.serial, h.place LIMIT ?`, number, index, limit)
	return out, err
}

// keyOf encodes the values of a key, given in the order of the primary key.
func keyOf(t *canonical.Table, key []string) ([]byte, error) {
	if t == nil || len(key) != len(t.PrimaryKey) {
		return nil, &explorer.Refusal{Reason: explorer.NoKey, Said: "The key has other columns than were given."}
	}
	var columns []canonical.Column
	for _, c := range t.Columns {
		i := slices.Index(t.PrimaryKey, c.Name)
		if i < 0 {
			continue
		}
		v, err := canonical.ParseText(c.Type, key[i])
		if err != nil {
			return nil, &explorer.Refusal{Reason: explorer.NoKey, Said: fmt.Sprintf("Column %s is of type %s.", c.Name, c.Type)}
		}
		columns = append(columns, canonical.Column{Ordinal: c.Ordinal, Value: v})
	}
	return canonical.AppendRow(nil, columns)
}

// History implements [explorer.Moment]: all that is kept since the table was attached.
func (m *pagesMoment) History(ctx context.Context, table explorer.LedgerTable, key []string, limit int) ([]explorer.RowChange, error) {
	v, _ := table.Handle.(version)
	encoded, err := keyOf(v.table, key)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(encoded)
	var out []explorer.RowChange
	return out, m.rows(ctx, func(rows *sql.Rows) error {
		var c explorer.RowChange
		var row, header, raw []byte
		if err := rows.Scan(&c.Block, &c.Index, &c.Operation, &row, &header, &c.Transaction, &raw); err != nil {
			return err
		}
		c.Row, c.Time = inWords(v.table, row), timeOf(header)
		if x, err := wire.DecodeChainedTx(raw); err == nil {
			organisation, role := strings.Clone(x.Proposal.Client.Organisation), strings.Clone(x.Proposal.Client.Role)
			c.Organisation, c.Role = &organisation, &role
		}
		out = append(out, c)
		return nil
	}, `SELECT h.block, h.tx, h.op, `+rowText+`, b.header, t.id, t.raw FROM %L.history h LEFT JOIN %L.block b ON b.number = h.block
		LEFT JOIN %L.transaction t ON t.block = h.block AND t.place = h.tx
		WHERE h.table_id = ? AND h.key_hash = ? ORDER BY h.block DESC, h.place DESC LIMIT ?`, v.id, hash[:], limit)
}

// OpenDeviations implements [explorer.Moment].
func (m *pagesMoment) OpenDeviations(ctx context.Context) (n int, err error) {
	err = m.q.QueryRowContext(ctx, m.name.in(`SELECT count(*) FROM %L.deviation WHERE cured_by IS NULL`)).Scan(&n)
	return n, err
}

// Deviations implements [explorer.Moment].
func (m *pagesMoment) Deviations(ctx context.Context, before int64, limit int) (out []explorer.Deviation, err error) {
	err = m.rows(ctx, func(rows *sql.Rows) error {
		var d explorer.Deviation
		err := rows.Scan(&d.ID, &d.Block, &d.FoundBy, &d.Rows, &d.CuredBy, &d.Started, &d.Took)
		out = append(out, d)
		return err
	}, `SELECT id, block, found_by, rows_total, cured_by, started_at, CAST(took_ms AS DOUBLE) / 1000 FROM %L.deviation WHERE id < ? ORDER BY id DESC LIMIT ?`, orLast(before), limit)
	return out, err
}

// DeviatingRows implements [explorer.Moment].
func (m *pagesMoment) DeviatingRows(ctx context.Context, ids []int64, each int) (out []explorer.DeviatingRow, err error) {
	small := func(column string) string {
		return fmt.Sprintf("if(length(%s) <= %d, %[1]s, NULL)", column, explorer.RowBytesMax)
	}
	for _, id := range ids {
		err := m.rows(ctx, func(rows *sql.Rows) error {
			d := explorer.DeviatingRow{Deviation: id}
			err := rows.Scan(&d.Table, (*[]byte)(&d.Key), (*[]byte)(&d.Expected), (*[]byte)(&d.Found))
			out = append(out, d)
			return err
		}, `SELECT name, `+small("row_key")+`, `+small("expected")+`, `+small("found")+` FROM %L.deviation_row WHERE deviation = ? ORDER BY place LIMIT ?`, id, each)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

var errNotOffered = errors.New("a MariaDB does not offer this")

// ReceiptOfTransaction implements [explorer.Moment]; not offered.
func (m *pagesMoment) ReceiptOfTransaction(context.Context, []byte) (string, error) {
	return "", errNotOffered
}

// ReceiptOfRow implements [explorer.Moment]; not offered.
func (m *pagesMoment) ReceiptOfRow(context.Context, string, []string) (string, error) {
	return "", errNotOffered
}

// Mirrors implements [explorer.Moment]; not offered.
func (m *pagesMoment) Mirrors(context.Context, int) ([]explorer.Mirror, error) {
	return nil, errNotOffered
}

// Snapshots implements [explorer.Moment]; not offered.
func (m *pagesMoment) Snapshots(context.Context, int) ([]explorer.Snapshot, error) {
	return nil, errNotOffered
}

// Ask implements [explorer.Moment]; not offered.
func (m *pagesMoment) Ask(context.Context, int64, string, int) ([]string, []json.RawMessage, error) {
	return nil, nil, errNotOffered
}
