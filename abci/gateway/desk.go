package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	deskAtOnce     = 500                   // requests taken together
	deskWaitingMax = 10_000                // transactions of requests without outcome
	deskQuick      = 2 * time.Millisecond  // from one look to the next, after one that found something
	deskIdle       = 50 * time.Millisecond // the longest pause
	deskRetry      = time.Second           // while the database does not answer
	deskLimit      = 10 * time.Second      // for one look
	deskForgets    = waitMax + time.Minute // no client waits for longer
)

// Desk submits transactions that clients put into a table, in a database without a connection to
// the node (MariaDB). Only the goroutine of Run uses it. Cost: a query for each look, 20 a second
// where nobody asks.
type Desk struct {
	Database backend.Desk
	Gateway  *Gateway
	Now      func() time.Time
	Log      *slog.Logger

	waiting map[wire.TxID]fromDesk // submitted, and without outcome
}

// fromDesk is a request whose transaction was submitted.
type fromDesk struct {
	number uint64
	since  time.Time
}

// Run looks until ctx ends.
func (d *Desk) Run(ctx context.Context) {
	d.waiting = map[wire.TxID]fromDesk{}
	wait, failed := deskQuick, false
	for ctx.Err() == nil {
		found, err := d.look(ctx)
		switch {
		case err != nil:
			if !failed && ctx.Err() == nil {
				d.Log.Warn("requests of clients in the database cannot be looked for", "error", err)
			}
			wait = deskRetry
		case found > 0:
			wait = deskQuick
		default:
			wait = min(2*wait, deskIdle)
		}
		failed = err != nil
		pause(ctx, wait)
	}
}

// look answers the requests in the table, and returns their number.
func (d *Desk) look(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, deskLimit)
	defer cancel()
	if err := d.settle(ctx); err != nil {
		return 0, err
	}
	room := min(deskAtOnce, deskWaitingMax-len(d.waiting))
	if room <= 0 {
		return 0, nil
	}
	asked, err := d.Database.Asked(ctx, room)
	if err != nil || len(asked) == 0 {
		return 0, err
	}
	made := map[uint64]*entry{}
	answers := make([]backend.Answer, len(asked))
	for i := range asked {
		e, err := d.prepare(&asked[i])
		if answers[i] = refusalOf(asked[i].Number, err); err == nil {
			answers[i].Transaction, made[asked[i].Number] = e.id, e
		}
	}
	taken, err := d.Database.Take(ctx, answers)
	if err != nil {
		return 0, err
	}
	for _, number := range taken {
		if e := made[number]; e != nil {
			err = errors.Join(err, d.submit(ctx, number, e))
		}
	}
	return len(asked), err
}

// submit queues a transaction whose client knows its id by now.
func (d *Desk) submit(ctx context.Context, number uint64, e *entry) error {
	if _, err := d.Gateway.enqueue(e.role, []*entry{e}); err != nil {
		return d.Database.Change(ctx, refusalOf(number, err))
	}
	d.waiting[e.id] = fromDesk{number, d.Now()}
	return nil
}

// prepare makes the transaction of a request.
func (d *Desk) prepare(a *backend.Asked) (*entry, error) {
	body := submission{SQL: a.SQL, Kind: a.Kind}
	var err error
	if body.Parameters, err = parametersOf(a.Parameters); err != nil {
		return nil, err
	}
	s, err := body.statement()
	if err == nil {
		err = d.Gateway.Admit("role "+a.Role, 1)
	}
	if err != nil {
		return nil, err
	}
	made, err := d.Gateway.prepare(a.Role, []*wire.Statement{s})
	if err != nil {
		return nil, err
	}
	return made[0], nil
}

// parametersOf reads a JSON array of texts, numbers, booleans and nulls. Each gets the type of the
// column beside it.
func parametersOf(text string) ([]jsonParameter, error) {
	if text == "" {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var values []any
	if err := d.Decode(&values); err != nil || d.More() {
		return nil, malformed("parameters: want a JSON array, such as '[7, \"text\", null]'")
	}
	out := make([]jsonParameter, len(values))
	for i, value := range values {
		var spelt string
		switch v := value.(type) {
		case nil:
			continue
		case string:
			spelt = v
		case json.Number:
			spelt = v.String()
		case bool:
			spelt = map[bool]string{true: "true", false: "false"}[v]
		default:
			return nil, malformed("parameters[%d]: want a text, a number, true, false or null", i)
		}
		out[i].Value = &spelt
	}
	return out, nil
}

// settle answers clients whose transactions the order refused. The database itself answers the
// others.
func (d *Desk) settle(ctx context.Context) error {
	ids := make([]wire.TxID, 0, len(d.waiting))
	for id, a := range d.waiting {
		if d.Now().Sub(a.since) > deskForgets {
			delete(d.waiting, id)
			continue
		}
		ids = append(ids, id)
	}
	for _, r := range d.Gateway.known(ids) {
		if r.Block == 0 {
			a := backend.Answer{Number: d.waiting[r.ID].number, Transaction: r.ID, SQLState: r.SQLState, Message: r.Message}
			if err := d.Database.Change(ctx, a); err != nil {
				return err
			}
		}
		delete(d.waiting, r.ID)
	}
	return nil
}

// refusalOf makes the answer to a request that was not submitted; its SQLState is empty when err is
// nil.
func refusalOf(number uint64, err error) backend.Answer {
	if err == nil {
		return backend.Answer{Number: number}
	}
	e := asError(err)
	return backend.Answer{Number: number, SQLState: e.SQLState, Message: strings.TrimSpace(e.Message + ". " + e.Detail)}
}
