package explorer

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// page is the data that every page has.
type page struct {
	Title        string
	At           string // path of the entry of the menu that is current
	Chain        string
	Organisation string
	Query        string // of the search box
	Body         any
}

// show writes a page, whole or not at all.
func (e *Explorer) show(w http.ResponseWriter, r *http.Request, code int, name, at, title string, body any) error {
	s := e.opt.Status(r.Context())
	var out bytes.Buffer
	err := pages[name].ExecuteTemplate(&out, "page", page{
		Title: title, At: at, Chain: s.ChainId, Organisation: s.Organisation, Query: r.URL.Query().Get("q"), Body: body,
	})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	w.Write(out.Bytes()) // a client that went away is no error of ours
	return nil
}

type blocksBody struct {
	Blocks       []Block
	Newer, Older int64 // where those pages begin; 0: there are none
}

func (e *Explorer) blocks(w http.ResponseWriter, r *http.Request) error {
	upTo, err := position(r, "to")
	if err != nil {
		return err
	}
	var body blocksBody
	err = e.db.Read(r.Context(), func(m Moment) error {
		found, err := m.Blocks(r.Context(), upTo, pageBlocks+1)
		if err != nil {
			return err
		}
		body.Blocks = found[:min(len(found), pageBlocks)]
		if len(found) > pageBlocks {
			body.Older = found[pageBlocks].Number
		}
		if upTo > 0 {
			body.Newer, err = m.LastAfter(r.Context(), upTo, pageBlocks)
		}
		return err
	})
	if err != nil {
		return err
	}
	return e.show(w, r, http.StatusOK, "blocks", "/blocks", "Blocks", body)
}

type blockBody struct {
	Block        Block
	Header       Header
	VotesCast    []CertificateVote
	Transactions []Transaction
	First, Next  int // of the transactions; Next 0: there are no more
	Later        bool
}

func (e *Explorer) block(w http.ResponseWriter, r *http.Request) error {
	number, err := strconv.ParseInt(r.PathValue("number"), 10, 64)
	if err != nil || number < 1 {
		return notFound("A block's number is a positive integer.")
	}
	from, err := position(r, "from")
	if err != nil {
		return err
	}
	body := blockBody{First: int(from)}
	err = e.db.Read(r.Context(), func(m Moment) (err error) {
		if body.Header, err = m.Header(r.Context(), number); err != nil {
			return err
		}
		found, err := m.Blocks(r.Context(), number, 1)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return ErrNone
		}
		body.Block = found[0]
		if body.VotesCast, err = m.Votes(r.Context(), number, votesMax); err != nil {
			return err
		}
		body.Transactions, err = m.Transactions(r.Context(), number, from, pageTransactions, statementShown)
		if err == nil && body.First+len(body.Transactions) < body.Block.Transactions {
			body.Next = body.First + len(body.Transactions)
		}
		if err != nil {
			return err
		}
		later, err := m.LastAfter(r.Context(), number, 1)
		body.Later = later == number+1
		return err
	})
	if errors.Is(err, ErrNone) {
		return notFound("This database has no block " + strconv.FormatInt(number, 10) + ".")
	}
	if err != nil {
		return err
	}
	return e.show(w, r, http.StatusOK, "block", "/blocks", "Block "+strconv.FormatInt(number, 10), body)
}

type parameter struct {
	Type  *string `json:"type"`
	Value *string `json:"value"`
}

// changedRow is a change of a transaction, with where to read the row's history; Key is nil where
// that cannot be asked for.
type changedRow struct {
	Table     string
	Operation string
	Key       []string
	Cells     []cell
}

type transactionBody struct {
	Transaction
	Certified bool
	Receipts  bool // of a certified transaction there is one
	Given     []parameter
	Changes   []changedRow
	More      bool
}

// ChangedTables are the tables of the changes shown, in the order in which they first changed.
func (b transactionBody) ChangedTables() (names []string) {
	for _, c := range b.Changes {
		if !slices.Contains(names, c.Table) {
			names = append(names, c.Table)
		}
	}
	return names
}

