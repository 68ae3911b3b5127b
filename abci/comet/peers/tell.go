package peers

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cometbft/cometbft/p2p"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// session tells one other organisation of one block. Its goroutine owns the reading.
type session struct {
	peer         p2p.Peer
	organisation string
	requests     chan *wire.StateRequest
	ctx          context.Context
	end          context.CancelFunc
}

// asked takes a request: the first one of a session when there is a place, later ones of that
// session.
func (r *Reactor) asked(peer p2p.Peer, q *wire.StateRequest) {
	open := q.GetOpen()
	if open != nil && !r.signed(peer, open) {
		r.refuse(peer, q, "not signed by an organisation")
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[peer.ID()]
	switch {
	case r.ctx.Err() != nil:
	case s != nil && open != nil: // the one before was given up there
		s.end()
		r.refuse(peer, q, "the session before ends")
	case s != nil:
		select {
		case s.requests <- q:
		default: // asks for more than one thing at a time
			s.end()
		}
	case open == nil:
		r.refuse(peer, q, "no block was opened")
	case r.opt.BytesPerSecond == 0:
		r.refuse(peer, q, "this node tells nothing")
	case !r.place(open.Organisation):
		r.refuse(peer, q, "other organisations are told at the moment")
	default:
		r.begin(peer, q)
	}
}

// signed checks who asks. An open is signed for both nodes, so that whoever sends another's sends
// what could never be right.
func (r *Reactor) signed(peer p2p.Peer, open *wire.StateOpen) bool {
	fits := func(key ed25519.PublicKey) bool {
		return wire.VerifyState(key, r.opt.ChainID, string(peer.ID()), r.opt.NodeID, open)
	}
	if key, known := r.opt.GatewayKey(open.Organisation); known && fits(key) {
		return true
	}
	if !r.opt.Ever(open.Organisation, fits) {
		r.opt.Conduct.Forged(r.Switch, peer, "asked for rows without an organisation's signature", errNoSuchKey)
		return false
	}
	r.opt.Conduct.Accuse(peer.ID(), accuse.OldKey(open.Organisation, "for rows"))
	return false
}

// place reports whether an organisation may be told now: one session each, sessionsMax in all, and
// those that found no place go before one that was told since. Called with mu held.
func (r *Reactor) place(organisation string) bool {
	now, free := r.now(), sessionsMax-len(r.sessions)
	for _, s := range r.sessions {
		if s.organisation == organisation {
			return false
		}
	}
	for other, since := range r.turned {
		switch {
		case now.Sub(since) > turnLimit:
			delete(r.turned, other)
		case other != organisation && r.told[other].Before(r.told[organisation]):
			free--
		}
	}
	if free <= 0 {
		r.turned[organisation] = now // of members alone: they signed
		return false
	}
	delete(r.turned, organisation)
	return true
}

// begin starts the session's goroutine. Called with mu held.
func (r *Reactor) begin(peer p2p.Peer, first *wire.StateRequest) {
	open := first.GetOpen()
	ctx, end := context.WithTimeout(r.ctx, r.opt.SessionLimit)
	s := &session{peer: peer, organisation: open.Organisation, requests: make(chan *wire.StateRequest, 1), ctx: ctx, end: end}
	s.requests <- first
	r.sessions[peer.ID()] = s
	r.work.Go(func() {
		defer r.ended(s)
		t := &telling{reactor: r, session: s, opened: open, looks: map[string]int{}}
		defer t.close()
		started := time.Now()
		r.opt.Log.Info("telling another organisation", "organisation", open.Organisation, "block", open.Block)
		err := t.run()
		r.opt.Log.Info("told another organisation", "organisation", open.Organisation, "bytes", t.sent, "took", time.Since(started), "end", err)
	})
}

// ended makes room for the next session, and refuses what came while this one ended.
func (r *Reactor) ended(s *session) {
	s.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, s.peer.ID())
	r.told[s.organisation] = r.now()
	select {
	case q := <-s.requests:
		r.refuse(s.peer, q, "the session has ended")
	default:
	}
}

// rate is one session's share of the bytes per second.
func (r *Reactor) rate() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return float64(r.opt.BytesPerSecond) / float64(max(1, len(r.sessions)))
}

// refuse answers from a routine that must not wait: what does not fit the queue is not sent.
func (r *Reactor) refuse(peer p2p.Peer, q *wire.StateRequest, why string) {
	if q.GetClose() != nil {
		return
	}
	peer.TrySend(envelope(refusal(q.Request, why)))
}

func refusal(request uint64, why string) *wire.StateMessage {
	return answerOf(request, &wire.StateResponse{Body: &wire.StateResponse_Refusal{Refusal: &wire.StateRefusal{Reason: why}}})
}

