package explorer

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

const answerRows = 100 // shown of an answer

type analyticsBody struct {
	Offered   bool // the database has a worker, or can have one
	Mirrors   []Mirror
	Snapshots []Snapshot
	SQL       string
	Block     int64 // 0: the last one
	Asked     bool
	Answered  int64 // the block whose rows the answer has
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
	body := analyticsBody{Offered: e.db.Offers().Analytics, SQL: strings.TrimSpace(r.URL.Query().Get("sql")), Block: block}
	body.Asked = body.SQL != ""
	if body.Offered {
		err = e.db.Read(r.Context(), func(m Moment) error { return body.look(r, m) })
	}
	if err == nil && body.Offered && body.Asked {
		err = e.db.Read(r.Context(), func(m Moment) error { return body.ask(r, m) })
		var refused *Refusal
		if errors.As(err, &refused) && refused.Reason != TooSlow {
			body.Refused, err = refused.Said, nil
		}
	}
	if err != nil {
		return err
	}
	return e.show(w, r, http.StatusOK, "analytics", "/analytics", "Analytics", body)
}

func (b *analyticsBody) look(r *http.Request, m Moment) (err error) {
	if b.Mirrors, err = m.Mirrors(r.Context(), answerRows); err != nil || len(b.Mirrors) == 0 {
		return err
	}
	b.Snapshots, err = m.Snapshots(r.Context(), answerRows)
	return err
}

// ask has the worker answer.
func (b *analyticsBody) ask(r *http.Request, m Moment) error {
	b.Answered = b.Block
	if b.Block == 0 {
		last, err := m.Blocks(r.Context(), 0, 1)
		if err != nil {
			return err
		}
		for _, l := range last {
			b.Answered = l.Number
		}
	}
	columns, found, err := m.Ask(r.Context(), b.Answered, b.SQL, answerRows+1)
	if err != nil {
		return err
	}
	b.Columns, b.More = columns, len(found) > answerRows
	for _, f := range found[:min(len(found), answerRows)] {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(f, &object); err != nil {
			return err
		}
		row := make([]value, len(columns))
		for i, name := range columns {
			row[i] = valueOf(object[name])
		}
		b.Rows = append(b.Rows, row)
	}
	return nil
}