func (e *Explorer) transaction(w http.ResponseWriter, r *http.Request) error {
	id, err := transactionID(r)
	if err != nil {
		return err
	}
	body := transactionBody{Receipts: e.db.Offers().Receipts}
	err = e.db.Read(r.Context(), func(m Moment) (err error) {
		if body.Transaction, err = m.Transaction(r.Context(), id); err != nil {
			return err
		}
		h, err := m.Header(r.Context(), body.Block)
		if err != nil && !errors.Is(err, ErrNone) {
			return err
		}
		body.Certified = h.Certified
		body.Given = parametersOf(body.Parameters)
		if !body.Succeeded {
			return nil
		}
		tables, err := m.LedgerTables(r.Context(), tablesMax)
		if err != nil {
			return err
		}
		changes, err := m.Changes(r.Context(), tables, body.Block, body.Index, changesMax+1)
		body.More = len(changes) > changesMax
		for _, c := range changes[:min(len(changes), changesMax)] {
			body.Changes = append(body.Changes, changedRowOf(tables[c.Table], c))
		}
		return err
	})
	if errors.Is(err, ErrNone) {
		return notFound("This database has no transaction " + hex.EncodeToString(id) + ". It may still wait for its block, or the order refused it.")
	}
	if err != nil {
		return err
	}
	return e.show(w, r, http.StatusOK, "transaction", "/blocks", "Transaction "+hex.EncodeToString(id)[:shortHash], body)
}

func changedRowOf(t LedgerTable, c Change) changedRow {
	out := changedRow{Table: t.Name, Operation: c.Operation, Cells: compare(t.Key, nil, c.Row)}
	if c.Operation == "D" {
		out.Cells = compare(t.Key, c.Row, nil)
	}
	if key, ok := keyOf(t.Key, c.Row); ok && t.Current {
		out.Key = key
	}
	return out
}

type rowBody struct {
	Table    LedgerTable
	Key      []string
	Tables   []LedgerTable // to choose from, when no row is asked for
	Changes  []rowStep
	More     bool
	Asked    bool
	Receipts bool // of the last change there is one
}

// rowStep is one change of a row beside what it was before.
type rowStep struct {
	RowChange
	Cells         []cell
	Before, After bool // there was a row before as far as is known, and after
}

func (e *Explorer) row(w http.ResponseWriter, r *http.Request) error {
	name, key := r.URL.Query().Get("table"), r.URL.Query()["key"]
	body := rowBody{Key: key, Asked: len(key) > 0, Receipts: e.db.Offers().Receipts}
	err := e.db.Read(r.Context(), func(m Moment) (err error) {
		tables, err := m.LedgerTables(r.Context(), tablesMax)
		if err != nil {
			return err
		}
		var known bool
		body.Table, known = tableNamed(tables, name)
		if !known {
			if name != "" {
				return notFound("No table " + name + " is or was on the ledger.")
			}
			body.Tables = currentTables(tables)
			return nil
		}
		if !body.Asked {
			return nil
		}
		changes, err := m.History(r.Context(), body.Table, key, changesMax+1)
		body.More = len(changes) > changesMax
		body.Changes = steps(body.Table.Key, changes)
		return err
	})
	if err != nil {
		return err
	}
	return e.show(w, r, http.StatusOK, "row", "/rows", titleOfRow(body), body)
}

func titleOfRow(b rowBody) string {
	if b.Table.Name == "" {
		return "A row through time"
	}
	title := "Rows of " + b.Table.Name
	if b.Asked {
		title = b.Table.Name
		for _, k := range b.Key {
			title += " / " + shorten(k).Text
		}
	}
	return title
}

func currentTables(tables []LedgerTable) []LedgerTable {
	var out []LedgerTable
	for _, t := range tables {
		if t.Current {
			out = append(out, t)
		}
	}
	return out
}

// steps puts each change beside the one before it. Of changes, the newest first, the last is only
// looked at when there are more than are shown.
func steps(key []string, changes []RowChange) []rowStep {
	var out []rowStep
	for i, c := range changes[:min(len(changes), changesMax)] {
		s := rowStep{RowChange: c, After: c.Operation != "D", Before: c.Operation == "D"}
		before, after := c.Row, c.Row
		switch {
		case c.Row == nil: // too large
			before = nil
		case c.Operation == "I":
			before = nil
		case c.Operation == "D":
			after = nil
		case i+1 < len(changes):
			before, s.Before = changes[i+1].Row, true
		default:
			before = nil
		}
		s.Cells = compare(key, before, after)
		out = append(out, s)
	}
	return out
}

type deviationBody struct {
	Deviation
	Differing []differing
	More      int64
}

// differing is one thing that was otherwise than agreed.
type differing struct {
	Table           string
	Key             []cell
	Cells           []cell
	Expected, Found value // what is no row
	Row             bool
}

type deviationsBody struct {
	Deviations []deviationBody
	Older      int64
}