func answerOf(request uint64, a *wire.StateResponse) *wire.StateMessage {
	a.Request = request
	return &wire.StateMessage{Body: &wire.StateMessage_Response{Response: a}}
}

// telling is a session's work.
type telling struct {
	reactor *Reactor
	session *session
	opened  *wire.StateOpen
	looks   map[string]int  // scans of each table so far
	reading backend.Reading // of the rows at the end of a block, or
	past    backend.Past    // of blocks
	pages   *pages          // of what was asked for last
	founded bool            // was told what the ledger is built on
	sent    int
}

var (
	errIdle      = errors.New("nothing was asked for a while")
	errClosed    = errors.New("closed by the other side")
	errNotOpened = errors.New("no block was opened for that")
	errAgain     = errors.New("more is asked for than it takes")
	errRowsAlone = errors.New("this organisation's database tells rows, and not what the ledger is built on")
)

// scansMax bounds what is looked through for one session, for each table or for the block: the
// looks that the asking side takes (narrowLooksMax of backend/postgres), then its rows, and some
// more.
const scansMax = 6

// scans counts one more look through a table.
func (t *telling) scans(of string) error {
	known := t.past != nil || slices.ContainsFunc(t.reading.Tables(), func(table backend.TableState) bool { return table.Table == of })
	if !known {
		return errNotOpened
	}
	if t.looks[of] == scansMax {
		return errAgain
	}
	t.looks[of]++
	return nil
}

// run answers request after request until the other closes, is silent, or goes.
func (t *telling) run() error {
	idle := time.NewTimer(t.reactor.idleLimit)
	defer idle.Stop()
	for {
		select {
		case <-t.session.ctx.Done():
			return t.session.ctx.Err()
		case <-idle.C:
			return errIdle
		case q := <-t.session.requests:
			a, err := t.answer(q)
			switch {
			case errors.Is(err, errClosed):
				return nil
			case err != nil:
				t.send(refusal(q.Request, reason(err)))
				return err
			case !t.send(answerOf(q.Request, a)):
				return errors.New("the other side does not take the answer")
			}
			idle.Reset(t.reactor.idleLimit)
		}
	}
}

func (t *telling) send(m *wire.StateMessage) bool { return t.session.peer.Send(envelope(m)) }

// reason is the text of an error for the other side: the database's own words stay here.
func reason(err error) string {
	switch {
	case errors.Is(err, backend.ErrOutOfTurn):
		return "that block cannot be told"
	case errors.Is(err, errRowsAlone):
		return errRowsAlone.Error()
	}
	return "reading failed"
}

func (t *telling) answer(q *wire.StateRequest) (*wire.StateResponse, error) {
	ctx := t.session.ctx
	switch body := q.Body.(type) {
	case *wire.StateRequest_Open:
		if err := t.open(ctx, body.Open); err != nil {
			return nil, err
		}
		tables := t.tables()
		key := t.reactor.opt.Key()
		if key == nil {
			return nil, errNoMember
		}
		if err := wire.SignTables(key, t.reactor.opt.ChainID, string(t.session.peer.ID()), t.reactor.opt.NodeID, t.opened, tables); err != nil {
			return nil, err
		}
		return &wire.StateResponse{Body: &wire.StateResponse_Tables{Tables: tables}}, nil
	case *wire.StateRequest_Next:
		return t.nextPage()
	case *wire.StateRequest_Close:
		return nil, errClosed
	case *wire.StateRequest_Block:
		if t.past == nil || body.Block.Block != t.opened.Block || !bytes.Equal(body.Block.Hash, t.opened.Hash) {
			return nil, errNotOpened
		}
		if err := t.scans(""); err != nil {
			return nil, err
		}
		t.startPages(func(ctx context.Context, each func([]byte) error) error {
			return t.past.Block(ctx, body.Block.Block, wire.Hash(body.Block.Hash), each)
		})
		return t.nextPage()
	}
	if t.reading == nil {
		return nil, errNotOpened
	}
	return t.answerRows(q)
}

