package explorer

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const answerRows = 100 // shown of an answer

type mirror struct {
	Table   string
	Rows    *int64
	Bytes   *int64
	Shared  *float64 // part of its chunks that snapshots share
	Block   *int64
	Lag     *int64
	Checked *int64
	State   string
	Error   *string
}

type snapshot struct {
	Name    *string
	Block   int64
	Pinned  bool
	Readers *int64
}

type analyticsBody struct {
	Mirrors   []mirror
	Snapshots []snapshot
	SQL       string
	Block     int64 // 0: the last one
	Asked     bool
	Columns   []string
	Rows      [][]value
	More      bool
	Refused   string // why there is no answer
}

// analytics shows what the analytics worker has, and its answer to one query.
func (e *Explorer) analytics(w http.ResponseWriter, r *http.Request) error {
	block, err := position(r, "block")
	if err != nil {
		return err
	}
	body := analyticsBody{SQL: strings.TrimSpace(r.URL.Query().Get("sql")), Block: block}
	body.Asked = body.SQL != ""
	err = e.db.read(r.Context(), func(tx pgx.Tx) (err error) {
		if body.Mirrors, err = list[mirror](r.Context(), tx, `
			SELECT m."table", m.rows, m.bytes, m.chunks_shared::float8 / nullif(m.chunks, 0), m.block, m.lag, m.digest_checked, m.state, m.error
			FROM chainify.mirrors m ORDER BY m."table" COLLATE "C" LIMIT $1`, answerRows); err != nil || len(body.Mirrors) == 0 {
			return err
		}
		body.Snapshots, err = list[snapshot](r.Context(), tx, `
			SELECT s.name, s.block, s.pinned, s.readers FROM chainify.snapshots s ORDER BY s.block DESC, s.name COLLATE "C" LIMIT $1`, answerRows)
		return err
	})
	if err == nil && body.Asked {
		err = e.db.read(r.Context(), func(tx pgx.Tx) error { return body.ask(r, tx) })
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code != "57014" {
			body.Refused, err = wordsOf(refused), nil
		}
	}
	if err != nil {
		return err
	}
	return e.show(w, r, http.StatusOK, "analytics", "/analytics", "Analytics", body)
}

// ask has the worker answer. The text is translated, with chainify_reader's rights: it is never a
// statement of the database.
func (b *analyticsBody) ask(r *http.Request, tx pgx.Tx) error {
	err := tx.QueryRow(r.Context(), `SELECT t.names FROM chainify.translate_query($1) t`, b.SQL).Scan(&b.Columns)
	if err != nil {
		return err
	}
	found, err := list[struct{ Row json.RawMessage }](r.Context(), tx,
		`SELECT q.o FROM chainify.query_at_json(nullif($1, 0), $2) q (o) LIMIT $3`, b.Block, b.SQL, answerRows+1)
	if err != nil {
		return err
	}
	b.More = len(found) > answerRows
	for _, f := range found[:min(len(found), answerRows)] {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(f.Row, &object); err != nil {
			return err
		}
		row := make([]value, len(b.Columns))
		for i, name := range b.Columns {
			row[i] = valueOf(object[name])
		}
		b.Rows = append(b.Rows, row)
	}
	return nil
}