func (e *Explorer) deviations(w http.ResponseWriter, r *http.Request) error {
	before, err := position(r, "before")
	if err != nil {
		return err
	}
	var body deviationsBody
	err = e.db.Read(r.Context(), func(m Moment) error {
		found, err := m.Deviations(r.Context(), before, pageDeviations+1)
		if err != nil {
			return err
		}
		if len(found) > pageDeviations {
			found, body.Older = found[:pageDeviations], found[pageDeviations-1].ID
		}
		ids := make([]int64, len(found))
		for i, d := range found {
			ids[i] = d.ID
		}
		rows, err := m.DeviatingRows(r.Context(), ids, deviationRowsMax)
		for _, d := range found {
			body.Deviations = append(body.Deviations, deviationBodyOf(d, rows))
		}
		return err
	})
	if err != nil {
		return err
	}
	return e.show(w, r, http.StatusOK, "deviations", "/deviations", "Deviations", body)
}

func deviationBodyOf(d Deviation, rows []DeviatingRow) deviationBody {
	out := deviationBody{Deviation: d}
	for _, row := range rows {
		if row.Deviation != d.ID {
			continue
		}
		x := differing{
			Table: row.Table, Key: compare(nil, nil, row.Key), Cells: compare(slices.Sorted(maps.Keys(columns(row.Key))), row.Expected, row.Found),
			Expected: valueOf(row.Expected), Found: valueOf(row.Found),
		}
		x.Row = len(x.Cells) > 0
		out.Differing = append(out.Differing, x)
	}
	out.More = max(0, d.Rows-int64(len(out.Differing)))
	return out
}

func parametersOf(raw []byte) []parameter {
	var out []parameter
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

func (e *Explorer) search(w http.ResponseWriter, r *http.Request) error {
	text := r.URL.Query().Get("q")
	var to string
	err := e.db.Read(r.Context(), func(m Moment) (err error) {
		to, err = find(r.Context(), m, parseSearch(text))
		return err
	})
	if errors.Is(err, ErrNone) {
		return notFound("Nothing on the ledger is called “" + text + "”.")
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// find gives the address of what is sought.
func find(ctx context.Context, m Moment, s sought) (string, error) {
	if s.hash != nil {
		if t, err := m.Transaction(ctx, s.hash); err == nil {
			return "/transactions/" + hex.EncodeToString(t.ID), nil
		} else if !errors.Is(err, ErrNone) {
			return "", err
		}
		at, err := m.BlockWithHash(ctx, s.hash)
		return "/blocks/" + strconv.FormatInt(at, 10), err
	}
	if s.block > 0 {
		_, err := m.Header(ctx, s.block)
		return "/blocks/" + strconv.FormatInt(s.block, 10), err
	}
	tables, err := m.LedgerTables(ctx, tablesMax)
	if err != nil {
		return "", err
	}
	t, known := tableNamed(tables, s.table)
	if !known {
		return "", ErrNone
	}
	return rowAddress("/rows", t.Name, s.key), nil
}

func (e *Explorer) receiptOfTransaction(w http.ResponseWriter, r *http.Request) error {
	id, err := transactionID(r)
	if err != nil {
		return err
	}
	return e.receipt(w, r, "transaction-"+hex.EncodeToString(id)[:shortHash], func(m Moment) (string, error) {
		return m.ReceiptOfTransaction(r.Context(), id)
	})
}

func (e *Explorer) receiptOfRow(w http.ResponseWriter, r *http.Request) error {
	return e.receipt(w, r, "row", func(m Moment) (string, error) {
		return m.ReceiptOfRow(r.Context(), r.URL.Query().Get("table"), r.URL.Query()["key"])
	})
}

func (e *Explorer) receipt(w http.ResponseWriter, r *http.Request, name string, of func(Moment) (string, error)) error {
	if !e.db.Offers().Receipts {
		return notFound("This organisation's database makes no receipts. Another organisation's may.")
	}
	var text string
	err := e.db.Read(r.Context(), func(m Moment) (err error) {
		text, err = of(m)
		return err
	})
	if errors.Is(err, ErrNone) {
		return notFound("There is no such table.")
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="receipt-`+name+`.json"`)
	w.Write([]byte(text + "\n")) // a client that went away is no error of ours
	return nil
}

func transactionID(r *http.Request) ([]byte, error) {
	id, err := hex.DecodeString(r.PathValue("id"))
	if err != nil || len(id) != 32 {
		return nil, notFound("A transaction's id is 64 hexadecimal digits.")
	}
	return id, nil
}

// position is a number of the query, 0 when it is not there.
func position(r *http.Request, name string) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 1<<53 {
		return 0, notFound("“" + text + "” is no place in a list.")
	}
	return n, nil
}