// answerRows is answer for what is asked of the rows at the end of a block.
func (t *telling) answerRows(q *wire.StateRequest) (*wire.StateResponse, error) {
	switch body := q.Body.(type) {
	case *wire.StateRequest_Ranges:
		within := backend.Ranges{Bits: body.Ranges.OfBits, List: body.Ranges.OfRanges}
		t.endPages()
		if err := t.scans(body.Ranges.Table); err != nil {
			return nil, err
		}
		list, err := t.reading.Digests(t.session.ctx, body.Ranges.Table, within, body.Ranges.Bits)
		if err != nil {
			return nil, err
		}
		return &wire.StateResponse{Body: &wire.StateResponse_Digests{Digests: digests(list)}}, nil
	case *wire.StateRequest_Rows:
		in := backend.Ranges{Bits: body.Rows.Bits, List: body.Rows.Ranges}
		if err := t.scans(body.Rows.Table); err != nil {
			return nil, err
		}
		t.startPages(func(ctx context.Context, each func([]byte) error) error {
			return t.reading.Rows(ctx, body.Rows.Table, in, each)
		})
		return t.nextPage()
	case *wire.StateRequest_Foundation:
		from, knows := t.reading.(backend.Foundation)
		switch {
		case !knows:
			return nil, errRowsAlone
		case t.founded:
			return nil, errAgain
		}
		t.founded = true
		t.startPages(from.Foundation)
		return t.nextPage()
	}
	return nil, errClosed
}

func (t *telling) open(ctx context.Context, o *wire.StateOpen) (err error) {
	t.close()
	if o.Past {
		past, err := t.reactor.opt.Backend.ReadPast(ctx)
		if err == nil {
			t.past = past
		}
		return err
	}
	reading, err := t.reactor.opt.Backend.Read(ctx, o.Block, wire.Hash(o.Hash))
	if err == nil {
		t.reading = reading
	}
	return err
}

func (t *telling) tables() *wire.StateTables {
	out := &wire.StateTables{Organisation: t.reactor.opt.Organisation}
	if t.reading == nil {
		return out
	}
	for _, table := range t.reading.Tables() {
		out.Tables = append(out.Tables, &wire.TableState{Table: table.Table, Rows: table.Rows, State: table.State[:]})
	}
	return out
}

func digests(list []backend.RangeDigest) *wire.StateDigests {
	out := &wire.StateDigests{Ranges: make([]*wire.RangeDigest, len(list))}
	for i, d := range list {
		out.Ranges[i] = &wire.RangeDigest{Range: d.Range, Rows: d.Rows, Digest: d.Digest[:]}
	}
	return out
}

// nextPage waits as the rate wants it, then gives the next piece.
func (t *telling) nextPage() (*wire.StateResponse, error) {
	if t.pages == nil {
		return nil, errors.New("nothing was asked for")
	}
	page, last, err := t.pages.next(t.session.ctx)
	if err != nil {
		return nil, err
	}
	if last {
		t.endPages()
	}
	t.sent += len(page)
	rest := time.Duration(float64(len(page)) / t.reactor.rate() * float64(time.Second))
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-t.session.ctx.Done():
		return nil, t.session.ctx.Err()
	case <-timer.C:
	}
	return &wire.StateResponse{Body: &wire.StateResponse_Page{Page: &wire.StatePage{Rows: page, Last: last}}}, nil
}

func (t *telling) startPages(read func(ctx context.Context, each func([]byte) error) error) {
	t.endPages()
	t.pages = newPages(t.session.ctx, read)
}

func (t *telling) endPages() {
	if t.pages != nil {
		t.pages.close()
		t.pages = nil
	}
}

func (t *telling) close() {
	t.endPages()
	if t.reading != nil {
		t.reading.Close()
		t.reading = nil
	}
	if t.past != nil {
		t.past.Close()
		t.past = nil
	}
}

// pages cuts what is read into pieces, as fast as they are taken: its goroutine is at most two
// pieces ahead.
type pages struct {
	pieces chan []byte
	failed error // once pieces is closed
	stop   context.CancelFunc
}

func newPages(ctx context.Context, read func(ctx context.Context, each func([]byte) error) error) *pages {
	ctx, stop := context.WithCancel(ctx)
	p := &pages{pieces: make(chan []byte, 1), stop: stop}
	go func() {
		defer close(p.pieces)
		var piece []byte
		hand := func() error {
			select {
			case p.pieces <- piece:
				piece = nil
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		p.failed = read(ctx, func(cells []byte) error {
			row := append(binary.BigEndian.AppendUint32(nil, uint32(len(cells))), cells...)
			for len(row) > 0 {
				n := min(len(row), wire.StatePageBytesMax-len(piece))
				piece, row = append(piece, row[:n]...), row[n:]
				if len(piece) == wire.StatePageBytesMax {
					if err := hand(); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if p.failed == nil && len(piece) > 0 {
			p.failed = hand()
		}
	}()
	return p
}

// next gives the next piece; an empty one is the last.
func (p *pages) next(ctx context.Context) (piece []byte, last bool, err error) {
	select {
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case piece, more := <-p.pieces:
		if !more && p.failed != nil {
			return nil, false, fmt.Errorf("read: %w", p.failed)
		}
		return piece, !more, nil
	}
}

// close ends the goroutine and waits for it: the reading is free then.
func (p *pages) close() {
	p.stop()
	for range p.pieces {
	}
}
